"""`dpaudit membership`: membership inference from scores of one trained model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpaudit.cli.options import NumberRange, PathType, WholeRange, style_option
from dpaudit.cli.scores import read_features, read_scores
from dpaudit.core.errors import ConfigError

if TYPE_CHECKING:
    from dpaudit.audits.membership.one_model import OneModel

_ASSUMES = (
    "These numbers assume that members and non-members differ only by the training. They decide no "
    "gate; a config with [[recommender]] trains models with coins and assumes nothing."
)
_REVERSED = (
    "Non-members score above members: scores have to be larger for likelier membership. The "
    "reverse attack, which reads small scores as large ones, tells members with AUC"
)
_UNTESTED = "That was not tested: give --features-in and --features-out."
_DOUBTED = (
    "A classifier tells the two apart by features that the model never saw: the scores may show "
    "this difference, and not the training."
)
_KEPT = "A classifier could not tell the two apart by features that the model never saw."

_file = PathType(dir_okay=False)


@click.command()
@click.option(
    "--scores-in",
    type=_file,
    required=True,
    help="Scores of members, larger for likelier membership (csv or npy), one per row.",
)
@click.option("--scores-out", type=_file, required=True, help="Scores of non-members.")
@click.option(
    "--features-in",
    type=_file,
    help="Features of the members that the model never saw (csv or npy), to test whether members "
    "and non-members are alike. The first row of a csv is a header if it holds a word.",
)
@click.option("--features-out", type=_file, help="The same features of the non-members.")
@click.option(
    "--rate",
    "rates",
    type=NumberRange(1e-9, 1, max_open=True),
    multiple=True,
    help="A false-positive rate at which to measure the true-positive rate.  [default: 0.001, "
    "0.01]",
)
@click.option(
    "--confidence",
    type=NumberRange(0.5, 1, max_open=True),
    default=0.95,
    show_default=True,
    help="Confidence of each interval.",
)
@click.option("--seed", type=WholeRange(0), default=0, show_default=True, help="Random halves.")
@style_option("json")
def membership(
    scores_in: Path,
    scores_out: Path,
    features_in: Path | None,
    features_out: Path | None,
    rates: tuple[float, ...],
    confidence: float,
    seed: int,
    style: str,
) -> None:
    """Measure how well scores of one trained model tell its members from others.

    For a certified ε from scores of trainings by coins, see 'dpaudit epsilon'.
    """
    from dpaudit.audits.membership.one_model import audit_scores

    if (features_in is None) != (features_out is None):
        raise ConfigError("one of --features-in and --features-out is missing: give both")
    features = None
    if features_in is not None and features_out is not None:
        features = read_features(features_in), read_features(features_out)
    audit = audit_scores(
        read_scores(scores_in),
        read_scores(scores_out),
        rates=rates or (0.001, 0.01),
        features=features,
        confidence=confidence,
        seed=seed,
    )
    click.echo(_json(audit) if style == "json" else _text(audit, confidence))


def _rows(audit: OneModel) -> dict[str, str]:
    from dpaudit.reports import words

    rows = {"AUC": words.interval(audit.auc)}
    for rate, value in audit.tpr.items():
        said = words.interval(value) if value else audit.lacking[rate]
        rows[f"TPR at {words.percent(rate)} FPR"] = said
    return rows | {"advantage": words.interval(audit.advantage)}


def _text(audit: OneModel, confidence: float) -> str:
    from dpaudit.reports import words

    rows = _rows(audit)
    width = max(map(len, rows))
    lines = [f"{name:{width}}  {said}" for name, said in rows.items()]
    if audit.reversed:
        area = audit.auc
        opposite = area.changed(value=1 - area.value, lower=1 - area.upper, upper=1 - area.lower)
        lines += [f"{_REVERSED} {words.interval(opposite)}; each end of the interval has α/2."]
    lines += [f"Each interval holds by itself with {words.percent(confidence)} confidence."]
    if audit.exchangeable is None:
        return "\n".join([*lines, _ASSUMES, _UNTESTED])
    said = f" (AUC {words.interval(audit.exchangeable)})."
    tested = (_DOUBTED if audit.doubted else _KEPT).removesuffix(".") + said
    return "\n".join([*lines, _ASSUMES, tested])


def _json(audit: OneModel) -> str:
    from dpaudit.reports import words

    record = {
        "auc": audit.auc.model_dump(mode="json"),
        "tpr": {
            f"{rate:g}": value and value.model_dump(mode="json")
            for rate, value in audit.tpr.items()
        },
        "lacking": {
            f"{rate:g}": f"TPR at {words.percent(rate)} FPR {why}"
            for rate, why in audit.lacking.items()
        },
        "advantage": audit.advantage.model_dump(mode="json"),
        "exchangeable": audit.exchangeable and audit.exchangeable.model_dump(mode="json"),
        "doubted": audit.doubted,
        "reversed": audit.reversed,
    }
    return json.dumps(record, indent=2)
