"""`dpaudit epsilon`: a certified bound from the outcomes of an attack, without a model."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from dpaudit.cli import options
from dpaudit.cli.options import NumberType, PathType, WholeRange
from dpaudit.cli.writing import echo, tell
from dpaudit.core import rounding
from dpaudit.core.errors import ConfigError
from dpaudit.core.rounding import plain_number

if TYPE_CHECKING:
    from dpaudit.bounds.outcomes import Scores
    from dpaudit.core.estimate import Estimate

# Names of methods, by their input; the first of each is the default.
COUNTS = ("clopper-pearson", "gdp")
SCORES = ("label", "gdp", "two-sample", "one-run")
ONE_RUN = ("one-run", "one-run-gdp")

_KINDS = {
    "frequentist": "holds for every mechanism and attack",
    "assumes-gdp": "holds if the mechanism is Gaussian-DP",
    "assumes-law": "holds if the stated law of the outputs is the true one",
}

_EPILOG = f"""\b
Methods, by their input; the first is the default:
--scores-in, --scores-out   {", ".join(SCORES)}
--counts                    {", ".join(COUNTS)}
--one-run                   {", ".join(ONE_RUN)}

The scores of two-sample are log-ratios. The two files of one-run are the canaries of a single run,
each included by its own fair coin: sizes that fair coins do not give are refused.
"""

# A bound, and the event behind it if the method has one.
_Bound = tuple["Estimate", str | None]


class _Outcomes(NamedTuple):
    """The outcomes of an attack, and the bound to certify from them.

    Attributes:
        bound: computes it from outcomes, at a δ and a level.
        forward: the outcomes of the attack as given.
        reverse: those of the reverse attack.
        seed: that of the method's draws; None if it has none.
    """

    bound: Callable[..., _Bound]
    forward: tuple[Any, ...]
    reverse: tuple[Any, ...]
    seed: int | None = None


class _Certified(NamedTuple):
    """What is certified.

    Attributes:
        forward: the bound of the attack as given.
        opposite: that of the reverse attack, if it alone shows a leak.
        delta: δ of the claim.
        event: the event behind the bound, if the method has one.
        seed: that of the method's draws; None if it has none.
    """

    forward: Estimate
    opposite: Estimate | None
    delta: float
    event: str | None
    seed: int | None


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
@options.defaulted("--delta", NumberType(), 0.0, "The δ of the claim.")
@options.defaulted("--confidence", NumberType(), 0.95, "Confidence of the bound.")
@click.option(
    "--seed",
    type=WholeRange(0),
    help="Seed of the random draws of a method, to repeat an audit.  [default: drawn, and printed]",
)
@options.style("json")
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
    scores = "--scores-in and --scores-out"
    inputs = {scores: scores_in or scores_out, "--counts": counts, "--one-run": one_run}
    given = [name for name, value in inputs.items() if value is not None]
    if len(given) != 1:
        raise ConfigError(
            f"{' and '.join(given) or 'nothing'} given: give --scores-in with --scores-out, or "
            "--counts, or --one-run"
        )
    if not 0 < confidence < 1:
        raise ConfigError(f"--confidence {confidence} is not in (0, 1): use e.g. 0.95")
    if counts is not None:
        outcomes = _of_counts(counts, method)
    elif one_run is not None:
        outcomes = _of_one_run(one_run, method)
    elif scores_in is None or scores_out is None:
        raise ConfigError("one of --scores-in and --scores-out is missing: give both")
    else:
        outcomes = _of_scores(scores_in, scores_out, method, seed)
    certified = _certified(outcomes, delta, confidence)
    if style == "json":
        echo(_json(certified))
    else:
        tell(_lines(certified))


def _certified(outcomes: _Outcomes, delta: float, confidence: float) -> _Certified:
    alpha = 1 - confidence
    forward, event = outcomes.bound(*outcomes.forward, delta=delta, alpha=alpha)
    opposite = None
    if forward.lower <= 0:
        # Whoever tries both directions of an attack gives half of the error probability to either.
        reverse, _ = outcomes.bound(*outcomes.reverse, delta=delta, alpha=alpha / 2)
        opposite = reverse if reverse.lower > 0 else None
    forward = forward.changed(confidence=confidence)
    return _Certified(forward, opposite, delta, event, outcomes.seed)


def _of_counts(text: str, method: str | None) -> _Outcomes:
    from dpaudit.bounds.frequentist.intervals import clopper_pearson_epsilon
    from dpaudit.bounds.gdp import gdp_epsilon
    from dpaudit.bounds.outcomes import Counts

    bound = {"clopper-pearson": clopper_pearson_epsilon, "gdp": gdp_epsilon}[_pick(method, COUNTS)]
    tp, fp, fn, tn = _numbers("--counts", text, "TP,FP,FN,TN")

    return _Outcomes(
        lambda *counts, **level: (bound(Counts(*counts), **level), None),
        (tp, fp, fn, tn),
        (fn, tn, tp, fp),
    )


def _of_one_run(text: str, method: str | None) -> _Outcomes:
    from dpaudit.bounds.frequentist.one_run import one_run_epsilon
    from dpaudit.bounds.gdp import one_run_gdp_epsilon

    bounds: dict[str, Callable[..., Estimate]]
    bounds = {"one-run": one_run_epsilon, "one-run-gdp": one_run_gdp_epsilon}
    bound = bounds[_pick(method, ONE_RUN)]
    canaries, guesses, right = _numbers("--one-run", text, "M,R,V")

    return _Outcomes(
        lambda *numbers, **level: (bound(*numbers, **level), None),
        (canaries, guesses, right),
        (canaries, guesses, guesses - right),
    )


def _of_scores(
    scores_in: Path, scores_out: Path, method: str | None, seed: int | None
) -> _Outcomes:
    from dpaudit.bounds.outcomes import settled
    from dpaudit.cli.scores import read_scores

    absent, present = read_scores(scores_out), read_scores(scores_in)
    name, seed = _pick(method, SCORES), settled(seed)
    return _Outcomes(
        partial(_bound_of_scores, method=name, seed=seed),
        (absent, present),
        (-absent, -present),  # the reverse attack reads small scores as large ones
        None if name == "gdp" else seed,
    )


def _bound_of_scores(
    absent: Scores, present: Scores, *, method: str, seed: int, **level: Any
) -> _Bound:
    if method == "label":
        from dpaudit.bounds.frequentist.labels import label_epsilon

        estimate, event = label_epsilon(absent, present, **level, seed=seed)
        return estimate, str(event)
    if method == "gdp":
        from dpaudit.bounds.gdp import gdp_roc_epsilon

        return gdp_roc_epsilon(absent, present, **level), None
    from dpaudit.cli.scores import mixed

    # The other methods need scores in exchangeable order; a file may be sorted.
    scores, included = mixed(absent, present, seed)
    if method == "two-sample":
        from dpaudit.bounds.frequentist.likelihood import two_sample_epsilon

        return two_sample_epsilon(scores[included], scores[~included], **level), None
    from dpaudit.bounds.frequentist.one_run import balanced_grid, one_run_scores_epsilon

    # The coins behind two files may be unfair; equal numbers of both guesses need no fair coins.
    grid = balanced_grid(len(scores))
    return one_run_scores_epsilon(scores, included, **level, grid=grid, seed=seed), None


def _pick(method: str | None, known: tuple[str, ...]) -> str:
    from dpaudit.core.registry import suggestion

    if method is None:
        return known[0]
    if method not in known:
        raise ConfigError(f"--method {method!r} does not fit the input{suggestion(method, known)}")
    return method


def _numbers(option: str, text: str, form: str) -> list[int]:
    try:
        numbers = [int(part) if plain_number(part) else 0 for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != len(form.split(",")):
        raise ConfigError(
            f"the option {option} {text!r} is not {form}, integers separated by commas"
        )
    return numbers


def _json(certified: _Certified) -> str:
    forward, opposite = certified.forward, certified.opposite
    record = {
        "epsilon_lower": forward.lower,
        "epsilon_point": forward.value if math.isfinite(forward.value) else None,
        "epsilon_lower_of_both_directions": opposite.lower if opposite else None,
        "delta": certified.delta,
        "confidence": forward.confidence,
        "method": forward.method,
        "kind": forward.kind,
        "n": forward.n,
        "event": certified.event,
        "seed": certified.seed,
    }
    return json.dumps(record, indent=2)


def _lines(certified: _Certified) -> Iterator[str]:
    from dpaudit.reports import words

    forward, opposite = certified.forward, certified.opposite
    yield (
        f"ε at least {rounding.at_least(forward.lower)} at δ = {certified.delta:g} with "
        f"{words.percent(forward.confidence)} confidence"
    )
    yield f"method: {forward.method}, {forward.n} trials"
    yield f"kind: {forward.kind}: {_KINDS.get(forward.kind, '')}"
    if certified.event:
        yield f"event: {certified.event}"
    if opposite:
        yield (
            "Read as given, where a positive answer or a large score speaks for the target record, "
            "the attack is wrong more often than right. Reversed it shows a leak: with both "
            f"directions tried, each at α/2, ε at least {rounding.at_least(opposite.lower)}."
        )
    elif forward.lower <= 0:
        yield (
            "These outcomes show no leak, nor would the reverse attack. That is no evidence of "
            "privacy."
        )
    elif forward.kind == "frequentist":
        yield "A claim of a smaller ε is false. A claim of a larger one may be false too."
    if certified.seed is not None:
        yield f"seed: {certified.seed}"
