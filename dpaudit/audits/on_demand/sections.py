"""What reports show of recommenders that serve on demand, besides what they show of any model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

from dpaudit.core import rounding
from dpaudit.core.messages import plain
from dpaudit.record.result import AuditResult
from dpaudit.reports import chart_parts as parts
from dpaudit.reports import digest, frequency, vega, words
from dpaudit.reports.columns import left
from dpaudit.reports.sections.base import Sections
from dpaudit.reports.sections.charts import Lines, against_epsilon
from dpaudit.reports.table import Table

_Claims = Mapping[tuple[str, float], str]  # what was found out about each model's claim, by ε
_FALSE, _DOUBTED, _NO_CLAIM = "claim false", "claim in doubt", "no claim"
# The weights of leakage against utility that are compared.
_WEIGHTS = [step / 100 for step in range(101)]
_HALF = 0.5  # the weight at which the best ε are ringed
_TRADEOFF = {
    "series": "model, attack",
    "at": "ε",
    "utility_words": "utility",
    "words": "risk",
    "claim": "claim",
}
_MEASURED, _UPPER = "measured", "upper bound (measured: 0)"


class OnDemandSections(Sections):
    """Adds which ε to choose, and how far published chains are from their limit laws."""

    shown: ClassVar[frozenset[str]] = Sections.shown | {"chains"}

    def tables(self) -> list[Table]:
        """Return the tables of models, and one for each model that is a chain."""
        chains = [
            _chain(model, sweep)
            for model, sweep in digest.rows(self.result).items()
            if any(row.of("chain.divergence") for row in sweep)
        ]
        return [*super().tables(), *chains]

    def charts(self, look: parts.Look) -> list[parts.Chart | None]:
        """Return the charts of models, with those of ε, of changed lists and of chains."""
        accuracy, certified, rmse = super().charts(look)
        return [
            accuracy,
            tradeoff(self.result, look),
            certified,
            difference(self.result, look),
            rmse,
            convergence(self.result, look),
        ]

    def notes(self) -> list[str]:
        """Return the note on chains."""
        if not digest.of(self.result, "chain.divergence"):
            return super().notes()
        return [
            *super().notes(),
            "The divergence of a chain is computed from its law, without trials, so it has no "
            "interval. A small divergence says nothing about ε: it is an average over lists, and ε "
            "is about single lists. “Explored states” are those that the chain reaches by the last "
            "step: a chain that never leaves its first state has explored one, on which any two "
            "laws agree.",
        ]


def _chain(model: str, sweep: Sequence[digest.Row]) -> Table:
    """Return a table with a row for each number of steps, and a column for each ε and states."""
    divergences = [
        (row.point.epsilon, divergence)
        for row in sweep
        for divergence in row.of("chain.divergence")
    ]
    at = {(m.states, epsilon, m.step): m.estimate.value for epsilon, m in divergences}
    order = list(dict.fromkeys(divergence.states for _, divergence in divergences))
    columns = sorted(dict.fromkeys(key[:2] for key in at), key=lambda key: order.index(key[0]))
    steps = sorted({divergence.step or 0 for _, divergence in divergences})
    return Table(
        caption=f"{model}: divergence of the chain's law after each number of steps from its limit "
        "law, in nats (computed)",
        header=[
            "steps",
            *(f"ε = {words.epsilon(epsilon)}, {states}" for states, epsilon in columns),
        ],
        cells=[
            [f"{step}", *(rounding.measured(at[*column, step]) for column in columns)]
            for step in steps
        ],
    )


def tradeoff(result: AuditResult, look: parts.Look) -> parts.Chart | None:
    """Return the chart; a point whose claim is false or in doubt is drawn, never recommended."""
    by_model = digest.rows(result)
    reasons = {"no claim": _NO_CLAIM, "doubt": _DOUBTED, "finding": _DOUBTED}
    claims = {
        (record.model, record.epsilon): reasons.get(record.reason or "", f"claim {record.verdict}")
        for record in result.verdicts
    }
    data = _points(by_model, claims)
    if not data:
        return None
    shares = frequency.attack_guesses(result)
    x = parts.Axis("ε-Utility: overlap", 0, 1.04, values=[0, 0.2, 0.4, 0.6, 0.8, 1])
    y = parts.Axis("ε-Risk: attack accuracy", 0, 1.04, values=x.values)
    recommended = _recommendations(by_model, claims)
    notes = [_not_offered(model, sweep, claims) for model, sweep in by_model.items()]
    advice = _advice(recommended)
    return parts.Chart(
        "tradeoff",
        "Which ε to choose",
        "Risk against utility, one point for each ε. The best ε of a model at a weight w of "
        "leakage has the largest score (1 − w) · utility − w · risk, where the risk is the largest "
        "accuracy of any attack at that ε (the strongest adversary). The best ε at w = 0.5 is "
        "ringed; the table has the others. It is chosen by point estimates; near-ties may be "
        "chance. A cross (✚) is a claim that is broken or in doubt, which is not offered.",
        parts.extremes("risk", data),
        parts.panels(data, None, lambda points: _spec(points, shares, recommended, look, x, y)),
        parts.numbers(_TRADEOFF, data),
        notes=[note for note in notes if note],
        advice=advice if advice.cells else None,
    )


def _spec(
    data: list[parts.Datum],
    shares: Sequence[frequency.Guess],
    recommended: Sequence[_Recommendation],
    look: parts.Look,
    x: parts.Axis,
    y: parts.Axis,
) -> dict[str, Any]:
    lines = parts.foremost(look.series(data, "value"), data)
    last = {datum["series"]: datum for datum in data}
    named, rows = parts.labels(
        [parts.Label.of(line, line.name, y.share(last[line.name]["value"])) for line in lines]
        + [parts.Label(label, y.share(share)) for label, share in shares]
    )
    base = parts.drawn_from("points").encode(x=x.x("utility"), y=y.y("value"))
    best = parts.drawn_from("best").encode(x=x.x("utility"), y=y.y("risk"))
    layers = [
        parts.dashed("guesses", x=x.x("low"), x2="high", y=y.y("share")),
        base.mark_line().encode(
            color=parts.color(lines), order=vega.Order("rank:Q"), **parts.strokes(lines)
        ),
        base.mark_point(size=55, opacity=1).encode(
            shape=parts.by_name("Shape", "offered", [False, True], ["cross", "circle"]),
            fill=parts.color(lines, "Fill"),
            stroke=parts.color(lines, "Stroke"),
        ),
        best.mark_point(size=330, strokeWidth=2.5, color=parts.INK, opacity=1),
        best.mark_text(fontWeight="bold", color=parts.INK, dy=vega.expr("datum.offset")).encode(
            text=vega.Text("label:N")
        ),
        *named,
    ]
    guesses = [{"low": x.low, "high": x.high, "share": share} for _, share in shares]
    return parts.spec(layers, points=data, guesses=guesses, best=_rings(recommended), labels=rows)


def _points(by_model: parts.ByModel, claims: _Claims) -> list[parts.Datum]:
    """Return ε-Risk and ε-Utility; `rank` orders the ε."""
    data: list[parts.Datum] = []
    for model, sweep in by_model.items():
        for rank, row in enumerate(sweep):
            kept = row.estimate("utility.overlap")
            if kept is None:
                continue
            data.extend(
                {
                    **parts.position(model, row, label),
                    "rank": rank,
                    "attack": plain(label),
                    "utility": kept.value,
                    "utility_words": words.interval(kept),
                    **parts.ends(estimate),
                    "claim": claims[row.point.model, row.point.epsilon],
                    "offered": _offered(row, claims),
                }
                for label, estimate in row.accuracy.items()
            )
    return data


def _rings(best: Sequence[_Recommendation]) -> list[parts.Datum]:
    """Return where the best ε at equal weights are; labels stand alternately below and above."""
    at_half = [offer for offer in best if offer.low <= _HALF <= offer.high]
    return [
        {
            "utility": offer.utility,
            "risk": offer.risk,
            "label": f"ε = {offer.at}",
            "offset": (24 + 14 * (index // 2)) * (-1) ** index,
        }
        for index, offer in enumerate(at_half)
    ]


def _advice(best: Sequence[_Recommendation]) -> Table:
    cells = [
        [
            offer.model,
            f"{offer.low:.2f} to {offer.high:.2f}",
            offer.at,
            rounding.measured(offer.utility),
            rounding.measured(offer.risk),
            offer.claim,
        ]
        for offer in best
    ]
    header = ["model", "weight w of leakage", "best ε", "utility", "risk", "claim"]
    return Table("The best ε at every weight", header, cells)


def _not_offered(model: str, sweep: Sequence[digest.Row], claims: _Claims) -> str:
    """Return at which ε a model is not offered and why; empty if it is offered at every ε."""
    shut: dict[str, list[float]] = {}
    for row in sweep:
        if not _offered(row, claims):
            shut.setdefault(claims[model, row.point.epsilon], []).append(row.point.epsilon)
    if not shut:
        return ""
    why = " and ".join(
        f"{claim.removeprefix('claim ')} at ε = {words.listed(epsilons)}"
        for claim, epsilons in sorted(shut.items())
    )
    every = sum(map(len, shut.values())) == len(sweep)
    return f"{model} is {'not offered' if every else 'offered at some ε only'}: its claim is {why}."


@dataclass(frozen=True)
class _Recommendation:
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


def _offered(row: digest.Row, claims: _Claims) -> bool:
    """Return whether a point may be recommended: its claim is neither false nor in doubt."""
    return claims[row.point.model, row.point.epsilon] not in (_FALSE, _DOUBTED)


def _recommendations(by_model: parts.ByModel, claims: _Claims) -> list[_Recommendation]:
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
            and _offered(row, claims)
        ]
        best = [
            (weight, *max(able, key=lambda offer: (1 - weight) * offer[1] - weight * offer[2]))
            for weight in (_WEIGHTS if able else ())
        ]
        for at, same in groupby(best, key=lambda choice: choice[1].point.epsilon):
            weighed = list(same)
            (low, _, utility, risk), high = weighed[0], weighed[-1][0]
            claim = claims[model, at]
            recommended.append(
                _Recommendation(plain(model), low, high, words.epsilon(at), utility, risk, claim)
            )
    return recommended


def difference(result: AuditResult, look: parts.Look) -> parts.Chart | None:
    """Return the chart of the lost share of the list against ε, both axes logarithmic."""
    data = _lost(result)
    least = min((datum["lower"] for datum in data), default=1.0)
    zeros = any(datum["drawn"] == _UPPER for datum in data)
    drawn = "drawn", [_MEASURED, _UPPER], ["circle", "triangle-down"]
    return against_epsilon(
        "difference",
        "What the noise costs: the list",
        "The share of the noiseless top-k list that the private list loses, both axes logarithmic."
        + (" A triangle is the upper bound of a measured zero." if zeros else ""),
        "lost share",
        data,
        look,
        parts.Axis("share of the top-k list that differs", least, 1, log=True),
        shape=parts.by_name("Shape", *drawn) if zeros else None,
    )


def _lost(result: AuditResult) -> list[parts.Datum]:
    """Return the lost share of the list. A measured zero is drawn as its upper bound."""
    data = []
    for model, row in parts.by_point(digest.rows(result)):
        if kept := row.estimate("utility.overlap"):
            lost = left(kept)
            datum = {**parts.position(model, row), **parts.ends(lost), "drawn": _MEASURED}
            data.append(datum if lost.value > 0 else {**datum, "y": lost.upper, "drawn": _UPPER})
    # A logarithmic axis cannot show 0, so intervals that reach 0 end at the edge.
    least = parts.edge([datum["y"] for datum in data])
    return [{**datum, "lower": max(datum["lower"], least)} for datum in data]


def convergence(result: AuditResult, look: parts.Look) -> parts.Chart | None:
    """Return the chart of a chain's divergence against its steps by ε, both axes logarithmic."""
    data = _divergences(result)
    if not data:
        return None
    steps = sorted({datum["x"] for datum in data})
    zero = any(datum["step"] == 0 for datum in data)
    number = "format(datum.value, '~s')"
    label = f"datum.value == {steps[0]} ? '0' : {number}" if zero else number
    return Lines(
        "convergence",
        "How fast the chain converges",
        "The divergence of the law of the chain's state from its limit law, a mean over users, "
        "computed and not sampled; both axes logarithmic. Zero steps are drawn at the left edge. A "
        "small divergence does not imply privacy: ε is about the least likely list.",
        parts.extremes("divergence", data),
        parts.Axis.over("steps of the chain", steps, values=steps, label=label),
        parts.Axis.over("divergence (nats)", parts.covered(data, "y")),
        data,
        {"series": "chain", "step": "steps", "words": "divergence"},
        look.series(data, "y"),
        by="states",
        label="label",
    ).chart()


def _divergences(result: AuditResult) -> list[parts.Datum]:
    """Return the divergence of chains; zeros are drawn at the edges of the logarithmic axes."""
    data: list[parts.Datum] = []
    for model, row in parts.by_point(digest.rows(result)):
        for divergence in row.of("chain.divergence"):
            chain = plain(f"{model}, ε = {words.epsilon(row.point.epsilon)}, {divergence.states}")
            data.append(
                {
                    "series": chain,
                    "label": plain(f"{model}, ε = {words.epsilon(row.point.epsilon)}"),
                    "model": plain(model),
                    "attack": row.point.epsilon,
                    "name": f"{chain}, {divergence.step} steps",
                    "states": divergence.states,
                    "step": divergence.step,
                    "value": divergence.estimate.value,
                    "words": rounding.measured(divergence.estimate.value),
                }
            )
    start, floor = (parts.edge(parts.covered(data, end)) for end in ("step", "value"))
    return [
        {**datum, "x": max(datum["step"], start), "y": max(datum["value"], floor)} for datum in data
    ]
