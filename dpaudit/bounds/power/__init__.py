"""Power: which violations of a claim a number of trials can find."""
