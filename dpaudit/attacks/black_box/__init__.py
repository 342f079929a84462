"""Tell two data sets apart by outputs alone, with a learned score."""
