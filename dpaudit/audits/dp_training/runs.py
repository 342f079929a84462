"""Runs a training on all data sets that the checks compare, and makes the checks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from dpaudit.audits.dp_training import checks, datasets, pairs
from dpaudit.audits.dp_training.law import Law
from dpaudit.audits.dp_training.places import Executed, blamed, parting, traced
from dpaudit.audits.dp_training.recorder import Enough, Wanted
from dpaudit.audits.dp_training.transcript import Forced, Setup, Transcript
from dpaudit.audits.dp_training.verdict import Verdict, not_tested
from dpaudit.audits.dp_training.watch import Watch
from dpaudit.core.errors import ConfigError, RunError
from dpaudit.core.estimate import Estimate
from dpaudit.core.foreign import foreign
from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings

# A training: `train(interactions, seed, watch)`.
Train = Callable[[Interactions, int, Watch], Any]
# By how much weights are enlarged: at the usual start no gradient exceeds the norm.
_ENLARGED = 100.0
# The steps that show clipping, and those of the three data sets with another last row; and how many
# numbers their sums have at most, in each of the three.
_STRESSED, _FEWEST, _MOST, _NUMBERS = 3, 32, 512, 2**27
# A row is in one of so many batches at the chosen number of steps in all but 1 of 400 trainings.
_SURE = 6
# With how many seeds a row is tried that is in no batch.
_TRIES = 4
# How many data sets that differ in all rows are compared with one training.
_TOGETHER = 2


@dataclass(frozen=True)
class Trainer:
    """A training that can be run.

    Attributes:
        train: the training.
        name: what messages call it.
        seed: its seed.
        delta: the claim's δ.
    """

    train: Train
    name: str
    seed: int
    delta: float

    def run(self, ratings: Ratings, *, offset: int = 0, **wanted: Any) -> Transcript:
        """Train on data, and return what was seen.

        Args:
            ratings: the data.
            offset: what is added to the seed.
            wanted: what is wanted, as in `Wanted`.

        Raises:
            ConfigError: the training is not watched.
            RunError: the training raises an exception.
        """
        return self._watched(self._watch(ratings, **wanted), ratings, offset)

    def traced(self, ratings: Ratings, base: Transcript) -> list[Executed]:
        """Train on data with a training's noised sums, and return the lines that are executed.

        Raises:
            RunError: the training raises an exception.
        """
        folder = os.path.dirname(base.places["watch"].file)
        watch = self._watch(ratings, forced=base.forced)
        return traced(folder, watch.state, lambda: self._watched(watch, ratings))

    def _watch(self, ratings: Ratings, **wanted: Any) -> Watch:
        records = {"interaction": len(ratings), "user": ratings.n_users}
        return Watch(Wanted(self.delta, **wanted), records)

    def _watched(self, watch: Watch, ratings: Ratings, offset: int = 0) -> Transcript:
        name, returned, finished = f"{self.name} with seed {self.seed}", None, False
        with foreign(lambda problem: RunError(f"{name} raised {problem}: correct it")):
            try:
                returned = self.train(Interactions.of(ratings), self.seed + offset, watch)
                finished = True
            except BaseException as error:
                # A training may convert what ends it.
                if not isinstance(error, Enough) and not isinstance(error.__cause__, Enough):
                    raise
        return watch.transcript(returned, finished=finished)


class Examined(NamedTuple):
    """What was found of a training.

    Attributes:
        verdicts: what the checks say.
        law: what the training states.
        size: its measured noise.
        stated: the ε that its accountant states; None without one.
    """

    verdicts: list[Verdict]
    law: Law
    size: Estimate
    stated: float | None

    def joined(self, others: Iterable[Examined]) -> Examined:
        """Return it with what others found; of one check the first verdict that fails counts."""
        verdicts = {verdict.check: verdict for verdict in self.verdicts}
        for verdict in (verdict for other in others for verdict in other.verdicts):
            if not (verdict.check in verdicts and verdicts[verdict.check].fails):
                verdicts[verdict.check] = verdict
        clipping, alone = verdicts["clipping"], verdicts["sum"]
        if clipping.fails and alone.outcome == "holds":
            # As of gradients that are normalised, whatever their norm.
            why = f"{clipping.text}, and {alone.text}: rows are clipped in another way"
            verdicts["clipping"] = not_tested("clipping", why)
        return self._replace(verdicts=[*verdicts.values()])


@dataclass(frozen=True)
class Examination:
    """All that is run of a training, in parts that need nothing of each other.

    Attributes:
        trainer: the training.
        ratings: the data.
        claimed: the claimed ε.
        own: how many rows the claim is about together: 1, or those of a user.
        far: the number of data sets that differ in all rows.
        number_is_public: whether the number of rows is declared public.
    """

    trainer: Trainer
    ratings: Ratings
    claimed: float
    own: int = 1
    far: int = 4
    number_is_public: bool = False

    def parts(self) -> list[tuple[int, Callable[[], Examined]]]:
        """Return the parts with their numbers of trainings; the first says what accountants say.

        Each part raises:
            ConfigError: the training is not watched, or not repeated by its seed.
            RunError: the training raises an exception.
        """
        starts = range(0, self.far, _TOGETHER)
        sizes = (1 + min(_TOGETHER, self.far - start) for start in starts)
        parts = (partial(self._compared, start) for start in starts)
        return [*zip(sizes, parts, strict=True), (1, self._alone)]

    def _compared(self, start: int) -> Examined:
        """Run the training, check its steps in the first part, and compare data sets with it."""
        base = self.trainer.run(self.ratings, accounted=not start, gradients=True)
        verdicts = [] if start else self._of_steps(base)
        return self._examined(base, *verdicts, self._far(start, base))

    def _alone(self) -> Examined:
        """Compare data sets that differ in their last rows with each other."""
        base = self.trainer.run(self.ratings, steps=_FEWEST)
        return self._examined(base, self._sums(base))

    def _examined(self, base: Transcript, *verdicts: Verdict) -> Examined:
        law, size = self._law(base), checks.measured_size(base.steps)
        located = [blamed(verdict, base.places) for verdict in verdicts]
        return Examined(located, law, size, base.stated)

    def _law(self, run: Transcript) -> Law:
        return Law.of(run.setup, len(run.steps), self.trainer.delta)

    def _of_steps(self, base: Transcript) -> list[Verdict]:
        """Make the checks of the steps of one training, and of few steps of others."""
        trainer, ratings, law = self.trainer, self.ratings, self._law(base)
        again = trainer.run(ratings, steps=1)
        one, two = base.steps[0], again.steps[0]
        # The noise may be the operating system's, so that alone may differ.
        if (one.rows, one.state, base.setup) != (two.rows, two.state, again.setup):
            raise ConfigError(
                "the training is not repeated by its seed, so no two can be compared: seed all "
                "that it draws, as with torch.manual_seed(seed) in its first line"
            )
        stress = _attempted(trainer, ratings, steps=_STRESSED, enlarged=_ENLARGED)
        verdicts = checks.of_transcript(base, law, stress)
        verdicts.append(checks.seeds(base, trainer.run(ratings, steps=1, offset=1)))
        if not self.number_is_public:
            setups = self._neighbours(base.setup)
            verdicts.append(pairs.by_number(setups, law, self.claimed))
        return verdicts

    def _far(self, start: int, base: Transcript) -> Verdict:
        """Compare trainings with the same noised sums; where one differs, find the line."""
        trainer, ratings, forced = self.trainer, self.ratings, base.forced
        if len(base.kept) < forced.count:
            base = replace(trainer.run(ratings, forced=forced), kept=base.kept)
        for data in datasets.far(ratings, self.far, trainer.seed)[start : start + _TOGETHER]:
            other = trainer.run(data, forced=forced)
            if other.final != base.final:
                # What no training repeats, such as a time that it returns, is no decision.
                again = trainer.run(ratings, forced=forced)
                other = replace(other, final=base.final) if again.final != base.final else other
            verdict = pairs.forced(base, other)
            if verdict.fails:
                break
        if not verdict.fails or base.setup.coordinates != other.setup.coordinates:
            return verdict
        return verdict.at(parting(trainer.traced(ratings, base), trainer.traced(data, base)))

    def _sums(self, base: Transcript) -> Verdict:
        """Compare three data sets with another last row, of few rows, so that batches take it."""
        trainer, ratings, own = self.trainer, self.ratings, self.own
        if ratings.n_users < 4 or ratings.n_items < 3 * own:
            return not_tested("sum", "there are too few users or items for other rows")
        seen = [step.rows for step in base.steps if step.rows]
        batch = sum(seen) / len(seen) if seen else base.setup.rate * base.setup.records
        others = int((ratings.user < ratings.n_users - 3).sum())
        rows = min(others + own, max(3 * own, round(datasets.BATCHES * batch)))
        sets = datasets.triple(ratings, rows, own, trainer.seed)
        first = _attempted(trainer, sets[0], steps=1)
        if first is None:
            return not_tested("sum", "the training fails on few rows", "let it train on few rows")
        # The sums of all steps are kept.
        most = min(_MOST, max(1, _NUMBERS // first.setup.coordinates))
        steps = min(most, max(_FEWEST, round(_SURE / first.setup.rate)))
        # Any noised sums do, as the three trainings have the same.
        forced = Forced(first.setup, steps)
        verdict = not_tested("sum", "the training fails with enlarged weights")
        for offset in range(_TRIES):
            options = {"steps": steps, "forced": forced, "enlarged": _ENLARGED, "offset": offset}
            runs = [_attempted(trainer, data, sums=True, **options) for data in sets]
            whole = [run for run in runs if run is not None]
            if len(whole) == len(runs):
                verdict = pairs.sums(whole, self._law(whole[0]), own)
            if verdict.outcome != "not tested":
                break
        return verdict

    def _neighbours(self, base: Setup) -> list[tuple[Setup, Setup]]:
        """Return the setups of neighbouring numbers of rows, by running the first step."""
        trainer, ratings = self.trainer, self.ratings
        less, more = (
            trainer.run(datasets.resized(ratings, rows, trainer.seed), steps=1).setup
            if 0 < rows <= ratings.n_users * ratings.n_items
            else base
            for rows in (len(ratings) - 1, len(ratings) + 1)
        )
        return [(base, less), (more, base)]


def _attempted(trainer: Trainer, ratings: Ratings, **wanted: Any) -> Transcript | None:
    """Return a training that nobody planned, as with enlarged weights; None if it fails."""
    try:
        return trainer.run(ratings, **wanted)
    except (ConfigError, RunError):
        return None
