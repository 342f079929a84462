"""Run one experiment of the catalogue."""

from __future__ import annotations

from dataclasses import replace

from dpaudit.auditor.games.certify import Level, NoiseGame
from dpaudit.auditor.games.controls import reported
from dpaudit.audits.mechanism.certificate import SHARE
from dpaudit.bounds.frequentist.labels import LabelTest
from dpaudit.claims.early import refuted
from dpaudit.claims.entry import Check, ClaimGame
from dpaudit.claims.record import Stop
from dpaudit.claims.verdicts import Outcome
from dpaudit.core.errors import RunError


def check_outcome(check: Check, seed: int) -> Outcome:
    """Try a statement on instances; a counterexample is certain, hence the p-value 0."""
    counterexample = check.counterexample(seed)
    return Outcome(p_value=float(counterexample is None), event=counterexample or "")


def game_outcome(game: ClaimGame, trials: int, level: Level, seed: int, stop: Stop) -> Outcome:
    """Run a game, to its end unless bets may end it and do (`dpaudit.claims.early`).

    Args:
        game: the game.
        trials: number of trials on each data set.
        level: the level of the game.
        seed: the seed of its trials.
        stop: whether bets may end it.

    Raises:
        RunError: it cannot be run on a mutant.
    """
    if stop == "at-end":
        return _whole(game, trials, level, seed)
    early = refuted(game, trials, SHARE * level.alpha, seed)
    share = SHARE if early else 1 - SHARE
    outcome = early or _whole(game, trials, replace(level, alpha=share * level.alpha), seed)
    return outcome.model_copy(update={"p_value": min(1.0, outcome.p_value / share)})


def _whole(game: ClaimGame, trials: int, level: Level, seed: int) -> Outcome:
    """Run all trials of a game, and its mutants, at this level."""
    epsilon, delta = game.claimed()
    certificate = NoiseGame(
        mechanism=game,
        score=lambda mechanism, seed: mechanism.run(trials, seed),
        weaken=lambda mechanism, factor: mechanism.mutant(factor),
        level=level,
        seed=seed,
        claimed=epsilon,
    ).certified()
    if certificate.failed:
        raise RunError(f"{game.label}: {certificate.failed[0]}")
    test = certificate.event
    if not isinstance(test, LabelTest):
        raise TypeError(f"{game.label} has no scores of two data sets")
    return Outcome(
        certified=certificate.estimate,
        truth=certificate.outcomes.truth,
        p_value=test.p_value(epsilon, delta, level.alpha),
        control=reported(certificate.controls),
        tried=certificate.controls,
        event=str(test),
        trials=trials,
    )
