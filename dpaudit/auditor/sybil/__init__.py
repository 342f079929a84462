"""Attacks with fake accounts and passive reading of lists, run."""
