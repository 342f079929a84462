"""Claims of Liu, Wang & Smola 2015."""
