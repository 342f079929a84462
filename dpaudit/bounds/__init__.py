"""Bounds on ε and other numbers from an attack's outcomes: pure functions, one file per method."""
