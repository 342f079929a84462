"""Jitted loops on plain arrays; the caller validates.

Each file is one family: a scalar or row kernel with its mathematics, then the loop over worlds.
"""
