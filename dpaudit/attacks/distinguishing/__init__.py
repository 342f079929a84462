"""Tell two neighbouring data sets apart by a release of known law."""
