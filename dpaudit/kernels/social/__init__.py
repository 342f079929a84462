"""Loops of recommenders that learn from friends."""
