"""What the measures of trained models share: errors and hits, grids, pairs, observers, checks."""
