"""Attacks, one file each. Attacks do not import defenses; callers pass what an attacker knows."""
