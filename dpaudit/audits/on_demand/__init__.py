"""Audits of recommenders that serve on demand."""
