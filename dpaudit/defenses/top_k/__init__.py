"""Recommenders that release a list of items alone."""
