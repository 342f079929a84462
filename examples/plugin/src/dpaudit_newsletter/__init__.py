"""A defense, an attack and an observer of their own, for dpaudit."""
