"""What reports show of submissions to a federated training, besides what they show of models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from dpaudit.audits.trained.sections import TrainedSections, crossed, interval
from dpaudit.core import messages, rounding
from dpaudit.record.metric import ATTACKS
from dpaudit.record.result import WHOLE, AuditResult, Measurement, ModelRecord
from dpaudit.reports import columns, digest, words
from dpaudit.reports.chart_parts import Axis, Chart, Datum, Look, covered, edge, ends, extremes
from dpaudit.reports.frequency import Frequency
from dpaudit.reports.sections.charts import Lines, ReferenceLine, roc_chart, roc_points
from dpaudit.reports.table import NONE, Table

Key = tuple[str, float]  # model and ε

# The names of the parts in the table of divergences, and their names in the record.
_PARTS = {
    "gradients' distance from their mean": "scatter",
    "mean's distance from the fake": "apart",
    "due to the mean's delay": "delay",
    "due to noise in the estimated mean": "estimate",
}
# The number of rounds at which a line of errors is drawn, about evenly on a logarithmic axis.
_DRAWN = 40
# The number of attacks that have a picture.
_ATTACKS = 6
_OF_SIX = f" Of more than {_ATTACKS} attacks those are drawn that find most."
_NOTES = (
    "Area: how often an attacker scores a real pair of a user and an item, which the user has "
    "rated, above a fake one. 0.5 is a guess, and an area below 0.5 reveals as much with the "
    "scores reversed. The attack gradient-ratio, if it knows the gradient, knows "
    "it without noise, which no server does: no test of one pair's submissions is more "
    "powerful. All other attacks use only what the server has, including what it knows before "
    "any round (popularity). Each interval of a transcript holds by itself at 95 %, is about "
    "users like these, assumes that they are independent, and decides no gate. Gates on "
    "attack.auc and transcript.kl are judged by the spread over trainings on these very data.",
    "Among all tests together, those that the Benjamini-Hochberg correction calls real contain "
    "at most 5 % fakes on average; those that Holm's calls real contain any fake with a "
    "probability of at most 5 %. The share of fakes among those found is a mean over trainings "
    "that found any, and may be larger. An attack whose law of fakes does not hold has no "
    "tests. The largest area after a number of rounds is that of the luckiest of several "
    "attacks: near 0.5 it is chance.",
    "The divergence of real submissions from fakes is Σ ‖g − F‖²/(2σ²) over rounds, a mean "
    "over real pairs. No single F for all users can reduce the distance of their gradients "
    "from their mean. The distance of F from that mean is due to the mean's delay and to the "
    "noise in its estimate.",
)


class FederatedSections(TrainedSections):
    """Adds what submissions reveal by attack and by round."""

    shown: ClassVar[frozenset[str]] = TrainedSections.shown | {
        ATTACKS,
        "transcripts",
        "divergence of submissions",
        "curves",
    }

    def revealed(self) -> list[Table]:
        """Return the tables of what attacks recover, and of what submissions reveal."""
        return [*super().revealed(), *_submissions(self.result)]

    def charts(self, look: Look) -> list[Chart | None]:
        """Return the charts of models, and those of submissions by round."""
        return [*super().charts(look), *rounds(self.result, look)]

    def notes(self) -> list[str]:
        """Return the notes on recovered ratings and on submissions."""
        present = _NOTES if digest.of(self.result, "transcript.auc") else ()
        return [*super().notes(), *present]

    def leaks(self, model: ModelRecord) -> Iterator[str]:
        """Yield how well the strongest attack on submissions tells rated from other items."""
        yield from super().leaks(model)
        of_model = [area for area in _open_areas(self.result) if area.model == model.label]
        if of_model:
            strongest = max(of_model, key=_value)
            yield (
                f"The attack {strongest.attack!r} on the submissions of {strongest.step} rounds "
                "tells rated from other items with an area under the curve of "
                f"{words.interval(strongest.estimate)}{digest.swept_at(self.result, strongest)}; "
                "guessing has 0.5."
            )

    def metered(self) -> Iterable[Measurement]:
        """Return the areas of attacks open to a server after the last round, besides recoveries."""
        judged = {(*_key(area), area.attack) for area in digest.of(self.result, "attack.auc")}
        areas = _open_areas(self.result)
        free = [area for area in areas if (*_key(area), area.attack) not in judged]
        return [*super().metered(), *free]

    def frequency(self, measurement: Measurement) -> Frequency | None:
        """Return how often a real item is told from a fake one, or what is recovered."""
        if measurement.metric not in ("transcript.auc", "attack.auc"):
            return super().frequency(measurement)
        attack = self.result.attacks.get(measurement.attack or "", {})
        # This one is open to anybody before a round.
        seen = "item popularity alone" if attack.get("name") == "popularity" else "submissions"
        clause = (
            f"comparisons of a rated item with a fake are right after {measurement.step} rounds"
        )
        return Frequency(measurement, seen, clause, 0.5)

    def brief(self) -> list[Table]:
        """Return what attacks recover, and the areas after the last round."""
        return [*super().revealed(), *_submissions(self.result)[:1]]

    def remarks(self) -> list[str]:
        """Return what the intervals of areas are about."""
        if not columns.within(self.result, "transcripts"):
            return super().remarks()
        about = "The interval of each area holds by itself, and is about users like these."
        return [about, *super().remarks()]


def _submissions(result: AuditResult) -> list[Table]:
    """Return the tables of areas by attack and by round, of what attacks find, and divergences."""
    areas = digest.of(result, "transcript.auc")
    if not areas:
        return []
    last = _last(areas)
    return [
        crossed(
            "Area under the curve of real submissions against fakes after the last round, by "
            "attack",
            [area for area in areas if area.detail is None and area.step == last[_key(area)]],
            ["attack"],
            lambda area: _name(_key(area)),
        ),
        _rounds(areas, _ideal(result)),
        *(_details(result, key, last[key]) for key in last),
        _divergences(digest.of(result, "transcript.kl"), last),
    ]


def _open_areas(result: AuditResult) -> list[Measurement]:
    """Return the areas after the last round of the attacks that are open to a server."""
    areas = digest.of(result, "transcript.auc")
    last, ideal = _last(areas), _ideal(result)
    return [
        area
        for area in areas
        if area.detail is None and area.attack not in ideal and area.step == last[_key(area)]
    ]


def _last(areas: Sequence[Measurement]) -> dict[Key, int]:
    return {key: max(m.step or 0 for m in areas if _key(m) == key) for key in _keys(areas)}


def _ideal(result: AuditResult) -> set[str]:
    """Return the attacks that know the noiseless gradient, which no server does."""
    return {label for label, attack in result.attacks.items() if attack.get("knows") == "gradient"}


def _key(measurement: Measurement) -> Key:
    return measurement.model, measurement.epsilon


def _keys(measurements: Iterable[Measurement]) -> list[Key]:
    return list(dict.fromkeys(map(_key, measurements)))


def _name(key: Key) -> str:
    return f"{key[0]}, ε = {words.epsilon(key[1])}"


def _rounds(areas: Sequence[Measurement], ideal: set[str]) -> Table:
    """Return the largest area of any attack open to a server, by round."""
    steps = sorted({m.step or 0 for m in areas})
    cells = []
    for key in _keys(areas):
        at_key = [m for m in areas if _key(m) == key and m.detail is None and m.attack not in ideal]
        row = [_name(key)]
        for step in steps:
            best = max((m for m in at_key if m.step == step), key=_value, default=None)
            row.append(f"{rounding.measured(_value(best))} {best.attack}" if best else NONE)
        cells.append(row)
    return Table(
        "How fast items are exposed: the largest area that a server reaches, by number of rounds",
        ["model", *(str(step) for step in steps)],
        cells,
    )


def _value(measurement: Measurement) -> float:
    return measurement.estimate.value


def _details(result: AuditResult, key: Key, step: int) -> Table:
    """Return what each attack finds, by group of items."""
    cells: dict[str, list[Measurement]] = {}
    for m in (*columns.within(result, ATTACKS), *columns.within(result, "transcripts")):
        if _key(m) != key or m.step != step or not m.attack:
            continue
        row = cells.setdefault(m.attack, [])
        if (m.metric, m.detail) != ("transcript.auc", None):
            row.append(m)
    filled = list(columns.columns(list(cells.values()), but=["attack", "step"]))
    return Table(
        f"{_name(key)}: what each attack finds after {step} rounds",
        ["attack", *(column.name for column in filled)],
        [[attack, *(column.cells[row] for column in filled)] for row, attack in enumerate(cells)],
    )


def _divergences(divergences: Sequence[Measurement], last: dict[Key, int]) -> Table:
    cells = []
    for key, step in last.items():
        at = {m.detail: m.estimate for m in divergences if _key(m) == key and m.step == step}
        parts = [
            rounding.measured(at[part].value) if part in at else NONE for part in _PARTS.values()
        ]
        cells.append([_name(key), str(step), interval(at.get(WHOLE)), *parts])
    return Table(
        "Divergence of a real item's submissions from fakes, in nats, and its parts",
        ["model", "rounds", WHOLE, *_PARTS],
        cells,
    )


def rounds(result: AuditResult, look: Look) -> list[Chart | None]:
    """Return the charts against rounds, with None in place of one without numbers."""
    charts = (_area_chart, _curve_chart, _divergence_chart, _error_chart)
    return [chart(result, look) for chart in charts]


def _area_chart(result: AuditResult, look: Look) -> Chart | None:
    areas = [_by_attack(m) for m in digest.of(result, "transcript.auc") if m.detail is None]
    data = _foremost(areas)
    if not data:
        return None
    last = max(datum["x"] for datum in data)
    y = Axis("area under the curve", min(0.48, min(_ends(data)) - 0.02), 1)
    lines = _lines(
        "transcripts",
        "How fast submissions reveal items",
        "How often an attacker who observes every round scores a real pair of a user and an item "
        "above a fake one. The dashed line is a guess." + _OF_SIX,
        "area",
        data,
        look,
        y,
    )
    return replace(
        lines,
        summary=extremes("area", [datum for datum in data if datum["x"] == last]),
        columns={"series": "model", "attack": "attack", "x": "rounds", "words": "area"},
        baselines=[ReferenceLine("guess", 0.5)],
        by="by",
    ).chart()


def _curve_chart(result: AuditResult, look: Look) -> Chart | None:
    rates = roc_points(digest.of(result, "transcript.roc"))
    data = _foremost([{**_by_attack(rate), **position} for rate, position in rates])
    if not data:
        return None
    return roc_chart(
        "roc",
        "How many pairs are found at which false positive rate",
        "The share of real pairs that each attack finds after the last round, against the share of "
        "fakes that it calls real, both axes logarithmic. The dashed line is a guess." + _OF_SIX,
        data,
        {"series": "model", "attack": "attack"},
        look,
        by="by",
    )


def _divergence_chart(result: AuditResult, look: Look) -> Chart | None:
    whole = [m for m in digest.of(result, "transcript.kl") if m.detail == WHOLE]
    data = [_datum(m) for m in whole if m.estimate.value > 0]
    if not data:
        return None
    floor = edge(covered(data, "value"))
    for datum in data:
        datum["lower"] = max(datum.get("lower", floor), floor)
    return _lines(
        "divergences",
        "How far real submissions are from fakes",
        "The divergence of a real item's submissions from fakes, a mean over real pairs, both axes "
        "logarithmic.",
        "divergence",
        data,
        look,
        Axis.over("divergence (nats)", _ends(data)),
    ).chart()


def _error_chart(result: AuditResult, look: Look) -> Chart | None:
    errors = digest.of(result, "transcript.rmse")
    steps = _thinned(sorted({m.step or 0 for m in errors}))
    data = [_datum(m) for m in errors if m.step in steps]
    if not data:
        return None
    return _lines(
        "rounds",
        "How fast the model learns",
        "The root mean squared error on held-out ratings after each number of rounds, a mean over "
        "trainings.",
        "rmse",
        data,
        look,
        Axis.around("rmse on held-out ratings", _ends(data)),
    ).chart()


def _lines(
    name: str, title: str, caption: str, what: str, data: Sequence[Datum], look: Look, y: Axis
) -> Lines:
    """Return lines against the number of rounds, of numbers that are `what`."""
    steps = sorted({datum["x"] for datum in data})
    # The rounds to label on the axis, each at least twice the one before.
    marks: list[int] = []
    for step in reversed(steps):
        if not marks or 2 * step <= marks[0]:
            marks.insert(0, step)
    x = Axis.over("rounds", steps, values=marks, units=True)
    columns = {"series": "model", "x": "rounds", "words": what}
    summary, series = extremes(what, data), look.series(data, "value")
    return Lines(name, title, caption, summary, x, y, data, columns, series)


def _ends(data: Sequence[Datum]) -> list[float]:
    return covered(data, "y", "lower", "upper")


def _foremost(data: Sequence[Datum]) -> list[Datum]:
    """Return the points of the attacks that find most."""
    most: dict[str, float] = {}
    for datum in data:
        most[datum["attack"]] = max(most.get(datum["attack"], 0.0), datum["value"])
    kept = sorted(most, key=lambda attack: -most[attack])[:_ATTACKS]
    return [datum for datum in data if datum["attack"] in kept]


def _thinned(steps: Sequence[int]) -> set[int]:
    """Return the first and the last step and some between, about evenly in their logarithms."""
    if len(steps) <= _DRAWN:
        return set(steps)
    ratio = (steps[-1] / max(steps[0], 1)) ** (1 / (_DRAWN - 1))
    kept = [steps[0]]
    for step in steps:
        if step >= kept[-1] * ratio:
            kept.append(step)
    return {*kept, steps[-1]}


def _by_attack(measurement: Measurement) -> Datum:
    datum, attack = _datum(measurement), messages.plain(measurement.attack or "")
    return {
        **datum,
        "attack": attack,
        "by": f"attack: {attack}",
        "name": f"{datum['series']}, {attack}, {measurement.step} rounds",
    }


def _datum(measurement: Measurement) -> Datum:
    series = messages.plain(_name(_key(measurement)))
    datum = {
        "series": series,
        "model": messages.plain(measurement.model),
        "name": f"{series}, {measurement.step} rounds",
        "x": measurement.step,
        **ends(measurement.estimate),
    }
    # A single training has no finite interval, and JSON has no infinity.
    open_ends = [end for end in ("lower", "upper") if math.isinf(datum[end])]
    return {name: value for name, value in datum.items() if name not in open_ends}
