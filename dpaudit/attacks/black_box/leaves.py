"""Read an output of any type as a form, a list of leaves, and a text.

A leaf is an atomic value: a number, a word, or None. Each output is read independently of the
others in its batch.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

# Kinds of leaves. NaN and infinities are categories, not numbers.
PADDING, NOTHING, BOOLEAN, INTEGER, FLOAT, WORD, BYTES, OPAQUE, NAN, ABOVE, BELOW = range(11)

# Beyond this depth a container is opaque, since a list may contain itself.
_DEEPEST = 12
# Separates the words of an output.
SEPARATOR = "\x1f"
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_WHOLE = re.compile(r"[-+]?\d{1,300}")
_WORD_MASK = 2**64 - 1
_HALF_MASK = 2**32 - 1
_LARGEST = 1e300

# A leaf: its kind, and its number, its word, or the name of its type.
Leaf = tuple[int, Any]


@dataclasses.dataclass(frozen=True)
class Reading:
    """The content of an output.

    Attributes:
        form: its structure: types and lengths.
        leaves: its leaves in order.
        text: its words, joined.
    """

    form: str
    leaves: list[Leaf]
    text: str


def read(output: Any) -> Reading:
    """Read one output."""
    form: list[str] = []
    leaves: list[Leaf] = []
    _walk(output, form, leaves, 0)
    words = [str(value) for kind, value in leaves if kind in (WORD, BYTES)]
    return Reading("".join(form), leaves, SEPARATOR.join(words))


def array_form(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    """Return the form of an array of numbers, or of one number for an empty shape."""
    if shape:
        return f"array{dtype.str}{shape}"
    return {"<f8": "f", "<i8": "i", "|b1": "b"}.get(dtype.str, dtype.str)


def _walk(value: Any, form: list[str], leaves: list[Leaf], depth: int) -> None:
    """Append the form and the leaves of a value."""
    if value is None:
        _leaf("n", (NOTHING, None), form, leaves)
    elif isinstance(value, bool | np.bool_):
        _leaf("b", (BOOLEAN, int(value)), form, leaves)
    elif type(value) is int:
        _leaf("i", (INTEGER, value), form, leaves)
    elif type(value) is float or type(value) is np.float64:
        _leaf("f", (FLOAT, float(value)), form, leaves)
    elif isinstance(value, str):
        _leaf("s", (WORD, str(value)), form, leaves)
    elif isinstance(value, bytes | bytearray):
        _leaf("y", (BYTES, bytes(value).decode("latin-1")), form, leaves)
    elif isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        form.append(array_form(value.dtype, value.shape))
        whole = value.dtype.kind in "iu"
        kind = BOOLEAN if value.dtype.kind == "b" else INTEGER if whole else FLOAT
        convert = int if value.dtype.kind in "biu" else (lambda entry: entry)
        leaves += [(kind, convert(entry)) for entry in np.asarray(value).reshape(-1)]
    elif depth >= _DEEPEST:
        _leaf("?", (OPAQUE, "deep"), form, leaves)
    else:
        _walk_container(value, form, leaves, depth)


def _walk_container(value: Any, form: list[str], leaves: list[Leaf], depth: int) -> None:
    """Append the form and the leaves of a container; of an opaque object, only its type.

    The string of an object is not used because it may contain its memory address.
    """
    name = type(value).__name__
    parts: list[Any] | None = None
    if isinstance(value, np.ndarray) and value.dtype.kind in "OSUV":
        name, parts = f"{name}{value.shape}", value.reshape(-1).tolist()
    else:
        parts = _parts(value)
    if parts is None:
        _leaf(f"<{name}>", (OPAQUE, name), form, leaves)
        return
    form.append(f"{name}(")
    for part in parts:
        _walk(part, form, leaves, depth + 1)
        form.append(",")
    form.append(")")


def _parts(value: Any) -> list[Any] | None:
    """Return the parts of a container or of a number of another type; None for other objects."""
    for kind, parts in _PARTS:
        if isinstance(value, kind):
            return parts(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    if hasattr(value, "__array__"):
        try:
            array = np.asarray(value)
        except Exception:  # the object's own code failed, so only its type is known
            return None
        return [array if array.dtype.kind in "biufOSU" else str(array.tolist())]
    return None


_PARTS: tuple[tuple[Any, Callable[[Any], list[Any]]], ...] = (
    (Mapping, lambda value: [part for item in value.items() for part in item]),
    ((list, tuple), list),
    ((set, frozenset), lambda value: sorted(value, key=_sort_key)),
    ((complex, np.complexfloating), lambda value: [float(value.real), float(value.imag)]),
    (int, lambda value: [int(value)]),
    (float, lambda value: [float(value)]),
    ((Decimal, Fraction, date, time, timedelta, UUID, np.generic), lambda value: [str(value)]),
)


def _leaf(form: str, leaf: Leaf, forms: list[str], leaves: list[Leaf]) -> None:
    forms.append(form)
    leaves.append(leaf)


def _sort_key(value: Any) -> tuple[str, str]:
    """Return a sort key for the members of a set, whose own order depends on the process."""
    read_value = read(value)
    return read_value.form, repr(read_value.leaves)


def numbers_in(text: str, most: int) -> list[Leaf]:
    """Return up to `most` of the first numbers in a text; integers exactly."""
    found: list[Leaf] = []
    for match in _NUMBER.finditer(text):
        if len(found) == most:
            break
        word = match.group()
        whole = _WHOLE.fullmatch(word)
        found.append((INTEGER, int(word)) if whole else (FLOAT, float(word)))
    return found


def number_or_word(text: str) -> Any:
    """Return the text as a number if it is one, else the text."""
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def skeleton(text: str) -> str:
    """Return a text with each number replaced by `#`."""
    return _NUMBER.sub("#", text)


def low_word(value: Any) -> int:
    """Return the low 64 bits of an integer, or the stored bits of a floating-point number."""
    if isinstance(value, int):
        return value & _WORD_MASK
    array = np.asarray(value)
    return int(array.view(f"u{array.dtype.itemsize}")) if array.dtype.itemsize <= 8 else 0


def distance(value: int, base: int) -> float:
    """Return `value − base` as a float, exact below 2^53."""
    high, low = (value >> 32) - (base >> 32), (value & _HALF_MASK) - (base & _HALF_MASK)
    if abs(high) > 2**900:
        return _LARGEST if high > 0 else -_LARGEST
    return float(high) * 2.0**32 + float(low)


def distances(values: NDArray[Any], base: int) -> NDArray[np.float64]:
    """Return `distance` for an array of integers."""
    high = (values >> np.array(32, values.dtype)).astype(np.int64) - (base >> 32)
    low = (values & np.array(_HALF_MASK).astype(values.dtype)).astype(np.int64)
    return high.astype(np.float64) * 2.0**32 + (low - (base & _HALF_MASK)).astype(np.float64)
