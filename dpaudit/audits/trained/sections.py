"""What reports show of trained recommenders, besides what they show of any model."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from dpaudit.core import messages, rounding
from dpaudit.core.estimate import Estimate
from dpaudit.record import bases, metrics
from dpaudit.record.result import AuditResult, Measurement, ModelRecord
from dpaudit.reports import chart_parts as parts
from dpaudit.reports import columns, digest, vega, words
from dpaudit.reports.chart_parts import Axis, Chart, Datum, Label, Look, ends
from dpaudit.reports.sections.base import Sections
from dpaudit.reports.table import NONE, Table

# The columns of the table of reconstruction, and their names in the record.
_COLUMNS = {
    "from the released model": bases.RELEASED,
    "from a model without sensitive ratings": bases.WITHOUT,
    "better than without": bases.BEYOND_WITHOUT,
    "leak": bases.LEAK,
    "from item means": bases.MEANS,
    "better than item means": bases.BEYOND_MEANS,
}
# The columns of the table of recovery from submissions.
_READ = {
    "from submissions": bases.SUBMITTED,
    "from the released model": bases.RELEASED,
    "better than the model": bases.BEYOND_RELEASED,
    "from item means": bases.MEANS,
    "better than item means": bases.BEYOND_MEANS,
}
# The headers of fields that have another name.
_HEADERS = {"epsilon": "ε"}
# The sections of both tables.
_OF_MODELS, _OF_SUBMISSIONS = "recovery from models", "recovery from submissions"
# References for the other columns; the table leaves out their intervals, which the record has.
_PLAIN = {bases.WITHOUT, bases.MEANS}
_MODELS_NOTE = (
    "Sensitive ratings are recovered from a released model and from what users share. Much "
    "of this works for ratings that the model never saw. 'better than without' compares "
    "with a model trained without any sensitive rating: it shows how much all sensitive "
    "ratings together help the attack, including one rating's help for another. If noise "
    "depends on which ratings are sensitive, the model without them has less noise, and "
    "may serve the attack better. 'leak' is what a rating reveals about itself because it "
    "is in the training data: two models are trained on a random half of the sensitive "
    "ratings each, and the leak is by how much worse the attack does on the half that a "
    "model never saw than with the other model, which did. If a rating in the training "
    "data adds noise to its item that hides more than the rating reveals, the leak may be "
    "below 0. Each number is a mean over folds with Student's interval, which is a paired "
    "t test: if the interval does not contain 0, the difference is significant, as far as "
    "folds that share training data can show. A number that a gate judges has instead an "
    "interval over trainings on these data, which holds together with all others."
)
_SUBMISSIONS_NOTE = (
    "From submissions, the recommender recovers the sensitive ratings of some users, whom "
    "it observes in every round of a training. The other columns of that table are about "
    "the same ratings."
)


class TrainedSections(Sections):
    """Adds what attackers recover of sensitive ratings, and how far apart observations are."""

    shown: ClassVar[frozenset[str]] = Sections.shown | {
        _OF_MODELS,
        _OF_SUBMISSIONS,
        "comparison",
        "divergence of games",
    }

    def tables(self) -> list[Table]:
        """Return the tables of models, of attacks on them, and of their games' divergences."""
        divergences = columns.within(self.result, "divergence of games")
        caption = "Divergence of the games' observations on D' from those on D, in nats"
        by_estimator = crossed(caption, divergences, ("model", "epsilon", "pair"))
        return [*super().tables(), *self.revealed(), *([by_estimator] if divergences else [])]

    def revealed(self) -> list[Table]:
        """Return the tables of what attacks recover, and of the comparison with one model."""
        return [*_recovered(self.result), *_compared(self.result)]

    def charts(self, look: Look) -> list[Chart | None]:
        """Return the charts of models, and that of recovered ratings."""
        return [*super().charts(look), _recovery(self.result, look)]

    def notes(self) -> list[str]:
        """Return the notes on recovered ratings."""
        notes = ((_OF_MODELS, _MODELS_NOTE), (_OF_SUBMISSIONS, _SUBMISSIONS_NOTE))
        present = [note for section, note in notes if columns.within(self.result, section)]
        return [*super().notes(), *present]

    def leaks(self, model: ModelRecord) -> Iterator[str]:
        """Yield how well the strongest attack recovers sensitive ratings of a model."""
        if strongest := _strongest(self.result, [model.label]):
            yield _sentence(strongest, self.result)

    def strongest(self) -> str:
        """Return how well the strongest attack recovers sensitive ratings, of any model."""
        strongest = _strongest(self.result, [model.label for model in self.result.models])
        if strongest is None:
            return ""
        named = f"{strongest.model}: " if len(self.result.models) > 1 else ""
        return f"{named}{_sentence(strongest, self.result)}"

    def brief(self) -> list[Table]:
        """Return what attacks recover."""
        return self.revealed()


def _strongest(result: AuditResult, models: Collection[str]) -> Measurement | None:
    """Return the best recovery of sensitive ratings from these models, by the first measure."""
    recovered = [
        recovery
        for section in (_OF_MODELS, _OF_SUBMISSIONS)
        for recovery in columns.within(result, section)
        if recovery.model in models and recovery.detail in (bases.RELEASED, bases.SUBMITTED)
    ]
    able = [recovery for recovery in recovered if recovery.metric == recovered[0].metric]
    return max(able, key=lambda recovery: _sign(recovery) * recovery.estimate.value, default=None)


def _sign(recovered: Measurement) -> int:
    """Return -1 for an error, which is smaller where more is recovered, and 1 for a share."""
    return -1 if metrics.entry(recovered.metric).larger == "better" else 1


def _sentence(recovered: Measurement, result: AuditResult) -> str:
    """Return a recovery beside that from item means, or from the most popular items."""
    key = recovered.model_copy(update={"basis": bases.MEANS}).key
    means = next((m.estimate for m in result.measurements if m.key == key), None)
    share = _sign(recovered) > 0
    guess = "the most popular items" if share else "item means"
    low, high = recovered.estimate.lower, recovered.estimate.upper
    inside = ", which the interval includes" if means and low <= means.value <= high else ""
    beside = f"; {guess}, a guess, have {rounding.measured(means.value)}{inside}" if means else ""
    where = digest.swept_at(result, recovered)
    source = "submissions" if recovered.detail == bases.SUBMITTED else "the released model"
    measure = recovered.metric.rpartition(".")[2]
    return (
        f"The attack {recovered.attack!r} recovers sensitive ratings from {source} with "
        f"{measure} {words.interval(recovered.estimate)}{where}{beside} "
        f"({'more' if share else 'less'} is a stronger attack)."
    )


def interval(estimate: Estimate | None) -> str:
    """Return a cell of an estimate that may be missing."""
    return words.interval(estimate) if estimate else NONE


def _recovered(result: AuditResult) -> Iterator[Table]:
    """Yield a table of errors for each attacker."""
    for section, basis_of in ((_OF_MODELS, _COLUMNS), (_OF_SUBMISSIONS, _READ)):
        errors = columns.within(result, section)
        for label in dict.fromkeys(error.attack for error in errors):
            yield _attack([error for error in errors if error.attack == label], basis_of)


def _attack(errors: Sequence[Measurement], basis_of: Mapping[str, str]) -> Table:
    points: dict[tuple[str, float, str], dict[str | None, Estimate]] = {}
    for error in errors:
        point = points.setdefault((error.model, error.epsilon, error.metric), {})
        point[error.detail] = error.estimate
    # Without a model, an attacker that lists items lists the most popular.
    lists = errors[0].metric.endswith(("precision", "recall"))
    guess = "the most popular" if lists else "item means"
    return Table(
        f"Sensitive ratings recovered by {errors[0].attack or ''}, and the gain over other guesses",
        ["model", "ε", "measure", *(name.replace("item means", guess) for name in basis_of)],
        [
            [
                model,
                words.epsilon(epsilon),
                metric.rpartition(".")[2],
                *(
                    rounding.measured(at[basis].value)
                    if basis in at and basis in _PLAIN
                    else interval(at.get(basis))
                    for basis in basis_of.values()
                ),
            ]
            for (model, epsilon, metric), at in points.items()
        ],
    )


def crossed(
    caption: str,
    measurements: Sequence[Measurement],
    fields: Sequence[str],
    column: Callable[[Measurement], str] = lambda measurement: measurement.detail or "",
) -> Table:
    """Return a table of estimates whose rows differ in some fields, and whose columns in another.

    Args:
        caption: what the table shows.
        measurements: what is measured.
        fields: the fields that tell rows apart.
        column: returns the name of a measurement's column; by default its detail.
    """
    rows: dict[tuple[str | float | None, ...], dict[str, Estimate]] = {}
    for measurement in measurements:
        row = rows.setdefault(tuple(getattr(measurement, name) for name in fields), {})
        row[column(measurement)] = measurement.estimate
    names = dict.fromkeys(map(column, measurements))
    return Table(
        caption,
        [_HEADERS.get(name, name) for name in fields] + list(names),
        [
            [*map(_text, key), *(interval(row.get(name)) for name in names)]
            for key, row in rows.items()
        ],
    )


def _text(value: str | float | None) -> str:
    return words.epsilon(value) if isinstance(value, float) else value or ""


def _compared(result: AuditResult) -> list[Table]:
    """Return the table of the differences of models from one model, if they were measured."""
    differences = columns.within(result, "comparison")
    if not differences:
        return []
    caption = f"Difference on held-out data from {differences[0].against}, fold by fold (paired)"
    return [crossed(caption, differences, ("model", "epsilon"))]


_DRAWN = {
    "series": "model",
    "attack": "attack",
    "at": "ε",
    "error_words": "rmse",
    "words": "rmse of what is recovered",
}


def _recovery(result: AuditResult, look: Look) -> Chart | None:
    """Return the chart of both errors, with one point for each model and ε."""
    points = _points(result)
    if not points:
        return None
    # The item means are the same for every model.
    means = [{"mean": error.estimate.value} for error in _of(result, bases.MEANS)[:1]]
    x = Axis.around("rmse on test ratings", (datum["error"] for datum in points))
    ends = parts.covered([*points, *means], "lower", "upper", "value", "mean")
    y = Axis.around("rmse of what is recovered", ends)
    return Chart(
        "recovery",
        "What is recovered of sensitive ratings",
        "The attacker's error against the model's own, one point for each model and ε; a bar is "
        "the interval over folds. Predictions are better further left, and the attacker errs more "
        "further up. Above the dashed line, guessing the items' means would be better than the "
        "attack. The table says how much of the gain below the line is a leak.",
        parts.extremes("error of what is recovered", points),
        parts.panels(points, None, lambda data: _spec(data, means, look, x, y)),
        parts.numbers(_DRAWN, points),
    )


def _spec(points: list[Datum], means: list[Datum], look: Look, x: Axis, y: Axis) -> dict[str, Any]:
    lines = parts.foremost(look.series(points, "leak"), points)
    last = {datum["series"]: datum for datum in points}
    named, rows = parts.labels(
        [
            Label(
                line.name,
                y.share(last[line.name]["value"]) + parts.ABOVE,
                line.color,
                x.share(last[line.name]["error"]),
            )
            for line in lines
        ]
        + [Label("guess: item means", y.share(datum["mean"])) for datum in means]
    )
    base = parts.drawn_from("points").encode(
        x=x.x("error"), y=y.y("value"), color=parts.color(lines)
    )
    layers = [
        parts.dashed("means", x=x.x("low"), x2="high", y=y.y("mean")),
        base.mark_line().encode(order=vega.Order("rank:Q"), **parts.strokes(lines)),
        base.mark_rule(strokeWidth=1.5).encode(y=y.y("lower"), y2="upper"),
        base.mark_point(filled=True, size=80, opacity=1),
        *named,
    ]
    rules = [{**datum, "low": x.low, "high": x.high} for datum in means]
    return parts.spec(layers, points=points, means=rules, labels=rows)


def _of(result: AuditResult, basis: str) -> list[Measurement]:
    return [m for m in digest.of(result, "reconstruction.rmse") if m.detail == basis]


def _points(result: AuditResult) -> list[Datum]:
    errors = {(m.model, m.epsilon): m.estimate for m in digest.of(result, "utility.rmse")}
    recovered = sorted(_of(result, bases.RELEASED), key=lambda error: error.epsilon)
    attacks = {error.attack for error in recovered}
    return [
        {
            "series": messages.plain(
                recovery.model if len(attacks) == 1 else f"{recovery.model}, {recovery.attack}"
            ),
            "model": messages.plain(recovery.model),
            "attack": messages.plain(recovery.attack or ""),
            "at": words.epsilon(recovery.epsilon),
            "name": messages.plain(
                f"{recovery.model}, {recovery.attack}, ε = {words.epsilon(recovery.epsilon)}"
            ),
            "rank": rank,
            "error": errors[recovery.model, recovery.epsilon].value,
            "error_words": words.interval(errors[recovery.model, recovery.epsilon]),
            **ends(recovery.estimate),
            "leak": -recovery.estimate.value,  # the smaller the error, the more leaks
        }
        for rank, recovery in enumerate(recovered)
        if (recovery.model, recovery.epsilon) in errors and math.isfinite(recovery.estimate.upper)
    ]
