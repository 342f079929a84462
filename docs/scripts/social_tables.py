"""The tables of `make_social` that are read off results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from social_numbers import EDGE, Metric, Point, Results, at_edge, edges_of, estimates, name

from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.core.estimate import Estimate
from dpaudit.record.bases import BEYOND_WITHOUT, LEAK, MEANS, RELEASED
from dpaudit.record.result import AuditResult
from dpaudit.reports.table import NONE, Table
from dpaudit.reports.words import interval, measured


def chosen(place: str, result: AuditResult) -> Table:
    """Table of the settings that the grids chose, and of users whose factors no claim covers."""
    grids = {model.label: model.grid for model in TrainedConfig.model_validate(result.config).model}
    longer = estimates(result, "assumption.norm", "share longer than 1")
    cells = []
    for point in result.points:
        at = (point.model, point.epsilon)
        settings = [
            f"{key} {value:g}{EDGE * at_edge(value, grids[point.model].get(key, ()))}"
            for key, value in point.chosen.items()
        ]
        share = f"{100 * longer[at].value:.0f} %" if at in longer else NONE
        cells.append([name(at), ", ".join(settings) or NONE, share])
    return Table(
        f"Chosen at {place}, and users whose factors end longer than the 1 that claims assume",
        ["model", "settings", "longer than 1"],
        cells,
        note=f"{EDGE} at an end of its grid, past which the model may be better: what it fails by "
        "there is undecided. 0 is no such end.",
    )


def test_ratings(results: Results) -> Iterator[Table]:
    """Figures 6 and 7."""
    for kind in ("rmse", "mae"):
        yield by_place(f"{kind} on test ratings", results, [(f"utility.{kind}", None)])
    yield _above(results, ("MF", math.inf))
    yield by_place(
        "Errors above those of DPMF at ε = 0.1 (rmse, paired t test)",
        results,
        [("utility.difference", "rmse")],
        sure=True,
    )


def sensitive(results: Results) -> Iterator[Table]:
    """Figures 8 and 9, and what of them is a leak."""
    for kind in ("rmse", "mae"):
        yield by_place(
            f"{kind} of sensitive ratings that are recovered; last, of item means",
            results,
            [(f"reconstruction.{kind}", RELEASED)],
            last="item means",
        )
    for caption, detail in (
        ("By how much the attack errs less than on a model without any of them", BEYOND_WITHOUT),
        ("Leak: by how much it errs less on the half that a model saw", LEAK),
    ):
        yield by_place(
            f"{caption} (rmse, paired)", results, [("reconstruction.rmse", detail)], sure=True
        )


def lists(results: Results, place: str = "x") -> Iterator[Table]:
    """Figures 12 and 13, of lists of five."""
    pair = ("precision", "recall")
    yield by_place(
        "precision@5 / recall@5 of lists of test items",
        results,
        [(f"utility.{kind}", None) for kind in pair],
        place=place,
    )
    yield by_place(
        "precision@5 / recall@5 of what is kept private, found by the attack; last, by the most "
        "popular items",
        results,
        [(f"reconstruction.{kind}", RELEASED) for kind in pair],
        last="most popular",
        place=place,
    )
    for caption, detail in (
        ("What the attack finds beyond that on a model without any of them", BEYOND_WITHOUT),
        ("Leak: what it finds more of the half that a model saw", LEAK),
    ):
        yield by_place(
            f"{caption} (recall, paired)",
            results,
            [("reconstruction.recall", detail)],
            sure=True,
            place=place,
        )


def by_place(
    caption: str,
    results: Results,
    metrics: Sequence[Metric],
    last: str | None = None,
    sure: bool = False,
    place: str = "x",
) -> Table:
    """A row for each place, a column for each model and ε, and one `last` for no model."""
    numbers = {at: [estimates(result, *each) for each in metrics] for at, result in results.items()}
    points = list(dict.fromkeys(point for found in numbers.values() for point in found[0]))
    cells = []
    for at, found in numbers.items():
        edges = edges_of(results[at])
        row = [at.removeprefix("x = ")]
        for point in points:
            shown = _shown([each[point] for each in found if point in each], sure)
            row.append(shown + f" {EDGE}" * (point in edges and shown != NONE))
        if last:
            # The same beside every model.
            means = [estimates(results[at], metric, MEANS) for metric, _ in metrics]
            row.append(_shown([next(iter(each.values())) for each in means if each], sure))
        cells.append(row)
    header = [place, *map(name, points), *([last] if last else [])]
    return Table(caption, header, cells)


def by_point(caption: str, results: Mapping[str, AuditResult]) -> Table:
    """A row for each model, ε and place: its errors, and what is recovered."""
    metrics: dict[str, Metric] = {
        "rmse": ("utility.rmse", None),
        "mae": ("utility.mae", None),
        "rmse of what is recovered": ("reconstruction.rmse", RELEASED),
        "mae of it": ("reconstruction.mae", RELEASED),
        "rmse of item means there": ("reconstruction.rmse", MEANS),
        "leak (rmse)": ("reconstruction.rmse", LEAK),
    }
    cells = []
    for place, result in results.items():
        numbers = [estimates(result, *metric) for metric in metrics.values()]
        edges = edges_of(result)
        for point in numbers[0]:
            label = f"{name(point)}{f', {place}' * bool(place)}{f' {EDGE}' * (point in edges)}"
            cells.append([label, *(measured(each[point].value) for each in numbers)])
    return Table(caption, ["model", *metrics], cells)


def _above(results: Results, base: Point) -> Table:
    """How much more each system errs than plain factorisation at the same place."""
    numbers = {at: estimates(result, "utility.rmse") for at, result in results.items()}
    points = list(dict.fromkeys(point for found in numbers.values() for point in found))
    points.remove(base)
    cells = [
        [
            at.removeprefix("x = "),
            *(f"{found[point].value - found[base].value:+.4f}" for point in points),
        ]
        for at, found in numbers.items()
    ]
    return Table(
        "Errors above those of MF (rmse; differences of the means above)",
        ["x", *map(name, points)],
        cells,
    )


def _shown(found: Sequence[Estimate], sure: bool) -> str:
    shown = (interval(each) if sure else measured(each.value) for each in found)
    return " / ".join(shown) or NONE
