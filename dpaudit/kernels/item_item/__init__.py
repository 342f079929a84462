"""Loops of item-item recommenders."""
