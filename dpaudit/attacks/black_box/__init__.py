"""Distinguish two data sets by a score learned from outputs alone.

It is the default `score` of `[defense]`, which a function of the user's replaces. So it is no
plug-in with a role: that function is how others bring a score for outputs of any type.
"""
