"""Bounds that assume a model or a prior; each module states which."""
