"""Kernels for recommenders that learn from friends."""
