"""Files of an attack's scores, for commands that need no model."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.files import check_readable
from dpaudit.core.messages import show

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpaudit.bounds.outcomes import Scores


def read_scores(path: Path) -> Scores:
    """Read a vector from a npy file, or a csv file with one number per row and perhaps a header.

    Raises:
        DataError: the file cannot be read, or holds something else.
    """
    import numpy as np

    from dpaudit.bounds import outcomes

    if path.suffix == ".npy":
        return outcomes.scores(_array(path), str(path))
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
    from dpaudit.data.readers.cells import number

    value = number(text)
    if math.isfinite(value):
        return value
    fault = "is not a number"
    remedy = "give a csv with one column, with decimal points, or npy"
    if not math.isnan(value) or text.lower() == "nan":
        fault = "is not a finite number"
        remedy = "give every trial a finite score, e.g. the score of no evidence where it failed"
    raise DataError(f"{path}, line {line}: the score {show(text)} {fault}: {remedy}")


def read_features(members: Path, others: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """Read the features of members and of others, each from a npy file, or a csv file.

    The first row of a csv file is a header if one of its fields is a word.

    Raises:
        DataError: a file cannot be read, or holds something else, or the two name other columns.
    """
    (names, features), (other_names, other_features) = _table(members), _table(others)
    if names and other_names and names != other_names:
        raise DataError(
            f"{others} has the columns {show(', '.join(other_names))}, and {members} "
            f"{show(', '.join(names))}: give the same columns in the same order"
        )
    return features, other_features


def _table(path: Path) -> tuple[list[str], NDArray[Any]]:
    """Return the names of the columns, none without a header, and the rows.

    Raises:
        DataError: the file cannot be read, or holds something else.
    """
    import numpy as np

    from dpaudit.data.readers.cells import number
    from dpaudit.data.readers.text_pieces import QuoteError, records

    if path.suffix == ".npy":
        features = np.array(_array(path), np.float64)
        return [], features if features.ndim == 2 else features.reshape(len(features), -1)
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
    names, body = rows[0][1] if named else [], rows[named:]
    for line, row in body:
        wrong = [k for k, cell in enumerate(row) if math.isnan(number(cell))]
        if len(row) != width:
            raise DataError(
                f"{path}, line {line}: the line does not have the {width} fields of the first one: "
                "complete or remove it"
            )
        if wrong:
            raise DataError(
                f"{path}, line {line}, column {wrong[0]} (counted from 0): {show(row[wrong[0]])} "
                "is not a number: give a table of numbers as csv, whose first row may name the "
                "columns, or npy"
            )
    values = np.array([[*map(number, row)] for _, row in body], np.float64)
    return names, values.reshape(-1, width)


def _lines(path: Path) -> io.StringIO:
    """Return the lines of a text.

    Raises:
        DataError: the file cannot be read, or is neither UTF-8 nor marked as UTF-16 or UTF-32.
    """
    from dpaudit.data.readers.text_pieces import utf8

    try:
        check_readable(path)
        text = utf8(path, option=False).decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if "\0" in text:
        raise DataError(f"{path} holds NUL bytes: save it as text in UTF-8")
    return io.StringIO(text, newline=None)


def _is_name(text: str) -> bool:
    """Whether a field of a first row is the name of a column, and no number that went wrong."""
    from dpaudit.data.readers.missing import is_missing

    name = text.removeprefix("#").strip()
    if any(separator in name for separator in ",;\t"):
        return False
    return name[:1].isalpha() and not is_missing(name) and not is_missing(text)


def _array(path: Path) -> NDArray[Any]:
    """Return the array of a npy file.

    Raises:
        DataError: the file cannot be read, or is no npy file of numbers, or is damaged.
    """
    import warnings

    import numpy as np

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
    import hashlib

    import numpy as np

    from dpaudit.core.streams import generator

    digest = hashlib.blake2b(absent.tobytes() + present.tobytes(), digest_size=16).digest()
    rng = generator((seed, len(absent), *digest))
    order = rng.permutation(len(absent) + len(present))
    return np.concatenate((absent, present))[order], order >= len(absent)
