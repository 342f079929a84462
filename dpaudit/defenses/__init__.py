"""The private recommenders, one folder per family; see `docs/architecture.md`."""
