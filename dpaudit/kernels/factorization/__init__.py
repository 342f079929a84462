"""Kernels for matrix factorisation."""
