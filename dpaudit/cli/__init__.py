"""The command line; only this package exits with a code."""

from dpaudit.cli.main import main

__all__ = ["main"]
