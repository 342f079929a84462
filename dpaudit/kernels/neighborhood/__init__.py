"""Kernels for learned item-item similarities."""
