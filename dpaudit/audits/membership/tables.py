"""Tables and charts of membership inference: whose data were used for training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from dpaudit.core import membership, rounding
from dpaudit.core.messages import plain
from dpaudit.record.metric import ATTACKS, MODELS
from dpaudit.record.metrics import entry
from dpaudit.record.result import STRONGEST, AuditResult, Measurement
from dpaudit.reports import chart_parts as parts
from dpaudit.reports import columns, digest, vega, words
from dpaudit.reports.chart_parts import Axis, Chart, Datum, Label, Look
from dpaudit.reports.sections.charts import roc_chart, roc_points
from dpaudit.reports.table import NONE, Column, Table

# Digits of a number in a report, and on a console.
_DIGITS, _SHORT = 3, 2

# Model, ε, unit, observer.
_Game = tuple[str, float, str, str]
Key = TypeVar("Key", bound=tuple[object, ...])
# The fields of measurements that have columns of their own.
_ROW = ("attack", "observer", "unit")
_AGAINST = {
    "series": "model",
    "seen": "target, observer",
    "utility_words": "nDCG",
    "words": "true-positive rate",
    "certified": "certified ε",
}
_EXPOSED = {"series": "model, target, observer", "group": "group", "words": "found"}
_PITCH = 26  # from one row to the next, in pixels


def tables(result: AuditResult) -> list[Table]:
    """Return the strongest attacks, utility, every attack, who is hit hardest, and baselines."""
    shown = [
        _strongest(result),
        *utility(result),
        _group_utility(result),
        _attacks(result),
        _planted(result),
        _learning(result),
        _exposed(result),
        _reconstructed(result),
        _blind(result),
    ]
    return [*filter(None, shown)]


def columns_of(result: AuditResult, model: str) -> list[Column]:
    """Return the columns of one model's strongest attacks, the most important first."""
    cells = dict(_strongest(result, _SHORT, brief=True).columns(model))
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
    asked = (m.at for m in _of(result, "attack.tpr") if m.at is not None)
    most = max(asked, default=None)
    rates = joint(result, "attack.tpr")
    return [rate for rate in rates if rate.at == most and rate.observer != membership.WITNESS]


def sureness(measurement: Measurement) -> tuple[float, float]:
    """Return what orders inferences by how much they surely find."""
    return measurement.estimate.lower, measurement.estimate.value


def joint(result: AuditResult, metric: str) -> list[Measurement]:
    """Return the numbers of the strongest attack."""
    return [m for m in _of(result, metric) if m.attack == STRONGEST]


def _of(result: AuditResult, metric: str) -> list[Measurement]:
    return [m for m in result.measurements if m.metric == metric and m.unit]


def game_of(measurement: Measurement) -> _Game:
    """Return the game of a number: its model, ε, target and observer."""
    unit, observer = measurement.unit or "", measurement.observer or ""
    return measurement.model, measurement.epsilon, unit, observer


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
    claims = digest.claims(result)
    of_strongest = [m for m in result.measurements if m.attack == STRONGEST]
    bounds = {game_of(m): m for m in of_strongest if m.metric == "epsilon"}
    at = _numbers(of_strongest, game_of, surest=brief)
    # The observers of each model and kind of target, those who find most first.
    lower = {game_of(rate): rate.estimate.lower for rate in surest(result)}
    games = list(dict.fromkeys(map(game_of, of_strongest)))
    targets = list(dict.fromkeys(game[:3] for game in games))
    games.sort(key=lambda game: (targets.index(game[:3]), -lower.get(game, 0.0)))
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
            certified += digest.ABOVE
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


def _attacks(result: AuditResult) -> Table:
    others = [m for m in result.measurements if m.attack != STRONGEST]
    at = _numbers(others, lambda m: (*game_of(m), m.attack or NONE))
    shown = list(columns.columns(list(at.values()), but=_ROW))
    return Table(
        "Every attack: means and ranges of the judged trainings",
        ["model", "ε", "target", "observer", "attack", *(column.name for column in shown)],
        [
            [model, words.epsilon(epsilon), *names, *(column.cells[row] for column in shown)]
            for row, (model, epsilon, *names) in enumerate(at)
        ],
    )


def _planted(result: AuditResult) -> Table | None:
    """Return what the rules of gates say of planted leaks, if any were planted."""
    cells = [
        [
            m.place, entry(m.metric).quantity, words.number(one.limit), words.number(one.leak),
            "all a little" if one.form == "all" else "few far", words.number(one.shown),
            f"{one.caught} of {one.runs}" if one.runs else "not planted",
        ]
        for m in result.measurements if not m.described.derived
        for one in m.planted
    ]  # fmt: skip
    header = ["number", "of", "limit", "planted", "moves", "found", "caught"]
    return (
        Table("Planted leaks: what the gate's own rule catches", header, cells) if cells else None
    )


def _learning(result: AuditResult) -> Table | None:
    """Return what the attacks find of the same judged trainings with fewer of their own."""
    cells = [
        [
            m.place, entry(m.metric).quantity, str(step.calibrating), words.number(step.value),
            words.number(step.gain) if place else NONE,
        ]
        for m in result.measurements if not m.described.derived
        for place, step in enumerate(m.learning)
    ]  # fmt: skip
    header = ["number", "of", "calibrating trainings", "found", "gain"]
    return (
        Table("Learning curve: found with fewer trainings of their own", header, cells)
        if cells
        else None
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
    games = list(dict.fromkeys(map(game_of, joint(result, "attack.auc"))))
    place = {game: at for at, game in enumerate(games)}
    # Quantiles first, then groups.
    exposures = sorted(
        columns.within(result, "exposure"),
        key=lambda m: (place.get(game_of(m), len(games)), m.at is None),
    )
    return _placed(
        "Who is hit hardest: how much more often a target is found when present than when absent",
        exposures,
        ("of", lambda m: m.group or f"{words.percent(m.at or 0)} of targets: at most"),
        "found",
    )


def _reconstructed(result: AuditResult) -> Table:
    """Return the shares of hidden interactions that published factors tell."""
    return _placed(
        "Reconstructed from published factors and known interactions: share of hidden ones listed",
        columns.within(result, "reconstruction"),
        ("from, of", lambda m: f"{m.attack}: {m.group or 'the difference'}"),
        "share",
    )


def _blind(result: AuditResult) -> Table:
    """Return how well coins are told by what remembers no target."""
    return _placed(
        "Blind baseline: AUC for the coins of what remembers no target",
        columns.within(result, "blind baseline"),
        ("told by", lambda m: m.attack or NONE),
        "AUC",
    )


def _placed(
    caption: str,
    numbers: Iterable[Measurement],
    of: tuple[str, Callable[[Measurement], str]],
    title: str,
) -> Table:
    """Return a table of numbers, each with its game and with what it is `of`."""
    name, in_words = of
    cells = [
        [
            m.model, words.epsilon(m.epsilon), m.unit or NONE, m.observer or NONE,
            in_words(m), words.interval(m.estimate, _DIGITS),
        ]
        for m in numbers
    ]  # fmt: skip
    return Table(caption, ["model", "ε", "target", "observer", name, title], cells)


def curves(result: AuditResult, look: Look) -> Chart | None:
    """Return the true-positive rate of the strongest attack against the false-positive rate.

    Where the table has a rate, the chart has the number and the range of the table.
    """
    rates = [*digest.of(result, "membership.roc"), *joint(result, "attack.tpr")]
    at = {(*game_of(rate), rate.at): rate for rate in rates}
    curves = sorted(at.values(), key=lambda rate: rate.at or 0)
    several = _swept((rate.model, rate.epsilon) for rate in curves)
    data = [
        {**_named(rate, several), "found by": plain(rate.event or rate.attack or ""), **position}
        for rate, position in roc_points(curves)
    ]
    if not data:
        return None
    return roc_chart(
        "membership",
        "Whose data an attacker can tell were used for training",
        "The true-positive rate of the attack that is strongest at each false-positive rate, both "
        "axes logarithmic. The dashed line is a guess. At the left are the targets that an "
        "attacker is almost sure of. A band is the range or interval of each rate by itself, which "
        "the table has.",
        data,
        {"series": "model, target, observer", "found by": "attack"},
        look,
        by="target",
        label="label",
    )


def _swept(points: Iterable[tuple[str, float]]) -> bool:
    """Return whether a model is at several ε."""
    distinct = set(points)
    return len(distinct) > len({model for model, _ in distinct})


def _at(measurement: Measurement, *, several: bool) -> str:
    """Return model and ε, if models have several."""
    finite = several and math.isfinite(measurement.epsilon)
    at = f", ε = {words.epsilon(measurement.epsilon)}" if finite else ""
    return plain(f"{measurement.model}{at}")


def _named(rate: Measurement, several: bool) -> Datum:
    """Return the series of a number, with its colour by the model and its dash by the observer."""
    model = _at(rate, several=several)
    series = plain(f"{model}, {rate.unit}, {rate.observer}")
    return {
        "series": series,
        "name": series,
        "model": plain(rate.model),
        "attack": rate.observer,
        "target": f"target: {rate.unit}",
        "label": plain(f"{model}, {rate.observer}"),
    }


def against_utility(result: AuditResult, look: Look) -> Chart | None:
    """Return what the best placed observer finds against utility, one point a model and ε."""
    data = _points(result)
    if not data:
        return None
    rate = data[0]["rate"]
    popular = sorted({one.estimate.value for one in digest.of(result, "utility.popular")})[:1]
    served = parts.covered(data, "utility", "utility_lower", "utility_upper")
    x = Axis.around("nDCG on held-out interactions", [*served, *popular])
    y = Axis("true-positive rate", 0, 1)
    return Chart(
        "utility",
        "What a model leaks for its utility",
        f"The true-positive rate at {words.percent(rate)} false positives of the strongest attack "
        "of the best placed observer, against nDCG on held-out interactions; bars are ranges over "
        "the judged trainings. Models further right serve better; those further up leak more. The "
        "dashed lines are a guess and the nDCG of the most popular items.",
        parts.extremes("true-positive rate", data),
        parts.panels(data, "target", lambda points: _utility_spec(points, popular, look, x, y)),
        parts.numbers(_AGAINST, data),
    )


def _utility_spec(
    data: list[Datum], popular: Sequence[float], look: Look, x: Axis, y: Axis
) -> dict[str, Any]:
    series = parts.foremost(look.series(data, "value"), data)
    colors = {line.name: line.color for line in series}
    rate = data[0]["rate"]
    named, rows = parts.labels(
        [
            Label(
                datum["series"],
                y.share(datum["value"]) + parts.ABOVE,
                colors[datum["series"]],
                x.share(datum["utility"]),
            )
            for datum in data
        ]
        + [Label(f"guess ({words.percent(rate)})", y.share(rate))]
        + [Label("most popular items", 1.0, x=x.share(utility)) for utility in popular]
    )
    base = parts.drawn_from("points").encode(
        x=x.x("utility"), y=y.y("value"), color=parts.color(series)
    )
    layers = [
        parts.dashed("guess", x=x.x("low"), x2="high", y=y.y("rate")),
        parts.dashed("popular", x=x.x("utility")),
        base.mark_rule(strokeWidth=1.5).encode(y=y.y("lower"), y2="upper"),
        base.mark_rule(strokeWidth=1.5).encode(x=x.x("utility_lower"), x2="utility_upper"),
        base.mark_point(filled=True, size=90, opacity=1),
        *named,
    ]
    guess = [{"low": x.low, "high": x.high, "rate": rate}]
    reference = [{"utility": utility} for utility in popular]
    return parts.spec(layers, points=data, guess=guess, popular=reference, labels=rows)


def exposed(result: AuditResult, look: Look) -> Chart | None:
    """Return how much more often groups are found, by the observer who finds most of a model."""
    worst = most_exposed(result).values()
    games = set(map(game_of, worst))
    several = _swept((rate.model, rate.epsilon) for rate in worst)
    data = [
        {
            **_named(group, several),
            "row": f"{group.group}, {_at(group, several=several)}"
            if len(result.points) > 1
            else group.group,
            "group": group.group,
            "seen": group.observer,
            **parts.ends(group.estimate),
        }
        for group in digest.of(result, "membership.group")
        if game_of(group) in games
    ]
    if not data:
        return None
    data = [{**datum, "name": f"{datum['group']}, {datum['name']}"} for datum in data]
    ends = parts.covered(data, "value", "lower", "upper")
    x = Axis.around("found when present, less found when absent", [0.0, *ends])
    return Chart(
        "exposed",
        "Who is exposed",
        "How much more often the targets of a group are found when they are in the training data "
        "than when they are not, by the best placed observer of each model; bars are ranges over "
        "the judged trainings. 0 is a guess. Groups are the thirds of the targets with the most "
        "and the fewest interactions, and those that membership.groups names.",
        parts.extremes("difference", data),
        parts.panels(data, "target", lambda points: _exposed_spec(points, look, x)),
        parts.numbers(_EXPOSED, data),
    )


def _exposed_spec(data: list[Datum], look: Look, x: Axis) -> dict[str, Any]:
    data = sorted(data, key=lambda datum: -datum["value"])
    rows = list(dict.fromkeys(datum["row"] for datum in data))
    color = parts.color(look.series(data, "value"))
    title = vega.Y("row:N", sort=rows, title=None, axis=vega.Axis(ticks=False, domain=False))
    base = parts.drawn_from("points").encode(x=x.x("value"), y=title, color=color)
    layers = [
        parts.dashed("guess", x=x.x("value")),
        base.mark_rule(strokeWidth=1.5).encode(x=x.x("lower"), x2="upper"),
        base.mark_point(filled=True, size=90, opacity=1),
    ]
    size = parts.SIZE[0], _PITCH * len(rows)
    return parts.spec(layers, size, points=data, guess=[{"value": 0}])


def _points(result: AuditResult) -> list[Datum]:
    utility = {(m.model, m.epsilon): m.estimate for m in digest.of(result, "utility.ndcg")}
    bounds = {game_of(game): game.estimate.lower for game in digest.of(result, "epsilon")}
    worst = {key: rate for key, rate in most_exposed(result).items() if key[:2] in utility}
    several = _swept(key[:2] for key in worst)
    points = []
    for (model, epsilon, unit), game in worst.items():
        served = utility[model, epsilon]
        series = _at(game, several=several)
        bound = bounds.get(game_of(game))
        points.append(
            {
                "series": series,
                "model": plain(model),
                "name": f"{series}, {unit}",
                "target": f"target: {unit}",
                "seen": f"{unit}, {game.observer}",
                "rate": game.at,
                **parts.ends(game.estimate),
                "utility": served.value,
                "utility_lower": served.lower,
                "utility_upper": served.upper,
                "utility_words": words.interval(served),
                "certified": "–" if bound is None else f"≥ {rounding.at_least(bound)}",
            }
        )
    return points
