"""Claims of Meng et al. 2018."""
