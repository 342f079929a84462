"""Attacks. They do not import defenses; callers pass what an attacker knows."""
