"""Attacks by the server on users' submissions."""
