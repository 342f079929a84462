"""Recommenders that release only a list of items."""
