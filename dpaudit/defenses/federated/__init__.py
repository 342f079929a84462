"""Federated matrix factorisation whose users submit fake gradients."""
