"""Encode outputs of any form as rows of numbers, by an encoding fitted to training outputs.

A row depends only on its output. Unknown forms, words and tokens are one category each, and
entries beyond the longest training output affect only the length. What exceeds the limits on what
is read is listed in words.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.black_box import leaves
from dpaudit.attacks.black_box.leaves import Reading
from dpaudit.core.errors import InputError

# n outputs: an array (n, ...), or n objects of any form.
Outputs = NDArray[Any] | Sequence[Any]
Numbers = NDArray[np.float64]
Codes = NDArray[np.int64]

# The most entries of all training outputs together: of leaves, numbers in texts and characters.
_ENTRIES = 40_000_000
# What is read of each output, however many there are: leaves, numbers in the text, characters at
# its start, and characters at its end.
_WIDEST, _WRITTEN, _CHARACTERS, _ENDING = 400, 40, 100, 8
# Minimal training count of a known form, word or token; the largest vocabulary; the most tokens.
_OFTEN, _VOCABULARY, _TOKENS = 3, 20_000, 48
_EXACT = 2**52
_TOKEN = re.compile(r"\w+")


@dataclass(frozen=True)
class EncodedOutputs:
    """Encoded outputs; each row is a function of one output.

    Attributes:
        form: code of the form; −1 if unknown `(n,)`.
        skeleton: code of the form and the text without its numbers `(n,)`.
        count: number of leaves `(n,)`.
        number: each leaf as a finite number, a word as its code, or 0 `(n, W)`.
        kind: the kind of each leaf, see `leaves` `(n, W)`.
        low: the bits of a floating-point number, the low bits of an integer, the digits of a number
            in a text, or 0 `(n, W)`.
        length: number of characters of the text `(n,)`.
        characters: codes of the first and the last characters, −1 for none `(n, C)`.
        tallies: counts of the tallied characters `(n, T)`.
        tokens: whether each known token occurs `(n, K)`.
    """

    form: Codes
    skeleton: Codes
    count: Codes
    number: Numbers
    kind: NDArray[np.int8]
    low: NDArray[np.uint64]
    length: Codes
    characters: Codes
    tallies: Codes
    tokens: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.form)

    def take(self, rows: Any) -> EncodedOutputs:
        """Return the rows selected by an index."""
        return EncodedOutputs(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Encoding:
    """An encoding fitted to training outputs.

    Attributes:
        forms: code of each frequent form.
        skeletons: code of each frequent skeleton, i.e. form and text without numbers.
        words: code of each frequent word, in the order of the words.
        width: number of leaves that are read.
        written: number of numbers read from the text as additional leaves.
        bases: integer subtracted from each leaf: a typical value if values are large, else 0.
        tallied: the characters that are counted.
        tokens: the tokens that are searched for.
        letters: number of characters that are read at the start of the text.
        texts: whether any output has a text.
        unread: what is not read, in words.
    """

    forms: dict[str, int]
    skeletons: dict[str, int]
    words: dict[str, int]
    width: int
    written: int
    bases: tuple[int, ...]
    tallied: tuple[str, ...]
    tokens: tuple[str, ...]
    letters: int
    texts: bool
    unread: tuple[str, ...]

    @classmethod
    def fit(cls, batches: Sequence[Outputs]) -> Encoding:
        """Fit the encoding to training outputs, without using their labels."""
        packs = [as_batch(batch) for batch in batches]
        arrays = [pack for pack in packs if isinstance(pack, np.ndarray)]
        readings = [leaves.read(x) for pack in packs if isinstance(pack, list) for x in pack]
        texts = [reading.text for reading in readings if reading.text]
        forms = Counter(reading.form for reading in readings)
        for array in arrays:
            forms[leaves.array_form(array.dtype, array.shape[1:])] += len(array)
        read = [leaf for reading in readings for leaf in reading.leaves]
        opaque = sorted({value for kind, value in read if kind == leaves.OPAQUE})
        if read and all(kind == leaves.OPAQUE for kind, _ in read) and not arrays:
            raise InputError(
                f"the mechanism returned {opaque[0]}, in which nothing can be "
                "read: make it a number, a word, an array, a list or a dict, or give a score"
            )
        (width, written, letters), beyond = _extents(arrays, readings, texts)
        characters = Counter(char for text in texts for char in set(text))
        tokens = Counter(token for text in texts for token in set(_TOKEN.findall(text)))
        return cls(
            forms=_vocabulary(forms),
            skeletons=_vocabulary(Counter(map(_skeleton, readings))),
            words=_vocabulary(Counter(value for kind, value in read if kind in _WORDS)),
            width=width,
            written=written,
            bases=_bases(arrays, readings, width, written),
            tallied=_informative(characters, len(readings)),
            tokens=_informative(tokens, len(readings)),
            letters=letters,
            texts=bool(texts),
            unread=(*opaque, *beyond),
        )

    @property
    def columns(self) -> int:
        """The number of leaves, numbers in the text and characters of a row."""
        return self.width + self.written + self.letters

    def encode(self, outputs: Outputs) -> EncodedOutputs:
        """Encode each output independently of the others."""
        pack = as_batch(outputs)
        return self._array(pack) if isinstance(pack, np.ndarray) else self._objects(pack)

    def _array(self, array: NDArray[Any]) -> EncodedOutputs:
        """Encode outputs that are arrays of numbers of one shape."""
        n = len(array)
        flat = array.reshape(n, -1)
        form = leaves.array_form(array.dtype, array.shape[1:])
        table = self._empty(np.full(n, self.forms.get(form, -1)), np.full(n, flat.shape[1]))
        kept = flat[:, : self.width]
        kind = kept.dtype.kind
        columns = slice(0, kept.shape[1])
        if kind == "f":
            self._place_floats(table, (slice(None), columns), kept)
        else:
            unsigned = kept.dtype == np.uint64
            whole = kept if unsigned else kept.astype(np.int64)
            table.kind[:, columns] = leaves.BOOLEAN if kind == "b" else leaves.INTEGER
            table.low[:, columns] = whole.astype(np.uint64)
            for j in range(kept.shape[1]):
                table.number[:, j] = leaves.distances(whole[:, j], self.bases[j])
        if self.texts:
            table.skeleton[:] = self.skeletons.get(f"{form}|", -1)
        return table

    def _objects(self, outputs: list[Any]) -> EncodedOutputs:
        """Encode outputs one by one."""
        readings = [leaves.read(output) for output in outputs]
        table = self._empty(
            np.array([self.forms.get(reading.form, -1) for reading in readings], np.int64),
            np.array([len(reading.leaves) for reading in readings], np.int64),
        )
        floats: list[tuple[int, int, Any]] = []
        for i, reading in enumerate(readings):
            floats += self._place_leaves(table, i, reading)
            if self.texts:
                self._place_text(table, i, reading)
                self._place_numbers(table, i, reading)
        for dtype in {type(value) for _, _, value in floats}:
            alike = [entry for entry in floats if type(entry[2]) is dtype]
            rows, columns, values = zip(*alike, strict=True)
            self._place_floats(table, (list(rows), list(columns)), np.array(values))
        return table

    def _place_leaves(
        self, table: EncodedOutputs, i: int, reading: Reading
    ) -> Iterator[tuple[int, int, Any]]:
        """Write the leaves of an output, but yield its floating-point numbers with their places."""
        for j, (kind, value) in enumerate(reading.leaves[: self.width]):
            if kind == leaves.FLOAT:
                yield i, j, value
                continue
            table.kind[i, j] = kind
            if kind in (leaves.INTEGER, leaves.BOOLEAN):
                table.low[i, j] = leaves.low_word(value)
                table.number[i, j] = leaves.distance(value, self.bases[j])
            elif kind in _WORDS:
                table.number[i, j] = self.words.get(value, -1)

    def _empty(self, form: Codes, count: Codes) -> EncodedOutputs:
        n, width = len(form), self.width + self.written
        extent = self.letters + _ENDING if self.texts else 0
        return EncodedOutputs(
            form=form,
            skeleton=np.full(n, -1),
            count=count,
            number=np.zeros((n, width)),
            kind=np.zeros((n, width), np.int8),
            low=np.zeros((n, width), np.uint64),
            length=np.zeros(n, np.int64),
            characters=np.full((n, extent), -1, np.int32),
            tallies=np.zeros((n, len(self.tallied)), np.int64),
            tokens=np.zeros((n, len(self.tokens)), np.bool_),
        )

    @staticmethod
    def _place_floats(table: EncodedOutputs, at: Any, values: NDArray[Any]) -> None:
        """Write floating-point numbers; NaN and infinities are separate kinds."""
        with np.errstate(over="ignore"):  # long doubles out of range become infinite
            wide = values.astype(np.float64)
        finite = np.isfinite(wide)
        odd = np.where(np.isnan(wide), leaves.NAN, np.where(wide > 0, leaves.ABOVE, leaves.BELOW))
        table.kind[at] = np.where(finite, leaves.FLOAT, odd)
        table.number[at] = np.where(finite, wide, 0.0) + 0.0  # −0 becomes 0
        bits = np.ascontiguousarray(values)
        if bits.dtype.itemsize > 8:  # the mantissa of a long double
            table.low[at] = bits[..., None].view(np.uint64)[..., 0]
        else:
            table.low[at] = bits.view(f"u{bits.dtype.itemsize}").astype(np.uint64)

    def _place_text(self, table: EncodedOutputs, i: int, reading: Reading) -> None:
        text = reading.text
        table.skeleton[i] = self.skeletons.get(_skeleton(reading), -1)
        table.length[i] = len(text)
        start = [ord(char) for char in text[: self.letters]]
        table.characters[i, : len(start)] = start
        ending = [ord(char) for char in reversed(text[-_ENDING:])]
        table.characters[i, self.letters : self.letters + len(ending)] = ending
        table.tallies[i] = [text.count(char) for char in self.tallied]
        tokens = set(_TOKEN.findall(text))
        table.tokens[i] = [token in tokens for token in self.tokens]

    def _place_numbers(self, table: EncodedOutputs, i: int, reading: Reading) -> None:
        """Write the numbers in the text after the leaves."""
        numbers = leaves.numbers_in(reading.text, self.written)
        for j, (kind, value, digits) in enumerate(numbers, self.width):
            table.low[i, j] = leaves.low_word(digits)
            if kind == leaves.INTEGER:
                table.number[i, j] = leaves.distance(value, self.bases[j])
                table.kind[i, j] = kind
            else:
                finite = math.isfinite(value)
                table.number[i, j] = value if finite else 0.0
                table.kind[i, j] = kind if finite else leaves.ABOVE


_WORDS = (leaves.WORD, leaves.BYTES)


def as_batch(outputs: Outputs) -> NDArray[Any] | list[Any]:
    """Return an array if all outputs are numbers of one type and shape, else a list.

    Types are not converted: an integer among floats stays an integer.
    """
    if isinstance(outputs, np.ndarray):
        if outputs.ndim == 0:
            raise InputError("outputs is an array without axes: give an array of them, or a list")
        numbers = type(outputs) is np.ndarray and outputs.dtype.kind in "biuf"
        return outputs if numbers else list(outputs)
    outputs = list(outputs)
    types = set(map(type, outputs))
    for plain, scalar in ((float, np.float64), (bool, np.bool_), (int, np.int64)):
        if types and types <= {plain, scalar}:
            try:
                return np.array(outputs, scalar)
            except OverflowError:
                return outputs
    alike = {(x.dtype, x.shape) for x in outputs if isinstance(x, np.ndarray)}
    if types == {np.ndarray} and len(alike) == 1 and outputs[0].dtype.kind in "biuf":
        return np.stack(outputs)
    return outputs


def batch_of(outputs: Outputs) -> NDArray[Any] | list[Any]:
    """Return the outputs of one call that makes many, as `as_batch` does.

    In an array of strings, numpy may have converted numbers to strings because one output was a
    word. They are read as numbers again; otherwise an output's reading would depend on the batch.
    """
    if isinstance(outputs, np.ndarray) and outputs.dtype.kind == "U" and outputs.ndim == 1:
        return [leaves.number_or_word(str(word)) for word in outputs]
    return as_batch(outputs)


def joined_batches(parts: Sequence[NDArray[Any] | list[Any]]) -> NDArray[Any] | list[Any]:
    """Concatenate batches: to an array if all have numbers of one type and shape, else a list."""
    alike = {(x.dtype, x.shape[1:]) for x in parts if isinstance(x, np.ndarray)}
    if len(alike) == 1 and all(isinstance(x, np.ndarray) for x in parts):
        return np.concatenate(parts)
    return [output for part in parts for output in part]


def _skeleton(reading: Reading) -> str:
    return f"{reading.form}|{leaves.skeleton(reading.text)}"


def _vocabulary(counts: Counter[str]) -> dict[str, int]:
    """Return codes of the frequent words, in the order of the words."""
    often = [word for word, count in counts.items() if count >= _OFTEN]
    kept = sorted(often, key=lambda word: (-counts[word], word))[:_VOCABULARY]
    return {word: i for i, word in enumerate(sorted(kept))}


def _informative(counts: Counter[str], n: int) -> tuple[str, ...]:
    """Return what occurs in some of n outputs but not in all, closest to half of them first."""
    uneven = {x: abs(2 * count - n) for x, count in counts.items() if _OFTEN <= count < n}
    return tuple(sorted(uneven, key=lambda x: (uneven[x], x))[:_TOKENS])


def _extents(
    arrays: Sequence[NDArray[Any]], readings: Sequence[Reading], texts: Sequence[str]
) -> tuple[list[int], list[str]]:
    """Return how many leaves, numbers in texts and characters are read, and what lies beyond."""
    share = _ENTRIES // max(1, len(readings) + sum(map(len, arrays)))
    sizes = [len(reading.leaves) for reading in readings]
    sizes += [int(np.prod(array.shape[1:])) for array in arrays]
    extents, beyond = [], []
    for name, limit, lengths in (
        ("entries", _WIDEST, sizes),
        ("numbers in texts", _WRITTEN, [len(leaves.numbers_in(t, leaves.MOST)) for t in texts]),
        ("characters of texts", _CHARACTERS, [len(text) - _ENDING for text in texts]),
    ):
        longest, most = max(lengths, default=0), max(limit, share)
        extents.append(max(0, min(longest, most)))
        if longest > most:
            beyond.append(f"{name} after {most}")
    return extents, beyond


def _bases(
    arrays: Iterable[NDArray[Any]], readings: Iterable[Reading], width: int, written: int
) -> tuple[int, ...]:
    """Return a typical integer of each leaf if doubles would lose its low digits, else 0."""
    integers: list[list[int]] = [[] for _ in range(width + written)]
    for array in arrays:
        if array.dtype.kind in "iu":
            flat = array.reshape(len(array), -1)[:, :width]
            for values, column in zip(integers, flat.T, strict=False):
                values += [int(x) for x in np.sort(column)[:: max(1, len(column) // 1000)]]
    for reading in readings:
        entries = [*reading.leaves[:width], *[(leaves.PADDING, 0)] * (width - len(reading.leaves))]
        entries += [number[:2] for number in leaves.numbers_in(reading.text, written)]
        for values, (kind, value) in zip(integers, entries, strict=False):
            if kind == leaves.INTEGER:
                values.append(value)
    middles = [sorted(values)[len(values) // 2] if values else 0 for values in integers]
    return tuple(middle if abs(middle) > _EXACT else 0 for middle in middles)
