"""The positive control of a black-box audit: its game on copies with planted violations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dpaudit.auditor.games import certify as certifying
from dpaudit.auditor.games.controls import Bar
from dpaudit.audits.mechanism.calls import Trials
from dpaudit.audits.mechanism.certificate import Certificate
from dpaudit.audits.mechanism.game import OutputBound
from dpaudit.audits.mechanism.planted import positive_control
from dpaudit.audits.mechanism.repetition import unrepeated
from dpaudit.core.streams import generator
from dpaudit.record.values import Control


@dataclass(frozen=True, eq=False)
class PlantedGame:
    """A certificate that fresh processes repeat, and violations planted in outputs on D.

    Attributes:
        game: the game.
        pair: the data sets D and D'.
        trials: the number of outputs of the game.
        alpha: the level of its bound.
        claim: the claimed ε; None claims nothing.
        first: what the calls of one process certify.
        certificate: what fresh processes repeat of it.
    """

    game: OutputBound
    pair: tuple[Any, Any]
    trials: int
    alpha: float
    claim: float | None
    first: Certificate
    certificate: Certificate

    @property
    def doubtful(self) -> bool:
        """Whether one process breaks the claim, and fresh processes do not repeat that."""
        claim, certified = self.claim, self.certificate.epsilon.lower
        return claim is not None and certified <= claim < self.first.epsilon.lower

    def run(self) -> certifying.Certificate[Trials]:
        """Return the certificate."""
        certificate = self.certificate
        return certifying.Certificate(certificate.trials, certificate.epsilon, certificate.event)

    def rungs(self, bar: Bar, certificate: certifying.Certificate[Trials]) -> Iterator[float]:
        """Yield the one factor to try."""
        yield bar.least

    def control(self, rung: float, bar: Bar) -> Control | None:
        """Return what the game certifies of violations of so many times the limit.

        None if there are too few trials to find them.
        """
        game, calls = self.game, self.game.calls
        if self.doubtful:
            shown, certified = self.first.epsilon.lower, self.certificate.epsilon.lower
            return unrepeated(shown, certified, rung)

        def certified_of(train: Trials, test: Trials) -> float:
            return game.certify(train, test, self.alpha).epsilon.lower

        def on_d(count: int) -> Any:
            calls.progress.expect(count)
            return calls.of_one(self.pair[0], "control", count)

        calls.progress.stage("positive control")
        return positive_control(
            on_d,
            certified_of,
            claim=bar.limit,
            factor=rung,
            sizes=game.sizes(self.trials),
            alpha=self.alpha,
            delta=game.delta,
            rng=generator(calls.seed, "planted"),
            score=None if game.score == "learned" else game.score,
            unread=self.certificate.scorer.unread,
        )
