"""Kernels for top-k lists."""
