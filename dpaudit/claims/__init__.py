"""The catalogue of published guarantees: each has a claim, experiments that test it, a verdict."""
