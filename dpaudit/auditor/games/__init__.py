"""Games of two neighbouring data sets."""
