"""From signals to scores: one half of the trainings calibrates the attacks, the other is judged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import MembershipInference, Numbers, Signals
from dpaudit.attacks.membership.discriminant import direction
from dpaudit.audits.membership.estimates import Guesses, best_guesses
from dpaudit.audits.membership.rates import Curve, best_threshold
from dpaudit.core.errors import RunError
from dpaudit.core.streams import generator
from dpaudit.record.result import Family

Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]

# The fewest trainings with a model that an attack learns from.
_FITTED = 2


@dataclass(frozen=True, eq=False)
class Trials:
    """The features and coins of some trainings.

    Attributes:
        features: features of the targets `(T, m, F)`; NaN in trainings that end without a model.
        population: features of the population `(T, p, F)`; p may be 0.
        present: whether each target is in the data of each training `(T, m)`.
        unanswered: the share of what was asked of each target that has no answer `(T, m)`; None
            if everything is answered.
    """

    features: Numbers
    population: Numbers
    present: Mask
    unanswered: Numbers | None = None

    def __len__(self) -> int:
        return len(self.present)

    def of(self, which: Rows) -> Self:
        """Return some of the trainings, in this order (indices `(n,)`)."""
        lacking = None if self.unanswered is None else self.unanswered[which]
        return type(self)(
            self.features[which], self.population[which], self.present[which], lacking
        )

    @property
    def ended(self) -> Rows:
        """The trainings that end with a model `(n,)`."""
        return np.flatnonzero(~np.isnan(self.features).any((1, 2)))

    def halves(self, seed: int, purpose: str) -> tuple[Self, Self]:
        """Divide the trainings at random in two halves; the first has one more of an odd number.

        Neither the place of a training nor its neighbours decide in which half it is, so a model
        that leaks in every second training leaks in both. The order within a half is random too, as
        intervals over trainings need it of a model that drifts.

        Args:
            seed: the run's seed.
            purpose: what the halves are for; each purpose divides differently.
        """
        order = generator(seed, f"membership {purpose}").permutation(len(self))
        first = (len(self) + 1) // 2
        return self.of(order[:first]), self.of(order[first:])

    def told(self, epsilon: float, seed: int) -> Self:
        """Return the trials with one more feature, which tells every coin by randomised response.

        It is right with probability e^ε/(1 + e^ε), so it is ε-DP and no less, and whoever sees it
        besides the model sees at least as much.

        Args:
            epsilon: the ε of the answers.
            seed: of the answers.
        """
        draws = generator(seed, "membership planted").random(self.present.shape)
        right = draws >= 1 / (1 + math.exp(epsilon))
        answers = np.where(self.present == right, 1.0, -1.0)[:, :, None]
        none = np.zeros((*self.population.shape[:2], 1))
        return type(self)(
            np.concatenate((self.features, answers), axis=2),
            np.concatenate((self.population, none), axis=2),
            self.present,
        )

    def scores(self, attack: MembershipInference, reference: Trials) -> Numbers:
        """Return an attack's score of each target in each training `(T, m)`.

        Without a model all targets score alike, in the middle of the others. The attacker has no
        use for such trainings of their own; with fewer than two others, all scores are 0.

        Args:
            attack: the attack.
            reference: the attacker's own trainings, none of which is among these.

        Raises:
            RunError: a score is missing, or no finite number.
        """
        seen, known = self.of(self.ended), reference.of(reference.ended)
        if not len(seen) or len(known) < _FITTED:
            return np.zeros(self.present.shape)
        toward = direction(known.features, known.present)
        found = attack.score(seen._signals(toward), known._signals(toward), known.present)
        if found.shape != seen.present.shape or not np.isfinite(found).all():
            raise RunError(
                f"attack {attack.name!r} does not score every target in every training by a finite "
                "number: correct its method score"
            )
        scores = np.full(self.present.shape, np.median(found))
        scores[self.ended] = found
        return scores

    def _signals(self, toward: Numbers) -> Signals:
        fit, population = (
            np.einsum("tmf,f->tm", each, toward) for each in (self.features, self.population)
        )
        return Signals(self.features, fit, population)


@dataclass(frozen=True, eq=False)
class Judged:
    """An attack's scores in the judged trainings, and what the other half chose.

    Attributes:
        scores: scores of the targets `(C, m)`.
        present: whether each target is in the data `(C, m)`.
        threshold: the threshold with the largest advantage in the calibrating half.
        guesses: the shares of the coins to guess, "present" and "absent", that certified most
            there.
        promise: what the attack reached there, by metric: the mean over trainings, and for
            `epsilon` the bound.
        unanswered: as in `Trials`, of the judged trainings `(C, m)`.
    """

    scores: Numbers
    present: Mask
    threshold: float
    guesses: Guesses
    promise: Mapping[str, float]
    unanswered: Numbers | None = None

    @property
    def curve(self) -> Curve:
        """The scores as they are."""
        return Curve(self.scores, self.present)

    @property
    def worst(self) -> Curve | None:
        """The scores if the answers that are missing told every coin; None if none is missing."""
        if self.unanswered is None or not self.unanswered.any():
            return None
        lacking = self.unanswered > 0
        ends = np.where(self.present, self.scores.max() + 1, self.scores.min() - 1)
        return Curve(np.where(lacking, ends, self.scores), self.present)


def judged(
    trials: Trials,
    attack: MembershipInference,
    rates: Sequence[float],
    family: Family,
    delta: float,
    seed: int,
) -> Judged:
    """Score the judged half of the trainings with an attack that the other half calibrates.

    The calibrating half is divided again: its first part calibrates a rehearsal on its second part,
    which sets the threshold and the guesses and says how strong the attack is. So nothing of the
    judged half chooses anything.

    Args:
        trials: all trainings, at least 8.
        attack: the attack.
        rates: the false-positive rates of interest.
        family: the family of the run's intervals.
        delta: δ of the certified ε.
        seed: the run's seed; it divides the trainings.
    """
    calibrating, certifying = trials.halves(seed, "judged half")
    first, second = calibrating.halves(seed, "rehearsal")
    rehearsed = second.scores(attack, first)
    curve = Curve(rehearsed, second.present)
    threshold = best_threshold(rehearsed, second.present)
    epsilon, guesses = best_guesses(rehearsed, second.present, delta=delta, family=family)
    return Judged(
        certifying.scores(attack, calibrating),
        certifying.present,
        threshold,
        guesses,
        {
            "epsilon": epsilon,
            "auc": float(curve.areas().mean()),
            "advantage": float(curve.advantages(threshold).mean()),
            **{f"tpr {rate:g}": float(curve.found(rate).mean()) for rate in rates},
        },
        certifying.unanswered,
    )


def strongest(found: Mapping[str, Judged], metric: str) -> str:
    """Return the label of the attack that did best in the calibrating half; the first of equals."""
    return max(found, key=lambda label: found[label].promise[metric])
