"""The command line: the only place that knows exit codes."""

from dpaudit.cli.main import main

__all__ = ["main"]
