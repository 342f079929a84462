"""The private recommenders: one file a family, each with its claim; see `docs/architecture.md`."""
