"""Attacks with fake accounts."""
