"""Tables of membership inference: whose data were used for training."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from dpaudit.core import rounding
from dpaudit.core.membership import WITNESS
from dpaudit.record.metric import ATTACKS, MODELS
from dpaudit.record.metrics import entry
from dpaudit.record.result import STRONGEST, AuditResult, Measurement
from dpaudit.reports import columns, words
from dpaudit.reports.digest import ABOVE
from dpaudit.reports.table import NONE, Column, Table

# Digits of a number in a report, and on a console.
_DIGITS, _SHORT = 3, 2

# Model, ε, unit, observer.
_Game = tuple[str, float, str, str]
Key = TypeVar("Key", bound=tuple[object, ...])
# The fields of measurements that have columns of their own.
_ROW = ("attack", "observer", "unit")


def tables(result: AuditResult) -> list[Table]:
    """Return the strongest attacks, utility, every attack, who is hit hardest, and the baseline."""
    shown = [
        _strongest(result),
        *utility(result),
        _group_utility(result),
        _attacks(result),
        _exposed(result),
        _blind(result),
    ]
    return [table for table in shown if table.cells]


def columns_of(result: AuditResult, model: str) -> list[Column]:
    """Return the columns of one model's strongest attacks, the most important first."""
    table = _strongest(result, _SHORT, brief=True)
    rows = [row for row in table.cells if row[0] == model]
    cells = {name: [row[at] for row in rows] for at, name in enumerate(table.header)}
    seen = [f"{unit}, {who}" for unit, who in zip(cells["target"], cells["observer"], strict=True)]
    other = {"model", "target", "observer"}
    if set(cells.get("claimed ε", ())) == {"none"}:
        other.add("claimed ε")
    first = [name for name in ("claimed ε", "certified ε") if name in cells]
    order = [name for name in (*first, *cells) if name not in other]
    return [("target, observer", seen), *((name, cells[name]) for name in dict.fromkeys(order))]


def utility(result: AuditResult) -> list[Table]:
    """Return the table of utility on held-out interactions, if it was measured."""
    caption = f"Utility on held-out interactions, lists of {columns.longest(result)}"
    table = columns.of_section(result, MODELS, caption, but=["unit"])
    return [table] if table else []


def most_exposed(result: AuditResult) -> dict[tuple[str, float, str], Measurement]:
    """Return the strongest inference of the observer who finds most, by model, ε and target.

    Of the false-positive rates it has the largest, which is the surest. Who finds most is decided
    by `sureness`.
    """
    most: dict[tuple[str, float, str], Measurement] = {}
    for rate in surest(result):
        key = rate.model, rate.epsilon, rate.unit or ""
        most[key] = max(most.get(key, rate), rate, key=sureness)
    return most


def surest(result: AuditResult) -> list[Measurement]:
    """Return the strongest attacks' true-positive rates at the largest false-positive rate.

    What the witness of a deletion finds is no failure of the model, and left out.
    """
    most = max(_rates(result), default=None)
    rates = joint(result, "attack.tpr")
    return [rate for rate in rates if rate.at == most and rate.observer != WITNESS]


def sureness(measurement: Measurement) -> tuple[float, float]:
    """Return what orders inferences by how much they surely find."""
    return measurement.estimate.lower, measurement.estimate.value


def joint(result: AuditResult, metric: str) -> list[Measurement]:
    """Return the numbers of the strongest attack."""
    return [m for m in _of(result, metric) if m.attack == STRONGEST]


def _of(result: AuditResult, metric: str) -> list[Measurement]:
    return [m for m in result.measurements if m.metric == metric and m.unit]


def _game(measurement: Measurement) -> _Game:
    unit, observer = measurement.unit or "", measurement.observer or ""
    return measurement.model, measurement.epsilon, unit, observer


def _rates(result: AuditResult) -> list[float]:
    return sorted({m.at for m in _of(result, "attack.tpr") if m.at is not None})


def _numbers(
    measurements: Iterable[Measurement], key: Callable[[Measurement], Key], *, surest: bool = False
) -> dict[Key, list[Measurement]]:
    """Return the numbers of a table by its rows, those at the lowest rate first, or at the highest.

    Certified bounds have a column of their own, and a derived number is one of the others again.
    """
    shown = [
        m
        for m in measurements
        if m.unit and entry(m.metric).section in (MODELS, ATTACKS) and not entry(m.metric).derived
    ]
    rows: dict[Key, list[Measurement]] = {}
    for m in sorted(shown, key=lambda m: (m.at or 0) * (-1 if surest else 1)):
        rows.setdefault(key(m), []).append(m)
    return rows


def _strongest(result: AuditResult, digits: int = _DIGITS, *, brief: bool = False) -> Table:
    claims = {(p.model, p.epsilon): p.claim for p in result.points}
    of_strongest = [m for m in result.measurements if m.attack == STRONGEST]
    bounds = {_game(m): m for m in of_strongest if m.metric == "epsilon"}
    at = _numbers(of_strongest, _game, surest=brief)
    games = _worst_first(result, list(dict.fromkeys(map(_game, of_strongest))))
    shown = list(
        columns.columns([at.get(game, []) for game in games], digits=digits, brief=brief, but=_ROW)
    )
    claimed = any(claims.values())
    cells, marked = [], set()
    for row, game in enumerate(games):
        claim, bound = claims.get(game[:2]), bounds.get(game)
        about = claim and bound and bound.tests(claim)
        stated = [words.epsilon(claim.epsilon) if claim and about else "none"] if claimed else []
        certified = f"≥ {rounding.at_least(bound.estimate.lower, digits)}" if bound else NONE
        if bound and claim and bound.exceeds(claim):
            certified += ABOVE
            marked.add((row, 3 + len(stated) + len(shown)))
        numbers = [column.cells[row] for column in shown]
        cells.append([game[0], *stated, game[2], game[3], *numbers, certified])
    header = ["model", *(["claimed ε"] if claimed else []), "target", "observer"]
    return Table(
        "Membership inference by the strongest attack: means and ranges of the judged trainings",
        [*header, *(column.name for column in shown), "certified ε"],
        cells,
        marked,
    )


def _worst_first(result: AuditResult, games: list[_Game]) -> list[_Game]:
    """Order the observers of each model and kind of target by what they find, the most first."""
    lower = {_game(rate): rate.estimate.lower for rate in surest(result)}
    targets = [game[:3] for game in games]
    return sorted(games, key=lambda game: (targets.index(game[:3]), -lower.get(game, 0.0)))


def _attacks(result: AuditResult) -> Table:
    others = [m for m in result.measurements if m.attack != STRONGEST]
    at = _numbers(others, lambda m: (*_game(m), m.attack))
    shown = list(columns.columns(list(at.values()), but=_ROW))
    return Table(
        "Every attack: means and ranges of the judged trainings",
        ["model", "ε", "target", "observer", "attack", *(column.name for column in shown)],
        [
            [
                model,
                words.epsilon(epsilon),
                unit,
                observer,
                attack or NONE,
                *(column.cells[row] for column in shown),
            ]
            for row, (model, epsilon, unit, observer, attack) in enumerate(at)
        ],
    )


def _group_utility(result: AuditResult) -> Table:
    """Return the nDCG of the lists of each group of users."""
    return Table(
        "nDCG of lists on held-out interactions, by group of users",
        ["model", "ε", "group", "nDCG"],
        [
            [of.model, words.epsilon(of.epsilon), of.group or NONE, words.interval(of.estimate, 3)]
            for of in columns.within(result, "group utility")
        ],
    )


def _exposed(result: AuditResult) -> Table:
    """Return quantiles of exposure, and the rates of groups."""
    # Quantiles first, then groups.
    rows = sorted(columns.within(result, "exposure"), key=lambda m: m.at is None)
    ordered = sorted(rows, key=lambda m: _order(result, m))
    return Table(
        "Who is hit hardest: how much more often a target is found when present than when absent",
        ["model", "ε", "target", "observer", "of", "found"],
        [
            [
                exposure.model,
                words.epsilon(exposure.epsilon),
                exposure.unit or NONE,
                exposure.observer or NONE,
                exposure.group or f"{words.percent(exposure.at or 0)} of targets: at most",
                words.interval(exposure.estimate, _DIGITS),
            ]
            for exposure in ordered
        ],
    )


def _blind(result: AuditResult) -> Table:
    """Return how well coins are told by what no model can tell."""
    return Table(
        "Blind baseline: AUC for the coins of what no model can tell",
        ["model", "ε", "target", "observer", "told by", "AUC"],
        [
            [
                baseline.model,
                words.epsilon(baseline.epsilon),
                baseline.unit or NONE,
                baseline.observer or NONE,
                baseline.attack or NONE,
                words.interval(baseline.estimate, _DIGITS),
            ]
            for baseline in columns.within(result, "blind baseline")
        ],
    )


def _order(result: AuditResult, exposure: Measurement) -> int:
    games = list(dict.fromkeys(map(_game, joint(result, "attack.auc"))))
    return games.index(_game(exposure)) if _game(exposure) in games else len(games)
