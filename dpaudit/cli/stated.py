"""What options or a person at the terminal state of a file of interactions."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click
from pydantic import TypeAdapter, ValidationError

from dpaudit.core.errors import ConfigError
from dpaudit.core.messages import show
from dpaudit.data.sniff import Sniffed, Stated, sniff
from dpaudit.data.sniff_names import UnknownColumnsError
from dpaudit.data.source import MissingIds
from dpaudit.data.source_parts import Columns, Encoding


def stated_by(columns: str | None, encoding: str | None, missing_ids: MissingIds) -> Stated:
    """Return what options state.

    Raises:
        ConfigError: an option has a wrong value.
    """
    if encoding is not None:
        try:
            TypeAdapter(Encoding).validate_python(encoding)
        except ValidationError:
            raise ConfigError(
                f"--encoding {show(encoding)} is no encoding of text: give one such as cp1252"
            ) from None
    return Stated(None if columns is None else _columns(columns), encoding, missing_ids)


def sniffed(path: Path, stated: Stated) -> Sniffed:
    """Return what is guessed of a file; ask on a terminal for columns that cannot be guessed.

    Raises:
        ConfigError: the answer names no columns.
        DataError: as `sniff`.
    """
    try:
        return sniff(path, stated)
    except UnknownColumnsError as error:
        if not _asks():
            raise
        click.echo(f"{error}.")
        answer = click.prompt("Columns", default=error.guess)
        return sniff(path, replace(stated, columns=_columns(answer)))


def _asks() -> bool:
    """Whether somebody can answer a question."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _columns(text: str) -> Columns:
    """Return stated columns, such as `user=0,item=4`.

    Raises:
        ConfigError: the text is something else.
    """
    parts = (part.partition("=") for part in text.split(","))
    stated = {what.strip(): column.strip() for what, _, column in parts}
    try:
        return Columns.model_validate(
            {what: int(column) if column.isdecimal() else column for what, column in stated.items()}
        )
    except ValidationError:
        raise ConfigError(
            f"--columns {show(text)} does not name a user and another item: write such as "
            "user=0,item=4 or user=userId,item=movieId,rating=stars"
        ) from None
