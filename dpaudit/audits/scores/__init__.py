"""Audits of scores that a user brings: which of them tell who was in the data of one model."""
