"""The data points of the charts: plain numbers, and their texts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpaudit.bounds.frequentist.labels import most_certified
from dpaudit.core import rounding
from dpaudit.core.estimate import Estimate
from dpaudit.core.messages import plain
from dpaudit.record.result import ClaimRecord, Measurement
from dpaudit.reports import words
from dpaudit.reports.digest import MORE, Row

Datum = dict[str, Any]
ByModel = Mapping[str, list[Row]]

WITHIN = "not more than claimed"
NOTHING = "nothing certified (drawn at the edge)"
NO_POWER = "not more than claimed, by a game that finds no mutant"


def accuracy(by_model: ByModel) -> list[Datum]:
    """Return the ε-Risk of every attack."""
    return [
        {**position(model, row, label), **ends(estimate), "attack": plain(label)}
        for model, row in by_point(by_model)
        for label, estimate in row.accuracy.items()
    ]


def rmse(by_model: ByModel) -> list[Datum]:
    """Return the error on held-out ratings."""
    return [
        {**position(model, row), **ends(error)}
        for model, row in by_point(by_model)
        if (error := row.one("utility.rmse"))
    ]


def certified(by_model: ByModel) -> list[Datum]:
    """Return the certified and the claimed ε; a certified zero is drawn at the edge."""
    data: list[Datum] = []
    for model, row in by_point(by_model):
        claim = row.point.claim
        if claim is None or claim.epsilon == math.inf:
            continue
        for pair, game in row.games.items():
            if not game.tests(claim):
                continue
            lower, control = game.estimate.lower, game.control
            shown = control is not None and control.found and not row.exceeds(pair)
            data.append(
                {
                    **position(model, row, pair),
                    "attack": plain(pair),
                    "claimed": claim.epsilon,
                    "lower": lower,
                    "multiple": lower / claim.epsilon,
                    "value": lower,
                    "words": f"≥ {rounding.at_least(lower)}",
                    "mutant": control.factor * claim.epsilon if control and shown else None,
                    "power": row.power(pair) or "–",
                    "most": _most(game, claim),
                    "verdict": _verdict(row, pair),
                }
            )
    least = edge([datum[end] for datum in data for end in ("lower", "claimed")])
    return [{**datum, "y": max(datum["lower"], least)} for datum in data]


def _most(game: Measurement, claim: ClaimRecord) -> float | None:
    """Return the largest ε that the game's trials can certify; None if that is not known."""
    bound = game.estimate
    if bound.kind != "frequentist" or bound.n == 0:
        return None
    most = most_certified(bound.n, delta=claim.delta, alpha=bound.alpha)
    return most if most > bound.lower else None


def _verdict(row: Row, pair: str) -> str:
    game = row.games[pair]
    if row.exceeds(pair):
        return MORE
    if game.control is None or not game.control.found:
        return NO_POWER
    return WITHIN if game.estimate.lower > 0 else NOTHING


def by_point(by_model: ByModel) -> Iterator[tuple[str, Row]]:
    """Yield the rows of all models, each with its model."""
    for model, sweep in by_model.items():
        for row in sweep:
            yield model, row


def position(model: str, row: Row, *labels: str) -> Datum:
    """Return model, ε and name of a point; an infinite ε is None, as JSON and log axes lack it."""
    epsilon = row.point.epsilon
    series = plain(", ".join([model, *labels]))
    return {
        "series": series,
        "model": plain(model),
        "x": epsilon if math.isfinite(epsilon) else None,
        "at": words.epsilon(epsilon),
        "name": f"{series}, ε = {words.epsilon(epsilon)}",
    }


def ends(estimate: Estimate) -> Datum:
    """Return a value with its interval and its words."""
    return {
        "value": estimate.value,
        "y": estimate.value,
        "lower": estimate.lower,
        "upper": estimate.upper,
        "words": words.interval(estimate),
        "trials": estimate.n,
    }


def edge(values: Sequence[float]) -> float:
    """Return the lower end of a logarithmic axis that shows these values."""
    return min((value for value in values if value > 0), default=1.0) / 2
