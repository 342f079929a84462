"""Scores of attacks by the server of a federated training."""
