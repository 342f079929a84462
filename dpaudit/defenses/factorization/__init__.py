"""Private matrix factorisation."""
