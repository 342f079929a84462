"""Leaks of a known size, planted in what an observer sees: would a gate's rule pass such a model?

That attacks find little is evidence for a model only if the same rule, with the same attacks and as
many trainings, does not pass a model that leaks more than the limit. So a pass takes a control: on
trainings with a planted leak the rule may pass at most once in twenty.

**Absent targets.** A target that a training does not have leaves no trace in it, so what is shown
of absent targets is how the model answers without a leak: each target's level, and its spread
between trainings. Where a target is present its answer is drawn anew from these (multiple
imputation: Rubin 1987, Multiple Imputation for Nonresponse in Surveys, section 4.1), so that no
leak of the model itself is left, and there are as many targets as in the run. Each seed draws
levels and spreads from their posterior laws.

**What is planted.** Fresh coins, in calibrating and judged trainings alike: planted in the judged
ones alone it would not be found, as the attacks would have learnt that nothing is there. Where the
coin says "present",

- the answers of all targets move by k times their spread, for which an attacker who knows every
  level and law reaches exactly the planted number: of a true-positive rate p at the rate r,

      k = q(1 − r) − q(1 − p),

  for the quantiles q of the noise z; for the area a with P(z + k > z′) = a, and for the advantage a
  with max_t P(z + k > t) − P(z > t) = a;

- or those of a share s of the targets move beyond nearly all others. Whoever knows these targets
  tells them for certain, present and absent, so s = p − r, 1 − √(2(1 − a)), or the advantage.

Of lists the answer flips instead: the target is shown as the first one, with the probability
(p − r)/(1 − r), or 2a − 1 for an area, or the advantage; or always, for a share s of the targets.

An attacker who trains no model knows no target's level, so the spread is that between targets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import Covariates
from dpaudit.audits.membership.calibration import Division, Trials
from dpaudit.audits.membership.controls import FEWEST, MORE, Measured, chance, leak_of
from dpaudit.audits.membership.trainings import passes_alone
from dpaudit.config.gate import Gate
from dpaudit.core.streams import generator
from dpaudit.record.result import Measurement
from dpaudit.record.values import MISSED, SEEDS, LearningStep, PlantedLeak

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]
Form = Literal["all", "few"]
FORMS: tuple[Form, ...] = ("all", "few")

# Prior degrees of freedom of a target's own variance that are tried.
_FREEDOMS = (1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 1024.0)
# The share of the moved answers that stays below the threshold, where few move far.
_SHORT = 1e-3
# The least spread between trainings, as a share of that between targets.
_LEAST = 1e-3
# The draws of the noise by which a distance is found, and how precisely, as a share of their range.
_DRAWS, _PRECISE = 4000, 1e-5
# The runs of a forecast.
_FORECAST = 5
# The number of attacks that are tried in each run, those that the first run ranks first.
_TRIED = 4
# The share of the spread between targets that is assumed where it is not known.
_ASSUMED = 0.1
# The fewest numbers beyond a quantile for which it is that of the noise, and not a normal one.
_BEYOND = 20
# The fewest judged trainings that are compared as pairs, and the doubt that a gain is certain.
_PAIRS, _DOUBT = 6, 0.01


class Leak(NamedTuple):
    """A leak to plant.

    Attributes:
        metric: the metric that measures it.
        at: the false-positive rate of a true-positive rate.
        size: the number that an attacker who knows every law reaches.
        form: whether all answers move alike, or those of few far.
    """

    metric: str
    at: float | None
    size: float
    form: Form

    @property
    def targets(self) -> float:
        """The share of targets that are told for certain, present and absent, in every training.

        The others are told by a guess, so of a share s a true-positive rate at r is s + r, the
        advantage s, and the area 1 − (1 − s)²/2.
        """
        if self.metric == "attack.auc":
            return 1 - math.sqrt(2 * (1 - self.size))
        return self.size - (self.at or 0.0)

    @property
    def answers(self) -> float:
        """The share of the present targets that are told for certain, others in each training."""
        return (self.size - chance(self.metric, self.at)) / (1 - chance(self.metric, self.at))


@dataclass(frozen=True, eq=False)
class Background:
    """What an observer sees of absent targets, and how it varies.

    The population counts as targets that are always absent.

    Attributes:
        shown: the features `(T, n, F)`, NaN where a target is in the data.
        targets: the number of targets m; the others are the population.
        ordered: whether the order of scores within a training counts, so that answers move; they
            flip otherwise.
        own: whether each target has a level of its own, which the attacker's trainings show.
        covariates: what the attacker knows of targets and population beforehand, if anything.
        summaries: how many of the features, the first, sum up the others.
    """

    shown: Numbers
    targets: int
    ordered: bool
    own: bool
    covariates: Covariates | None = None
    summaries: int = 0

    @classmethod
    def of(cls, trials: Trials, *, ordered: bool, own: bool) -> Self:
        """Return it for the trainings that end with a model; the arguments are as above."""
        trials = trials.of(trials.ended)
        plain = (trials.features, trials.population)
        shown = trials.scaled if ordered else np.concatenate(plain, axis=1)
        targets = trials.present.shape[1]
        shown[:, :targets][trials.present] = np.nan
        return cls(shown, targets, ordered, own, trials.covariates, trials.summaries)

    def assumed(self, seed: int) -> Self:
        """Return it for as many targets whose spread between trainings is a tenth of all."""
        rng = generator(seed, "membership pass control assumed")
        size = self.shown.shape[1:]
        shown = rng.normal(size=size) + _ASSUMED * rng.normal(size=(2 * FEWEST, *size))
        return replace(self, shown=shown, ordered=True)

    @property
    def known(self) -> bool:
        """Whether enough trainings show how much answers vary."""
        return len(self.shown) >= (FEWEST if self.own else 1)

    @cached_property
    def _absent(self) -> Mask:
        return ~np.isnan(self.shown[:, :, 0])

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        """In how many trainings each target is absent `(n,)`."""
        counts: NDArray[np.int64] = self._absent.sum(0)
        return counts

    @cached_property
    def _levels(self) -> Numbers:
        """The mean of each target's features where it is absent `(n, F)`; NaN if it never is."""
        if not self.own:
            return np.broadcast_to(np.nanmean(self.shown, (0, 1)), self.shown.shape[1:])
        total = np.where(self._absent[:, :, None], self.shown, 0).sum(0)
        with np.errstate(invalid="ignore"):
            levels: Numbers = total / self._counts[:, None]
        return levels

    @cached_property
    def _spread(self) -> tuple[Numbers, Numbers, float]:
        """Standard deviations of each target `(n, F)`, degrees of freedom `(n,)`, and the prior's.

        Each variance is a mean of its own and of that of all, whose weight d₀ makes the own ones
        likeliest: in units of that of all they have the law F(d, d₀) (Smyth 2004,
        doi:10.2202/1544-6115.1027).
        """
        from scipy.stats import f

        away = self.shown - self._levels
        squares = np.nansum(away**2, 0)
        between = np.nanstd(self.shown, (0, 1))
        if not self.own:
            freedom = np.full(len(squares), math.inf)
            return np.broadcast_to(between, squares.shape), freedom, math.inf
        freedom = np.maximum(self._counts - 1, 0)
        shared = squares.sum(0) / max(1, freedom.sum())
        shared = np.maximum(shared, (_LEAST * np.where(between > 0, between, 1)) ** 2)
        some = freedom > 0
        ratio = (squares[some] / shared).mean(1) / freedom[some]
        laws = [
            f.logpdf(np.maximum(ratio, _LEAST**2), freedom[some], prior).sum()
            for prior in _FREEDOMS
        ]
        prior = _FREEDOMS[int(np.argmax(laws))]
        variance = (prior * shared + squares) / (prior + freedom)[:, None]
        return np.sqrt(variance), freedom, prior

    @cached_property
    def _noise(self) -> Numbers:
        """Vectors of features less their level, in units of their spread `(K, F)`."""
        spread, _, _ = self._spread
        counts = np.broadcast_to(self._counts, self._absent.shape)
        rows, columns = np.nonzero(self._absent & (counts > self.own))
        away = (self.shown - self._levels)[rows, columns] / spread[columns]
        if self.own:
            # A deviation from the mean of a numbers has (a − 1)/a of their variance.
            away *= np.sqrt(counts[rows, columns] / (counts[rows, columns] - 1))[:, None]
        size = away.std(0)
        return away / np.where(size > 0, size, 1)

    def drawn(self, rng: np.random.Generator, trainings: int) -> tuple[Numbers, Numbers]:
        """Return features of trainings that have none of the targets, and the spreads drawn.

        The first trainings are those at hand, with draws where a target is in the data; further
        ones are drawn altogether.

        Returns:
            The features `(trainings, n, F)`, and standard deviations `(n, F)`.
        """
        more = max(0, trainings - len(self.shown))
        known = self.shown[:trainings]
        shown = np.pad(known, ((0, more), (0, 0), (0, 0)), constant_values=np.nan)
        missing = np.isnan(shown[:, :, 0])
        rows, columns = np.nonzero(missing)
        if not self.ordered:
            shown[missing] = self._donors(rng, columns)
            return shown, self._spread[0]
        noise, (spread, freedom, prior) = self._noise, self._spread
        count, width = shown.shape[1:]
        levels = self._levels.copy()
        if self.own:
            free = np.minimum(prior + freedom, 1e6)
            spread = spread * np.sqrt(free / rng.chisquare(free))[:, None]
            never = np.flatnonzero(self._counts == 0)
            levels[never] = levels[rng.choice(np.flatnonzero(self._counts > 0), len(never))]
            error = spread / np.sqrt(np.maximum(self._counts, 1))[:, None]
            levels += error * noise[rng.integers(len(noise), size=count)]
        draws = noise[rng.integers(len(noise), size=len(rows))]
        shown[rows, columns] = levels[columns] + spread[columns] * draws.reshape(-1, width)
        return shown, spread

    def _donors(self, rng: np.random.Generator, columns: NDArray[np.int64]) -> Numbers:
        """Return what another training without the target shows of it `(k, F)`.

        Of a target that is never absent it is what a training shows of another one.
        """
        order = np.argsort(~self._absent, axis=0, kind="stable")
        able = np.flatnonzero(self._counts > 0)
        never = self._counts[columns] == 0
        columns = np.where(never, rng.choice(able, len(columns)), columns)
        rows = order[(rng.random(len(columns)) * self._counts[columns]).astype(np.int64), columns]
        return self.shown[rows, columns]

    def planted(
        self, leak: Leak, moves: Sequence[float], seed: int, run: int, trainings: int
    ) -> Trials:
        """Return trainings with a planted leak.

        Args:
            leak: the leak.
            moves: by how much each feature moves, in units of its spread, up to a factor `(F,)`.
            seed: the run's seed.
            run: the number of the control's run; each has a stream of its own.
            trainings: the number of trainings, at least those at hand.
        """
        rng = generator((seed, run), f"membership pass control {leak.form}")
        shown, spread = self.drawn(rng, trainings)
        present = rng.random((trainings, self.targets)) < 0.5
        moved = present.copy()
        if leak.form == "few":
            moved &= rng.random(self.targets) < leak.targets
        elif not self.ordered:
            moved &= rng.random(present.shape) < leak.answers
        answers = shown[:, : self.targets]
        if self.ordered:
            step = self._step(leak, np.asarray(moves))
            answers += moved[:, :, None] * (step * spread[: self.targets])
        else:
            top = np.nanmax(shown[:, :, 0], axis=1, keepdims=True)
            answers[:, :, 0] = np.where(moved, top, answers[:, :, 0])
        population = shown[:, self.targets :]
        trials = Trials(answers, population, present, None, self.covariates, self.summaries)
        return trials.comparable if self.ordered else trials

    def _step(self, leak: Leak, moves: Numbers) -> Numbers:
        """Return by how many of its standard deviations each feature moves `(F,)`.

        Of noise z with the correlations R the best linear test of a move κ w has the statistic
        w′R⁻¹z, with the signal κ √(w′R⁻¹w) in its standard deviations.
        """
        noise = self._noise
        able = noise.std(0) > 0
        moves = np.where(able, moves, 0.0)
        if not moves.any():
            return moves
        some = noise[:, able]
        within = np.einsum("ki,kj->ij", some, some) / len(some) + _LEAST * np.eye(some.shape[1])
        weights = np.linalg.solve(within, moves[able])
        size = math.sqrt(float(weights @ moves[able]))
        step: Numbers = moves * _distance(leak, np.sort(some @ weights / size)) / size
        return step


def _distance(leak: Leak, noise: Numbers) -> float:
    """Return by how much the best statistic moves, in its standard deviations.

    Args:
        leak: the leak.
        noise: draws of the statistic without a leak, increasing `(K,)`.
    """
    from scipy.special import ndtri

    def quantile(level: float) -> float:
        if min(level, 1 - level) * len(noise) < _BEYOND:
            return float(ndtri(level))
        return float(noise[min(len(noise) - 1, int(level * len(noise)))])

    if leak.form == "few":
        return quantile(1 - (leak.at or 0.01)) - quantile(_SHORT)
    if leak.at is not None:
        return quantile(1 - leak.at) - quantile(1 - leak.size)
    some = noise[np.linspace(0, len(noise) - 1, min(len(noise), _DRAWS)).astype(np.int64)]

    def reached(distance: float) -> float:
        """Return the area or the advantage of the best statistic at a distance."""
        below = np.searchsorted(some, some + distance) / len(some)
        if leak.metric == "attack.auc":
            return float(below.mean())
        return float((below - np.arange(len(some)) / len(some)).max())

    low, high = 0.0, float(some[-1] - some[0])
    while high - low > _PRECISE * (some[-1] - some[0]):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) < leak.size else (low, middle)
    return high


class Reading(NamedTuple):
    """A number of some trainings, and what it rests on.

    Attributes:
        measurement: the number.
        labels: the attacks that promise most, best first.
        tells: what each present target adds to it, NaN for absent ones `(J, n)`.
    """

    measurement: Measurement
    labels: Sequence[str]
    tells: Numbers


@dataclass(frozen=True, eq=False)
class PassControl:
    """What gates' rules say of a number's trainings with a planted leak, and with fewer trainings.

    Attributes:
        measured: returns the number of other trainings, by their division and some attacks.
        background: what the observer sees of absent targets.
        divisions: which trainings calibrate, and which are judged.
        attacks: the labels of all attacks.
        tried: how many of them so many calibrating trainings allow.
        moves: by how much a planted leak moves each feature, in units of its spread `(F,)`.
        seed: the run's seed.
        alpha: the level of gates about the next training; the largest that may be left to them.
    """

    measured: Callable[[Trials, Sequence[Division], Collection[str]], Reading]
    background: Background
    divisions: Sequence[Division]
    attacks: Collection[str]
    tried: int
    moves: Sequence[float]
    seed: int
    alpha: float

    def planted(self, measurement: Measurement, gates: Sequence[Gate]) -> Iterator[PlantedLeak]:
        """Yield what the rules that pass a number say of planted leaks, in each form.

        Args:
            measurement: the number.
            gates: the gates that judge it.
        """
        tried = set()
        for gate in gates:
            size = leak_of(gate, measurement)
            guess = size <= chance(measurement.metric, measurement.at)
            known = (gate.threshold, size) in tried
            if guess or known or not passes_alone(gate, measurement, self.alpha):
                continue
            tried.add((gate.threshold, size))
            for form in FORMS:
                yield self._planted(gate, Leak(measurement.metric, measurement.at, size, form))

    def needed(self, number: Measured, gates: Sequence[Gate]) -> int | None:
        """Forecast with how many calibrating trainings every gate catches what is planted.

        A few runs do, all of which have to catch it: a control decides when all are judged.

        Args:
            number: the number that the gates judge.
            gates: the gates.

        Returns:
            The number, at least that of the divisions; None if no number that is tried is enough.
        """
        most = len(self.divisions[0].calibrating)
        for gate in gates:
            size = leak_of(gate, number)
            if size <= chance(number.metric, number.at):
                return None
            for form in FORMS:
                leak = Leak(number.metric, number.at, size, form)
                some = [most, *(one for one in MORE if one > most)]
                enough = (one for one in some if self._catches(gate, leak, one))
                caught = next(enough, None)
                if caught is None:
                    return None
                most = caught
        return most

    def _catches(self, gate: Gate, leak: Leak, calibrating: int) -> bool:
        """Whether a few runs with so many calibrating trainings all catch a planted leak."""
        record = self._record(gate, leak)
        divisions = self._with(calibrating)
        run = self._run(record, gate, leak, self.background, divisions, _FORECAST)
        return run.caught == run.runs

    def _record(self, gate: Gate, leak: Leak) -> PlantedLeak:
        return PlantedLeak(
            limit=gate.threshold,
            leak=leak.size,
            form=leak.form,
            caught=0,
            runs=0,
            shown=0.0,
            attacks=self.tried,
            calibrating=len(self.divisions[0].calibrating),
        )

    def _planted(self, gate: Gate, leak: Leak) -> PlantedLeak:
        record = self._record(gate, leak)
        if self.background.known:
            record = self._run(record, gate, leak, self.background, self.divisions)
        if record.holds:
            return record
        return record.model_copy(update={"decides": self._more(record, gate, leak)})

    def _run(
        self,
        record: PlantedLeak,
        gate: Gate,
        leak: Leak,
        background: Background,
        divisions: Sequence[Division],
        seeds: int = SEEDS,
    ) -> PlantedLeak:
        """Return the record with how many of how many runs the rule catches, and what is found.

        Each run chooses among the attacks that promise most in the first one.
        """
        labels, caught = list(self.attacks), 0
        shown: list[float] = []
        trainings = sum(map(len, divisions[0]))
        while len(shown) < seeds and len(shown) - caught <= MISSED:
            trials = background.planted(leak, self.moves, self.seed, len(shown), trainings)
            reading = self.measured(trials, divisions, labels)
            labels = labels if len(labels) <= _TRIED else list(reading.labels[:_TRIED])
            caught += not passes_alone(gate, reading.measurement, self.alpha)
            shown.append(reading.measurement.estimate.value)
        counts = {"caught": caught, "runs": len(shown), "shown": float(np.mean(shown))}
        return record.model_copy(update=counts)

    def _more(self, record: PlantedLeak, gate: Gate, leak: Leak) -> int | None:
        """Forecast with how many calibrating trainings the leak is caught; None if with none.

        Where trainings are too few to show how answers vary, their spread is taken for a tenth of
        that between targets.
        """
        background = self.background
        if not background.known:
            background = background.assumed(self.seed)
        for calibrating in MORE:
            if calibrating > len(self.divisions[0].calibrating):
                divisions = self._with(calibrating)
                if self._run(record, gate, leak, background, divisions).holds:
                    return calibrating
        return None

    def _with(self, calibrating: int) -> list[Division]:
        """Return the divisions with further trainings, so that so many calibrate."""
        trainings = sum(map(len, self.divisions[0]))
        more = calibrating - len(self.divisions[0].calibrating)
        rows = np.arange(trainings, trainings + more)
        return [
            Division(np.concatenate((one.calibrating, rows)), one.judged) for one in self.divisions
        ]

    def learning(self, trials: Trials, whole: Reading) -> tuple[LearningStep, ...]:
        """Return what the attacks find of the judged trainings with fewer calibrating ones.

        Steps are half a doubling at least: over less of one the pace of a curve is mostly noise.

        Args:
            trials: the trainings.
            whole: what they find with all.
        """
        count = len(self.divisions[0].calibrating)
        readings = {
            some: self.measured(trials, _fewer(self.divisions, some), self.attacks)
            for some in (2, *MORE)
            if some * math.sqrt(2) <= count
        }
        if count > 2:
            readings[count] = whole
        steps: list[LearningStep] = []
        before: Reading | None = None
        for calibrating, reading in readings.items():
            gain, lower = _gain(before, reading) if before else (0.0, 0.0)
            value = reading.measurement.estimate.value
            steps.append(LearningStep(calibrating=calibrating, value=value, gain=gain, lower=lower))
            before = reading
        return tuple(steps)


def _fewer(divisions: Sequence[Division], calibrating: int) -> list[Division]:
    return [Division(one.calibrating[:calibrating], one.judged) for one in divisions]


def _gain(before: Reading, after: Reading) -> tuple[float, float]:
    """Return the mean paired gain, and its lower end by Student's law.

    Pairs are judged trainings; with few of them they are the present targets.
    """
    from scipy.stats import t

    away = after.tells - before.tells
    pairs = np.nanmean(away, 1) if len(away) >= _PAIRS else away[~np.isnan(away)]
    gain, error = float(pairs.mean()), float(pairs.std(ddof=1) / math.sqrt(len(pairs)))
    return gain, gain - float(t.isf(_DOUBT, len(pairs) - 1)) * error
