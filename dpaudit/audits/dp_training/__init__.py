"""Audits of a training by DP-SGD as it is run, from a transcript of its steps."""
