"""Attacks of the server on what users submit."""
