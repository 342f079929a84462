"""The result of a black-box audit."""

from __future__ import annotations

from dataclasses import dataclass

from dpaudit.bounds.frequentist.labels import LabelTest
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import Control


@dataclass(frozen=True)
class Stopped:
    """An audit that ended early, as it had refuted the claim.

    Attributes:
        outputs: the number of outputs so far.
        p_value: the p-value of the claim, which holds at any time.
    """

    outputs: int
    p_value: float


@dataclass(frozen=True)
class BlackBoxAudit:
    """The result of an audit of a mechanism on one pair of data sets.

    Attributes:
        epsilon: certified lower bound on the mechanism's ε at `delta`.
        delta: the δ at which it holds.
        event: the event that certifies it, with its frequencies.
        pair: the index of the audited pair among those given.
        score: name of the score.
        likelihood: the bound that holds if the given `log_ratio` is the true one; for information
            only.
        seed: the seed, with which the same audit can be repeated.
        drift: a sentence if outputs change with the number of the call or depend on the previous
            call's; None if neither was found.
        control: the positive control: what the same game certified where a violation was planted;
            None if no claim was given, the mechanism itself was found to break it, or there are
            too few trials.
        noiseless: whether each call on D gave the same output, and each on D' the same other one.
        repetition: a sentence if the calls of one process alone certify nothing, as their outputs
            depend on more than the data and `rng`; says what fresh processes repeat. Else None.
        raised: a sentence if calls raised exceptions, which are outputs; else None.
        doubtful: whether the calls of one process break the claim, and fresh processes do not
            repeat that: neither is it false, nor does the audit speak for it.
        unread: what the learned score does not read in the outputs, in words.
        stopped: where it ended early; the bound then holds at any time. Else None.
        finds: the least true ε above the claim that all trials find with 95 % power, as forecast
            for Laplace noise, see `bounds.power.detectable_epsilon`; infinite if they find
            none, None without a claim.
        held: the names of values from when the mechanism was made that count as settings, where
            more than the claim is certified: were one of them noise, it would hold for this noise.
    """

    epsilon: Estimate
    delta: float
    event: LabelTest
    pair: int
    score: str
    likelihood: Estimate | None = None
    seed: int = 0
    drift: str | None = None
    control: Control | None = None
    noiseless: bool = False
    repetition: str | None = None
    raised: str | None = None
    doubtful: bool = False
    unread: tuple[str, ...] = ()
    stopped: Stopped | None = None
    finds: float | None = None
    held: tuple[str, ...] = ()

    @property
    def settings(self) -> str | None:
        """Return a sentence on the values that count as settings; None without such."""
        if not self.held:
            return None
        return (
            f"it holds {', '.join(self.held)} from when it was made, which looks like a setting: "
            "if it is noise, the bound is that of this noise alone, so draw it from rng in each "
            "call"
        )
