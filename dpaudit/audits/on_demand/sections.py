"""What reports show of recommenders that serve on demand, besides what they show of any model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, ClassVar

from dpaudit.core import rounding
from dpaudit.core.messages import plain
from dpaudit.record.result import AuditResult, VerdictRecord
from dpaudit.reports import chart_parts as parts
from dpaudit.reports import digest, words
from dpaudit.reports.chart_parts import Axis, ByModel, Chart, Datum, Label, Look
from dpaudit.reports.columns import left
from dpaudit.reports.digest import Row
from dpaudit.reports.frequency import Guess, attack_guesses
from dpaudit.reports.sections.base import Sections
from dpaudit.reports.sections.line_chart import Lines, against_epsilon, finite, lines_chart
from dpaudit.reports.table import Table


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

    def charts(self, look: Look) -> list[Chart | None]:
        """Return the charts of models, with those of ε, of changed lists and of chains."""
        accuracy, certified, rmse = super().charts(look)
        return [
            accuracy,
            tradeoff_chart(self.result, look),
            certified,
            difference_chart(self.result, look),
            rmse,
            convergence_chart(self.result, look),
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


def _chain(model: str, sweep: Sequence[Row]) -> Table:
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
_ADVICE = {
    "model": "model",
    "weights": "weight w of leakage",
    "at": "best ε",
    "utility_words": "utility",
    "words": "risk",
    "claim": "claim",
}
_MEASURED, _UPPER = "measured", "upper bound (measured: 0)"


def tradeoff_chart(result: AuditResult, look: Look) -> Chart | None:
    """Return the chart; a point whose claim is false or in doubt is drawn, never recommended."""
    by_model, claims = digest.rows(result), _claims_of(result.verdicts)
    data, shares = _points(by_model, claims), attack_guesses(result)
    if not data:
        return None
    recommended = _recommendations(by_model, claims)
    notes = [_not_offered(model, sweep, claims) for model, sweep in by_model.items()]
    return Chart(
        "tradeoff",
        "Which ε to choose",
        "Risk against utility, one point for each ε. The best ε of a model at a weight w of "
        "leakage has the largest score (1 − w) · utility − w · risk, where the risk is the largest "
        "accuracy of any attack at that ε (the strongest adversary). The best ε at w = 0.5 is "
        "ringed; the table has the others. It is chosen by point estimates; near-ties may be "
        "chance. A cross (✚) is a claim that is broken or in doubt, which is not offered.",
        parts.extremes("risk", data),
        parts.panels(data, None, lambda points: _spec(points, shares, recommended, look)),
        parts.numbers(_TRADEOFF, data),
        notes=[note for note in notes if note],
        advice=replace(parts.numbers(_ADVICE, recommended), caption="The best ε at every weight")
        if recommended
        else None,
    )


def _spec(
    data: list[Datum], shares: Sequence[Guess], recommended: Sequence[Datum], look: Look
) -> dict[str, Any]:
    from dpaudit.reports.vega import alt

    x = Axis("ε-Utility: overlap", 0, 1.04, values=[0, 0.2, 0.4, 0.6, 0.8, 1])
    y = Axis("ε-Risk: attack accuracy", 0, 1.04, values=x.values)
    lines = parts.foremost(look.series(data, "value"), data)
    last = {datum["series"]: datum for datum in data}
    named, rows = parts.labels(
        [Label.of(line, line.name, y.share(last[line.name]["value"])) for line in lines]
        + [Label(label, y.share(share)) for label, share in shares]
    )
    base = parts.drawn_from("points").encode(x=x.x("utility"), y=y.y("value"))
    best = parts.drawn_from("best").encode(x=x.x("utility"), y=y.y("risk"))
    layers = [
        parts.drawn_from("guesses")
        .mark_rule(strokeDash=[6, 4], color=parts.MUTED)
        .encode(x=x.x("low"), x2="high", y=y.y("share")),
        base.mark_line().encode(
            color=parts.color(lines),
            strokeDash=parts.dash(lines),
            strokeWidth=parts.width(lines),
            order=alt.Order("rank:Q"),
        ),
        base.mark_point(size=55, opacity=1).encode(
            shape=alt.Shape(
                "offered:N",
                legend=None,
                scale=alt.Scale(domain=[False, True], range=["cross", "circle"]),
            ),
            fill=parts.color(lines, "Fill"),
            stroke=parts.color(lines, "Stroke"),
        ),
        best.mark_point(size=330, strokeWidth=2.5, color=parts.INK, opacity=1),
        best.mark_text(fontWeight="bold", color=parts.INK, dy=alt.expr("datum.offset")).encode(
            text=alt.Text("label:N")
        ),
        *named,
    ]
    guesses = [{"low": x.low, "high": x.high, "share": share} for _, share in shares]
    return parts.spec(layers, points=data, guesses=guesses, best=_rings(recommended), labels=rows)


def _points(by_model: ByModel, claims: _Claims) -> list[Datum]:
    """Return ε-Risk and ε-Utility; `rank` orders the ε."""
    data: list[Datum] = []
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
                    "value": estimate.value,
                    "words": words.interval(estimate),
                    "claim": claims[_point_of(row)],
                    "offered": _offered(row, claims),
                }
                for label, estimate in row.accuracy.items()
            )
    return data


def _rings(best: Sequence[Datum]) -> list[Datum]:
    """Return where the best ε at equal weights are; labels stand alternately below and above."""
    ringed = [recommendation for recommendation in best if recommendation["ringed"]]
    return [
        {
            "utility": recommendation["utility"],
            "risk": recommendation["risk"],
            "label": f"ε = {recommendation['at']}",
            "offset": (24 + 14 * (index // 2)) * (-1) ** index,
        }
        for index, recommendation in enumerate(ringed)
    ]


def _not_offered(model: str, sweep: Sequence[Row], claims: _Claims) -> str:
    """Return at which ε a model is not offered and why; empty if it is offered at every ε."""
    shut: dict[str, list[float]] = {}
    for row in sweep:
        if not _offered(row, claims):
            claim = claims[model, row.point.epsilon]
            shut.setdefault(claim, []).append(row.point.epsilon)
    if not shut:
        return ""
    why = " and ".join(
        f"{claim.removeprefix('claim ')} at ε = {words.listed(epsilons)}"
        for claim, epsilons in sorted(shut.items())
    )
    every = sum(map(len, shut.values())) == len(sweep)
    return f"{model} is {'not offered' if every else 'offered at some ε only'}: its claim is {why}."


def _claims_of(verdicts: Sequence[VerdictRecord]) -> _Claims:
    """Return what was found out about the claim at each point, in words."""
    reasons = {"no claim": _NO_CLAIM, "doubt": _DOUBTED, "finding": _DOUBTED}
    return {
        (record.model, record.epsilon): reasons.get(record.reason or "", f"claim {record.verdict}")
        for record in verdicts
    }


def _offered(row: Row, claims: _Claims) -> bool:
    """Return whether a point may be recommended: its claim is neither false nor in doubt."""
    return claims[_point_of(row)] not in (_FALSE, _DOUBTED)


def _recommendations(by_model: ByModel, claims: _Claims) -> list[Datum]:
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
            max(able, key=lambda offer: (1 - weight) * offer[1] - weight * offer[2])
            for weight in (_WEIGHTS if able else ())
        ]
        for at, same in groupby(range(len(best)), key=lambda index: best[index][0].point.epsilon):
            indices = list(same)
            row, utility, risk = best[indices[0]]
            low, high = _WEIGHTS[indices[0]], _WEIGHTS[indices[-1]]
            recommended.append(
                {
                    "model": plain(model),
                    "weights": f"{low:.2f} to {high:.2f}",
                    "ringed": low <= _HALF <= high,
                    "at": words.epsilon(at),
                    "utility": utility,
                    "risk": risk,
                    "utility_words": rounding.measured(utility),
                    "words": rounding.measured(risk),
                    "claim": claims[_point_of(row)],
                }
            )
    return recommended


def _point_of(row: Row) -> tuple[str, float]:
    """Return the model and the ε of a row."""
    return row.point.model, row.point.epsilon


def difference_chart(result: AuditResult, look: Look) -> Chart | None:
    """Return the chart of the lost share of the list against ε, both axes logarithmic."""
    data = _lost(result)
    if not finite(data):
        return None
    from dpaudit.reports.vega import alt

    least = min(datum["lower"] for datum in data)
    y = Axis("share of the top-k list that differs", least, 1, log=True)
    zeros = any(datum["drawn"] == _UPPER for datum in data)
    drawn = alt.Shape(
        "drawn:N",
        legend=None,
        scale=alt.Scale(domain=[_MEASURED, _UPPER], range=["circle", "triangle-down"]),
    )
    lines = against_epsilon(
        "difference",
        "What the noise costs: the list",
        "The share of the noiseless top-k list that the private list loses, both axes logarithmic."
        + (" A triangle is the upper bound of a measured zero." if zeros else ""),
        "lost share",
        data,
        look,
        y,
        shape=drawn if zeros else None,
    )
    return lines_chart(lines)


def _lost(result: AuditResult) -> list[Datum]:
    """Return the lost share of the list. A measured zero is drawn as its upper bound."""
    data = []
    for model, row in parts.by_point(digest.rows(result)):
        if kept := row.estimate("utility.overlap"):
            lost = left(kept)
            drawn: Datum = {"drawn": _MEASURED}
            if lost.value <= 0:
                drawn = {"y": lost.upper, "drawn": _UPPER}
            data.append({**parts.position(model, row), **parts.ends(lost), **drawn})
    # A logarithmic axis cannot show 0, so intervals that reach 0 end at the edge.
    least = parts.edge([datum["y"] for datum in data])
    return [{**datum, "lower": max(datum["lower"], least)} for datum in data]


def convergence_chart(result: AuditResult, look: Look) -> Chart | None:
    """Return the chart of a chain's divergence against its steps by ε, both axes logarithmic."""
    data = _divergences(result)
    if not data:
        return None
    steps = sorted({datum["x"] for datum in data})
    zero = any(datum["step"] == 0 for datum in data)
    number = "format(datum.value, '~s')"
    label = f"datum.value == {steps[0]} ? '0' : {number}" if zero else number
    return lines_chart(
        Lines(
            "convergence",
            "How fast the chain converges",
            "The divergence of the law of the chain's state from its limit law, a mean over users, "
            "computed and not sampled; both axes logarithmic. Zero steps are drawn at the left "
            "edge. A small divergence does not imply privacy: ε is about the least likely list.",
            parts.extremes("divergence", data),
            x=Axis.over("steps of the chain", steps, values=steps, label=label),
            y=Axis.over("divergence (nats)", (datum["y"] for datum in data)),
            data=data,
            columns={"series": "chain", "step": "steps", "words": "divergence"},
            series=look.series(data, "y"),
            by="states",
            label="label",
        )
    )


def _divergences(result: AuditResult) -> list[Datum]:
    """Return the divergence of chains; zeros are drawn at the edges of the logarithmic axes."""
    data: list[Datum] = []
    for model, row in parts.by_point(digest.rows(result)):
        for divergence in row.of("chain.divergence"):
            label = f"{model}, ε = {words.epsilon(row.point.epsilon)}"
            chain = plain(f"{label}, {divergence.states}")
            data.append(
                {
                    "series": chain,
                    "label": plain(label),
                    "model": plain(model),
                    "attack": row.point.epsilon,
                    "name": f"{chain}, {divergence.step} steps",
                    "states": divergence.states,
                    "step": divergence.step,
                    "value": divergence.estimate.value,
                    "words": rounding.measured(divergence.estimate.value),
                }
            )
    start = parts.edge([datum["step"] for datum in data])
    floor = parts.edge([datum["value"] for datum in data])
    return [
        {**datum, "x": max(datum["step"], start), "y": max(datum["value"], floor)} for datum in data
    ]
