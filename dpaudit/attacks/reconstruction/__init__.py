"""Reconstruct sensitive ratings from a released model or from submissions."""
