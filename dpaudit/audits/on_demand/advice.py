"""Which ε of a model is best at each weight of leakage against utility."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from dpaudit.core.messages import plain
from dpaudit.record.result import VerdictRecord
from dpaudit.reports import words
from dpaudit.reports.chart_parts import ByModel
from dpaudit.reports.digest import Row

Claims = Mapping[tuple[str, float], str]  # what was found out about each model's claim, by ε

FALSE, DOUBTED, NO_CLAIM = "claim false", "claim in doubt", "no claim"
# The weights of leakage against utility that are compared.
WEIGHTS = [step / 100 for step in range(101)]


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


def claims_of(verdicts: Sequence[VerdictRecord]) -> Claims:
    """Return what was found out about the claim at each point, in words."""
    reasons = {"no claim": NO_CLAIM, "doubt": DOUBTED, "finding": DOUBTED}
    return {
        (record.model, record.epsilon): reasons.get(record.reason or "", f"claim {record.verdict}")
        for record in verdicts
    }


def offered(row: Row, claims: Claims) -> bool:
    """Return whether a point may be recommended: its claim is neither false nor in doubt."""
    return claims[point_of(row)] not in (FALSE, DOUBTED)


def recommendations(by_model: ByModel, claims: Claims) -> list[Recommendation]:
    """Return the best ε of each model by the weight w of leakage against utility.

    The best ε has the largest `(1 − w) · utility − w · risk`; of equals the smallest. A point whose
    claim is false or in doubt is never recommended.
    """
    recommended = []
    for model, sweep in by_model.items():
        able = [
            (row, kept.value, row.accuracy[row.strongest].value)
            for row in sweep
            if (kept := row.estimate("utility.overlap"))
            and row.strongest is not None
            and offered(row, claims)
        ]
        best = [_best(able, weight) for weight in WEIGHTS] if able else []
        for at, same in groupby(range(len(best)), key=lambda weight: best[weight][0].point.epsilon):
            weights = list(same)
            row, utility, risk = best[weights[0]]
            low, high = WEIGHTS[weights[0]], WEIGHTS[weights[-1]]
            claim = claims[point_of(row)]
            recommended.append(
                Recommendation(plain(model), low, high, words.epsilon(at), utility, risk, claim)
            )
    return recommended


_Offer = tuple[Row, float, float]  # with utility and risk


def _best(able: Sequence[_Offer], weight: float) -> _Offer:
    return max(able, key=lambda offer: (1 - weight) * offer[1] - weight * offer[2])


def point_of(row: Row) -> tuple[str, float]:
    """Return the model and the ε of a row."""
    return row.point.model, row.point.epsilon
