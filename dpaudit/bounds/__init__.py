"""From the outcomes of an attack to certified numbers: small pure functions, one file a method."""
