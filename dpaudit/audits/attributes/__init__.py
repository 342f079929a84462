"""Audits of what a model's answers tell of users' attributes."""
