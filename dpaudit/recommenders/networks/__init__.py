"""Networks of recommenders in PyTorch.

PyTorch is imported by these modules, and they are imported where it is needed.
"""
