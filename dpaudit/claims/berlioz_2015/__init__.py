"""Claims of Berlioz et al. 2015."""
