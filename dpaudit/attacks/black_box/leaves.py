"""Read an output of any type as a form, a list of leaves, and a text.

A leaf is an atomic value: a number, a word, or None. Each output is read independently of the
others in its batch.
"""

from __future__ import annotations

import copyreg
import dataclasses
import re
from collections.abc import Callable, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from itertools import islice
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

# Kinds of leaves. NaN and infinities are categories, not numbers.
PADDING, NOTHING, BOOLEAN, INTEGER, FLOAT, WORD, BYTES, OPAQUE, NAN, ABOVE, BELOW = range(11)

# Beyond this depth, and after this many leaves, nothing is read.
_DEEPEST, MOST = 100, 100_000
# Separates the words of an output.
SEPARATOR = "\x1f"
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_WHOLE = re.compile(r"[-+]?\d{1,300}")
_WORD_MASK = 2**64 - 1
_HALF_MASK = 2**32 - 1
_LARGEST = 1e300

# A leaf: its kind, and its number, its word, or what cannot be read in it.
Leaf = tuple[int, Any]
# A number in a text: its kind, its value, and its digits as an integer.
Written = tuple[int, Any, int]


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
    """Read one output; a reading is returned as it is."""
    if isinstance(output, Reading):
        return output
    form: list[str] = []
    leaves: list[Leaf] = []
    _walk(output, form, leaves, ())
    words = [str(value) for kind, value in leaves if kind in (WORD, BYTES)]
    return Reading("".join(form), leaves, SEPARATOR.join(words))


def array_form(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    """Return the form of an array of numbers, or of one number for an empty shape."""
    if shape:
        return f"array{dtype.str}{shape}"
    return {"<f8": "f", "<i8": "i", "|b1": "b"}.get(dtype.str, dtype.str)


def _walk(value: Any, form: list[str], leaves: list[Leaf], path: tuple[int, ...]) -> None:
    """Append the form and the leaves of a value; `path` has the ids of what contains it."""
    scalar = _SCALARS.get(type(value))
    if scalar:
        name, kind, convert = scalar
        _leaf(name, (kind, convert(value)), form, leaves)
    elif (type(value) is np.ndarray and value.dtype != object) or isinstance(value, np.generic):
        _walk_array(value, form, leaves, path)
    elif isinstance(value, type):
        form.append(f"{value.__module__}.{value.__qualname__}")
    elif id(value) in path:
        _leaf("^", (NOTHING, None), form, leaves)
    elif len(path) >= _DEEPEST or len(leaves) >= MOST:
        _leaf("?", (OPAQUE, f"more than {_DEEPEST} levels or {MOST} entries"), form, leaves)
    else:
        name = type(value).__name__
        try:
            parts = _parts(value)
        except Exception:  # the object's own code failed
            parts = None
        if parts is None:
            _leaf(f"<{name}>", (OPAQUE, f"objects of type {name}"), form, leaves)
        else:
            _walk_all(name, parts, form, leaves, (*path, id(value)))


def _walk_array(value: Any, form: list[str], leaves: list[Leaf], path: tuple[int, ...]) -> None:
    """Append the form and the leaves of an array or a number of numpy."""
    dtype = value.dtype
    if dtype.kind in "biuf":
        form.append(array_form(dtype, value.shape))
        whole = dtype.kind in "iu"
        kind = BOOLEAN if dtype.kind == "b" else INTEGER if whole else FLOAT
        convert = int if dtype.kind in "biu" else (lambda entry: entry)
        leaves += [(kind, convert(entry)) for entry in np.asarray(value).reshape(-1)]
        return
    parts: list[Any]
    if dtype.names:
        parts = [np.asarray(value[name]) for name in dtype.names]
    elif dtype.kind == "c":
        parts = [np.asarray(value.real), np.asarray(value.imag)]
    elif dtype.kind in "mM":
        parts = [np.asarray(value).astype(np.int64)]
    else:
        parts = np.asarray(value).reshape(-1).tolist()
    _walk_all(f"{dtype}{value.shape}", parts, form, leaves, path)


def _walk_all(
    name: str, parts: list[Any], form: list[str], leaves: list[Leaf], path: tuple[int, ...]
) -> None:
    form.append(f"{name}(")
    for part in parts:
        _walk(part, form, leaves, path)
        form.append(",")
    form.append(")")


def _parts(value: Any) -> list[Any] | None:
    """Return the parts of an object; None if they cannot be read."""
    for kind, parts in _PARTS:
        if isinstance(value, kind):
            # Subclasses may have attributes of their own.
            return parts(value) + ([vars(value)] if getattr(value, "__dict__", None) else [])
    library = type(value).__module__.partition(".")[0]
    if library == "polars" and hasattr(value, "to_dict"):
        columns = value.to_dict(as_series=False)
        return [list(columns), list(map(str, value.dtypes)), *columns.values()]
    # An array holds the numbers of a tensor; of a frame or a sparse matrix it holds not all.
    if hasattr(value, "__array__") and library != "pandas":
        array = np.asarray(value)
        return _state(value) if array.dtype == object and not array.ndim else [array]
    return _state(value)


def _state(value: Any) -> list[Any] | None:
    """Return what `pickle` would store of an object, except its functions and classes.

    Only its type is known of an object without a state, and nothing of one that refuses. The
    string of an object is not used because it may contain its memory address.
    """
    if callable(value) and hasattr(value, "__code__"):
        return None  # its closure may hold anything
    stored = value.__reduce_ex__(2)
    if isinstance(stored, str):
        return [stored]
    rebuild, arguments, *rest = stored
    plain = rebuild is getattr(copyreg, "__newobj__")  # noqa: B009  typeshed lacks it
    if plain and arguments[1:] == () and not any(part is not None for part in rest):
        return None
    state, items, pairs = [*rest[:3], None, None, None][:3]
    return [*arguments, state, *list(items or ()), *list(pairs or ())]


def _masked(value: Any) -> list[Any]:
    return [np.asarray(value.filled(0)), np.ma.getmaskarray(value), np.asarray(value.fill_value)]


def _entries(value: Any) -> list[Any]:
    array = np.asarray(value)
    return [array.shape, *array.reshape(-1).tolist()] if array.dtype == object else [array]


_PARTS: tuple[tuple[Any, Callable[[Any], list[Any]]], ...] = (
    (Enum, lambda value: [value.value]),  # some releases of Python store the name alone
    (Mapping, lambda value: [part for item in value.items() for part in item]),
    ((list, tuple), list),
    ((set, frozenset), lambda value: sorted(value, key=_sort_key)),
    (complex, lambda value: [value.real, value.imag]),
    (int, lambda value: [int(value)]),
    (float, lambda value: [float(value)]),
    (str, lambda value: [str(value)]),
    ((bytes, bytearray, memoryview), lambda value: [bytes(value)]),
    (Fraction, lambda value: [value.numerator, value.denominator]),
    (Decimal, lambda value: [float(value), str(value)]),
    ((date, time, timedelta, UUID), lambda value: [str(value)]),
    (np.ma.MaskedArray, _masked),
    (np.ndarray, _entries),
)


_SCALARS: Mapping[type, tuple[str, int, Callable[[Any], Any]]] = {
    type(None): ("n", NOTHING, lambda _: None),
    **dict.fromkeys((bool, np.bool_), ("b", BOOLEAN, int)),
    int: ("i", INTEGER, int),
    **dict.fromkeys((float, np.float64), ("f", FLOAT, float)),
    **dict.fromkeys((str, np.str_), ("s", WORD, str)),
    **dict.fromkeys(
        (bytes, bytearray, np.bytes_), ("y", BYTES, lambda value: bytes(value).decode("latin-1"))
    ),
}


def _leaf(form: str, leaf: Leaf, forms: list[str], leaves: list[Leaf]) -> None:
    forms.append(form)
    leaves.append(leaf)


def _sort_key(value: Any) -> tuple[str, str]:
    """Return a sort key for the members of a set, whose own order depends on the process."""
    read_value = read(value)
    return read_value.form, repr(read_value.leaves)


def numbers_in(text: str, most: int) -> list[Written]:
    """Return up to `most` of the first numbers in a text; integers exactly."""
    written: list[Written] = []
    for match in islice(_NUMBER.finditer(text), most):
        word = match.group()
        digits = int(re.sub(r"[-+.]|[eE].*", "", word)[:300])
        whole = _WHOLE.fullmatch(word)
        written.append((INTEGER, int(word), digits) if whole else (FLOAT, float(word), digits))
    return written


def last_digit(text: str, k: int) -> int:
    """Return the place of the last digit of number k of a text, before its exponent.

    Raises:
        StopIteration: there are fewer numbers.
    """
    match = next(islice(_NUMBER.finditer(text), k, None))
    digits = re.split("[eE]", match.group())[0].rstrip(".")
    return match.start() + len(digits) - 1


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
    return int(array.view(f"u{array.dtype.itemsize}"))


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
