"""What is measured of a training by DP-SGD: its checks, and the ε that follows from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from pydantic import ConfigDict, TypeAdapter

from dpaudit.auditor.measure import Context, Measure, MetricKey, RecordPart, Subject, data_record
from dpaudit.audits.dp_training.config import DPTraining, DPTrainingConfig
from dpaudit.audits.dp_training.law import Law
from dpaudit.audits.dp_training.runs import Examined, Trainer, examined
from dpaudit.audits.dp_training.transcript import Place
from dpaudit.audits.dp_training.verdict import ALPHA, Verdict
from dpaudit.bounds.accounting import noise_multiplier
from dpaudit.config.origin import shown
from dpaudit.core.estimate import Estimate
from dpaudit.core.rounding import at_least
from dpaudit.data.ratings import Ratings
from dpaudit.execution.tasks import Task
from dpaudit.record import result as records
from dpaudit.record.values import Control

Config = DPTrainingConfig
_EXAMINED = TypeAdapter(Examined, config=ConfigDict(ser_json_inf_nan="strings"))
_SOURCE = "Abadi et al. 2016, arXiv:1607.00133"
_NAME = "transcript"
# The checks that have to be made for a claim to count as tested; of clipping, one is enough.
_CLIPPED = {"clipping", "sum"}
_NEEDED = {"noise-missing", "noise-size", "noise-seed", "batch-rate", "transcript", "number"}
# The numbers of rows of which a user's ε is told, beside the median.
_ROWS = (5,)


@dataclass(frozen=True)
class TrainedModel:
    """The training as the one model of the run.

    Attributes:
        table: `[dp-training]` of the config.
    """

    table: DPTraining

    @property
    def label(self) -> str:
        """The training's label."""
        return self.table.label

    @property
    def defenses(self) -> tuple[()]:
        """Empty: the training is the user's."""
        return ()

    def record(self) -> records.ModelRecord:
        """Record the first line of its docstring."""
        documented = self.table.training().__doc__ or "a training of your own"
        return records.ModelRecord(
            label=self.label,
            defense="dp-sgd",
            title=documented.strip().partition("\n")[0],
            variant="as it is run",
            source=self.table.target,
            params={"number_is_public": self.table.number_is_public},
            top_k=0,
        )

    def points(self) -> list[records.PointRecord]:
        """Return the one point of its claim."""
        table = self.table
        unit = "rating" if table.unit == "interaction" else "user"
        claim = records.ClaimRecord(
            epsilon=table.epsilon,
            delta=table.delta,
            adjacency=f"{unit}-add-remove",
            observer="iterates",
            public="the numbers of users and items"
            + (", the number of interactions" if table.number_is_public else ""),
            source="stated in the config",
            also=("values", "list", "factors"),
        )
        return [
            records.PointRecord(
                model=self.label,
                epsilon=table.epsilon,
                sensitivity=None,
                noise_scale=None,
                claim=claim,
            )
        ]


@dataclass(frozen=True)
class WatchedTraining(Subject[Config]):
    """A training by DP-SGD, and the data that it is run on.

    Attributes:
        context: inputs that the measures share.
        ratings: the data.
    """

    context: Context[Config]
    ratings: Ratings

    @classmethod
    def of(cls, context: Context[Config], ratings: Ratings | None) -> Self:
        """Import the training.

        Raises:
            ConfigError: it cannot be imported.
        """
        if ratings is None:
            raise TypeError("an audit of a training needs data")
        context.config.training.training()
        return cls(context, ratings)

    def trials(self) -> int:
        """Return the number of whole trainings."""
        return 1 + self.context.config.training.far

    def models(self) -> Iterator[TrainedModel]:
        """Yield the training."""
        yield TrainedModel(self.context.config.training)

    def data(self) -> records.DataRecord:
        """Return the sizes of the data."""
        return data_record(self.ratings, self.ratings, attacked=self.ratings.n_users)

    def attacks(self) -> Mapping[str, dict[str, Any]]:
        """Return the one observer of all steps."""
        title = "reads every step of the training, and compares it with others"
        return {_NAME: {"name": _NAME, "title": title, "source": _SOURCE}}


@dataclass(frozen=True)
class _Work:
    """The training with all that is run beside it.

    Attributes:
        table: its table.
        ratings: the data.
    """

    table: DPTraining
    ratings: Ratings

    def __call__(self, seed: int) -> str:
        """Run it, and return what the checks say, as JSON."""
        table, counts = self.table, np.bincount(self.ratings.user)
        trainer = Trainer(table.training(), table.label, seed, table.delta)
        found = examined(
            trainer,
            self.ratings,
            claimed=table.epsilon,
            unit=table.unit,
            far=table.far,
            number_is_public=table.number_is_public,
            rows_of_user=int(np.median(counts[counts > 0])),
        )
        return _EXAMINED.dump_json(found).decode()


class Checks(Measure[Config, TrainedModel]):
    """`dp-training.…`, and the ε that faults imply."""

    @classmethod
    def plan(cls, config: Config) -> Iterator[MetricKey]:
        """Yield the keys of the ε that is certified, of the number of faults, and of the ε."""
        for label, epsilons in config.audited:
            for epsilon in epsilons:
                yield _certified(label, epsilon)
                yield MetricKey("dp-training.faults", label, epsilon)
                yield MetricKey("dp-training.epsilon", label, epsilon)

    def run(self, model: TrainedModel) -> Iterator[RecordPart]:
        """Run the training and all checks.

        Raises:
            ConfigError: the training is not watched, or not repeated by its seed.
            RunError: the training raises an exception.
        """
        stage = f"{model.label}: the training and its checks"
        yield from self.context.unit(stage, partial(self._measured, stage, model))

    def _measured(self, stage: str, model: TrainedModel) -> Iterator[RecordPart]:
        table, ratings = model.table, self.subject.ratings
        executor = self.context.tasks(stage)
        # Seeds of PyTorch and numpy have 32 bits.
        seed = self.context.seed % 2**31
        task = Task(_Work(table, ratings), seed, self.subject.trials(), table.label, dear=True)
        found: Examined = _EXAMINED.validate_json(executor.run([task])[0])
        confidence = self.context.family.confidence
        yield records.PairRecord(
            model=table.label,
            pair=_NAME,
            summary=f"{found.law.steps} steps of the training itself, with "
            f"{found.law.coordinates:,} coordinates each, and trainings on other data beside it",
        )
        yield _epsilon(table, found, confidence)
        yield _faults(table, found.verdicts, confidence)
        yield _observed(table, found, confidence)
        for verdict in found.verdicts:
            yield _check(table, verdict)
            if finding := _finding(table, verdict, found.verdicts):
                yield finding
        yield from _accounted(table, found)
        yield from _of_users(table, found.law, ratings)


def _certified(label: str, epsilon: float) -> MetricKey:
    return MetricKey("epsilon", label, epsilon, pair=_NAME)


def _epsilon(table: DPTraining, found: Examined, confidence: float) -> records.Measurement:
    """Return the ε that what was seen implies: of the measured noise, and of each fault."""
    faults = [verdict.epsilon for verdict in found.verdicts if verdict.fails]
    value, lower = _at(found, "value"), _at(found, "upper")
    estimate = Estimate(
        value=max([value, *faults]),
        lower=max([lower, *faults]),
        upper=math.inf,
        confidence=confidence,
        alpha=ALPHA,
        n=found.law.steps,
        method="transcript of the training",
    )
    tried = () if faults else _controls(table, found)
    key = _certified(table.label, table.epsilon)
    return key.measured(
        estimate, attack=_NAME, control=tried[0] if tried else None, tried=tuple(tried)
    )


def _at(found: Examined, end: Literal["value", "lower", "upper"]) -> float:
    """Return the ε at the measured noise, or at an end of its interval.

    Between the ends, which differ by about 1 %, ε is a power of the noise.
    """
    size = found.size
    if end != "value":
        return found.law.changed(noise=getattr(size, end)).epsilon
    least, most = _at(found, "upper"), _at(found, "lower")
    share = math.log(size.upper / size.value) / math.log(size.upper / size.lower)
    return least * (most / least) ** share if 0 < least < most < math.inf else most


def _controls(table: DPTraining, found: Examined) -> Sequence[Control]:
    """Return the least noise that would break the claim and be seen to do so.

    Noise of σ* keeps the claim exactly. With σ*(1 − s), where s is the least shortfall that is
    caught, the upper end of the measured σ is below σ* in 95 of 100 trainings; σ* is known to 1 %.
    """
    law, size = found.law, found.size
    needed = noise_multiplier(
        table.epsilon, delta=table.delta, compositions=law.steps, sampling=law.rate
    )
    short = 0.01 + 2 * (size.upper / size.value - 1)
    mutant = Law(needed * (1 - short), law.rate, law.steps, law.coordinates, law.delta).epsilon
    stated = needed * (1 - short) / law.noise_multiplier
    return [
        Control(
            mutant=f"the training with {stated:.4g} times its noise",
            factor=mutant / table.epsilon,
            epsilon=mutant,
            certified=math.nextafter(table.epsilon, math.inf),
            found=mutant > table.epsilon,
        )
    ]


def _faults(
    table: DPTraining, verdicts: Sequence[Verdict], confidence: float
) -> records.Measurement:
    failed = sum(verdict.fails for verdict in verdicts)
    estimate = Estimate(
        value=failed,
        lower=failed,
        upper=failed + len(_open(verdicts)),
        confidence=confidence,
        alpha=ALPHA * len(verdicts),
        n=len(verdicts),
        method="checks of one training",
    )
    return MetricKey("dp-training.faults", table.label, table.epsilon).measured(estimate)


def _open(verdicts: Sequence[Verdict]) -> set[str]:
    """Return the checks that a tested claim needs, and that were not made."""
    untested = {verdict.check for verdict in verdicts if verdict.outcome == "not tested"}
    public = {verdict.check for verdict in verdicts if "declared public" in verdict.text}
    clipping = _CLIPPED if untested >= _CLIPPED else set()
    return (untested & _NEEDED | clipping) - public


def _observed(table: DPTraining, found: Examined, confidence: float) -> records.Measurement:
    value, lower, upper = (_at(found, end) for end in ("value", "upper", "lower"))
    estimate = Estimate(
        value=value,
        lower=lower,
        upper=upper,
        confidence=confidence,
        alpha=2 * ALPHA,
        n=found.size.coordinates,
        method="measured noise, privacy loss distribution",
    )
    return MetricKey("dp-training.epsilon", table.label, table.epsilon).measured(estimate)


def _check(table: DPTraining, verdict: Verdict) -> records.Measurement:
    key = MetricKey("dp-training.check", table.label, table.epsilon, check=verdict.check)
    return key.measured(
        Estimate.exact(verdict.epsilon, "by the check"),
        outcome=verdict.outcome,
        seen=f"{verdict.text}{said_at(verdict.place)}",
        least=verdict.least or None,
    )


def _finding(
    table: DPTraining, verdict: Verdict, verdicts: Sequence[Verdict]
) -> records.FindingRecord | None:
    if not verdict.fails and verdict.check not in _open(verdicts):
        return None
    implied = f" (ε ≥ {at_least(verdict.epsilon)})" if verdict.epsilon else ""
    what = "" if verdict.fails else "not tested: "
    text = f"{what}{verdict.text}{implied}{said_at(verdict.place)}"
    return records.FindingRecord(
        model=table.label,
        about=verdict.check,
        text=f"{text[0].upper()}{text[1:]}.",
        remedy=f"{verdict.remedy[:1].upper()}{verdict.remedy[1:]}." if verdict.remedy else "",
        undecided=True,
        metrics=("epsilon",),
    )


def said_at(place: Place | None) -> str:
    """Return the line in words: without the folders in which packages or users keep files."""
    if place is None:
        return ""
    from pathlib import Path

    inside = place.file.rpartition("site-packages/")[2]
    name = inside if inside != place.file else shown(Path(place.file))
    return f", at {name}:{place.line}"


def _accounted(table: DPTraining, found: Examined) -> Iterator[records.FindingRecord]:
    """Yield that the claim is smaller than what the accountant states."""
    stated = found.stated
    if stated is not None and stated > table.epsilon * (1 + 1e-3):
        yield records.FindingRecord(
            model=table.label,
            about="accountant",
            text=f"The accountant states ε = {stated:.4g} at δ = {table.delta:g}, more than the "
            f"claimed {table.epsilon:g}.",
            remedy="State the accountant's ε, or train with more noise or fewer steps.",
        )


def _of_users(table: DPTraining, law: Law, ratings: Ratings) -> Iterator[records.Measurement]:
    """Yield the ε of users with several rows, where a claim is about one."""
    if table.unit == "user" or law.rate >= 1:
        return
    counts = np.bincount(ratings.user)
    median = int(np.median(counts[counts > 0]))
    for rows in sorted({*_ROWS, median}):
        key = MetricKey("dp-training.user-epsilon", table.label, table.epsilon, rows=rows)
        yield key.measured(Estimate.exact(law.of_user(rows), "mixture of Gaussians"))
