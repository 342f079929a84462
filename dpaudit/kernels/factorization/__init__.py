"""Loops of matrix factorisation."""
