"""What is measured of a training by DP-SGD: its checks, and the ε that follows from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import ConfigDict, TypeAdapter

from dpaudit.auditor.measure import Context, Measure, MetricKey, RecordPart, Subject, data_record
from dpaudit.audits.dp_training.config import DPTraining, DPTrainingConfig
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
# The number of rows of which a user's ε is told, beside the median.
_ROWS = 5


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


def _examined(table: DPTraining, ratings: Ratings, seed: int) -> str:
    """Run the training with all that is run beside it, and return what checks say, as JSON."""
    counts = np.bincount(ratings.user)
    rows = int(np.median(counts[counts > 0])) if table.unit == "user" else 1
    trainer = Trainer(table.training(), table.label, seed, table.delta)
    public, claim = table.number_is_public, table.epsilon
    found = examined(trainer, ratings, claim, own=rows, far=table.far, number_is_public=public)
    return _EXAMINED.dump_json(found).decode()


class Checks(Measure[Config, TrainedModel]):
    """`dp-training.…`, and the ε that faults imply."""

    @classmethod
    def plan(cls, config: Config) -> Iterator[MetricKey]:
        """Yield the keys of the ε that is certified, of the number of faults, and of the ε."""
        for label, epsilons in config.audited:
            for epsilon in epsilons:
                yield MetricKey("epsilon", label, epsilon, pair=_NAME)
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
        table, ratings, context = model.table, self.subject.ratings, self.context
        work = partial(_examined, table, ratings)
        # Seeds of PyTorch and numpy have 32 bits.
        task = Task(work, context.seed % 2**31, self.subject.trials(), table.label, dear=True)
        found: Examined = _EXAMINED.validate_json(context.tasks(stage).run([task])[0])
        law, untested = found.law, _open(found.verdicts)
        yield records.PairRecord(
            model=table.label,
            pair=_NAME,
            summary=f"{law.steps} steps of the training itself, with {law.coordinates:,} "
            "coordinates each, and trainings on other data beside it",
        )
        for metric, estimate, fields in _numbers(table, found, context.family.confidence):
            yield MetricKey(metric, table.label, table.epsilon).measured(estimate, **fields)
        for verdict in found.verdicts:
            if verdict.fails or verdict.check in untested:
                yield _finding(table, verdict)
        if found.stated is not None and found.stated > table.epsilon * (1 + 1e-3):
            yield records.FindingRecord(
                model=table.label,
                about="accountant",
                text=f"The accountant states ε = {found.stated:.4g} at δ = {table.delta:g}, more "
                f"than the claimed {table.epsilon:g}.",
                remedy="State the accountant's ε, or train with more noise or fewer steps.",
            )
        if table.unit == "interaction" and law.rate < 1:
            counts = np.bincount(ratings.user)
            for rows in sorted({_ROWS, int(np.median(counts[counts > 0]))}):
                estimate = Estimate.exact(law.of_user(rows), "mixture of Gaussians")
                key = MetricKey("dp-training.user-epsilon", table.label, table.epsilon, rows=rows)
                yield key.measured(estimate)


def _numbers(
    table: DPTraining, found: Examined, confidence: float
) -> Iterator[tuple[str, Estimate, dict[str, Any]]]:
    """Yield metrics with their estimates and fields."""

    def estimate(value: float, lower: float, upper: float, n: int, method: str) -> Estimate:
        return Estimate(
            value=value,
            lower=lower,
            upper=upper,
            confidence=confidence,
            alpha=2 * ALPHA,
            n=n,
            method=method,
        )

    size, failed = found.size, [verdict for verdict in found.verdicts if verdict.fails]
    least, most = (found.law.changed(noise=end).epsilon for end in (size.upper, size.lower))
    # Between the ends of the interval, which differ by about 1 %, ε is a power of the noise.
    share = math.log(size.upper / size.value) / math.log(size.upper / size.lower)
    value = least * (most / least) ** share if 0 < least < most < math.inf else most
    implied = [verdict.epsilon for verdict in failed]
    tried = None if failed else _control(table, found)
    certified = max([value, *implied]), max([least, *implied]), math.inf
    fields = {"pair": _NAME, "attack": _NAME, "control": tried}
    yield "epsilon", estimate(*certified, found.law.steps, "transcript of the training"), fields
    count = len(failed)
    faults = count, count, count + len(_open(found.verdicts)), len(found.verdicts)
    yield "dp-training.faults", estimate(*faults, "checks of one training"), {}
    measured = estimate(value, least, most, size.coordinates, "measured noise, exact accounting")
    yield "dp-training.epsilon", measured, {}
    for verdict in found.verdicts:
        seen = f"{verdict.text}{said_at(verdict.place)}"
        said = {"check": verdict.check, "outcome": verdict.outcome, "seen": seen}
        exact = Estimate.exact(verdict.epsilon, "by the check")
        yield "dp-training.check", exact, {**said, "least": verdict.least or None}


def _control(table: DPTraining, found: Examined) -> Control:
    """Return the least noise that would break the claim and be seen to do so.

    Noise of σ* keeps the claim exactly. With σ*(1 − s), where s is the least shortfall that is
    caught, the upper end of the measured σ is below σ* in 95 of 100 trainings; σ* is known to 1 %.
    """
    law, size = found.law, found.size
    known = {"delta": table.delta, "compositions": law.steps, "sampling": law.rate}
    short = 0.01 + 2 * (size.upper / size.value - 1)
    noise = noise_multiplier(table.epsilon, **known) * (1 - short) / law.noise_multiplier
    epsilon = law.changed(noise=noise).epsilon
    return Control(
        mutant=f"the training with {noise:.4g} times its noise",
        factor=epsilon / table.epsilon,
        epsilon=epsilon,
        certified=math.nextafter(table.epsilon, math.inf),
        found=epsilon > table.epsilon,
    )


def _open(verdicts: Sequence[Verdict]) -> set[str]:
    """Return the checks that a tested claim needs, and that were not made."""
    untested = {verdict.check for verdict in verdicts if verdict.outcome == "not tested"}
    return untested & _NEEDED | (_CLIPPED if untested >= _CLIPPED else set())


def _finding(table: DPTraining, verdict: Verdict) -> records.FindingRecord:
    implied = f" (ε ≥ {at_least(verdict.epsilon)})" if verdict.epsilon else ""
    what = "" if verdict.fails else "not tested: "
    text = f"{what}{verdict.text}{implied}{said_at(verdict.place)}."
    remedy = verdict.remedy and f"{verdict.remedy[0].upper()}{verdict.remedy[1:]}."
    return records.FindingRecord(
        model=table.label,
        about=verdict.check,
        text=f"{text[0].upper()}{text[1:]}",
        remedy=remedy,
        undecided=True,
        metrics=("epsilon",),
    )


def said_at(place: Place | None) -> str:
    """Return a line in words: without the folders in which packages or users keep files."""
    if place is None:
        return ""
    _, package, inside = place.file.rpartition("site-packages/")
    return f", at {inside if package else shown(Path(place.file))}:{place.line}"
