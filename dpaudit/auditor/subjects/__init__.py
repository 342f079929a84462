"""What is audited: recommenders that serve on demand, and recommenders that are trained."""
