"""The files that dpaudit gives a command for one training, and those that it writes.

docs/guides/own-models.md describes them for users. Tables are csv or parquet files. A csv file is
UTF-8 text with a header, commas between cells, and points in numbers. Errors name the file, and the
line of a csv file or the row of a parquet file, counted from 1.
"""

from __future__ import annotations

import json
import shutil
import stat
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import RunError, said
from dpaudit.core.messages import plain, quoted
from dpaudit.core.rounding import plain_number
from dpaudit.data.interactions import Interactions
from dpaudit.data.readers.text_pieces import QuoteError, records
from dpaudit.recommenders.base import Answer, Deletion, Factors, Indices, Query, Scores, required
from dpaudit.recommenders.checks import checked_answer
from dpaudit.recommenders.histories import Histories

# What a column holds: indices of users or items, or numbers.
Kind = Literal["index", "number"]

# Bytes of a number that is written as text, more than any takes, and of what surrounds a table.
_CELL, _REST = 64, 2**20
# The most columns that are read.
_WIDEST = 2**14


@dataclass(frozen=True, eq=False)
class NumberTable:
    """A table that was read.

    Attributes:
        path: its file.
        places: the line or row of each row in the file `(n,)`.
        columns: the columns by their names `(n,)`: int64 indices, or float64 numbers, where an
            empty cell is NaN.
    """

    path: Path
    places: NDArray[np.int64]
    columns: Mapping[str, NDArray[Any]]

    def check(self, wrong: NDArray[np.bool_], problem: str) -> None:
        """Refuse the table if a row is wrong.

        Args:
            wrong: which rows are wrong `(n,)`.
            problem: what is wrong with a row, with the names of columns in braces.

        Raises:
            RunError: names the first wrong row.
        """
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            cells = {name: column[row] for name, column in self.columns.items()}
            raise _wrong(self.path, int(self.places[row]), problem.format(**cells))


def write_table(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write columns to a csv or parquet file, as the suffix of its name says.

    Raises:
        ConfigError: the file is parquet, and pyarrow is not installed.
    """
    if _packed(path):
        _arrow("pyarrow.parquet").write_table(_arrow("pyarrow").table(dict(columns)), path)
        return
    import pandas as pd

    pd.DataFrame(columns).to_csv(path, index=False)


def read_table(path: Path, kinds: Mapping[str, Kind] | None, most: int) -> NumberTable:
    """Read the columns that `kinds` names; others are skipped.

    Args:
        path: a csv or parquet file, as the suffix of its name says.
        kinds: what each column holds; None if all hold numbers.
        most: the number of rows that may be expected; a file that is far larger is not read.

    Raises:
        ConfigError: the file is parquet, and pyarrow is not installed.
        RunError: the file is missing, cannot be read or is too large, or a column is missing, has
            no name, or holds something else.
    """
    width = _WIDEST if kinds is None else len(kinds)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise RunError(f"{path.name} is no file: write a table")
        # Twice as many rows are read, so that the one that is too much can be named.
        if status.st_size > _REST + 2 * most * width * _CELL:
            raise _large(path, f"{status.st_size} bytes", most)
        return _read_parquet(path, kinds, most) if _packed(path) else _read_csv(path, kinds)
    except FileNotFoundError as error:
        raise RunError(f"there is no {path.name}: write it where task.json says") from error
    except OSError as error:
        raise _unreadable(path, error) from error


def _chosen(
    path: Path, names: Sequence[str], kinds: Mapping[str, Kind] | None
) -> Mapping[str, Kind]:
    """Return what each column to read holds, of those that a file has."""
    lost = [name for name in kinds or () if name not in names]
    if kinds and lost:
        raise RunError(
            f"{path.name} has no column {lost[0]}, only '{quoted(', '.join(names), 100)}': "
            f"write the columns {', '.join(kinds)}"
        )
    unnamed = any(not name or name.startswith("__index") for name in names)
    if not kinds and (unnamed or not 0 < len(set(names)) == len(names) <= _WIDEST):
        raise RunError(
            f"{path.name} has {len(names)} columns, of which some have no name, or the same: "
            "write a header with one name a factor, and no index of rows"
        )
    return kinds or dict.fromkeys(names, "number")


def read_rows(path: Path, count: int) -> NDArray[np.float32]:
    """Read a table of `count` rows, whose columns are all numbers `(count, d)`.

    What a float32 cannot hold becomes infinite.

    Raises:
        ConfigError: as in `read_table`.
        RunError: as in `read_table`; or the number of rows is wrong.
    """
    table = read_table(path, None, count)
    if len(table.places) != count:
        raise RunError(
            f"{path.name} has {len(table.places)} rows below its header: write one for each of the "
            f"indices 0 to {count - 1}, in order"
        )
    with np.errstate(over="ignore"):
        return np.column_stack(list(table.columns.values())).astype(np.float32)


def _read_csv(path: Path, asked: Mapping[str, Kind] | None) -> NumberTable:
    rows = _csv_rows(path)
    names = [name.strip() for name in next(rows, (0, [""]))[1]]
    kinds, places = _chosen(path, names, asked), array("q")
    positions = [names.index(name) for name in kinds]
    columns: dict[str, Any] = {
        name: array("q" if kind == "index" else "d") for name, kind in kinds.items()
    }
    for line, cells in rows:
        if len(cells) != len(names):
            raise _wrong(path, line, f"{len(cells)} cells, and the header has {len(names)}")
        places.append(line)
        for at, (name, kind) in zip(positions, kinds.items(), strict=True):
            cell = cells[at]
            try:
                number = plain_number(cell) if kind == "index" or cell.strip() else np.nan
                columns[name].append(int(cell) if kind == "index" else number)
            except (ValueError, OverflowError) as error:
                wanted = "index (0, 1, 2, …)" if kind == "index" else "number"
                problem = f"{name} = '{quoted(cell)}' is no {wanted}: write one"
                raise _wrong(path, line, problem) from error
    return NumberTable(
        path, np.array(places), {name: np.array(values) for name, values in columns.items()}
    )


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the cells of each row that is not empty."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        try:
            yield from ((line, cells) for line, cells in records(file, ",") if cells)
        except QuoteError as error:
            raise _wrong(path, error.line, f"{error}: write numbers and commas") from error


def _read_parquet(path: Path, asked: Mapping[str, Kind] | None, most: int) -> NumberTable:
    try:
        with _arrow("pyarrow.parquet").ParquetFile(path) as file:
            if file.metadata.num_rows > _REST + 2 * most:
                raise _large(path, f"{file.metadata.num_rows} rows", most)
            kinds = _chosen(path, file.schema_arrow.names, asked)
            read = file.read(columns=list(kinds))
    except _arrow("pyarrow").ArrowException as error:
        raise _unreadable(path, error) from error
    columns = {name: _column(path, name, kind, read.column(name)) for name, kind in kinds.items()}
    return NumberTable(path, np.arange(1, read.num_rows + 1), columns)


def _column(path: Path, name: str, kind: Kind, column: Any) -> NDArray[Any]:
    """Convert a column of a parquet file."""
    types = _arrow("pyarrow").types
    if types.is_integer(column.type):
        missing = np.flatnonzero(column.is_null().to_numpy())
        if kind == "index" and len(missing):
            raise _wrong(path, int(missing[0]) + 1, f"{name} is missing: write an index")
    elif kind == "index" or not types.is_floating(column.type):
        wanted = "indices (0, 1, 2, …)" if kind == "index" else "numbers"
        raise RunError(f"{path.name}, column {name} has type {column.type}: write {wanted}")
    return column.to_numpy().astype(np.int64 if kind == "index" else np.float64)


def _arrow(module: str) -> Any:
    return required("command", module, "parquet")


def _packed(path: Path) -> bool:
    return path.suffix == ".parquet"


def _wrong(path: Path, place: int, problem: str) -> RunError:
    return RunError(f"{path.name}, {'row' if _packed(path) else 'line'} {place}: {problem}")


def _large(path: Path, size: str, most: int) -> RunError:
    return RunError(
        f"{path.name} has {size}, more than {most} rows take: write only the rows that are asked"
    )


def _unreadable(path: Path, error: Exception) -> RunError:
    return RunError(f"{path.name} cannot be read ({plain(said(error))}): write a table")


Format = Literal["csv", "parquet"]
_LARGEST = float(np.finfo(np.float32).max)
# The tables of histories that are sent, and of the items that are asked after each.
_HISTORIES = ("histories", "after")


@dataclass(frozen=True, eq=False)
class Exchange:
    """The folder of one training.

    Attributes:
        folder: the folder; an absolute path.
        suffix: of the tables, which is their format.
        shape: number of users N and of items M.
        query: what is asked.
        moves: whether the folder is read elsewhere, so that its task names files and no paths.
    """

    folder: Path
    suffix: Format
    shape: tuple[int, int]
    query: Query
    moves: bool = False

    @property
    def task(self) -> Path:
        """The file that names all others."""
        return self.folder / "task.json"

    def write(self, interactions: Interactions, seed: int, request: Deletion | None = None) -> None:
        """Write the task and its tables.

        Args:
            interactions: what to train on.
            seed: decides everything that is random.
            request: what the model that was trained in this folder is to forget; what it showed
                before is removed. None to train.

        Raises:
            ConfigError: the format is parquet, and pyarrow is not installed.
        """
        self._write_interactions("interactions", interactions)
        if request is not None:
            for name in ("scores", "lists", "item_factors", "user_factors", "after_scores"):
                path = self._path(name)
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
            users, items = request.gone.T
            write_table(self._path("forget"), {"user": users, "item": items})
            self._write_interactions("kept", request.kept)
        known: dict[str, str | None] = {}
        for name in ("user_ids", "item_ids", "user_features", "item_features"):
            # Row `i`, counted from 0, of each table is that of index `i`.
            given = getattr(interactions, name)
            known[name] = None if given is None else self._named(name)
            if given is not None:
                write_table(self._path(name), {"id": given} if name.endswith("_ids") else given)
        pairs = self._pairs()
        users, items = (part.astype(np.int32) for part in np.divmod(pairs, self.shape[1]))
        write_table(self._path("pairs"), {"user": users, "item": items})
        write_table(self._path("users"), {"user": self.query.listed})
        if self.query.after is not None:
            self._write_histories(self.query.after)
        factors = {name: self._named(f"{name[:-1]}_factors") for name in ("items", "users")}
        tables = ("interactions", "pairs", "users", "scores", "lists")
        task = {
            "seed": int(seed),
            "k": int(self.query.k),
            "n_users": int(self.shape[0]),
            "n_items": int(self.shape[1]),
            **{name: self._named(name) for name in tables},
            "factors": factors if self.query.factors else None,
            **{
                name: None if self.query.after is None else self._named(name)
                for name in (*_HISTORIES, "after_scores")
            },
            **{name: None if request is None else self._named(name) for name in ("forget", "kept")},
            **known,
        }
        self.task.write_text(json.dumps(task, indent=1), encoding="utf-8")

    def _write_interactions(self, name: str, interactions: Interactions) -> None:
        columns = interactions.table._asdict()
        write_table(
            self._path(name),
            {name: column for name, column in columns.items() if column is not None},
        )

    def _write_histories(self, after: Histories) -> None:
        history, place = np.nonzero(after.sent >= 0)
        asked, item = np.divmod(np.unique(self._following(after)), self.shape[1])
        columns = (history, after.sent[history, place]), (asked, item)
        for name, (of, items) in zip(_HISTORIES, columns, strict=True):
            write_table(self._path(name), {"history": of, "item": items})

    def still_holds(self, interactions: Interactions) -> bool:
        """Return whether the file of interactions has these, in any order, or is gone.

        Raises:
            RunError: it is no such table.
        """
        path = self._path("interactions")
        if not path.exists():
            return True
        ratings = interactions.ratings
        columns: dict[str, Kind] = {"user": "index", "item": "index", "rating": "number"}
        columns |= {} if ratings.time is None else {"time": "number"}
        read = read_table(path, columns, len(ratings)).columns
        key = self._key(read["user"], read["item"])
        order = np.argsort(key, kind="stable")
        same = np.array_equal(key[order], self._key(ratings.user, ratings.item))
        rated = same and np.array_equal(read["rating"][order].astype(np.float32), ratings.value)
        return rated and (ratings.time is None or np.array_equal(read["time"][order], ratings.time))

    def read(self) -> Answer:
        """Read and check what the command wrote; what is not asked is not read.

        Raises:
            RunError: a file is missing or wrong; names the file, its line or row, and the remedy.
        """
        query = self.query
        scores = self._scores() if len(query.users) else np.empty(0, np.float32)
        lists = self._lists() if len(query.listed) else np.empty((0, query.k), np.int32)
        factors = self._factors() if query.factors else None
        after = None if query.after is None else self._after_scores(query.after)
        return checked_answer(Answer(scores, lists, factors, after=after), query, self.shape)

    def _named(self, name: str) -> str:
        path = self._path(name)
        return path.name if self.moves else str(path)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.{self.suffix}"

    def _key(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> NDArray[np.int64]:
        return users.astype(np.int64) * self.shape[1] + items

    def _pairs(self) -> NDArray[np.int64]:
        """The keys of the asked pairs, sorted and distinct, as a command may write each once."""
        return np.unique(self._key(self.query.users, self.query.items))

    def _scores(self) -> Scores:
        query, pairs = self.query, self._pairs()
        scores = self._paired(("user", self.shape[0]), pairs, ("scores", "pairs", "interactions"))
        return scores[np.searchsorted(pairs, self._key(query.users, query.items))]

    def _after_scores(self, after: Histories) -> Scores:
        keys, wanted = np.unique(self._following(after), return_inverse=True)
        count = len(after.sent)
        scores = self._paired(("history", count), keys, ("after_scores", *_HISTORIES[::-1]))
        return scores[wanted.reshape(after.items.shape)]

    def _following(self, after: Histories) -> NDArray[np.int64]:
        """Return the keys of histories and the items that are asked after them `(n, q)`."""
        return self._key(np.arange(len(after.sent))[:, None], after.items)

    def _paired(
        self, first: tuple[str, int], keys: NDArray[np.int64], names: tuple[str, str, str]
    ) -> Scores:
        """Read the scores of pairs of something and an item; NaN for those that are left out.

        Args:
            first: the name of the column beside that of items, and the number of its indices.
            keys: the keys of the pairs that are asked, increasing `(n,)`.
            names: the tables of scores, of the pairs that are asked, and of the indices.
        """
        column, count = first
        table = read_table(
            self._path(names[0]), {column: "index", "item": "index", "score": "number"}, len(keys)
        )
        index, item, score = table.columns.values()
        self._check_indices(table, {column: count, "item": self.shape[1]}, names[2])
        # NaN is not larger either.
        table.check(
            ~(np.abs(score) <= _LARGEST),
            f"score = {{score}} is no finite number: leave out the pair of a {column} or item that "
            "the model does not know",
        )
        key = self._key(index, item)
        place = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        table.check(
            keys[place] != key,
            f"the score of {column} {{{column}}} and item {{item}} is not asked: write the pairs "
            f"of {self._path(names[1]).name}",
        )
        table.check(
            _repeated(key),
            f"{column} {{{column}}} and item {{item}} stand there a second time: write each pair "
            "once",
        )
        scores = np.full(len(keys), np.nan, np.float32)
        scores[place] = score
        return scores

    def _lists(self) -> Indices:
        listed, k = self.query.listed, self.query.k
        table = read_table(
            self._path("lists"), dict.fromkeys(("user", "rank", "item"), "index"), len(listed) * k
        )
        user, rank, item = table.columns.values()
        self._check_indices(table, dict(zip(("user", "item"), self.shape, strict=True)))
        table.check(
            (rank < 1) | (rank > k),
            f"rank = {{rank}}, and lists of {k} items are asked: write ranks 1, the best, to {k}",
        )
        row_of = np.full(self.shape[0], -1)
        row_of[listed] = np.arange(len(listed))
        place = row_of[user]
        table.check(
            place < 0,
            "the list of user {user} is not asked: write those of " + self._path("users").name,
        )
        table.check(
            _repeated(place * k + rank - 1),
            "user {user} has a second item of rank {rank}: give each rank one item",
        )
        table.check(
            _repeated(self._key(user, item)),
            "item {item} stands in the list of user {user} a second time: list every item once",
        )
        lists = np.full((len(listed), k), -1, np.int32)
        lists[place, rank - 1] = item
        gaps = (lists[:, :-1] == -1) & (lists[:, 1:] != -1)
        if gaps.any():
            row, at = (int(index[0]) for index in np.nonzero(gaps))
            raise RunError(
                f"{self._path('lists').name}: user {listed[row]} has an item of rank {at + 2} and "
                f"none of rank {at + 1}: count ranks from 1 without a gap"
            )
        return lists

    def _factors(self) -> Factors:
        items = read_rows(self._path("item_factors"), self.shape[1])
        path = self._path("user_factors")
        users = read_rows(path, self.shape[0]) if path.exists() else None
        return Factors(items, users)

    def _check_indices(
        self, table: NumberTable, counts: Mapping[str, int], of: str = "interactions"
    ) -> None:
        for name, count in counts.items():
            index = table.columns[name]
            table.check(
                (index < 0) | (index >= count),
                f"{name} = {{{name}}} is none of 0 to {count - 1}: write the indices of "
                f"{self._path(of).name}, not the library's own",
            )


def _repeated(keys: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark each key that has occurred before `(n,)`."""
    marks = np.ones(len(keys), np.bool_)
    marks[np.unique(keys, return_index=True)[1]] = False
    return marks
