"""Readers of files of ratings, links and privacy settings."""
