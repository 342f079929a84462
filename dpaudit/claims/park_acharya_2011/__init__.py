"""Claims of Park & Acharya 2011."""
