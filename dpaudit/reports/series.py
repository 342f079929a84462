"""The data points of the charts: plain numbers, and the texts of their tooltips."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from dpaudit.core.estimate import Estimate
from dpaudit.core.messages import plain
from dpaudit.reports import words
from dpaudit.reports.digest import MORE, Row

Datum = dict[str, Any]
ByModel = Mapping[str, list[Row]]

WITHIN = "not more than claimed"
NOTHING = "nothing certified (drawn at the edge)"
MEASURED = "measured"
UPPER = "upper bound (measured: 0)"


def accuracy(by_model: ByModel) -> list[Datum]:
    """Return the ε-Risk of every attack."""
    return [
        {
            **_place(model, row, label),
            "attack": plain(label),
            **_ends(estimate),
            "shown": estimate.value,
        }
        for model, row in _each(by_model)
        for label, estimate in row.accuracy.items()
    ]


def difference(by_model: ByModel) -> list[Datum]:
    """Return the lost share of the list. A measured zero is drawn as its upper bound."""
    found = []
    for model, row in _each(by_model):
        if row.difference:
            datum = {**_place(model, row), **_ends(row.difference)}
            zero = row.difference.value <= 0
            found.append(
                {
                    **datum,
                    "shown": datum["upper"] if zero else datum["value"],
                    "drawn": UPPER if zero else MEASURED,
                }
            )
    # A logarithmic axis cannot show 0, so intervals that reach 0 are cut at the edge.
    edge = _edge([datum["shown"] for datum in found])
    return [{**datum, "lower": max(datum["lower"], edge)} for datum in found]


def rmse(by_model: ByModel) -> list[Datum]:
    """Return the error on held-out ratings."""
    return [
        {**_place(model, row), **_ends(row.rmse), "shown": row.rmse.value}
        for model, row in _each(by_model)
        if row.rmse
    ]


def convergence(by_model: ByModel) -> list[Datum]:
    """Return the divergence of chains; zeros are drawn at the edges of the logarithmic axes."""
    found = [
        {
            **_place(model, row, states),
            "states": states,
            "step": step,
            "value": estimate.value,
            "words": words.measured(estimate.value),
        }
        for model, row in _each(by_model)
        for states, steps in row.divergence.items()
        for step, estimate in steps.items()
    ]
    start = _edge([datum["step"] for datum in found])
    floor = _edge([datum["value"] for datum in found])
    return [
        {**datum, "x": max(datum["step"], start), "shown": max(datum["value"], floor)}
        for datum in found
    ]


def certified(by_model: ByModel) -> list[Datum]:
    """Return the certified and the claimed ε; a certified zero is drawn at the edge."""
    found: list[Datum] = []
    for model, row in _each(by_model):
        claim = row.point.claim
        if claim is None or claim.epsilon == math.inf:
            continue
        for pair, game in row.games.items():
            if not game.tests(claim):
                continue
            lower, control = game.estimate.lower, game.control
            shown = control is not None and control.found and not row.exceeds(pair)
            found.append(
                {
                    **_place(model, row),
                    "pair": plain(pair),
                    "claimed": claim.epsilon,
                    "lower": lower,
                    "bound": f"≥ {words.at_least(lower)}",
                    "mutant": control.factor * claim.epsilon if control and shown else None,
                    "power": row.power(pair) or "–",
                    "verdict": _verdict(row, pair, lower),
                }
            )
    ends = [datum["lower"] for datum in found] + [datum["claimed"] for datum in found]
    edge = _edge(ends)
    return [{**datum, "shown": max(datum["lower"], edge)} for datum in found]


def _verdict(row: Row, pair: str, lower: float) -> str:
    if row.exceeds(pair):
        return MORE
    return WITHIN if lower > 0 else NOTHING


def tradeoff(by_model: ByModel) -> list[Datum]:
    """Return ε-Risk and ε-Utility; `rank` orders the ε, `strongest` marks the largest risk."""
    found: list[Datum] = []
    for model, here in by_model.items():
        for rank, row in enumerate(here):
            if row.overlap is None:
                continue
            found.extend(
                {
                    **_place(model, row),
                    "rank": rank,
                    "attack": plain(label),
                    "utility": row.overlap.value,
                    "utility_words": words.interval(row.overlap),
                    "risk": estimate.value,
                    "risk_words": words.interval(estimate),
                    "strongest": label == row.strongest,
                }
                for label, estimate in row.accuracy.items()
            )
    return found


def _each(by_model: ByModel) -> Iterator[tuple[str, Row]]:
    for model, here in by_model.items():
        for row in here:
            yield model, row


def _place(model: str, row: Row, *labels: str) -> Datum:
    """Return model, ε and name of a point; an infinite ε is None, as JSON and log axes lack it."""
    epsilon = row.point.epsilon
    return {
        "model": plain(model),
        "epsilon": epsilon if math.isfinite(epsilon) else None,
        "at": words.epsilon(epsilon),
        "name": plain(", ".join([model, *labels, f"ε = {words.epsilon(epsilon)}"])),
    }


def _ends(estimate: Estimate) -> Datum:
    return {
        "value": estimate.value,
        "lower": estimate.lower,
        "upper": estimate.upper,
        "words": words.interval(estimate),
        "trials": estimate.n,
    }


def _edge(values: list[float]) -> float:
    """Return the lower end of a logarithmic axis that shows these values."""
    return min((value for value in values if value > 0), default=1.0) / 2
