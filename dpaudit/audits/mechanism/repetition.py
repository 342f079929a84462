"""Repetition in fresh processes of what the calls of one process certify.

A claim is about one answer of a mechanism. Where answers share randomness, such as noise that an
object keeps, a cache, a seed of hashes or a number of earlier calls, the trials of one process are
not independent, and their bound is none on that claim. So no bound above 0 is believed before it is
repeated:

- Some calls are made again in fresh processes on copied data, with the same streams and other seeds
  of hashes. Equal outputs show that they depend on the data and the stream alone. Then the trials
  are independent, and their bound stands.
- Where outputs differ, or are the same in every call on a data set, the event is counted again in
  calls that share nothing: each in a process of its own, with fresh coins. The bound is the smaller
  one. That of these calls alone holds; but a generator with a fixed seed, which gives every process
  the same noise, is no violation where one process makes all releases.
- Where such calls cannot be made, no bound is certified. A process cannot be given the mechanism,
  or gets copies of values which may be its noise: see `kept`.
"""

from __future__ import annotations

from dataclasses import replace

from dpaudit.audits.mechanism.certificate import OutputCertificate
from dpaudit.audits.mechanism.game import OutputBound
from dpaudit.bounds.planning import detectable_epsilon
from dpaudit.core.errors import InputError
from dpaudit.core.rounding import at_least
from dpaudit.record.values import Control

# The number of calls that are made again, each in a process of its own: in a new Python with its
# own seed of hashes, and in forks of one, which are faster.
_NEW, _FORKED = 4, 16
# How many calls count the event again: without a claim, and to show more than a claim, the first of
# these that is expected to suffice.
_COUNT, _COUNTS = 100, (50, 100, 200, 400)
# The level at which the event of an early end says how much it shows.
_DOUBT = 0.1
# How many kept values a sentence names.
_NAMED = 3
_MORE = "outputs depend on more than the data and rng"


def repeated(
    game: OutputBound, certificate: OutputCertificate
) -> tuple[OutputCertificate, str | None]:
    """Return the certificate that may be believed, and a sentence if it is not the given one.

    Args:
        game: the game, whose claim decides how many calls count the event again.
        certificate: what the calls of one process certify.
    """
    bound = certificate.epsilon.lower
    if bound <= 0:
        return certificate, None
    calls, pair, claim = game.calls, game.pair, game.claim
    try:
        kept = calls.may_be_noise(constant=certificate.noiseless)
        if kept:
            return _withheld(certificate, _given(kept))
        if not certificate.noiseless and all(
            calls.repeats(certificate.trials, pair, count, own_hash=own_hash)
            for count, own_hash in ((_FORKED, False), (_NEW, True))
        ):
            return certificate, None
        # A bound of bets lies little above the claim; their event shows more.
        event_bound = certificate.event.epsilon(game.delta, _DOUBT) if certificate.early else 0.0
        count = _sufficient(max(bound, event_bound), claim, game.alpha, game.delta)
        # Few seeds of hashes first, which is faster; then each call with its own.
        for own_hash in (False, True):
            trials = calls.fresh(pair, f"repetition/{own_hash}", count, own_hash=own_hash)
            alone = game.judge(certificate.scorer, trials)
            if alone.epsilon.lower <= 0:
                break
    except InputError as error:
        return _withheld(certificate, str(error))
    alone = replace(alone, epsilon=alone.epsilon.changed(lower=min(bound, alone.epsilon.lower)))
    if certificate.noiseless and alone.noiseless:
        return alone, None
    sentence = f"{_MORE}, so the bound is that of {count} calls in fresh processes"
    if alone.epsilon.lower <= (claim or 0.0) < bound:
        sentence = (
            f"{_MORE}: {count} calls in fresh processes do not repeat the ε >= {at_least(bound)} "
            "that calls in one process show, as where noise or a state is kept between calls"
        )
    return alone, sentence


def unrepeated(bound: float, certified: float, factor: float) -> Control:
    """Return the control of a game that breaks a claim in one process and not in fresh ones.

    It found no copy, so that no gate passes.

    Args:
        bound: what the calls of one process show.
        certified: the bound that holds.
        factor: the violation that a control looks for, as a multiple of the claim.
    """
    return Control(
        mutant="what calls in one process show and fresh processes do not repeat",
        factor=factor,
        epsilon=bound,
        certified=certified,
        found=False,
    )


def _sufficient(bound: float, claim: float | None, alpha: float, delta: float) -> int:
    """Return how many calls are expected to certify more than the claim if the bound is true."""
    if claim is None:
        return _COUNT
    if bound <= claim:
        return _COUNTS[0]
    least = (detectable_epsilon(claim, count, alpha, delta=delta) for count in _COUNTS)
    return next((count for count, e in zip(_COUNTS, least, strict=True) if e <= bound), _COUNTS[-1])


def _given(kept: list[str]) -> str:
    """Return why a bound holds for the given values only."""
    names = ", ".join(kept[:_NAMED]) + (f" and {len(kept) - _NAMED} more" * (len(kept) > _NAMED))
    return (
        f"it holds given values from when the mechanism was made ({names}), which may be its "
        "noise: give a function at the top of a module, or an object that a module holds, so that "
        "a fresh process makes them again, or keep the arguments of __init__ under their names"
    )


def _withheld(certificate: OutputCertificate, why: str) -> tuple[OutputCertificate, str]:
    """Return the certificate with the bound that always holds, and why it has no other."""
    bound = certificate.epsilon.lower
    nothing = replace(certificate, epsilon=certificate.epsilon.changed(lower=0.0))
    return nothing, f"the ε >= {at_least(bound)} of calls in one process is not certified: {why}"
