"""Claims of Luo et al. 2020."""
