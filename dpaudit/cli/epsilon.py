"""`dpaudit epsilon`: a certified bound from the outcomes of an attack, without a model."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpaudit.cli.options import Number, PathType, WholeRange
from dpaudit.cli.scores import mixed, read_scores
from dpaudit.core import rounding
from dpaudit.core.errors import ConfigError
from dpaudit.core.numbers import plain_number

if TYPE_CHECKING:
    from dpaudit.bounds.outcomes import Scores
    from dpaudit.core.estimate import Estimate

# Names of methods, by their input; the first of each is the default.
COUNTS = ("clopper-pearson", "jeffreys", "joint-beta", "gdp")
SCORES = ("label", "held-out", "gdp", "two-sample", "sequential", "one-run")
ONE_RUN = ("one-run", "one-run-gdp")

_KINDS = {
    "frequentist": "holds for every mechanism and attack",
    "credible": "a posterior statement, not a confidence bound: it exceeds the true ε more often",
    "assumes-gdp": "holds if the mechanism is Gaussian-DP",
    "assumes-law": "holds if the stated law of the outputs is the true one",
}

_EPILOG = """\b
Methods, by their input; the first is the default:
--scores-in, --scores-out   label, held-out, gdp, two-sample, sequential, one-run
--counts                    clopper-pearson, jeffreys, joint-beta, gdp
--one-run                   one-run, one-run-gdp

The scores of two-sample are log-ratios. The two files of one-run are the canaries of a single run,
each included by its own fair coin: sizes that fair coins do not give are refused.
"""


@click.command(epilog=_EPILOG)
@click.option(
    "--scores-in",
    type=PathType(dir_okay=False),
    help="Scores of the trials with the target record (csv or npy), one per trial.",
)
@click.option(
    "--scores-out",
    type=PathType(dir_okay=False),
    help="Scores of the trials without the target record.",
)
@click.option(
    "--counts", metavar="TP,FP,FN,TN", help="Outcomes of a test that was fixed in advance."
)
@click.option(
    "--one-run", metavar="M,R,V", help="One run: numbers of canaries, guesses and right guesses."
)
@click.option("--method", help="Method of the bound, see below.  [default: the first that fits]")
@click.option("--delta", type=Number(), default=0.0, show_default=True, help="The δ of the claim.")
@click.option(
    "--confidence", type=Number(), default=0.95, show_default=True, help="Confidence of the bound."
)
@click.option(
    "--seed",
    type=WholeRange(0),
    help="Seed of the random draws of a method, to repeat an audit.  [default: drawn, and printed]",
)
@click.option(
    "--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def epsilon(
    scores_in: Path | None,
    scores_out: Path | None,
    counts: str | None,
    one_run: str | None,
    method: str | None,
    delta: float,
    confidence: float,
    seed: int | None,
    style: str,
) -> None:
    """Certify a lower bound on ε from the outcomes of an attack; no model is needed."""
    given = [
        name
        for name, value in (
            ("--scores-in and --scores-out", scores_in or scores_out),
            ("--counts", counts),
            ("--one-run", one_run),
        )
        if value is not None
    ]
    if len(given) != 1:
        raise ConfigError(
            f"{' and '.join(given) or 'nothing'} given: give --scores-in with --scores-out, or "
            "--counts, or --one-run"
        )
    if not 0 < confidence < 1:
        raise ConfigError(f"--confidence {confidence} is not in (0, 1): use e.g. 0.95")
    options = {"delta": delta, "alpha": 1 - confidence, "confidence": confidence}
    # Whoever tries both directions of an attack gives half of the error probability to either.
    halved = {**options, "alpha": options["alpha"] / 2}
    witness = None
    drawn = None
    reverse: Callable[[], Estimate]
    if counts is not None:
        tp, fp, fn, tn = _numbers("--counts", counts, "TP,FP,FN,TN")
        method = _pick(method, COUNTS)
        found = _of_counts([tp, fp, fn, tn], method, options)
        reverse = partial(_of_counts, [fn, tn, tp, fp], method, halved)
    elif one_run is not None:
        canaries, guesses, right = _numbers("--one-run", one_run, "M,R,V")
        method = _pick(method, ONE_RUN)
        found = _of_one_run([canaries, guesses, right], method, options)
        reverse = partial(_of_one_run, [canaries, guesses, guesses - right], method, halved)
    else:
        if scores_in is None or scores_out is None:
            raise ConfigError("one of --scores-in and --scores-out is missing: give both")
        absent, present = read_scores(scores_out), read_scores(scores_in)
        from dpaudit.bounds.frequentist.seeds import settled

        method = _pick(method, SCORES)
        seed = settled(seed)
        found, witness = _of_scores(absent, present, method, options, seed)
        reverse = partial(_of_reversed, absent, present, method, halved, seed)
        drawn = None if method == "gdp" else seed
    opposite = reverse() if found.lower <= 0 else None
    opposite = opposite if opposite and opposite.lower > 0 else None
    shown = _json if style == "json" else _text
    click.echo(shown(found, opposite, delta, witness, drawn))


def _pick(method: str | None, known: tuple[str, ...]) -> str:
    from dpaudit.core.registry import suggestion

    if method is None:
        return known[0]
    if method not in known:
        raise ConfigError(f"--method {method!r} does not fit the input{suggestion(method, known)}")
    return method


def _numbers(option: str, text: str, form: str) -> list[int]:
    try:
        found = [int(part) if plain_number(part) else 0 for part in text.split(",")]
    except ValueError:
        found = []
    if len(found) != len(form.split(",")):
        raise ConfigError(
            f"the option {option} {text!r} is not {form}, integers separated by commas"
        )
    return found


def _of_counts(counts: list[int], method: str, options: dict[str, Any]) -> Estimate:
    from dpaudit.bounds.frequentist.counting import clopper_pearson_epsilon, jeffreys_epsilon
    from dpaudit.bounds.model_based.gdp import gdp_epsilon
    from dpaudit.bounds.model_based.joint_beta import joint_beta_epsilon
    from dpaudit.bounds.outcomes import Counts

    bounds: list[Callable[..., Estimate]] = [
        clopper_pearson_epsilon,
        jeffreys_epsilon,
        joint_beta_epsilon,
        gdp_epsilon,
    ]
    return bounds[COUNTS.index(method)](Counts(*counts), **options)


def _of_one_run(numbers: list[int], method: str, options: dict[str, Any]) -> Estimate:
    from dpaudit.bounds.frequentist.one_run import one_run_epsilon
    from dpaudit.bounds.model_based.one_run_fdp import one_run_gdp_epsilon

    bounds: dict[str, Callable[..., Estimate]] = dict(
        zip(ONE_RUN, (one_run_epsilon, one_run_gdp_epsilon), strict=True)
    )
    return bounds[method](*numbers, **options)


def _of_scores(
    absent: Scores, present: Scores, method: str, options: dict[str, Any], seed: int
) -> tuple[Estimate, str | None]:
    """Return the bound, and the event behind it if the method has one."""
    if method == "label":
        from dpaudit.bounds.frequentist.labels import label_epsilon

        found, event = label_epsilon(absent, present, **options, seed=seed)
        return found, str(event)
    if method == "gdp":
        from dpaudit.bounds.model_based.gdp import gdp_roc_epsilon

        return gdp_roc_epsilon(absent, present, **options), None
    # The other methods need scores in exchangeable order; a file may be sorted.
    scores, included = mixed(absent, present, seed)
    absent, present = scores[~included], scores[included]
    if method == "held-out":
        from dpaudit.bounds.frequentist.thresholds import held_out_epsilon

        found, threshold = held_out_epsilon(absent, present, **options)
        return found, str(threshold)
    if method == "two-sample":
        from dpaudit.bounds.frequentist.two_sample import two_sample_epsilon

        return two_sample_epsilon(present, absent, **options), None
    if method == "sequential":
        from dpaudit.bounds.frequentist.sequential import sequential_epsilon

        least = min(len(absent), len(present))
        return sequential_epsilon(absent[:least], present[:least], **options), None
    from dpaudit.bounds.frequentist.one_run import balanced_grid, one_run_scores_epsilon

    # The coins behind two files may be unfair; equal numbers of both guesses need no fair coins.
    grid = balanced_grid(len(scores))
    return one_run_scores_epsilon(scores, included, **options, grid=grid, seed=seed), None


def _of_reversed(
    absent: Scores, present: Scores, method: str, options: dict[str, Any], seed: int
) -> Estimate:
    """Return the bound of the attack that reads small scores as large ones."""
    return _of_scores(-absent, -present, method, options, seed)[0]


def _json(
    found: Estimate,
    opposite: Estimate | None,
    delta: float,
    witness: str | None,
    seed: int | None,
) -> str:
    record = {
        "epsilon_lower": found.lower,
        "epsilon_point": found.value if math.isfinite(found.value) else None,
        "epsilon_lower_of_both_directions": opposite.lower if opposite else None,
        "delta": delta,
        "confidence": found.confidence,
        "method": found.method,
        "kind": found.kind,
        "n": found.n,
        "event": witness,
        "seed": seed,
    }
    return json.dumps(record, indent=2)


def _text(
    found: Estimate,
    opposite: Estimate | None,
    delta: float,
    witness: str | None,
    seed: int | None,
) -> str:
    from dpaudit.reports import words

    stated = "credibility" if found.kind == "credible" else "confidence"
    lines = [
        f"ε >= {rounding.at_least(found.lower)} at δ = {delta:g} with "
        f"{words.percent(found.confidence)} {stated}",
        f"method: {found.method}, {found.n} trials",
        f"kind: {found.kind}: {_KINDS.get(found.kind, '')}",
    ]
    if witness:
        lines.append(f"event: {witness}")
    if opposite:
        lines.append(
            "Read as given, where a positive answer or a large score speaks for the target record, "
            "the attack is wrong more often than right. Reversed it shows a leak: with both "
            f"directions tried, each at α/2, ε >= {rounding.at_least(opposite.lower)}."
        )
    elif found.lower <= 0:
        lines.append(
            "These outcomes show no leak, nor would the reverse attack. That is no evidence of "
            "privacy."
        )
    elif found.kind == "frequentist":
        lines.append("A claim of a smaller ε is false. A claim of a larger one may be false too.")
    if seed is not None:
        lines.append(f"seed: {seed}")
    return "\n".join(lines)
