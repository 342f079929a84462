"""Inference of an attribute of users from what a recommender answers about them."""
