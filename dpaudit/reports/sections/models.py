"""The table of each model, with a row for each ε: in reports, and shorter on a console."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from dpaudit.core import rounding
from dpaudit.record.metric import MODELS
from dpaudit.record.metrics import entry
from dpaudit.record.result import AuditResult, Measurement, ModelRecord
from dpaudit.reports import columns, words
from dpaudit.reports.digest import ABOVE, MORE, Row, noised, rows
from dpaudit.reports.table import NONE, Column, Table

_POWER = (
    "Power: the least factor by which a copy has to break the claim for the game to find it, as in "
    "“finds 2×”. “none up to 4×”: it missed the copies that were tried, up to that factor; “none”: "
    "no copy could be tried, or none found with so few trials; “–”: not needed, as the game breaks "
    "the claim, or there is no claim that it tests."
)
# Digits of a number on a console.
_SHORT = 2


def tables(result: AuditResult) -> list[Table]:
    """Return one table for each model with a row for each ε."""
    by_model = rows(result)
    return [_table(model, by_model[model.label]) for model in result.models]


def brief(model: ModelRecord, sweep: Sequence[Row]) -> Iterator[Column]:
    """Yield the columns of a model's table on a console, the most important first."""
    points = [row.point for row in sweep]
    yield "ε", [words.epsilon(point.epsilon) for point in points]
    if any(point.claim and point.claim.epsilon != point.epsilon for point in points):
        yield "claimed", [words.epsilon(p.claim.epsilon) if p.claim else "none" for p in points]
    if any(row.games for row in sweep):
        yield "certified ε", [_largest(row) for row in sweep]
    errors = []
    for metric, name, cells in columns.columns(
        _of_models(sweep), model.top_k, digits=_SHORT, brief=True
    ):
        if metric.unit == "rating":
            errors.append((name, cells))
        else:
            yield name, cells
    known = [game for row in sweep for game in row.games.values() if game.theory]
    if known:
        law = "noise's ε" if any(noised(game) for game in known) else "list's ε"
        yield law, [_largest_by_law(row) for row in sweep]
    yield from errors
    if any(point.sensitivity is not None for point in points):
        yield "Δf", [words.number(point.sensitivity) for point in points]


def claim_words(sweep: Sequence[Row]) -> str:
    """Return what a model's claims hold for, without their ε."""
    claims = dict.fromkeys(
        words.claim(row.point.claim) if row.point.claim else "none" for row in sweep
    )
    return f"Claim: {'; '.join(claims)}."


def _table(model: ModelRecord, sweep: Sequence[Row]) -> Table:
    shown = list(_columns(model, sweep))
    marked = {
        (index, column)
        for index, row in enumerate(sweep)
        for column, (name, _) in enumerate(shown)
        if any(name == _certified(pair) for pair in row.exceeding)
    }
    return Table(
        caption=f"{model.label}: {model.defense}, {model.variant}. {claim_words(sweep)}",
        header=[name for name, _ in shown],
        cells=[list(cells) for cells in zip(*(cells for _, cells in shown), strict=True)],
        marked=marked,
        note=_POWER if any(name.startswith("power (") for name, _ in shown) else "",
    )


def _columns(model: ModelRecord, sweep: Sequence[Row]) -> Iterator[Column]:
    """Yield the name and cells of the columns of a model's table that are not empty."""
    points = [row.point for row in sweep]
    yield "ε", [words.epsilon(point.epsilon) for point in points]
    yield (
        "claimed ε",
        [words.epsilon(point.claim.epsilon) if point.claim else "none" for point in points],
    )
    if any(point.chosen for point in points):
        yield "chosen", [words.settings(point.chosen) for point in points]
    if any(point.sensitivity is not None for point in points):
        yield "Δf", [words.number(point.sensitivity) for point in points]
    for pair in sweep[0].games if sweep else ():
        bounds = [f"≥ {rounding.at_least(row.games[pair].estimate.lower)}" for row in sweep]
        remarks = [f" ({MORE})" if row.exceeds(pair) else "" for row in sweep]
        yield _certified(pair), list(map(str.__add__, bounds, remarks))
        games = [row.games[pair] for row in sweep]
        if any(game.theory for game in games):
            law = "noise" if any(noised(game) for game in games) else "list"
            # The upper bound, if the number is not exact.
            uppers = [game.theory and rounding.measured(game.theory.upper) for game in games]
            yield f"ε by the {law}'s law ({pair})", [upper or NONE for upper in uppers]
        yield f"power ({pair})", [row.power(pair) or NONE for row in sweep]
    for column in columns.columns(_of_models(sweep), model.top_k):
        yield column.name, column.cells


def _of_models(sweep: Sequence[Row]) -> list[list[Measurement]]:
    """Return what stands in the rows of a model's own table, but for its games."""
    return [[m for m in row.measurements if entry(m.metric).section == MODELS] for row in sweep]


def _certified(pair: str) -> str:
    return f"certified ε ({pair})"


def _largest(row: Row) -> str:
    """Return the largest lower bound over the pairs, which hold together, with a remark.

    If no bound breaks the claim, the remark is the least mutant that was found on any pair.
    """
    if not row.games:
        return NONE
    largest = max(game.estimate.lower for game in row.games.values())
    controls = [game.control for game in row.games.values() if game.control]
    least = min((control.factor for control in controls if control.found), default=None)
    remark = ""
    if row.exceeding:
        remark = ABOVE
    elif row.point.claim:
        remark = " (no power)" if least is None else f" (finds {least:.3g}×)"
    return f"≥ {rounding.at_least(largest, _SHORT)}{remark}"


def _largest_by_law(row: Row) -> str:
    """Return the largest ε by the law over the pairs."""
    known = max((game.theory.upper for game in row.games.values() if game.theory), default=None)
    return "∞" if known == math.inf else words.number(known)
