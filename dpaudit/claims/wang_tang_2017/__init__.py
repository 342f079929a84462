"""Wang & Tang 2017: what the entries need of code."""
