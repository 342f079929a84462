"""Audits of models that forget: whether what was deleted can still be told."""
