"""Forecasts of what the games of a config can detect, made before they are run."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

from dpaudit.auditor.kind import Forecast
from dpaudit.auditor.plan import Plan
from dpaudit.audits.on_demand.config import OnDemandConfig
from dpaudit.audits.on_demand.games import PairScores, match_of
from dpaudit.audits.on_demand.subject import OnDemandModel
from dpaudit.bounds.planning import found_from, trials_needed
from dpaudit.config.tables import Game
from dpaudit.core.claim import Claim
from dpaudit.core.errors import InputError
from dpaudit.data.readers.load import load

_TIMED = 5_000
# The largest number of trials, of both data sets together, that a config may ask for.
_MOST = 200_000_000


def forecast(
    config: OnDemandConfig, *, factor: float | None = None, minutes: float | None = None
) -> list[Forecast]:
    """Forecast every game of the config at every claimed ε.

    The pairs are made or searched for as in the audit, and a few trials are run to time them.

    Args:
        config: a checked config.
        factor: the violation to detect, as a multiple of the claim; by default the smallest
            `detectable` of the gates.
        minutes: total time for all games; replaces their numbers of trials by as many as fit, at
            most as many as a config may ask for.

    Raises:
        DataError: the data cannot be read, or there are too few.
        InputError: `factor` or `minutes` is out of range.
    """
    from threadpoolctl import threadpool_limits

    if factor is not None and not 1 < factor < math.inf:
        raise InputError(f"factor = {factor} is not a finite number above 1: use e.g. 1.2")
    if minutes is not None and not 0 < minutes < math.inf:
        raise InputError(f"minutes = {minutes} is not a positive number: use e.g. 10")
    ratings = load(config.data)
    alpha = Plan(config, ratings=ratings).family.alpha
    gates = [gate.detectable for gate in config.gate if gate.detectable]
    wanted = factor or (min(gates) if gates else None)
    with threadpool_limits(1):  # as in the audit, whose pairs depend on the order of summation
        sampled = [
            sample
            for served in OnDemandModel.of(config, ratings)
            for game in config.game
            for sample in _samples(config, served, game)
        ]
    scale = 1.0
    if minutes is not None and sampled:
        scale = 60 * minutes / sum(sample.seconds for sample in sampled)
    return [_forecast(sample, scale, alpha, wanted) for sample in sampled]


@dataclass(frozen=True)
class _Sample:
    """A game run for a few trials, to measure what it shows and how long it takes."""

    model: str
    pair: str
    claim: Claim
    trials: int
    seconds: float
    timed: PairScores


def _samples(config: OnDemandConfig, served: OnDemandModel, game: Game) -> Iterator[_Sample]:
    match = match_of(served, game, config.seed)
    for defense in served.defenses:
        claim = defense.claim()
        if claim is None:
            continue
        match.run(defense, 1, config.seed)  # compiles the kernels, so that they are not timed
        clock = time.perf_counter()
        timed = match.run(defense, _TIMED, config.seed)
        seconds = (time.perf_counter() - clock) * game.trials / _TIMED
        yield _Sample(
            model=served.model.label,
            pair=game.label,
            claim=claim,
            trials=game.trials,
            seconds=seconds,
            timed=timed,
        )


def _forecast(sample: _Sample, scale: float, alpha: float, factor: float | None) -> Forecast:
    claim, trials = sample.claim, max(2, int(min(2 * sample.trials * scale, _MOST)))
    needed = None if factor is None else _needed(claim, factor * sample.timed.share, alpha)
    return Forecast(
        model=sample.model,
        pair=sample.pair,
        claimed=claim.epsilon,
        trials=trials,
        detectable=_detectable(claim, sample.timed.share, trials, alpha),
        needed=needed,
        seconds=sample.seconds * trials / (2 * sample.trials),
    )


def _detectable(claim: Claim, share: float, trials: int, alpha: float) -> float:
    """Forecast, optimistically, the least true ε at which the claim would be found to be false."""
    least = found_from(claim.epsilon, trials, alpha, delta=claim.delta)
    return least / share if share > 0 else math.inf


def _needed(claim: Claim, factor: float, alpha: float) -> float:
    if factor <= 1:
        return math.inf
    try:
        return trials_needed(
            claim.epsilon,
            factor,
            delta=claim.delta,
            confidence=1 - alpha,
            game="gaussian" if claim.delta else "laplace",
        )
    except InputError:  # more trials than can be run
        return math.inf
