"""Recommenders that learn from friends, under personal privacy settings."""
