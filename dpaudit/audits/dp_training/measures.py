"""What is measured of a training by DP-SGD: its checks, and the ε that follows from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import ConfigDict, TypeAdapter

from dpaudit.auditor.measure import Context, Measure, MetricKey, RecordPart, Subject, data_record
from dpaudit.audits.dp_training.config import DPTraining, DPTrainingConfig
from dpaudit.audits.dp_training.law import ALPHA
from dpaudit.audits.dp_training.runs import Examination, Examined, Trainer
from dpaudit.audits.dp_training.verdict import Verdict
from dpaudit.bounds.accounting import noise_multiplier
from dpaudit.config.origin import shown
from dpaudit.core.estimate import Estimate
from dpaudit.core.messages import capitalised
from dpaudit.core.rounding import at_least
from dpaudit.data.ratings import Ratings
from dpaudit.execution.tasks import Task
from dpaudit.recommenders.base import PROCESS_WIDE
from dpaudit.record import result as records
from dpaudit.record.values import Control

Config = DPTrainingConfig
# What tasks return, as JSON.
_EXAMINED = TypeAdapter(Examined, config=ConfigDict(ser_json_inf_nan="strings"))
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
        number = ", the number of interactions" if table.number_is_public else ""
        claim = records.ClaimRecord(
            epsilon=table.epsilon,
            delta=table.delta,
            adjacency=f"{'rating' if table.unit == 'interaction' else 'user'}-add-remove",
            observer="iterates",
            public=f"the numbers of users and items{number}",
            source="stated in the config",
            also=("values", "list", "factors"),
        )
        shown = {"model": self.label, "epsilon": table.epsilon, "claim": claim}
        return [records.PointRecord(**shown, sensitivity=None, noise_scale=None)]


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
        """Return the number of trainings."""
        return sum(size for size, _ in self.examination().parts())

    def examination(self) -> Examination:
        """Return what is run."""
        table, ratings = self.context.config.training, self.ratings
        rows = _median_rows(ratings) if table.unit == "user" else 1
        # Seeds of PyTorch and numpy have 32 bits.
        trainer = Trainer(table.training(), table.label, self.context.seed % 2**31, table.delta)
        public = table.number_is_public
        return Examination(trainer, ratings, table.epsilon, rows, table.far, public)

    def models(self) -> Iterator[TrainedModel]:
        """Yield the training."""
        yield TrainedModel(self.context.config.training)

    def data(self) -> records.DataRecord:
        """Return the sizes of the data."""
        return data_record(self.ratings, self.ratings, attacked=self.ratings.n_users)

    def attacks(self) -> Mapping[str, dict[str, Any]]:
        """Return the one observer of all steps."""
        title = "reads every step of the training, and compares it with others"
        source = "Abadi et al. 2016, arXiv:1607.00133"
        return {_NAME: {"name": _NAME, "title": title, "source": source}}


def _examined(examination: Examination, part: int) -> str:
    """Run a part of an examination, and return what is found, as JSON."""
    with PROCESS_WIDE:  # a training seeds generators of the whole process
        return _EXAMINED.dump_json(examination.parts()[part][1]()).decode()


def _median_rows(ratings: Ratings) -> int:
    """Return the median number of rows of the users who have any."""
    counts = np.bincount(ratings.user)
    return int(np.median(counts[counts > 0]))


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
        table, context = model.table, self.context
        examination = self.subject.examination()
        work, parts = partial(_examined, examination), examination.parts()
        tasks = (
            Task(work, part, size, table.label, dear=True) for part, (size, _) in enumerate(parts)
        )
        first, *others = map(_EXAMINED.validate_json, context.tasks(stage).run(tasks))
        whole = first.joined(others)
        law, untested = whole.law, _untested(whole.verdicts)
        yield records.PairRecord(
            model=table.label,
            pair=_NAME,
            summary=f"{law.steps} steps of {law.coordinates:,} coordinates, and others beside it",
        )
        key = partial(MetricKey, model=table.label, epsilon=table.epsilon)
        yield from _numbers(table, whole, context.family.confidence, key)
        for verdict in whole.verdicts:
            seen, exact = _seen(verdict), Estimate.exact(verdict.epsilon, "by the check")
            said = {"outcome": verdict.outcome, "seen": seen, "least": verdict.least or None}
            yield key("dp-training.check", check=verdict.check).measured(exact, **said)
            if verdict.fails or verdict.check in untested:
                yield _finding(table, verdict)
        if whole.stated is not None and whole.stated > table.epsilon * (1 + 1e-3):
            yield records.FindingRecord(
                model=table.label,
                about="accountant",
                text=f"The accountant states ε = {whole.stated:.4g}, not {table.epsilon:g}.",
                remedy="State the accountant's ε, or train with more noise or fewer steps.",
            )
        if table.unit == "interaction" and law.rate < 1:
            for rows in sorted({_ROWS, _median_rows(self.subject.ratings)}):
                exact = Estimate.exact(law.of_user(rows), "mixture of Gaussians")
                yield key("dp-training.user-epsilon", rows=rows).measured(exact)


def _numbers(
    table: DPTraining, whole: Examined, confidence: float, key: Callable[..., MetricKey]
) -> Iterator[records.Measurement]:
    """Yield the ε that is certified, the number of faults, and the ε at the measured noise."""
    size, law = whole.size, whole.law
    level: dict[str, Any] = {"confidence": confidence, "alpha": 2 * ALPHA}
    least, most = (law.changed(noise=end).epsilon for end in (size.upper, size.lower))
    value = most
    if 0 < least < most < math.inf:
        # Between the ends of the interval, which differ by about 1 %, ε is a power of the noise.
        share = math.log(size.upper / size.value) / math.log(size.upper / size.lower)
        value = least * (most / least) ** share
    method, count = "measured noise, exact accounting", size.n
    measured = Estimate(value=value, lower=least, upper=most, n=count, method=method, **level)
    yield key("dp-training.epsilon").measured(measured)
    implied = [verdict.epsilon for verdict in whole.verdicts if verdict.fails]
    ends = {"value": max([value, *implied]), "lower": max([least, *implied]), "upper": math.inf}
    certified = Estimate(**ends, n=law.steps, method="transcript of the training", **level)
    control = None if implied else _control(table, whole)
    yield key("epsilon", pair=_NAME).measured(certified, attack=_NAME, control=control)
    fails, total = len(implied), len(whole.verdicts)
    ends = {"value": fails, "lower": fails, "upper": fails + len(_untested(whole.verdicts))}
    faults = Estimate(**ends, n=total, method="checks of one training", **level)
    yield key("dp-training.faults").measured(faults)


def _control(table: DPTraining, whole: Examined) -> Control:
    """Return the least noise that would break the claim and be seen to do so.

    Noise of σ* keeps the claim exactly. With σ*(1 − s), where s is the least shortfall that is
    caught, the upper end of the measured σ is below σ* in 95 of 100 trainings; σ* is known to 1 %.
    """
    law, size = whole.law, whole.size
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


def _untested(verdicts: Sequence[Verdict]) -> set[str]:
    """Return the checks that a tested claim needs, and that were not made."""
    untested = {verdict.check for verdict in verdicts if verdict.outcome == "not tested"}
    return untested & _NEEDED | (_CLIPPED if untested >= _CLIPPED else set())


def _finding(table: DPTraining, verdict: Verdict) -> records.FindingRecord:
    implied = f" (ε ≥ {at_least(verdict.epsilon)})" if verdict.epsilon else ""
    text = capitalised(f"{'' if verdict.fails else 'not tested: '}{_seen(verdict, implied)}.")
    return records.FindingRecord(
        model=table.label,
        about=verdict.check,
        text=text,
        remedy=verdict.remedy and capitalised(f"{verdict.remedy}."),
        undecided=True,
        metrics=("epsilon",),
    )


def _seen(verdict: Verdict, implied: str = "") -> str:
    """Return what was seen with its line: without the folders in which files are kept."""
    if verdict.place is None:
        return f"{verdict.text}{implied}"
    _, package, inside = verdict.place.file.rpartition("site-packages/")
    file = inside if package else shown(Path(verdict.place.file))
    return f"{verdict.text}{implied}, at {file}:{verdict.place.line}"
