"""The command line; only this package defines exit codes."""

from dpaudit.cli.main import main

__all__ = ["main"]
