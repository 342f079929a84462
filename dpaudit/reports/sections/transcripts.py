"""What the submissions of federated trainings give away, as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpaudit.core.estimate import Estimate
from dpaudit.record.result import WHOLE, AuditResult, Measurement
from dpaudit.reports import words
from dpaudit.reports.table import NONE, Table

Key = tuple[str, float]

# What stands in a column: the metric, what it is about, its level.
_Column = tuple[str, str | None, float | None]
_ORDER = ("tpr", "power", "exposed", "false", "auc")
# What the table of divergences calls its parts, and their names in the record.
_PARTS = {
    "users' gradients apart from their mean": "scatter",
    "mean apart from the fake": "apart",
    "the mean's delay": "delay",
    "noise in the estimated mean": "estimate",
}


def found_in(result: AuditResult, metric: str) -> list[Measurement]:
    """What was measured of a metric."""
    return [found for found in result.measurements if found.metric == metric]


def tables(result: AuditResult) -> list[Table]:
    """Areas by attack, then what each attack finds of each model, divergences, and rounds."""
    areas = found_in(result, "transcript.auc")
    if not areas:
        return []
    last = {key: max(m.step or 0 for m in areas if _key(m) == key) for key in _keys(areas)}
    # These know what no server does.
    ideal = {label for label, part in result.attacks.items() if part.get("knows") == "gradient"}
    found = [_areas(areas, last), _rounds(areas, ideal)]
    found += [_details(result, key, last[key]) for key in last]
    return [*found, _divergences(found_in(result, "transcript.kl"), last)]


def games(result: AuditResult) -> Table | None:
    """The divergence that the games saw, by estimator."""
    found = found_in(result, "game.kl")
    if not found:
        return None
    names = list(dict.fromkeys(m.detail or "" for m in found))
    rows = list(dict.fromkeys((*_key(m), m.pair or "") for m in found))
    cells = []
    for model, epsilon, pair in rows:
        here = {m.detail: m.estimate for m in found if (*_key(m), m.pair) == (model, epsilon, pair)}
        cells.append(
            [model, words.epsilon(epsilon), pair, *(_interval(here.get(name)) for name in names)]
        )
    return Table(
        "Divergence of what the games saw in D' from what they saw in D, in nats",
        ["model", "ε", "pair", *names],
        cells,
    )


def note(result: AuditResult) -> list[str]:
    """How to read the tables."""
    if not found_in(result, "transcript.auc"):
        return []
    return [
        "Area: how often an attacker gives a pair of a user and an item that she rated a higher "
        "score than one for which she submits fakes; 0.5 is a guess, and an area below it tells as "
        "much when read the other way round. A gradient-ratio that knows the gradient knows it "
        "without its noise, which no server does: no test of one pair's submissions is more "
        "powerful. All others use what the server has; what it knows before any round "
        "(popularity) comes on top. Every interval of a transcript stands for itself, is "
        "about users like these, takes them for independent, and gates nothing; a gate on "
        "attack.auc is judged by the spread of the areas over trainings on these very data.",
        "Of all tests together, those that the correction of Benjamini and Hochberg calls real "
        "hold at most 5 % fakes on average, those of Holm any fake with at most 5 % probability. "
        "Fakes among those found are a mean over trainings that found any, and may be more. Where "
        "an attacker's law of fakes does not hold, he has no tests. The largest area after so many "
        "rounds is that of the luckiest of several attacks: near 0.5 it is chance.",
        "The divergence of real submissions from fakes is Σ ‖g − F‖²/(2σ²) over rounds, a mean "
        "over real pairs. What one F for all users cannot take away is how far their gradients are "
        "from their mean; F is as far from that mean as its delay and the noise in its estimate "
        "make it.",
    ]


def _key(found: Measurement) -> Key:
    return found.model, found.epsilon


def _keys(found: Iterable[Measurement]) -> list[Key]:
    return list(dict.fromkeys(_key(m) for m in found))


def _name(key: Key) -> str:
    return f"{key[0]}, ε = {words.epsilon(key[1])}"


def _interval(estimate: Estimate | None) -> str:
    return words.interval(estimate) if estimate else NONE


def _attacks(found: Iterable[Measurement]) -> list[str]:
    return list(dict.fromkeys(m.attack or "" for m in found))


def _areas(areas: Sequence[Measurement], last: dict[Key, int]) -> Table:
    at = {
        (_key(m), m.attack): m.estimate
        for m in areas
        if m.detail is None and m.step == last[_key(m)]
    }
    return Table(
        "Real submissions told from fakes after the last round: area under the curve, by attack",
        ["attack", *(_name(key) for key in last)],
        [[name, *(_interval(at.get((key, name))) for key in last)] for name in _attacks(areas)],
    )


def _rounds(areas: Sequence[Measurement], ideal: set[str]) -> Table:
    """How fast the server's best attack gets there."""
    steps = sorted({m.step or 0 for m in areas})
    cells = []
    for key in _keys(areas):
        here = [m for m in areas if _key(m) == key and m.detail is None and m.attack not in ideal]
        at = {
            step: max((m for m in here if m.step == step), key=_value, default=None)
            for step in steps
        }
        cells.append(
            [
                _name(key),
                *(
                    f"{words.measured(best.estimate.value)} {best.attack}" if best else NONE
                    for best in at.values()
                ),
            ]
        )
    return Table(
        "How fast items are exposed: the largest area that a server reaches in so many rounds",
        ["model", *(str(step) for step in steps)],
        cells,
    )


def _value(found: Measurement) -> float:
    return found.estimate.value


def _details(result: AuditResult, key: Key, step: int) -> Table:
    """What each attack finds, and of which items."""
    cells: dict[str, dict[_Column, Estimate]] = {}
    for m in result.measurements:
        what = m.metric.removeprefix("transcript.")
        if what not in _ORDER or _key(m) != key or m.step != step or not m.attack:
            continue
        here = cells.setdefault(m.attack, {})
        if (what, m.detail) != ("auc", None):
            here[what, m.detail, m.at] = m.estimate
    columns = list(dict.fromkeys(column for here in cells.values() for column in here))
    columns.sort(key=lambda column: _ORDER.index(column[0]))
    return Table(
        f"{_name(key)}: what each attack finds after {step} rounds",
        ["attack", *(_header(*column) for column in columns)],
        [
            [attack, *(_interval(here.get(column)) for column in columns)]
            for attack, here in cells.items()
        ],
    )


def _header(what: str, states: str | None, at: float | None) -> str:
    level = words.percent(at) if at is not None else ""
    match what:
        case "tpr":
            return f"found at {level} false positives"
        case "power":
            return f"{states} pairs that single tests at {level} call real"
        case "exposed":
            return f"found, {states} at {level}"
        case "false":
            return f"fakes among these, {states}"
    return f"area, {states}"


def _divergences(found: Sequence[Measurement], last: dict[Key, int]) -> Table:
    cells = []
    for key, step in last.items():
        at = {m.detail: m.estimate for m in found if _key(m) == key and m.step == step}
        shown = [
            _interval(at.get(WHOLE)),
            *(words.measured(at[name].value) if name in at else NONE for name in _PARTS.values()),
        ]
        cells.append([_name(key), str(step), *shown])
    return Table(
        "Divergence of a real item's submissions from fakes, in nats, and what it consists of",
        ["model", "rounds", WHOLE, *_PARTS],
        cells,
    )
