"""Compiled (numba) loops on plain arrays; the caller validates the arguments.

Each file covers one family: a scalar or row kernel with its mathematics, then the loop over trials.
"""
