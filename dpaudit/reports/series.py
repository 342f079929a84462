"""The data points of the charts: plain numbers, and the texts of their tooltips."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from dpaudit.core import rounding
from dpaudit.core.estimate import Estimate
from dpaudit.core.messages import plain
from dpaudit.record.result import VerdictRecord
from dpaudit.reports import words
from dpaudit.reports.columns import left
from dpaudit.reports.digest import MORE, Row

Datum = dict[str, Any]
ByModel = Mapping[str, list[Row]]
Claims = Mapping[tuple[str, float], str]  # what was found out about each model's claim, by ε

WITHIN = "not more than claimed"
NOTHING = "nothing certified (drawn at the edge)"
NO_POWER = "not more than claimed, by a game that finds no mutant"
MEASURED = "measured"
UPPER = "upper bound (measured: 0)"
BROKEN, DOUBTED, NO_CLAIM = "claim broken", "claim in doubt", "no claim"
# The positions of the slider that weighs leakage against utility.
WEIGHTS = [place / 100 for place in range(101)]


@dataclass(frozen=True)
class Recommendation:
    """The ε of a model that is best at some weights of leakage against utility.

    Attributes:
        model: the model.
        low: the least such weight.
        high: the largest.
        at: the ε, as text.
        utility: ε-Utility.
        risk: ε-Risk of the strongest attack.
        claim: what was found out about the claim there.
    """

    model: str
    low: float
    high: float
    at: str
    utility: float
    risk: float
    claim: str

    @property
    def words(self) -> str:
        """The recommendation as a sentence."""
        found = f"utility {rounding.measured(self.utility)}, risk {rounding.measured(self.risk)}"
        return f"{self.model}: ε = {self.at} is best ({found}; {self.claim})."


def claims(verdicts: Sequence[VerdictRecord]) -> Claims:
    """Return what was found out about the claim at each point, in words."""
    said = {"no claim": NO_CLAIM, "doubt": DOUBTED, "finding": DOUBTED}
    return {
        (each.model, each.epsilon): said.get(each.reason or "", f"claim {each.verdict}")
        for each in verdicts
    }


def offered(row: Row, claims: Claims) -> bool:
    """Return whether a point may be recommended: its claim is neither broken nor in doubt."""
    return claims[_key(row)] not in (BROKEN, DOUBTED)


def recommendations(by_model: ByModel, claims: Claims) -> list[Recommendation]:
    """Return the best ε of each model by the weight w of leakage against utility.

    The best ε has the largest `(1 − w) · utility − w · risk`; of equals the smallest. A point whose
    claim is broken or in doubt is never recommended.
    """
    found = []
    for model, here in by_model.items():
        able = [
            (row, kept.value, row.accuracy[row.strongest].value)
            for row in here
            if (kept := row.one("utility.overlap"))
            and row.strongest is not None
            and offered(row, claims)
        ]
        best = [_best(able, weight) for weight in WEIGHTS] if able else []
        for at, same in groupby(range(len(best)), key=lambda place: best[place][0].point.epsilon):
            places = list(same)
            row, utility, risk = best[places[0]]
            low, high = WEIGHTS[places[0]], WEIGHTS[places[-1]]
            claim = claims[_key(row)]
            found.append(
                Recommendation(plain(model), low, high, words.epsilon(at), utility, risk, claim)
            )
    return found


_Offer = tuple[Row, float, float]  # with utility and risk


def _best(able: Sequence[_Offer], weight: float) -> _Offer:
    return max(able, key=lambda each: (1 - weight) * each[1] - weight * each[2])


def _key(row: Row) -> tuple[str, float]:
    return row.point.model, row.point.epsilon


def accuracy(by_model: ByModel) -> list[Datum]:
    """Return the ε-Risk of every attack."""
    return [
        {**_place(model, row, label), **_ends(estimate), "attack": plain(label)}
        for model, row in _each(by_model)
        for label, estimate in row.accuracy.items()
    ]


def difference(by_model: ByModel) -> list[Datum]:
    """Return the lost share of the list. A measured zero is drawn as its upper bound."""
    found = []
    for model, row in _each(by_model):
        if kept := row.one("utility.overlap"):
            lost = left(kept)
            datum = {**_place(model, row), **_ends(lost)}
            zero = lost.value <= 0
            found.append(
                {
                    **datum,
                    "y": datum["upper"] if zero else datum["value"],
                    "drawn": UPPER if zero else MEASURED,
                }
            )
    # A logarithmic axis cannot show 0, so intervals that reach 0 are cut at the edge.
    least = edge([datum["y"] for datum in found])
    return [{**datum, "lower": max(datum["lower"], least)} for datum in found]


def rmse(by_model: ByModel) -> list[Datum]:
    """Return the error on held-out ratings."""
    return [
        {**_place(model, row), **_ends(error)}
        for model, row in _each(by_model)
        if (error := row.one("utility.rmse"))
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
                    **_place(model, row, pair),
                    "attack": plain(pair),
                    "claimed": claim.epsilon,
                    "lower": lower,
                    "multiple": lower / claim.epsilon,
                    "value": lower,
                    "words": f"≥ {rounding.at_least(lower)}",
                    "mutant": control.factor * claim.epsilon if control and shown else None,
                    "power": row.power(pair) or "–",
                    "verdict": _verdict(row, pair),
                }
            )
    ends = [datum["lower"] for datum in found] + [datum["claimed"] for datum in found]
    least = edge(ends)
    return [{**datum, "y": max(datum["lower"], least)} for datum in found]


def _verdict(row: Row, pair: str) -> str:
    game = row.games[pair]
    if row.exceeds(pair):
        return MORE
    if game.control is None or not game.control.found:
        return NO_POWER
    return WITHIN if game.estimate.lower > 0 else NOTHING


def tradeoff(by_model: ByModel, claims: Claims) -> list[Datum]:
    """Return ε-Risk and ε-Utility; `rank` orders the ε."""
    found: list[Datum] = []
    for model, here in by_model.items():
        for rank, row in enumerate(here):
            kept = row.one("utility.overlap")
            if kept is None:
                continue
            found.extend(
                {
                    **_place(model, row, label),
                    "rank": rank,
                    "attack": plain(label),
                    "utility": kept.value,
                    "utility_words": words.interval(kept),
                    "value": estimate.value,
                    "words": words.interval(estimate),
                    "claim": claims[_key(row)],
                    "offered": offered(row, claims),
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
    series = plain(", ".join([model, *labels]))
    return {
        "series": series,
        "model": plain(model),
        "x": epsilon if math.isfinite(epsilon) else None,
        "at": words.epsilon(epsilon),
        "name": f"{series}, ε = {words.epsilon(epsilon)}",
    }


def _ends(estimate: Estimate) -> Datum:
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
