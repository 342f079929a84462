"""Infer one hidden rating or purchase from what a user is shown."""
