"""Bounds that rest on a model or a prior, which each names."""
