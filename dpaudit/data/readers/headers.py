"""Rows that hold the names of the columns again, as files do that were joined with theirs."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from dpaudit.core.messages import show
from dpaudit.data.ratings import Repair
from dpaudit.data.readers.cells import RawTable, factorize
from dpaudit.data.sniff_names import USUAL, bare

# Shorter words are likelier ids than names of columns; no name is as long as this.
_SHORT, _LONG = 2, 100
# What clients of databases draw below the names.
_RULE = re.compile(r":?[-=─═+]{2,}:?")


def without_headers(table: RawTable) -> RawTable:
    """Leave out the rows of a table of ratings that repeat the names of its columns, or underline.

    Raises:
        DataError: a row holds names of columns in another order, or the table has no names.
    """
    if any(getattr(cells, "dtype", None) is not None for cells in table.cells.values()):
        return table  # numbers of MATLAB
    own = {what: bare(_name(table, what)) for what in table.cells}
    names = {name for name in (*map(bare, table.names), *own.values()) if len(name) >= _SHORT}
    names = {name for name in names if not name.isdecimal()} | USUAL
    columns = {what: factorize(table, what) for what in table.cells}
    # The other column is read only if this one, with fewer values, holds a name.
    first = min(("user", "item"), key=lambda what: len(columns[what][1]))
    codes, distinct = columns[first]
    named = [
        k
        for k, value in enumerate(distinct)
        if _is_name(value, names) or (isinstance(value, str) and _RULE.fullmatch(value.strip()))
    ]
    kept, rules = np.ones(len(codes), np.bool_), 0
    for row in np.flatnonzero(np.isin(codes, named)) if named else ():
        cells = {
            what: distinct[of[row]] if of[row] >= 0 else ""
            for what, (of, distinct) in columns.items()
        }
        rule = all(_RULE.fullmatch(str(cell).strip()) for cell in cells.values())
        both = _is_name(cells["user"], names) and _is_name(cells["item"], names)
        if not rule and (not both or cells["user"] == cells["item"]):
            continue
        if not rule and any(bare(str(cell)) != own[what] for what, cell in cells.items()):
            _refuse(table, int(row), cells)
        kept[row] = False
        rules += rule
    if kept.all():
        return table
    again = Repair("lines that hold the names of the columns again", int((~kept).sum()) - rules)
    drawn = Repair("lines drawn below the names of the columns", rules)
    return replace(table.changed(kept), repairs=(*table.repairs, again, drawn))


def _refuse(table: RawTable, row: int, cells: dict[str, Any]) -> NoReturn:
    names = f"{show(cells['user'])} and {show(cells['item'])}"
    fault = f"the {table.unit} holds the names {names} of columns"
    if not table.names and table.unit == "line":
        remedy = "set data.header = true" if row == 0 else "remove it"
    else:
        fault = f"{fault} that are not those of its header"
        remedy = "join files whose columns are the same and in the same order"
    table.refuse([(row, "user", f"{fault}: {remedy}")])


def _name(table: RawTable, what: str) -> str:
    column = table.columns[what]
    if isinstance(column, int):
        return table.names[column] if column < len(table.names) else ""
    return column


def _is_name(value: object, names: set[str]) -> bool:
    return isinstance(value, str) and len(value) <= _LONG and bare(value) in names
