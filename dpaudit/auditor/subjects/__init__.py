"""The subjects of audits: recommenders that serve on demand, and trained recommenders."""
