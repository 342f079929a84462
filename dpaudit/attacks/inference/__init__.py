"""Infer one hidden rating or purchase from recommendations."""
