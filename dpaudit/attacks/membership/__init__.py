"""Infer whether a rating or a user was in the training data."""
