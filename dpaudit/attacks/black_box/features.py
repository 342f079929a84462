"""Features of encoded outputs that may reveal a privacy violation, at several resolutions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.black_box import leaves
from dpaudit.attacks.black_box.encoding import Table
from dpaudit.bounds.multiplicity import discoveries

Vector = NDArray[np.float64]
Labels = NDArray[np.int64]

# A value with at least this share of all entries is an atom, e.g. a code for "no answer".
_ATOM_SHARE, _ATOMS = 0.01, 8
# The number of leaves whose digits are examined; the examined bits of a number, 0 the lowest.
_FINE_LEAVES, _BITS = 32, (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 28)
_RESIDUES = (3, 5, 10)
# Screening of fine features: rows, false-discovery rate, most features kept, most categories.
_SCREENED, _DISCOVERY, _KEPT, _CATEGORIES = 100_000, 0.1, 32, 64
# Integers in a range below this are counted instead of sorted.
_SMALL = 4096


class Feature(NamedTuple):
    """A feature, see `Columns.column`; `a` and `b` are positions or sizes."""

    name: str
    a: int = 0
    b: int = 0
    ends: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True)
class Columns:
    """Feature columns of a table; each entry is a function of its row alone.

    Attributes:
        table: encoded outputs.
        atoms: frequent values, which are treated as categories instead of amounts.
    """

    table: Table
    atoms: Vector

    @cached_property
    def _there(self) -> NDArray[np.bool_]:
        kinds = self.table.kind
        return (kinds != leaves.PADDING) & (kinds != leaves.NOTHING) & (kinds < leaves.OPAQUE)

    @cached_property
    def _free(self) -> NDArray[np.bool_]:
        return self._there & ~np.isin(self.table.number, self.atoms)

    def column(self, feature: Feature) -> Vector:
        """Return one number per row."""
        own = getattr(self, f"_{feature.name}", None)
        if own is not None:
            return np.asarray(own(feature), np.float64)
        found = getattr(self.table, "number" if feature.name == "value" else feature.name)
        return np.asarray(found if found.ndim == 1 else found[:, feature.a], np.float64)

    def _step(self, at: Feature) -> Vector:
        """The difference of adjacent leaves, such as the noise of a running sum."""
        both = self._free[:, at.a] & self._free[:, at.a + 1]
        number = self.table.number
        return np.where(both, number[:, at.a + 1] - number[:, at.a], 0.0)

    def _total(self, _: Feature) -> Vector:
        total = np.zeros(len(self.table))
        for entry, free in zip(self.table.number.T, self._free.T, strict=True):
            total = total + np.where(free, entry, 0.0)
        return total

    def _least(self, _: Feature) -> Vector:
        least = np.where(self._free, self.table.number, np.inf).min(1, initial=np.inf)
        return np.where(np.isfinite(least), least, 0.0)

    def _largest(self, _: Feature) -> Vector:
        largest = np.where(self._free, self.table.number, -np.inf).max(1, initial=-np.inf)
        return np.where(np.isfinite(largest), largest, 0.0)

    def _climb(self, at: Feature) -> Vector:
        """The sum over all leaves of a ramp from one end to the other."""
        total = np.zeros(len(self.table))
        for entry, free in zip(self.table.number.T, self._free.T, strict=True):
            total += np.where(free, climb(entry, *at.ends), 0.0)
        return total

    def _atom(self, at: Feature) -> Any:
        return ((self.table.number == self.atoms[at.a]) & self._there).sum(1)

    def _equal(self, _: Feature) -> Any:
        number = self.table.number
        return ((number[:, 1:] == number[:, :-1]) & self._there[:, 1:]).sum(1)

    def _same(self, at: Feature) -> Any:
        pair = [at.a, at.b]
        number = self.table.number[:, pair]
        return (number[:, 0] == number[:, 1]) & self._there[:, pair].all(1)

    def _first(self, _: Feature) -> Any:
        """The position of the largest leaf."""
        return np.where(self._there, self.table.number, -np.inf).argmax(1)

    def _last(self, _: Feature) -> Any:
        """The position of the smallest leaf."""
        return np.where(self._there, self.table.number, np.inf).argmin(1)

    def _bit(self, at: Feature) -> Any:
        return (self.table.low[:, at.a] >> np.uint64(at.b)) & np.uint64(1)

    def _zeros(self, at: Feature) -> Any:
        """The number of trailing zero bits, which shows the grid of a release."""
        low = self.table.low[:, at.a]
        return np.frexp((low & (~low + np.uint64(1))).astype(np.float64))[1]

    def _sign(self, at: Feature) -> Any:
        """Whether it is −0.0."""
        zero = (self.table.number[:, at.a] == 0) & (self.table.kind[:, at.a] == leaves.FLOAT)
        return zero & (self.table.low[:, at.a] >> np.uint64(63)).astype(np.bool_)

    def _whole(self, at: Feature) -> Any:
        return self.table.number[:, at.a] == np.floor(self.table.number[:, at.a])

    def _residue(self, at: Feature) -> Any:
        return np.mod(self.table.low[:, at.a], np.uint64(at.b))


def climb(values: Vector, start: float, end: float) -> Vector:
    """Return a ramp: 0 up to the start, 1 from the end on, linear in between."""
    return np.clip((values - start) / (end - start), 0.0, 1.0)


def common_values(table: Table) -> Vector:
    """Return the up to 8 most frequent values with at least 1 % of all numbers, sorted."""
    kinds = table.kind
    entries = table.number[(kinds == leaves.FLOAT) | (kinds == leaves.INTEGER)]
    values, counts = np.unique(entries, return_counts=True)
    often = np.flatnonzero(counts >= _ATOM_SHARE * counts.sum())
    return np.sort(values[often[np.argsort(-counts[often], kind="stable")[:_ATOMS]]])


def smooth_features(columns: Columns) -> list[Feature]:
    """Return the features used in every audit, without constant ones."""
    width = columns.table.number.shape[1]
    found = [Feature("value", j) for j in range(width)]
    found += [Feature(name) for name in ("count", "form", "skeleton", "length")]
    if width > 1:
        found += [Feature("step", j) for j in range(width - 1)]
        found += [Feature("atom", a) for a in range(len(columns.atoms))]
        found += [Feature(name) for name in ("equal", "least", "largest", "total")]
    return [feature for feature in found if _varies(columns.column(feature))]


def fine_features(columns: Columns, labels: Labels) -> list[Feature]:
    """Return the fine features that differ between D and D', by a χ² test on some rows.

    The false-discovery rate is 10 %, since a false discovery only adds some noise.
    """
    from scipy.special import chdtrc

    step = max(1, len(labels) // _SCREENED)
    some = Columns(columns.table.take(slice(None, None, step)), columns.atoms)
    labels = labels[::step]
    tested: list[tuple[float, Feature]] = []
    for feature in _fine_candidates(some.table):
        statistic, degrees = _contingency(some.column(feature), labels)
        if degrees:
            tested.append((float(chdtrc(degrees, statistic)), feature))
    tested.sort()
    passed = discoveries([p for p, _ in tested], _DISCOVERY).sum()
    return [feature for _, feature in tested[: min(passed, _KEPT)]]


def _fine_candidates(table: Table) -> Iterator[Feature]:
    width = min(table.number.shape[1], _FINE_LEAVES)
    for j in range(width):
        yield Feature("kind", j)
        if (table.kind[:, j] == leaves.FLOAT).any():
            yield from (Feature(name, j) for name in ("sign", "whole", "zeros"))
        elif (table.kind[:, j] == leaves.INTEGER).any():
            yield from (Feature("residue", j, m) for m in _RESIDUES)
        yield from (Feature("bit", j, b) for b in _BITS)
    if width > 1:
        yield from (Feature(name) for name in ("first", "last"))
        near = range(1, width if width <= 8 else 2)
        yield from (Feature("same", j, j + k) for k in near for j in range(width - k))
    for name in ("characters", "tallies", "tokens"):
        yield from (Feature(name, j) for j in range(getattr(table, name).shape[1]))


def _contingency(column: Vector, labels: Labels) -> tuple[float, int]:
    """Return the χ² statistic of a column's values against the labels, and its degrees."""
    codes, distinct = _coded(column)
    if distinct < 2 or distinct > len(column) // 4:
        return 0.0, 0
    if distinct > _CATEGORIES:
        codes = codes * _CATEGORIES // distinct
    present = np.bincount(codes, labels)
    both = np.bincount(codes).astype(np.float64)
    often = both >= 5
    rate = labels.mean()
    expected = both[often] * rate
    statistic = float(((present[often] - expected) ** 2 / (expected * (1 - rate))).sum())
    return statistic, max(int(often.sum()) - 1, 0)


def _coded(column: Vector) -> tuple[Labels, int]:
    """Return the index of each entry among the distinct values, and the number of these."""
    low = column.min()
    if column.max() - low < _SMALL and (column == np.floor(column)).all():
        codes = (column - low).astype(np.int64)
        there = np.bincount(codes) > 0
        return (there.cumsum() - 1)[codes], int(there.sum())
    values, codes = np.unique(column, return_inverse=True)
    return codes, len(values)


def _varies(column: Vector) -> bool:
    return len(column) > 0 and bool((column != column[0]).any())
