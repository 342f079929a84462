"""Features of members and others that the model never saw: of which kind each is, and who is alike.

Rows with equal features are alike whatever a feature means. Rows with nearly equal ones are alike
only by a model of what it means, and a code of a category or a time of day is no quantity. So whole
numbers of few values are asked about, and are not taken for quantities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import InputError
from dpaudit.core.messages import show

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]

# What a feature is: a quantity; a code; seconds since 1970, of which the hour, the weekday and the
# trend may matter; or what says which rows are members only together, such as the user.
FeatureKind = Literal["number", "category", "time", "group"]
KINDS: tuple[FeatureKind, ...] = get_args(FeatureKind)
# Whole numbers of up to so many values may be codes; of two values they are.
_MOST_CODES = 50
_HOUR, _DAY = 3600, 86400


@dataclass(frozen=True, eq=False)
class Features:
    """Features of rows.

    Attributes:
        values: finite numbers `(n, F)`.
        kinds: what each column is, where it is said.
    """

    values: Numbers
    kinds: Mapping[int, FeatureKind]

    def __post_init__(self) -> None:
        """Refuse kinds of columns that are not there, and kinds that are none."""
        width = self.values.shape[1]
        for column, kind in self.kinds.items():
            if column not in range(width) or kind not in KINDS:
                raise InputError(
                    f"kinds holds {show(column)}: {show(kind)}, and features have the columns 0 to "
                    f"{width - 1}: name a column, and one of {', '.join(KINDS)}"
                )
        if all(self.kinds.get(column) == "group" for column in range(width)):
            raise InputError("all features are groups: give one that tells members from others")

    def of(self, rows: Rows) -> Self:
        """Return the features of some rows."""
        return type(self)(self.values[rows], self.kinds)

    def alone(self) -> Rows:
        """Return the first row of each group, in their order; all rows without groups."""
        groups = [k for k, kind in self.kinds.items() if kind == "group"]
        if not groups:
            return np.arange(len(self.values))
        return np.sort(np.unique(self.values[:, groups], axis=0, return_index=True)[1])

    def equal(self) -> Rows:
        """Return a number for each row, the same for rows with equal features `(n,)`."""
        kept = [k for k in range(self.values.shape[1]) if self.kinds.get(k) != "group"]
        # -0.0 is 0.0.
        numbers: Rows = np.unique(self.values[:, kept] + 0.0, axis=0, return_inverse=True)[1]
        return numbers.reshape(-1)

    def unsaid(self) -> str | None:
        """Return a question about the first column that may hold quantities or codes."""
        for column, values in enumerate(self.values.T):
            distinct = np.unique(values)
            codes = 2 < len(distinct) <= _MOST_CODES and (distinct == np.floor(distinct)).all()
            if column not in self.kinds and codes:
                return (
                    f"column {column} (counted from 0) of the features holds {len(distinct)} whole "
                    "numbers: name its kind, number or category"
                )
        return None

    def columns(self) -> tuple[Numbers, Mask]:
        """Return the columns that a learner reads `(n, C)`, and which of them are codes `(C,)`."""
        columns, codes = zip(*self._columns(), strict=True)
        return np.column_stack(columns), np.array(codes)

    def _columns(self) -> Iterator[tuple[Numbers, bool]]:
        for column, values in enumerate(self.values.T):
            kind = self.kinds.get(column)
            if kind == "time":
                yield values // _HOUR % 24, True
                yield values // _DAY % 7, True
            if kind != "group":
                yield values, kind == "category"
