"""Recommenders that learn from friends and privacy settings."""
