"""The attacks: one file each. An attack never imports a defense; knowledge is passed to it."""
