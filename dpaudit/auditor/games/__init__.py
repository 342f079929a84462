"""Distinguishing games between two neighbouring data sets, and their positive controls."""
