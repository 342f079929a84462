"""The game that certifies ε of trainings whose data are decided by coins, and its mutants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from dpaudit.auditor.context import Context
from dpaudit.auditor.games.certify import Certificate
from dpaudit.auditor.games.controls import LADDER, Bar
from dpaudit.audits.membership import planted
from dpaudit.audits.membership.calibration import Judged, Trials, rivals
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.audits.membership.estimates import certified
from dpaudit.record import result as records
from dpaudit.record.values import Control, Noise

# The largest ε of a planted leak; a larger one is right as often.
_MOST_PLANTED = 50.0


@dataclass(frozen=True, eq=False)
class CoinGame:
    """The game of the attacks that promise the largest ε, and of trainings with a planted leak.

    Attributes:
        context: the context of the run.
        family: the bounds at all looks, which hold jointly with all others.
        trials: the trainings.
        scored: each attack's scores in the judged ones.
        few: how many of the attacks are judged.
        judging: judges each attack on other trials.
        claimed: the claimed ε, if the claim is about the game.
        delta: the δ of the bound.
        noises: the laws of planted leaks, see `planted`.
    """

    context: Context[MembershipConfig]
    family: records.Family
    trials: Trials
    scored: Mapping[str, Judged]
    few: int
    judging: Callable[[Trials], Mapping[str, Judged]]
    claimed: float | None
    delta: float
    noises: tuple[Noise, ...]

    def run(self) -> Certificate[Judged]:
        """Certify ε by the attacks' scores."""
        return self._certificate(self.scored)

    def rungs(self, bar: Bar, certificate: Certificate[Judged]) -> Iterator[float]:
        """Yield the ε of the leaks to plant."""
        planted = [times * bar.limit for times in ((bar.factor,) if bar.factor else LADDER)]
        yield from (epsilon for epsilon in planted if 0 < epsilon <= _MOST_PLANTED)

    def control(self, rung: float, bar: Bar) -> Control:
        """Certify ε of trainings with a planted leak."""

        def of_mutant(noise: Noise, run: int) -> float:
            mutant = self.trials.mutant(noise, rung, self.delta, self.context.seed, run)
            return self._certificate(self.judging(mutant)).estimate.lower

        base = self.claimed or bar.limit
        least = min(base, bar.limit)
        return planted.control(of_mutant, self.noises, rung, self.delta, base, least)

    def _certificate(self, scored: Mapping[str, Judged]) -> Certificate[Judged]:
        """Return the largest bound of the attacks that promise most, which share the level."""
        labels = rivals(scored, "epsilon", self.few)
        family = records.Family.of(self.family.confidence, self.family.size * len(labels))
        certificates = [
            Certificate(
                scored[label],
                certified(
                    scored[label].scores,
                    scored[label].present,
                    scored[label].guesses,
                    delta=self.delta,
                    family=family,
                    seed=self.context.seed,
                ),
                label,
            )
            for label in labels
        ]
        best = max(certificates, key=lambda certificate: certificate.estimate.lower)
        return replace(best, estimate=best.estimate.changed(alpha=self.family.alpha))
