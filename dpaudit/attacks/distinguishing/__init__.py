"""Distinguish two neighbouring data sets by a release whose distribution is known."""
