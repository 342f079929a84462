"""Files of an attack's scores, for commands that need no model."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpaudit.core.errors import DataError
from dpaudit.core.files import read_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpaudit.bounds.outcomes import Scores

# The most characters of a csv of scores: five million scores of 20 characters.
_LARGEST = 10**8


def read_scores(path: Path) -> Scores:
    """Read a vector from a npy file, or a csv file with one number per row and perhaps a header.

    Raises:
        DataError: the file cannot be read, or holds something else.
    """
    import numpy as np

    from dpaudit.bounds import outcomes

    try:
        if path.suffix == ".npy":
            found = _array(path)
        else:
            # Spreadsheets put a byte-order mark before the first row.
            lines = read_text(path, _LARGEST).removeprefix("\ufeff").split("\n")
            header = bool(lines) and not _is_number(lines[0])
            if header and any(separator in lines[0] for separator in ",;\t"):
                raise ValueError(f"its first row is {lines[0]!r}")
            found = np.array([float(line) for line in lines[header:] if line.strip()])
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    except (ValueError, EOFError) as error:
        problem = str(error).partition(". ")[0]
        raise DataError(
            f"{path} must have one number per row ({problem}): give a csv with one column, or npy"
        ) from error
    return outcomes.scores(found, str(path))


def read_features(path: Path) -> NDArray[Any]:
    """Read a table of numbers from a npy file, or a csv file.

    The first row of a csv file is a header unless all of its fields are numbers.

    Raises:
        DataError: the file cannot be read, or holds something else.
    """
    import numpy as np
    import pandas as pd

    try:
        if path.suffix == ".npy":
            found = np.array(_array(path), np.float64)
        else:
            text = read_text(path, _LARGEST).removeprefix("\ufeff")
            first = text.partition("\n")[0].split(",")
            header = None if all(map(_is_number, first)) else 0
            found = pd.read_csv(io.StringIO(text), header=header).to_numpy(np.float64)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    except (ValueError, EOFError) as error:
        raise DataError(
            f"{path} must be a table of numbers ({str(error).partition('. ')[0]}): give a csv, "
            "whose first row may name the columns, or npy"
        ) from error
    return found if found.ndim == 2 else found.reshape(len(found), -1)


def _array(path: Path) -> NDArray[Any]:
    """Return the array of a npy file.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not a npy file, or is damaged.
    """
    import warnings

    import numpy as np

    try:
        if not path.is_file():  # opening a pipe may block
            raise ValueError("it is not a regular file")
        with warnings.catch_warnings(action="ignore"):
            # Mapped, so that a false size in the header cannot allocate memory.
            found = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError):
        raise
    except Exception as error:  # a damaged header can fail anywhere inside the parser
        raise ValueError(type(error).__name__) from error
    if found.dtype.kind not in "biuf":
        raise ValueError(f"the array's type is {found.dtype}")
    return found


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


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
