"""Ratings as recommender libraries train on them: a sparse matrix, and a table in time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, issparse

from dpaudit.core.errors import DataError
from dpaudit.core.foreign import foreign
from dpaudit.core.messages import show
from dpaudit.data.ratings import Ratings, Repair, Scale
from dpaudit.data.readers import columns, doubts
from dpaudit.data.readers.cells import Coded, Fault, RawTable, first_of, times_of
from dpaudit.data.readers.load import load, occurring
from dpaudit.data.readers.rows import LARGEST
from dpaudit.data.sniff import rated_by, sniff
from dpaudit.data.sniff_ratings import check_marks, labelled
from dpaudit.data.source_parts import Column

if TYPE_CHECKING:
    from pandas import DataFrame

_NAME = "the data frame"
_MATRIX = "the sparse matrix"


class Table(NamedTuple):
    """Interactions in the order of time; those of one time by user, then item.

    Attributes:
        user: the user's index `(R,)`.
        item: the item's index `(R,)`.
        rating: the rating, 1 for purchases `(R,)`.
        time: when it happened, in the source's unit or in seconds since 1970 `(R,)`; None if the
            data do not say, and then the order is by user and item.
    """

    user: NDArray[np.int32]
    item: NDArray[np.int32]
    rating: NDArray[np.float32]
    time: NDArray[np.float64] | None


@dataclass(frozen=True, eq=False)
class Interactions:
    """What one training gets; its arrays and frames belong to it alone.

    A user's class whose `fit(interactions, seed)` is annotated with this type gets it; any other
    gets `matrix`. Users and items are numbered by their sorted ids, in all trainings alike: index
    `i` is `item_ids[i]` and row `i` of `item_features`.

    Attributes:
        ratings: the ratings to train on, shared and read-only.
    """

    ratings: Ratings

    @classmethod
    def of(cls, ratings: Ratings, kept: NDArray[np.bool_] | None = None) -> Interactions:
        """Return some of the ratings to train on.

        Args:
            ratings: the ratings.
            kept: mask of the ratings to include `(R,)`; all if None.
        """
        return cls(ratings if kept is None else ratings.only(kept))

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of users N and of items M, also of those without interactions."""
        return self.ratings.n_users, self.ratings.n_items

    @cached_property
    def matrix(self) -> csr_array:
        """Users × items `(N, M)`, as in `interactions_of`."""
        return interactions_of(self.ratings)

    @cached_property
    def table(self) -> Table:
        """The interactions in the order of time."""
        rows = self.ratings
        # Rows are by user, then item, and the sort keeps this order within one time.
        order = np.arange(len(rows)) if rows.time is None else np.argsort(rows.time, kind="stable")
        time = None if rows.time is None else rows.time[order]
        return Table(rows.user[order], rows.item[order], rows.value[order], time)

    @cached_property
    def user_features(self) -> DataFrame | None:
        """What the data say of each user, a row each `(N, …)`; None if nothing."""
        return _copied(self.ratings.user_features)

    @cached_property
    def item_features(self) -> DataFrame | None:
        """What the data say of each item, a row each `(M, …)`; None if nothing."""
        return _copied(self.ratings.item_features)

    @property
    def user_ids(self) -> NDArray[np.object_] | None:
        """The source's id of each user, as text `(N,)`; None if the data have only indices."""
        return _copied(self.ratings.user_ids)

    @property
    def item_ids(self) -> NDArray[np.object_] | None:
        """The source's id of each item, as text `(M,)`; None if the data have only indices."""
        return _copied(self.ratings.item_ids)


def _copied(values: Any) -> Any:
    return None if values is None else values.copy()


def interactions_of(ratings: Ratings, kept: NDArray[np.bool_] | None = None) -> csr_array:
    """Return a new users × items matrix `(N, M)` of float32 ratings, 1 for purchases.

    Its shape is that of all data, so rows and columns may be empty. A rating of 0 is stored.

    Args:
        ratings: the ratings.
        kept: mask of the ratings to include `(R,)`; all if None.
    """
    rows = ratings if kept is None else ratings.only(kept)
    start = np.searchsorted(rows.user, np.arange(ratings.n_users + 1)).astype(np.int32)
    # Copies: a library may change its input, and other trainings share the ratings.
    entries = (np.array(rows.value), np.array(rows.item), start)
    return csr_array(entries, shape=(ratings.n_users, ratings.n_items))


def given_ratings(interactions: Any) -> Ratings:
    """Convert what a Python program passes to ratings.

    Args:
        interactions: ratings; a sparse matrix of users × items; a data frame of pandas, polars,
            Arrow or another library, whose columns are named as in a file of interactions; or the
            path of such a file.

    Raises:
        DataError: it is none of these or empty, or its columns or values cannot be used.
    """
    if isinstance(interactions, str | Path):
        with _to_a_program():
            return load(sniff(Path(interactions)).source)
    if isinstance(interactions, Ratings):
        ratings, name = interactions, "the data set"
    elif issparse(interactions):
        ratings, name = _of_matrix(interactions), _MATRIX
    else:
        frame = frame_table(interactions)
        if frame is None:
            raise DataError(
                f"interactions are {type(interactions).__name__}: give a sparse matrix of users "
                "and items, a data frame, or the path of a file"
            )
        ratings, name = _of_frame(*frame), _NAME
    if not len(ratings):
        raise DataError(f"{name} holds no ratings: give some")
    return ratings


@contextmanager
def _to_a_program() -> Iterator[None]:
    """Let errors name what a program can do, where the command line would take a statement."""
    try:
        yield
    except columns.UnclearError as error:
        raise DataError(f"{error.fault}: {error.remedy}") from error


def frame_table(given: object) -> tuple[RawTable, str] | None:
    """Return the columns of users, items and ratings of a data frame; None if it is none.

    The second value is what the ratings are by their name: `rating`, `value` or `count`.

    Frames are those that narwhals reads, such as of pandas, polars (lazy ones are collected) and
    Arrow, and objects with the Arrow C stream interface.

    Raises:
        DataError: a column is missing, occurs twice, or does not hold plain values.
    """
    import narwhals as nw

    with foreign(
        lambda problem: DataError(
            f"{_NAME} cannot be read ({problem}): give one with distinct names of columns and "
            "plain values"
        )
    ):
        frame: Any = nw.from_native(given, pass_through=True, allow_series=True)
        if isinstance(frame, nw.Series):
            fault = f"interactions are one column ({type(given).__name__})"
            raise DataError(f"{fault}: {columns.UnknownColumnsError.remedy}")
        if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
            if not hasattr(given, "__arrow_c_stream__"):
                return None
            frame = nw.from_arrow(frame, backend="pyarrow")
        names = frame.collect_schema().names()
        if not names:
            raise DataError(f"{_NAME} holds no columns: give those of users and items")

        def read(named: Mapping[str, Column]) -> RawTable:
            chosen = frame.select(*named.values()).lazy().collect()
            cells = {what: _coded(chosen[name]) for what, name in named.items()}
            return RawTable(_NAME, named, "row", lambda row: row + 1, cells)

        with _to_a_program():
            texts = [str(name) for name in names]
            meanings = labelled(_NAME, texts, lambda used: read({"rating": used["rating"]}))
        kind = rated_by(meanings)
        used = ("user", "item", "time")
        chosen_columns: dict[str, Column] = {
            what: meanings[what] for what in used if what in meanings
        }
        chosen_columns |= {"rating": meanings[kind]} if kind else {}
        return read(chosen_columns), kind


def _of_frame(table: RawTable, kind: str) -> Ratings:
    """Return the ratings in a data frame.

    Args:
        table: the columns.
        kind: what the ratings are by their name; a count makes its row an interaction.

    Raises:
        DataError: a row lacks its user, item or rating, or is no interaction; names the first one.
            Or some ratings may mark "not rated".
    """
    table = columns.without_headers(table)
    user, item = columns.users_and_items(table)
    faults = columns.missing(table, user.codes, "user")
    faults += columns.missing(table, item.codes, "item")
    values = np.ones(len(user.codes))
    column = columns.ratings(table) if "rating" in table.cells else None
    if column is not None:
        faults += _faults(column, kind)
        values = values if kind == "count" else column.values
    table.refuse(faults)
    if column is not None:
        label = f"{_NAME}, {table.label('rating')}"
        with _to_a_program():
            check_marks(label, *occurring(np.array(column.numbers), column.codes), kind)
    time, wrong = times_of(table) if "time" in table.cells else (None, [])
    unused = [
        Repair(f"times, not used as in {table.place(row)} {fault}", len(values))
        for row, _, fault in wrong
    ]
    repairs = *table.repairs, *unused, *user.repairs("user"), *item.repairs("item")
    shape = len(user.names), len(item.names)
    return _valued(user.codes, item.codes, values, shape, None if wrong else time).repaired(
        *repairs, user_ids=np.array(user.names, object), item_ids=np.array(item.names, object)
    )


def _faults(column: columns.RatingColumn, kind: str) -> list[Fault]:
    """Return the fault of the first rating that is no number, too large, or no interaction."""
    values = column.values
    usable = np.abs(values) <= LARGEST
    wrong = ~usable
    # As in a file: likes are 1 and dislikes 0 or −1, and nothing up to 0 is a count.
    likes = len(np.unique(values[usable])) == 2 and values[usable].max() > 0
    if kind == "count" or likes:
        wrong |= values <= 0
    if not wrong.any():
        return []
    row, more = first_of(wrong)
    value = column.cell(row)
    name = "count" if kind == "count" else "rating"
    name = f"the {name} {show(value)}" if column.codes[row] >= 0 else f"the {name}"
    large = "is beyond single precision" if np.isfinite(values[row]) else "is not a finite number"
    fault = "is no interaction" if usable[row] else large
    remedy = "leave such rows out" if usable[row] else "correct it or leave its row out"
    marks = column.codes[row] >= 0 and doubts.punctuated(name, value, column.distinct)
    return [(row, "rating", marks or f"{name} {fault}{more}: {remedy}")]


def _coded(series: Any) -> Coded:
    import narwhals as nw
    import pandas as pd

    place = f"{_NAME}, column {show(series.name)}"

    def refused(values: str) -> DataError:
        return DataError(f"{place}: the column holds {values}: give a column of plain values")

    nested = refused("lists or records")
    if isinstance(series.dtype, nw.List | nw.Array | nw.Struct):
        raise nested
    wide = series.dtype in {nw.Int128, nw.UInt128}  # numpy has no such type
    try:
        codes, distinct = pd.factorize((series.cast(nw.String) if wide else series).to_numpy())
    except TypeError as error:  # unhashable
        raise nested from error
    values = np.asarray(distinct).tolist()
    if any(isinstance(value, tuple | frozenset) for value in values):
        raise nested
    if any(map(_nameless, values)):
        raise refused("objects without a name")
    return Coded(codes.astype(np.int32), values)


def _nameless(value: object) -> bool:
    """Whether the text of a Python object is only its memory address."""
    kind = type(value)
    return kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__


def _of_matrix(matrix: Any) -> Ratings:
    if matrix.ndim != 2:
        raise DataError(
            f"{_MATRIX} has {matrix.ndim} dimension{'s' * (matrix.ndim > 1)}: give users × items"
        )
    if matrix.dtype.kind == "c":
        raise DataError(f"{_MATRIX} holds complex numbers: give ratings")
    with foreign(
        lambda problem: DataError(
            f"{_MATRIX} is damaged ({problem}): make it again from its entries"
        )
    ):
        if matrix.format in {"csr", "csc", "bsr"}:
            # Wrong indices or starts make scipy read other memory, or crash.
            matrix.check_format(full_check=True)
        entries = coo_array(matrix)
    users, items = entries.coords
    values = np.asarray(entries.data, np.float64)
    wrong = np.flatnonzero(~(np.abs(values) <= LARGEST))
    if len(wrong):
        at = f"{_MATRIX}, row {users[wrong[0]]}, column {items[wrong[0]]}"
        raise DataError(
            f"{at}: the rating {values[wrong[0]]:g} is not a finite number within single "
            "precision: correct it or leave it out"
        )
    zeros = int((values == 0).sum())
    if zeros and values.min() >= 0:
        raise DataError(
            f"{_MATRIX} stores {zeros:,} zero{'s' * (zeros > 1)} of {len(values):,} entries, which "
            "are no interactions: call its method eliminate_zeros(), or if they are ratings, give "
            "dpaudit.data.Ratings.build(…) with the scale"
        )
    levels, rows = np.unique(values, return_counts=True)
    # Without a value below 0 these may be counts, the largest of which is often far from the rest.
    if len(levels) and levels[0] < 0:
        with _to_a_program():
            check_marks(_MATRIX, levels, rows, "rating")
    return _valued(users, items, values, entries.shape)


def _valued(
    users: Any, items: Any, numbers: Any, shape: tuple[int, ...], time: Any = None
) -> Ratings:
    low, high = (numbers.min(), numbers.max()) if len(numbers) else (1.0, 1.0)
    if low == high:
        low = high = 1.0
        numbers = np.ones(len(numbers))
    scale = Scale(float(low), float(high), 1.0)
    return Ratings.build(users, items, numbers, shape[0], shape[1], scale, time=time)
