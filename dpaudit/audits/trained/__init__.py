"""Code shared by the measures of trained models: errors, hits, grids, pairs, observers."""
