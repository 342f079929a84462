"""Runs of Sybil attacks with fake accounts, and of passive list inference."""
