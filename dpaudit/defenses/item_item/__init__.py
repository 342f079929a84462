"""Item-item recommenders with noised predictions."""
