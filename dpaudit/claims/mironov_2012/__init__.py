"""Claims of Mironov 2012."""
