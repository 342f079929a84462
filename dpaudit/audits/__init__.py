"""The kinds of audit, a room each."""
