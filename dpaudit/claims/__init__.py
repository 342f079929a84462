"""The catalogue of published guarantees: each a claim, a game that tests it, and a verdict."""
