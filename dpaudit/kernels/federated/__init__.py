"""Loops of federated matrix factorisation."""
