"""Whether the tables of a config and their plug-ins may go together: checks that need no data."""
