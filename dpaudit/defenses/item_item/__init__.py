"""Item-item recommenders whose predictions are noised."""
