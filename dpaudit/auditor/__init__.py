"""Run games and attacks, and turn their outcomes into estimates with confidence intervals."""
