"""Bounds that hold with a stated confidence for every mechanism."""
