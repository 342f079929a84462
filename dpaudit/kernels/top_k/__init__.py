"""Loops of top-k lists."""
