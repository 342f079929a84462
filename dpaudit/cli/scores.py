"""Files of an attack's scores, for commands that need no model."""

from __future__ import annotations

import hashlib
import io
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import count, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.outcomes import Scores, scores
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.files import check_readable
from dpaudit.core.messages import show
from dpaudit.core.streams import generator
from dpaudit.data.readers.cells import is_missing, moment, number
from dpaudit.data.readers.text_pieces import QuoteError, records, utf8

if TYPE_CHECKING:
    from dpaudit.audits.scores.observational import FeatureKind


def read_scores(path: Path) -> Scores:
    """Read a vector from a npy file, or a csv file with one number per row and perhaps a header.

    Raises:
        DataError: the file cannot be read, or holds something else.
    """
    if path.suffix == ".npy":
        return scores(_array(path), str(path))
    rows = [(line, text.strip().strip('"')) for line, text in enumerate(_lines(path), 1)]
    # A blank row between others is a missing score.
    filled = [place for place, (_, text) in enumerate(rows) if text]
    rows = rows[filled[0] : filled[-1] + 1] if filled else []
    if rows and _is_name(rows[0][1]):
        rows = rows[1:]
    if not rows:
        raise DataError(f"{path} is empty: give one score per row")
    return np.array([_score(path, line, text) for line, text in rows], np.float64)


def _score(path: Path, line: int, text: str) -> float:
    """Return the score in a line.

    Raises:
        DataError: it is not a finite number.
    """
    value = number(text)
    if math.isfinite(value):
        return value
    fault = "is not a number"
    remedy = "give a csv with one column, with decimal points, or npy"
    if not math.isnan(value) or text.lower() == "nan":
        fault = "is not a finite number"
        remedy = "give every trial a finite score, e.g. the score of no evidence where it failed"
    raise DataError(f"{path}, line {line}: the score {show(text)} {fault}: {remedy}")


class _FeatureTable(NamedTuple):
    """A table of features: its file, the names of its columns if it has a header, and the cells."""

    path: Path
    names: list[str]
    lines: Sequence[int]
    columns: list[list[Any]]


def read_features(
    members: Path, others: Path, kinds: Mapping[str, FeatureKind]
) -> tuple[tuple[NDArray[Any], NDArray[Any]], dict[int, FeatureKind]]:
    """Read the features of members and of others, each from a npy file, or a csv file.

    The first row of a csv file is a header if one of its fields is a word. Categories and groups
    may be words, which get numbers, and times may be dates.

    Args:
        members: the file of the members.
        others: the file of the others.
        kinds: what a column is, by its name or its number from 0; the others are numbers.

    Returns:
        The two tables, and the kinds by number.

    Raises:
        DataError: a file cannot be read, or holds something else, the two have other columns, or
            a kind is of none of them.
    """
    tables = _table(members), _table(others)
    names, other_names = tables[0].names, tables[1].names
    if names and other_names and names != other_names:
        raise DataError(
            f"{others} has the columns {show(', '.join(other_names))}, and {members} "
            f"{show(', '.join(names))}: give the same columns in the same order"
        )
    width = max(len(table.columns) for table in tables)
    places = {str(k): k for k in range(width)}
    places |= {name: k for k, name in enumerate(names or other_names)}
    unknown = [column for column in kinds if column not in places]
    if unknown:
        raise DataError(
            f"{members} has no column {show(unknown[0])}, of which --kind speaks: give one of "
            f"{show(', '.join(places))}"
        )
    named = {places[column]: kind for column, kind in kinds.items()}
    # Both tables have the same numbers for words.
    readers = [_reader(named.get(column, "number")) for column in range(width)]
    features = [
        np.column_stack([*map(_column, repeat(table), count(), table.columns, readers)])
        for table in tables
    ]
    return (features[0], features[1]), named


def read_pairs(
    matrix: Path, members: Path, others: Path
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Read all scores of a model from a npy file, and two tables of its rows and columns.

    Raises:
        DataError: a file cannot be read, or holds something else, a pair is outside the matrix,
            or one is named twice.
    """
    with np.errstate(over="ignore"):
        scores = np.array(_array(matrix), np.float32)
    if scores.ndim != 2 or np.isinf(scores).any():
        raise DataError(
            f"{matrix} is no table of scores: save one row per user and one column per item, with "
            "NaN where there is no score, and none that is infinite as float32"
        )
    tables = read_features(members, others, {})[0]
    for path, table in zip((members, others), tables, strict=True):
        if table.shape[1] != 2:
            raise DataError(f"{path} has {table.shape[1]} columns: give a row and a column each")
    pairs = np.concatenate(tables)
    inside = ((pairs >= 0) & (pairs < scores.shape) & (pairs % 1 == 0)).all(1)
    _, first, count_of = np.unique(pairs, axis=0, return_index=True, return_counts=True)
    for wrong, fault in (
        (np.flatnonzero(~inside), f"is outside of {matrix}, which has the shape {scores.shape}"),
        (np.sort(first[count_of > 1]), "stands twice in these files"),
    ):
        if len(wrong):
            row, of_others = wrong[0], wrong[0] >= len(tables[0])
            at = f"{others}, row {row - len(tables[0])}" if of_others else f"{members}, row {row}"
            raise DataError(
                f"{at} (from 0, without the header): {show(pairs[row].tolist())} {fault}: give "
                "each pair once, as a row and a column of the matrix, from 0"
            )
    return scores, tables[0].astype(np.int64), tables[1].astype(np.int64)


def _table(path: Path) -> _FeatureTable:
    """Return the cells of a table.

    Raises:
        DataError: the file cannot be read, or its lines have other numbers of fields.
    """
    if path.suffix == ".npy":
        features = np.array(_array(path), np.float64)
        features = features if features.ndim == 2 else features.reshape(len(features), -1)
        return _FeatureTable(path, [], range(len(features)), features.T.tolist())
    try:
        cells = [
            (line, [cell.strip().strip('"') for cell in row])
            for line, row in records(_lines(path), ",")
        ]
    except QuoteError as error:
        raise DataError(f"{path}, line {error.line}: {error}: complete or remove it") from None
    rows = [(line, row) for line, row in cells if any(row)]
    if not rows:
        raise DataError(f"{path} is empty: give one row of features per score")
    width, named = len(rows[0][1]), any(map(_is_name, rows[0][1]))
    names = [name.removeprefix("#").strip() for name in rows[0][1]] if named else []
    body = rows[named:]
    for line, row in body:
        if len(row) != width:
            raise DataError(
                f"{path}, line {line}: the line does not have the {width} fields of the first one: "
                "complete or remove it"
            )
    columns = [[row[k] for _, row in body] for k in range(width)]
    return _FeatureTable(path, names, [line for line, _ in body], columns)


def _reader(kind: FeatureKind) -> Callable[[Any], float]:
    """Return what reads a cell of a column: a number, NaN if the cell is none of this kind."""
    codes: dict[float | str, float] = {}

    def code(cell: Any) -> float:
        value = number(cell)
        if not math.isnan(value):
            return codes.setdefault(value, float(len(codes)))
        word = str(cell)
        return math.nan if is_missing(word) else codes.setdefault(word, float(len(codes)))

    return {"number": number, "time": moment, "category": code, "group": code}[kind]


def _column(
    table: _FeatureTable, place: int, column: list[Any], read: Callable[[Any], float]
) -> NDArray[Any]:
    """Return the numbers of a column.

    Raises:
        DataError: a cell is none.
    """
    values = np.array([*map(read, column)], np.float64)
    wrong = np.flatnonzero(np.isnan(values))
    if len(wrong):
        raise DataError(
            f"{table.path}, line {table.lines[wrong[0]]}, column {place} (counted from 0): "
            f"{show(column[wrong[0]])} is not a number: give numbers, a first row of names, and "
            "for words or dates the kind of the column (--kind NAME=category, =time or =group)"
        )
    return values


def _lines(path: Path) -> io.StringIO:
    """Return the lines of a text.

    Raises:
        DataError: the file cannot be read, or is neither UTF-8 nor marked as UTF-16 or UTF-32.
    """
    try:
        check_readable(path)
        text = utf8(path, key="").decode("utf-8-sig")
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist: name a csv or npy file") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if "\0" in text:
        raise DataError(f"{path} holds NUL bytes: save it as text in UTF-8")
    return io.StringIO(text, newline=None)


def _is_name(text: str) -> bool:
    """Whether a field of a first row is the name of a column, and no number that went wrong."""
    name = text.removeprefix("#").strip()
    if any(separator in name for separator in ",;\t"):
        return False
    return name[:1].isalpha() and not is_missing(name) and not is_missing(text)


def _array(path: Path) -> NDArray[Any]:
    """Return the array of a npy file.

    Raises:
        DataError: the file cannot be read, or is no npy file of numbers, or is damaged.
    """
    try:
        check_readable(path)
        with warnings.catch_warnings(action="ignore"):
            # Mapped, so that a false size in the header cannot allocate memory.
            array = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    except ConfigError:
        raise
    except Exception as error:  # a damaged header can fail anywhere inside the parser
        problem = str(error).partition(". ")[0] or type(error).__name__
        raise DataError(f"{path} is no npy file of numbers ({problem}): save it again") from error
    if array.dtype.kind not in "biuf":
        raise DataError(f"{path} holds an array of type {array.dtype}: save one of real numbers")
    return array


def mixed(absent: Scores, present: Scores, seed: int) -> tuple[Scores, NDArray[np.bool_]]:
    """Return all scores in random order, and the mask of trials with the target record.

    The order depends on the scores too: with the seed alone, all files of these sizes would be
    shuffled alike.
    """
    digest = hashlib.blake2b(absent.tobytes() + present.tobytes(), digest_size=16).digest()
    rng = generator((seed, len(absent), *digest))
    order = rng.permutation(len(absent) + len(present))
    return np.concatenate((absent, present))[order], order >= len(absent)
