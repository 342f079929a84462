"""Loops of learned item-item similarities."""
