"""Kernels for item-item recommenders."""
