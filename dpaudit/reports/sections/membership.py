"""Tables and sentences on membership inference: whose data were used for training."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from dpaudit.core import rounding
from dpaudit.record.metric import ATTACKS, MODELS
from dpaudit.record.metrics import entry
from dpaudit.record.result import STRONGEST, AuditResult, Measurement
from dpaudit.reports import columns, words
from dpaudit.reports.table import NONE, Table

# Digits of a number in a report, and on a console.
_DIGITS, _SHORT = 3, 2
# The end of a bound that breaks its claim.
BROKEN = " > claim"

# Model, ε, unit, observer.
_Game = tuple[str, float, str, str]
Key = TypeVar("Key", bound=tuple[object, ...])
# The fields of measurements that have columns of their own.
_ROW = ("attack", "observer", "unit")


def audited(result: AuditResult) -> bool:
    """Return whether the record is of a membership audit."""
    # If no training ends with a model, nothing is measured.
    asked = isinstance(result.config.get("membership"), dict)
    return asked or any(found.unit for found in result.measurements)


def targets(result: AuditResult) -> str:
    """Return the number of targets of each unit, e.g. `60 interactions and 40 users`."""
    config = result.config.get("membership")
    if not isinstance(config, dict):
        return NONE
    units = dict.fromkeys(found.unit for found in result.measurements if found.unit)
    return " and ".join(f"{config.get(f'{unit}s', NONE)} {unit}s" for unit in units)


def tables(result: AuditResult) -> list[Table]:
    """Return the strongest attacks, utility, every attack, and who is hit hardest."""
    if not audited(result):
        return []
    made = [_strongest(result), *utility(result), _attacks(result), _exposed(result)]
    return [table for table in made if table.cells]


def columns_of(result: AuditResult, model: str) -> list[tuple[str, list[str]]]:
    """Return the columns of one model's strongest attacks, the most important first."""
    found = _strongest(result, _SHORT, brief=True)
    rows = [row for row in found.cells if row[0] == model]
    place = {name: [row[at] for row in rows] for at, name in enumerate(found.header)}
    seen = [f"{unit}, {who}" for unit, who in zip(place["target"], place["observer"], strict=True)]
    other = {"model", "target", "observer"}
    if set(place.get("claimed ε", ())) == {"none"}:
        other.add("claimed ε")
    first = [name for name in ("claimed ε", "certified ε") if name in place]
    order = [name for name in (*first, *place) if name not in other]
    return [("target, observer", seen), *((name, place[name]) for name in dict.fromkeys(order))]


def utility(result: AuditResult) -> list[Table]:
    """Return the table of utility on held-out interactions, if it was measured."""
    caption = f"Utility on held-out interactions, lists of {columns.longest(result)}"
    found = columns.of_section(result, MODELS, caption, but=["unit"])
    return [found] if found and audited(result) else []


def most_exposed(result: AuditResult) -> dict[tuple[str, float, str], Measurement]:
    """Return the strongest inference of the observer who finds most, by model, ε and target.

    Of the false-positive rates it has the largest, which is the surest. Who finds most is decided
    by `sureness`.
    """
    rates = _rates(result)
    most: dict[tuple[str, float, str], Measurement] = {}
    for each in joint(result, "attack.tpr"):
        if each.at == rates[-1]:
            key = each.model, each.epsilon, each.unit or ""
            most[key] = max(most.get(key, each), each, key=sureness)
    return most


def sureness(found: Measurement) -> tuple[float, float]:
    """Return what orders inferences by how much they surely find."""
    return found.estimate.lower, found.estimate.value


def note(result: AuditResult) -> list[str]:
    """Return the notes that explain the tables."""
    if not audited(result):
        return []
    return [
        "Membership: in every training a coin decides for each target whether it is in the data. "
        "One half of the trainings calibrates the attacks and chooses the strongest by each "
        "number; the other half judges it. Intervals take the training as the sample, because "
        "targets of one training depend on each other.",
        "TPR at 1 % FPR is the share of the present targets that score above all but 1 % of the "
        "absent ones. AUC is the probability that a present target scores above an absent one: "
        "0.5 is chance. The advantage is the true- minus the false-positive rate at a threshold "
        "set beforehand: 0 is chance, and balanced accuracy is a half plus a half of it.",
        "The certified ε counts right guesses of the coins; it holds whatever the dependence "
        "between targets. A claim is compared with it only if it is about the same target and "
        "observer.",
        "The attacker knows all data but the targets' coins, and can train the model on data like "
        "these. Exposures by group say who is hit hardest; they name nobody.",
    ]


def joint(result: AuditResult, metric: str) -> list[Measurement]:
    """Return the numbers of the strongest attack."""
    return [found for found in _of(result, metric) if found.attack == STRONGEST]


def _of(result: AuditResult, metric: str) -> list[Measurement]:
    return [found for found in result.measurements if found.metric == metric and found.unit]


def _game(found: Measurement) -> _Game:
    return found.model, found.epsilon, found.unit or "", found.observer or ""


def _rates(result: AuditResult) -> list[float]:
    return sorted({found.at for found in _of(result, "attack.tpr") if found.at is not None})


def _numbers(
    found: Iterable[Measurement], key: Callable[[Measurement], Key], *, surest: bool = False
) -> dict[Key, list[Measurement]]:
    """Return the numbers of a table by its rows, those at the lowest rate first, or at the highest.

    Certified bounds have a column of their own, and a derived number is one of the others again.
    """
    shown = [
        each
        for each in found
        if each.unit
        and entry(each.metric).section in (MODELS, ATTACKS)
        and not entry(each.metric).derived
    ]
    rows: dict[Key, list[Measurement]] = {}
    for each in sorted(shown, key=lambda each: (each.at or 0) * (-1 if surest else 1)):
        rows.setdefault(key(each), []).append(each)
    return rows


def _strongest(result: AuditResult, digits: int = _DIGITS, *, brief: bool = False) -> Table:
    claims = {(p.model, p.epsilon): p.claim for p in result.points}
    of_strongest = [each for each in result.measurements if each.attack == STRONGEST]
    bounds = {_game(each): each for each in of_strongest if each.metric == "epsilon"}
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
        said = [words.epsilon(claim.epsilon) if claim and about else "none"] if claimed else []
        certified = f"≥ {rounding.at_least(bound.estimate.lower, digits)}" if bound else NONE
        if bound and claim and bound.exceeds(claim):
            certified += BROKEN
            marked.add((row, 3 + len(said) + len(shown)))
        numbers = [column.cells[row] for column in shown]
        cells.append([game[0], *said, game[2], game[3], *numbers, certified])
    header = ["model", *(["claimed ε"] if claimed else []), "target", "observer"]
    return Table(
        "Membership inference by the strongest attack",
        [*header, *(column.name for column in shown), "certified ε"],
        cells,
        marked,
    )


def _worst_first(result: AuditResult, games: list[_Game]) -> list[_Game]:
    """Order the observers of each model and kind of target by what they find, the most first."""
    rates = _rates(result)
    found = {
        _game(each): each.estimate.lower
        for each in joint(result, "attack.tpr")
        if each.at == rates[-1]
    }
    targets = [game[:3] for game in games]
    return sorted(games, key=lambda game: (targets.index(game[:3]), -found.get(game, 0.0)))


def _attacks(result: AuditResult) -> Table:
    others = [each for each in result.measurements if each.attack != STRONGEST]
    at = _numbers(others, lambda each: (*_game(each), each.attack))
    shown = list(columns.columns(list(at.values()), but=_ROW))
    return Table(
        "Every attack; where it is the strongest, its interval is the joint one",
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


def _exposed(result: AuditResult) -> Table:
    """Return quantiles of exposure, and the rates of groups."""
    # Quantiles first, then groups.
    rows = sorted(columns.within(result, "exposure"), key=lambda each: each.at is None)
    ordered = sorted(rows, key=lambda each: _order(result, each))
    return Table(
        "Who is hit hardest: how much more often a target is found when present than when absent",
        ["model", "ε", "target", "observer", "of", "found"],
        [
            [
                each.model,
                words.epsilon(each.epsilon),
                each.unit or NONE,
                each.observer or NONE,
                each.group or f"{words.percent(each.at or 0)} of targets: at most",
                words.interval(each.estimate, _DIGITS),
            ]
            for each in ordered
        ],
    )


def _order(result: AuditResult, found: Measurement) -> int:
    games = list(dict.fromkeys(_game(each) for each in joint(result, "attack.auc")))
    return games.index(_game(found)) if _game(found) in games else len(games)
