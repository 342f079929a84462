"""Forecasts of what the games of a config find, at best, before they are played."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

from dpaudit.auditor.measures.games import Round, match_of
from dpaudit.auditor.plan import family_of
from dpaudit.auditor.sweep import Sweep
from dpaudit.bounds.power.planning import trials_needed
from dpaudit.config import schema as configs
from dpaudit.core.claim import Claim
from dpaudit.core.errors import InputError
from dpaudit.data.readers.load import load

_TIMED = 5_000
# Worlds of both data sets that a config may ask for.
_MOST = 200_000_000


@dataclass(frozen=True)
class Forecast:
    """What one game at one ε can find.

    Attributes:
        model: the model's label.
        pair: the game's pair.
        claimed: the claimed ε.
        trials: worlds of both data sets together.
        detectable: a forecast, at best: the least ε for which noise too small is found with 95 %
            power, if the pair shows it in an event as frequent as half of the outputs. A run
            measures its power on mutants instead.
        needed: worlds that a violation by the wanted factor needs; infinite where this pair cannot
            show it or more than 1e9 are needed, None where no factor is wanted.
        seconds: about how long the game takes.
    """

    model: str
    pair: str
    claimed: float
    trials: int
    detectable: float
    needed: float | None
    seconds: float


def forecast(
    config: configs.Config, *, factor: float | None = None, minutes: float | None = None
) -> list[Forecast]:
    """The forecast of every game of the config at every claimed ε.

    The pairs are made or searched for as in the audit, and some worlds are played to time them.

    Args:
        config: a checked config.
        factor: the violation that is wanted to be found, as a multiple of the claim; of the gates
            on ε where none is given.
        minutes: the time for all games together; their trials are replaced by what fits in, up
            to what a config may ask for.

    Raises:
        DataError: the data cannot be read or are too few.
        InputError: the factor or the minutes are out of range.
    """
    if factor is not None and not 1 < factor < math.inf:
        raise InputError(f"factor = {factor} is not a finite number above 1: use e.g. 1.2")
    if minutes is not None and not 0 < minutes < math.inf:
        raise InputError(f"minutes = {minutes} is not a positive number: use e.g. 10")
    if config.trains:
        raise InputError(
            "models that are trained are not forecast: play their games with few trials first "
            "(-s game.0.trials=100) and read which mutants they find"
        )
    ratings = load(config.data)
    alpha = family_of(config, ratings).alpha
    gates = [gate.detectable for gate in config.gate if gate.detectable]
    wanted = factor or (min(gates) if gates else None)
    sampled = [
        sample
        for sweep in Sweep.of(config, ratings)
        for game in config.game
        for sample in _samples(config, sweep, game)
    ]
    scale = 1.0
    if minutes is not None and sampled:
        scale = 60 * minutes / sum(sample.seconds for sample in sampled)
    return [_forecast(sample, scale, alpha, wanted) for sample in sampled]


@dataclass(frozen=True)
class _Sample:
    """A game of which a little was played, to see what it shows and the time that it takes."""

    model: str
    pair: str
    claim: Claim
    trials: int
    seconds: float
    played: Round


def _samples(config: configs.Config, sweep: Sweep, game: configs.Game) -> Iterator[_Sample]:
    match = match_of(sweep, game, config.seed)
    for defense in sweep.defenses:
        claim = defense.claim()
        if claim is None:
            continue
        match.play(defense, 1, config.seed)  # compiles
        clock = time.perf_counter()
        played = match.play(defense, _TIMED, config.seed)
        seconds = (time.perf_counter() - clock) * game.trials / _TIMED
        yield _Sample(
            model=sweep.model.label,
            pair=game.label,
            claim=claim,
            trials=game.trials,
            seconds=seconds,
            played=played,
        )


def _forecast(sample: _Sample, scale: float, alpha: float, factor: float | None) -> Forecast:
    claim, trials = sample.claim, max(2, int(min(2 * sample.trials * scale, _MOST)))
    needed = None if factor is None else _needed(claim, factor * sample.played.share, alpha)
    return Forecast(
        model=sample.model,
        pair=sample.pair,
        claimed=claim.epsilon,
        trials=trials,
        detectable=sample.played.detectable(claim, trials, alpha),
        needed=needed,
        seconds=sample.seconds * trials / (2 * sample.trials),
    )


def _needed(claim: Claim, factor: float, alpha: float) -> float:
    if factor <= 1:
        return math.inf
    try:
        return trials_needed(
            claim.epsilon,
            factor,
            delta=claim.delta,
            confidence=1 - alpha,
            game="randomized-response",
        )
    except InputError:  # more than can be played
        return math.inf
