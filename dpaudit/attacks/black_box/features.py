"""Features of encoded outputs that may reveal a privacy violation, at several resolutions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.black_box import leaves
from dpaudit.attacks.black_box.encoding import EncodedOutputs
from dpaudit.bounds.multiplicity import discoveries

Vector = NDArray[np.float64]
Labels = NDArray[np.int64]

# A value with at least this share of all entries is an atom, e.g. a code for "no answer".
_ATOM_SHARE, _ATOMS = 0.01, 8
# The bits of a number, and the number of leaves whose bits are counted at a time.
_BITS, _TOGETHER = 64, 64
_RESIDUES = (3, 5, 10)
# The most leaves whose values are features in every audit.
_VALUES = 400
# Screening of fine features: rows, false-discovery rate, most features kept, most categories.
_SCREENED, _DISCOVERY, _KEPT, _CATEGORIES = 100_000, 0.1, 32, 64
# The least number of rows that a bit must differ in.
_RAREST_BIT = 5
# Integers in a range below this are counted instead of sorted.
_SMALL = 4096


class Feature(NamedTuple):
    """A feature, see `Columns.column`; `a` and `b` are positions or sizes."""

    name: str
    a: int = 0
    b: int = 0
    ends: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True)
class FeatureColumns:
    """Feature columns of a table; each entry is a function of its row alone.

    Attributes:
        table: encoded outputs.
        atoms: frequent values, which are treated as categories instead of amounts.
    """

    table: EncodedOutputs
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
        compute = getattr(self, f"_{feature.name}", None)
        if compute is not None:
            return np.asarray(compute(feature), np.float64)
        entries = getattr(self.table, "number" if feature.name == "value" else feature.name)
        return np.asarray(entries if entries.ndim == 1 else entries[:, feature.a], np.float64)

    def _step(self, at: Feature) -> Vector:
        """The difference of adjacent leaves, such as the noise of a running sum."""
        free = self._free[:, at.a] & self._free[:, at.a + 1]
        number = self.table.number
        return np.where(free, number[:, at.a + 1] - number[:, at.a], 0.0)

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


def common_values(table: EncodedOutputs) -> Vector:
    """Return the up to 8 most frequent values with at least 1 % of all numbers, sorted."""
    kinds = table.kind
    entries = table.number[(kinds == leaves.FLOAT) | (kinds == leaves.INTEGER)]
    values, counts = np.unique(entries, return_counts=True)
    often = np.flatnonzero(counts >= _ATOM_SHARE * counts.sum())
    return np.sort(values[often[np.argsort(-counts[often], kind="stable")[:_ATOMS]]])


def smooth_features(columns: FeatureColumns, labels: Labels) -> list[Feature]:
    """Return the features used in every audit, without constant ones.

    Of more than 400 leaves, those that differ most between D and D' are used.
    """
    width = columns.table.number.shape[1]
    features = _most_different(columns, labels, [Feature("value", j) for j in range(width)])
    features += [Feature(name) for name in ("count", "form", "skeleton", "length")]
    if width > 1:
        features += _most_different(columns, labels, [Feature("step", j) for j in range(width - 1)])
        features += [Feature("atom", a) for a in range(len(columns.atoms))]
        features += [Feature(name) for name in ("equal", "least", "largest", "total")]
    return [feature for feature in features if _varies(columns.column(feature))]


def _most_different(
    columns: FeatureColumns, labels: Labels, features: list[Feature]
) -> list[Feature]:
    """Return the features with the smallest p-values, of a t-test or a χ² test."""
    from scipy.special import chdtrc, erfc

    if len(features) <= _VALUES:
        return features
    tested = []
    for feature in features:
        column = columns.column(feature)
        spread = float(column.std())
        shift = float(column[labels == 1].mean() - column[labels == 0].mean())
        share = float(labels.mean())
        size = abs(shift) / spread * (len(labels) * share * (1 - share)) ** 0.5 if spread else 0.0
        statistic, degrees = _contingency(column, labels)
        counted = float(chdtrc(degrees, statistic)) if degrees else 1.0
        tested.append((min(float(erfc(size / 2**0.5)), counted), -size, feature))
    return [feature for *_, feature in sorted(tested)[:_VALUES]]


def fine_features(columns: FeatureColumns, labels: Labels) -> list[Feature]:
    """Return the fine features that differ between D and D', by a χ² test on some rows.

    The false-discovery rate is 10 %, of bits and of all others, since a false discovery only adds
    some noise.
    """
    from scipy.special import chdtrc

    step = max(1, len(labels) // _SCREENED)
    screened = FeatureColumns(columns.table.take(slice(None, None, step)), columns.atoms)
    labels = labels[::step]
    tested: list[tuple[float, Feature]] = []
    for feature in _fine_candidates(screened.table):
        statistic, degrees = _contingency(screened.column(feature), labels)
        if degrees:
            tested.append((float(chdtrc(degrees, statistic)), feature))
    return _passed(tested) + _passed(list(_bits(screened.table, labels)))


def _passed(tested: list[tuple[float, Feature]]) -> list[Feature]:
    """Return the features whose p-values pass, at most 32."""
    tested = sorted(tested)
    passed = discoveries([p for p, _ in tested], _DISCOVERY).sum() if tested else 0
    return [feature for _, feature in tested[: min(passed, _KEPT)]]


def _bits(table: EncodedOutputs, labels: Labels) -> Iterator[tuple[float, Feature]]:
    """Yield every bit that varies, with the p-value of its χ² test against the labels."""
    from scipy.special import chdtrc

    varying = np.flatnonzero((table.low != table.low[:1]).any(0))
    present, rate, n = labels == 1, float(labels.mean()), len(labels)
    for start in range(0, len(varying), _TOGETHER):
        places = varying[start : start + _TOGETHER]
        words = np.ascontiguousarray(table.low[:, places], "<u8").view(np.uint8)
        bits = np.unpackbits(words, axis=1, bitorder="little")
        totals, of_present = bits.sum(0, dtype=np.int64), bits[present].sum(0, dtype=np.int64)
        for i in np.flatnonzero((totals >= _RAREST_BIT) & (totals <= n - _RAREST_BIT)).tolist():
            expected = totals[i] * rate
            statistic = (of_present[i] - expected) ** 2 / (
                expected * (1 - rate) * (1 - totals[i] / n)
            )
            yield float(chdtrc(1, statistic)), Feature("bit", int(places[i // _BITS]), i % _BITS)


def _fine_candidates(table: EncodedOutputs) -> Iterator[Feature]:
    width = table.number.shape[1]
    for j in range(width):
        yield Feature("kind", j)
        if (table.kind[:, j] == leaves.FLOAT).any():
            yield from (Feature(name, j) for name in ("sign", "whole", "zeros"))
        elif (table.kind[:, j] == leaves.INTEGER).any():
            yield from (Feature("residue", j, m) for m in _RESIDUES)
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
    totals = np.bincount(codes).astype(np.float64)
    often = totals >= 5
    rate = labels.mean()
    expected = totals[often] * rate
    statistic = float(((present[often] - expected) ** 2 / (expected * (1 - rate))).sum())
    return statistic, max(int(often.sum()) - 1, 0)


def _coded(column: Vector) -> tuple[Labels, int]:
    """Return the index of each entry among the distinct values, and the number of these."""
    low = column.min()
    if column.max() - low < _SMALL and (column == np.floor(column)).all():
        codes = (column - low).astype(np.int64)
        occurs = np.bincount(codes) > 0
        return (occurs.cumsum() - 1)[codes], int(occurs.sum())
    values, codes = np.unique(column, return_inverse=True)
    return codes, len(values)


def _varies(column: Vector) -> bool:
    return len(column) > 0 and bool((column != column[0]).any())
