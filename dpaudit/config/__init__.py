"""The config: its schema, its reading from TOML, its errors."""
