"""Claims of Wang & Tang 2017."""
