"""Reports of a finished audit, rendered from its record alone."""
