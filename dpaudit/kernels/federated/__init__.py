"""Kernels for federated matrix factorisation."""
