"""`dpaudit membership`: membership inference from scores of one trained model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpaudit.cli import options
from dpaudit.cli.options import NumberRange, PathType, WholeRange
from dpaudit.cli.writing import echo, screen, tell
from dpaudit.core.errors import ConfigError
from dpaudit.core.exit_codes import exit_code
from dpaudit.core.rounding import at_least

if TYPE_CHECKING:
    from dpaudit.audits.scores.observational import Corrected, FeatureKind
    from dpaudit.audits.scores.one_model import OneModel
    from dpaudit.core.estimate import Estimate
    from dpaudit.record.result import GateRecord, RunOutcome

_ASSUMES = (
    "These numbers assume that members and non-members differ only by the training, and decide "
    "nothing; a config with [[recommender]] trains models with coins and assumes nothing."
)
_REVERSED = (
    "Non-members score above members: scores have to be larger for likelier membership. The "
    "reverse attack, which reads small scores as large ones, tells members with AUC"
)
_UNKNOWN = (
    "The blind baseline, what tells members without the model, is unknown: give --features-in and "
    "--features-out."
)
_DOUBTED = (
    "A classifier tells the two apart by features that the model never saw: the first numbers may "
    "show this difference, and not the training."
)
_KEPT = "A classifier could not tell the two apart by features that the model never saw."
_APART = (
    "They take rows to be members or not one by one; name what keeps rows together, such as the "
    "user, with --kind COLUMN=group."
)

_CONCLUSIONS: dict[RunOutcome, str] = {
    "go": "every limit is kept",
    "stop": "a limit is exceeded",
    "undecided": "a limit is neither kept nor exceeded for sure",
    "no decision": "no limit is given (--max-auc, --max-tpr, --max-epsilon)",
}
_RATES = (0.001, 0.01)
_file = PathType(dir_okay=False)


def _kind(value: str) -> tuple[str, str]:
    """Return a column and its kind, or fail."""
    from dpaudit.audits.scores.observational import KINDS

    column, _, kind = value.rpartition("=")
    if not column or kind not in KINDS:
        raise click.BadParameter(f"{value!r} is not COLUMN=KIND, with one of {', '.join(KINDS)}.")
    return column, kind


@click.command()
@click.option(
    "--scores-in",
    type=_file,
    required=True,
    help="Scores of members, larger for likelier membership (csv or npy), one per row.",
)
@click.option("--scores-out", type=_file, required=True, help="Scores of non-members.")
@click.option(
    "--matrix",
    type=_file,
    help="All scores of the model (npy, users × items). The files of scores then hold pairs, a row "
    "and a column of it, from 0; half of them fit an attack (low-rank), and half are judged.",
)
@click.option(
    "--features-in",
    type=_file,
    help="Features of the members that the model never saw (csv or npy), to correct for how "
    "members and non-members differ. The first row of a csv is a header if it holds a word.",
)
@click.option("--features-out", type=_file, help="The same features of the non-members.")
@click.option(
    "--kind",
    "kinds",
    type=_kind,
    multiple=True,
    metavar="COLUMN=KIND",
    help="What a column of the features is: number, category, time (seconds since 1970, or dates), "
    "or group (such as the user, whose rows are members only together).",
)
@click.option(
    "--gamma",
    type=NumberRange(1, 1e6),
    help="By what factor the odds of being a member may differ between rows that are alike by the "
    "features.  [default: 1.1 between rows with equal features]",
)
@click.option(
    "--rate",
    "rates",
    type=NumberRange(1e-9, 1, max_open=True),
    multiple=True,
    help="A false-positive rate at which to measure the true-positive rate.  [default: 0.001, "
    "0.01]",
)
@click.option(
    "--max-auc",
    type=NumberRange(0.5, 1, max_open=True),
    help="The largest corrected AUC allowed. The exit code says whether it is kept.",
)
@click.option(
    "--max-tpr",
    type=NumberRange(0, 1, min_open=True, max_open=True),
    help="The largest corrected true-positive rate allowed, at every --rate.",
)
@click.option(
    "--max-epsilon",
    type=NumberRange(0, 25, min_open=True),
    help="The largest ε allowed; it is kept if a planted leak of twice that is found (19 of 20).",
)
@options.defaulted(
    "--confidence", NumberRange(0.5, 1, max_open=True), 0.95, "Confidence of each interval."
)
@options.defaulted("--seed", WholeRange(0), 0, "Random halves.")
@options.style("json")
@click.pass_context
def membership(
    ctx: click.Context,
    scores_in: Path,
    scores_out: Path,
    matrix: Path | None,
    features_in: Path | None,
    features_out: Path | None,
    kinds: tuple[tuple[str, FeatureKind], ...],
    gamma: float | None,
    rates: tuple[float, ...],
    max_auc: float | None,
    max_tpr: float | None,
    max_epsilon: float | None,
    confidence: float,
    seed: int,
    style: str,
) -> None:
    """Measure how well scores of one trained model tell its members from others.

    With features that the model never saw, the numbers are corrected for how members and others
    differ, and --max-… may judge them; the exit code is the worst outcome.

    For a certified ε from scores of trainings by coins, see 'dpaudit epsilon'.
    """
    from dpaudit.attacks.membership.low_rank import of_one_model
    from dpaudit.audits.scores.one_model import Limits, audit_scores
    from dpaudit.cli.scores import read_features, read_pairs, read_scores
    from dpaudit.record.result import concluded
    from dpaudit.reports import palette
    from dpaudit.reports.terminal import say

    limits = Limits(max_auc, max_tpr, max_epsilon)
    if limits.named and features_in is None:
        raise ConfigError(
            f"--max-{limits.named[0]} needs --features-in and --features-out: without them members "
            "may differ from others by more than the training"
        )
    if (features_in is None) != (features_out is None):
        raise ConfigError("one of --features-in and --features-out is missing: give both")
    features, by_place = None, dict[int, "FeatureKind"]()
    if features_in is not None and features_out is not None:
        features, by_place = read_features(features_in, features_out, dict(kinds))
    elif kinds or gamma is not None:
        raise ConfigError("--kind and --gamma are about features: give --features-in and -out")
    count = limits.count(len(rates or _RATES))
    if matrix is None:
        scores = read_scores(scores_in), read_scores(scores_out)
    else:
        table, *pairs = read_pairs(matrix, scores_in, scores_out)
        rows, scores = of_one_model(table, pairs[0], pairs[1], seed)
        if features is not None:
            given, named = [list(map(len, files)) for files in (features, pairs)]
            if given != named:
                raise ConfigError(
                    f"--features-in and --features-out have {given[0]} and {given[1]} rows for "
                    f"{named[0]} and {named[1]} pairs: give one for each"
                )
            features = features[0][rows[0]], features[1][rows[1]]
    audit = audit_scores(
        *scores,
        rates=rates or _RATES,
        features=features,
        kinds=by_place,
        gamma=gamma,
        at_most=max_epsilon,
        judged=count,
        confidence=confidence,
        seed=seed,
    )
    judged = limits.judge(audit.corrected) if audit.corrected else []
    outcome: RunOutcome = concluded([gate.outcome for gate in judged]) if judged else "no decision"
    if style == "json":
        echo(_json(audit, judged, outcome))
    else:
        console = screen()
        tell(_lines(audit, confidence, together=count > 1))
        for gate in judged:
            say(f"{gate.rule}: {gate.reason}", console, first=palette.GATE[gate.outcome])
        say(_CONCLUSIONS[outcome], console, first=palette.RUN[outcome])
    ctx.exit(exit_code(outcome))


def _rows(audit: OneModel) -> dict[str, str]:
    from dpaudit.reports import words

    rows = {"AUC": words.interval(audit.auc)}
    for rate, value in audit.tpr.items():
        cell = words.interval(value) if value else audit.lacking[rate]
        rows[f"TPR at {words.percent(rate)} FPR"] = cell
    rows |= {"advantage": words.interval(audit.advantage)}
    if audit.exchangeable:
        rows["blind baseline, AUC"] = words.interval(audit.exchangeable)
    corrected = audit.corrected
    if corrected and corrected.auc and corrected.epsilon:
        rows["corrected AUC"] = words.interval(corrected.auc)
        for rate, value in (corrected.tpr or {}).items():
            cell = words.interval(value) if value else "too few pairs"
            rows[f"corrected TPR at {words.percent(rate)} FPR"] = cell
        name = "certified ε" if corrected.equal else f"ε, if Γ <= {corrected.gamma:g}"
        rows[name] = f">= {at_least(corrected.epsilon.lower, 2)}"
    return rows


def _lines(audit: OneModel, confidence: float, *, together: bool) -> Iterator[str]:
    from dpaudit.reports import words

    rows = _rows(audit)
    width = max(map(len, rows))
    yield from (f"{name:{width}}  {said}" for name, said in rows.items())
    if audit.reversed:
        area = audit.auc
        opposite = area.changed(value=1 - area.value, lower=1 - area.upper, upper=1 - area.lower)
        yield f"{_REVERSED} {words.interval(opposite)}; each end of the interval has α/2."
    held = "; corrected numbers under a limit hold all together" if together else ""
    yield f"Each interval holds by itself with {words.percent(confidence)} confidence{held}."
    if audit.corrected is None:
        yield from (_ASSUMES, _UNKNOWN)
        return
    yield _DOUBTED if audit.doubted else _KEPT
    if audit.corrected.refused:
        yield f"Nothing is corrected: {audit.corrected.refused}."
    else:
        yield from _assumed(audit.corrected)


def _assumed(corrected: Corrected) -> Iterator[str]:
    """Yield what the corrected numbers rest on."""
    yield (
        f"Corrected numbers compare {corrected.pairs} members with one other each, and hold "
        f"{corrected.condition}. {_APART}"
    )
    if corrected.explains and corrected.explains > 1:
        yield (
            f"Without a leak these odds would have to differ by a factor of "
            f"{at_least(corrected.explains, 2)} or more to explain the scores."
        )


def _json(audit: OneModel, judged: Sequence[GateRecord], outcome: RunOutcome) -> str:
    """Return the numbers; corrected ones are null if nothing is corrected."""
    from pydantic_core import to_jsonable_python

    from dpaudit.reports import words

    corrected = audit.corrected and {
        **{name: value for name, value in vars(audit.corrected).items() if name != "tpr"},
        "tpr": audit.corrected.tpr and _by_rate(audit.corrected.tpr),
    }
    record = {
        "auc": audit.auc,
        "tpr": _by_rate(audit.tpr),
        "lacking": {
            f"{rate:g}": f"TPR at {words.percent(rate)} FPR {why}"
            for rate, why in audit.lacking.items()
        },
        "advantage": audit.advantage,
        "exchangeable": audit.exchangeable,
        "doubted": audit.doubted,
        "reversed": audit.reversed,
        "corrected": corrected,
        "gates": judged,
        "outcome": outcome,
        "exit_code": exit_code(outcome),
    }
    return json.dumps(to_jsonable_python(record), indent=2)


def _by_rate(estimates: Mapping[float, Estimate | None]) -> dict[str, Estimate | None]:
    return {f"{rate:g}": estimate for rate, estimate in estimates.items()}
