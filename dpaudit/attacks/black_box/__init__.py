"""Distinguish two data sets by a score learned from outputs alone."""
