"""The tables of `make_social` that are read off results."""

from __future__ import annotations

import math
from collections.abc import Sequence

import social_words as words

from dpaudit.record.bases import BEYOND_WITHOUT, LEAK, MEANS, RELEASED
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports.render.markdown import captioned
from dpaudit.reports.table import NONE, Table
from dpaudit.reports.words import epsilon, interval, measured


def rated(results: dict[float, AuditResult]) -> list[str]:
    """Figures 6 to 9."""
    recovered = "of sensitive ratings that are recovered; last, of item means"
    beyond = "By how much the attack errs less than on a model without any of them (rmse, paired)"
    leak = "Leak: by how much it errs less on the half that a model saw (rmse, paired)"
    tables = [
        *(
            _by_share(f"Figures 6 and 7: {kind} on test ratings", results, [f"utility.{kind}"])
            for kind in ("rmse", "mae")
        ),
        _above_mf(results),
        _by_share(
            "Errors above those of DPMF at the same ε (rmse, paired)",
            results,
            ["utility.difference"],
            detail="rmse",
            sure=True,
        ),
    ]
    attacks = [
        *(
            _by_share(
                f"Figures 8 and 9: {kind} {recovered}",
                results,
                [f"reconstruction.{kind}"],
                detail=RELEASED,
                last="item means",
            )
            for kind in ("rmse", "mae")
        ),
        *(
            _by_share(caption, results, ["reconstruction.rmse"], detail=detail, sure=True)
            for caption, detail in ((beyond, BEYOND_WITHOUT), (leak, LEAK))
        ),
    ]
    return [
        words.ERRORS.text(),
        *map(captioned, tables),
        words.RECOVERED.text(),
        *map(captioned, attacks),
    ]


def _above_mf(results: dict[float, AuditResult]) -> Table:
    """How much more each system errs than plain factorisation at the same share."""
    header, cells = ["x"], []
    for share, result in results.items():
        found = _found(result, "utility.rmse", None)
        base = found["MF", math.inf].estimate.value
        others = {key: each.estimate.value - base for key, each in found.items() if key[0] != "MF"}
        header = ["x", *(f"{model}, ε = {epsilon(value)}" for model, value in others)]
        cells.append([f"{100 * share:.0f} %", *(f"{value:+.4f}" for value in others.values())])
    return Table("Errors above those of MF (rmse; differences of the means above)", header, cells)


def ranked(results: dict[float, AuditResult]) -> list[Table]:
    """Figures 12 and 13, of lists of five."""
    beyond = "What the attack finds beyond that on a model without any of them (recall, paired)"
    leak = "Leak: what it finds more of the half that a model saw (recall, paired)"
    return [
        _by_share(
            "Figure 12: precision@5 / recall@5 of lists of test items",
            results,
            ["utility.precision", "utility.recall"],
        ),
        _by_share(
            "Figure 13: precision@5 / recall@5 of what is kept private, found by the attack; last, "
            "by the most popular items",
            results,
            ["reconstruction.precision", "reconstruction.recall"],
            detail=RELEASED,
            last="most popular",
        ),
        *(
            _by_share(caption, results, ["reconstruction.recall"], detail=detail, sure=True)
            for caption, detail in ((beyond, BEYOND_WITHOUT), (leak, LEAK))
        ),
    ]


def _by_share(
    caption: str,
    results: dict[float, AuditResult],
    metrics: Sequence[str],
    detail: str | None = None,
    last: str | None = None,
    sure: bool = False,
) -> Table:
    """A row for each share, a column for each model and ε, and one `last` for no model."""
    at = {
        share: [_found(result, metric, detail) for metric in metrics]
        for share, result in results.items()
    }
    columns = list(dict.fromkeys(key for found in at.values() for key in found[0]))
    header = ["x", *(f"{model}, ε = {epsilon(value)}" for model, value in columns)]
    cells = []
    for share, found in at.items():
        row = [f"{100 * share:.0f} %"]
        row += [_shown([each[key] for each in found if key in each], sure) for key in columns]
        if last:
            # The same beside every model.
            means = [_found(results[share], metric, MEANS) for metric in metrics]
            row.append(_shown([next(iter(each.values())) for each in means if each], sure))
        cells.append(row)
    return Table(caption, [*header, *([last] if last else [])], cells)


def _shown(found: Sequence[Measurement], sure: bool) -> str:
    shown = (interval(each.estimate) if sure else measured(each.estimate.value) for each in found)
    return " / ".join(shown) or NONE


def _found(
    result: AuditResult, metric: str, detail: str | None
) -> dict[tuple[str, float], Measurement]:
    return {
        (each.model, each.epsilon): each
        for each in result.measurements
        if each.metric == metric and each.detail == detail
    }


def by_point(caption: str, results: dict[str, AuditResult]) -> Table:
    """A row for each model and ε: its errors, and what is recovered."""
    metrics = {
        "rmse": ("utility.rmse", None),
        "mae": ("utility.mae", None),
        "rmse of what is recovered": ("reconstruction.rmse", RELEASED),
        "mae of it": ("reconstruction.mae", RELEASED),
        "rmse of item means there": ("reconstruction.rmse", MEANS),
        "leak (rmse)": ("reconstruction.rmse", LEAK),
    }
    cells = []
    for label, result in results.items():
        found = [_found(result, *metric) for metric in metrics.values()]
        for model, value in found[0]:
            shown = [measured(each[model, value].estimate.value) for each in found]
            name = f"{model}, ε = {epsilon(value)}"
            cells.append([f"{name}, {label}" if label else name, *shown])
    return Table(caption, ["model", *metrics], cells)
