"""Every check whether the tables of a config, and their plug-ins, may go together."""
