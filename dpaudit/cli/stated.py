"""What options or a person at the terminal state of a file of interactions."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import click
from pydantic import TypeAdapter, ValidationError

from dpaudit.cli.writing import echo
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.messages import show
from dpaudit.data.readers.cells import number
from dpaudit.data.readers.columns import UnknownColumnsError
from dpaudit.data.sniff import Sniffed, StatedLayout, sniff
from dpaudit.data.sniff_ratings import UnknownScaleError
from dpaudit.data.source import MissingIds
from dpaudit.data.source_parts import Columns, Encoding


def stated_by(
    columns: str | None, encoding: str | None, missing_ids: MissingIds, scale: str | None
) -> StatedLayout:
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
    return StatedLayout(
        None if columns is None else _columns(columns),
        encoding,
        missing_ids,
        None if scale is None else _extent(scale),
    )


def sniffed(path: Path, stated: StatedLayout) -> Sniffed:
    """Return what is guessed of a file; ask on a terminal for what cannot be guessed.

    Raises:
        ConfigError: an answer has a wrong value.
        DataError: as `sniff`.
    """
    try:
        return sniff(path, stated)
    except UnknownColumnsError as error:
        columns = _columns(_answer("Columns", error, error.guess))
        return sniffed(path, replace(stated, columns=columns))
    except UnknownScaleError as error:
        extent = _extent(_answer("Range of the ratings", error, error.guess))
        return sniffed(path, replace(stated, extent=extent))


def _answer(question: str, error: DataError, guess: str) -> str:
    """Ask what decides between several ways to read a file.

    Raises:
        DataError: nobody can answer.
    """
    if not _asks():
        raise error
    echo(f"{error}.")
    answer: str = click.prompt(question, default=guess)
    return answer


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
            {
                what: int(column) if column.isascii() and column.isdecimal() else column
                for what, column in stated.items()
            }
        )
    except ValidationError:
        raise ConfigError(
            f"--columns {show(text)} does not name a user and another item: write such as "
            "user=0,item=4 or user=userId,item=movieId,rating=stars"
        ) from None


def _extent(text: str) -> tuple[float, float]:
    """Return a stated range, such as `1..10`.

    Raises:
        ConfigError: the text is something else.
    """
    low, high = (number(part) for part in text.partition("..")[::2])
    if not -math.inf < low < high < math.inf:
        raise ConfigError(
            f"--scale {show(text)} is not the lowest and the highest rating: write such as 1..10"
        )
    return low, high
