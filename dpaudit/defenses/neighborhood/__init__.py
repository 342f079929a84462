"""Private neighbourhood models."""
