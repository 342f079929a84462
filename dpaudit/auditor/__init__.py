"""Plays the games and turns their outcomes into numbers with their confidence."""
