"""Networks of recommenders in PyTorch: several models of one form are trained side by side.

All parameters have a leading dimension W of models. PyTorch is imported by these modules, and they
are imported where it is needed.
"""
