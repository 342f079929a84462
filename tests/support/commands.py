"""The command line, called in this process."""

from __future__ import annotations

from click.testing import CliRunner, Result

from dpaudit.cli import main


def call(*arguments: object) -> Result:
    """Call `dpaudit`."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])
