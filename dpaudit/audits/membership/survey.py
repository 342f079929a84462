"""What some trainings of one model show to whoever chooses a model: nothing is judged by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.measure import Context
from dpaudit.audits.membership import training
from dpaudit.audits.membership.calibration import Division
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.audits.membership.decisions import TrainingsLook
from dpaudit.audits.membership.measures import MemberModels, MembershipInferences
from dpaudit.audits.membership.training import Packed, Training, Utility
from dpaudit.audits.models.subject import MemberModel, MemberPoint
from dpaudit.data.ratings import Ratings
from dpaudit.execution.tasks import Task
from dpaudit.record.result import Measurement

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Survey:
    """The trainings of the only model of a config, which are kept in the store of its executor.

    Attributes:
        measure: reads them, with the gates of the config.
        model: the model.
        point: the model at its only ε.
        work: the work of a training.
        rows: what each training shows; NaN without a model.
    """

    measure: MembershipInferences
    model: MemberModel
    point: MemberPoint
    work: Training
    rows: Sequence[Packed]

    @classmethod
    def of(cls, context: Context[MembershipConfig], ratings: Ratings) -> Self:
        """Do the trainings of a config that are not kept yet, `membership.trainings` of them.

        Raises:
            DataError: there are too few data.
            ConfigError: the model does not fit the data, or a gate the model.
            RunError: a training fails.
        """
        measure = MembershipInferences(MemberModels.of(context, ratings))
        (model,) = measure.subject.models()
        (point,) = model.defenses
        table = measure.table
        work = Training.of(point.trainable, measure.design, table.units, model.observers)
        # The words by which `MembershipInferences` asks for the same trainings.
        of = [point.words, work.blocks]
        executor = context.tasks(model.stage(point), *point.tables, of=of)
        parts = work.parts(table.trainings)
        blocks = executor.run(
            Task(work.together, part, len(part), "training", dear=True) for part in parts
        )
        return cls(measure, model, point, work, [row for block in blocks for row in block])

    @cached_property
    def _parts(self) -> list[list[Numbers]]:
        return training.all_unpacked(self.rows, len(self.work.blocks) + training.BESIDES)

    @property
    def lost(self) -> bool:
        """Whether a training ended without a model."""
        return any(bool(np.isnan(row[0])) for row in self.rows)

    def numbers(self, parts: Division) -> list[Measurement]:
        """Return the numbers that gates about the next training judge, by some trainings.

        Args:
            parts: which calibrate, and which show the numbers.
        """
        look = TrainingsLook(parts, last=False)
        return self.measure.numbers(self.model, self.point, self.work.blocks, self._parts, look)

    def utility(self, name: str) -> Numbers:
        """Return a utility in each fold of the held-out interactions in each training `(T, 20)`.

        Args:
            name: a field of `training.Utility`.
        """
        place = Utility._fields.index(name)
        return np.array([part[training.USEFUL][1:, place] for part in self._parts])

    def by_group(self) -> dict[str, Numbers]:
        """Return the nDCG of each group on odd folds in each training `(T,)`, by its name."""
        rows = np.array([part[training.BY_GROUP][1] for part in self._parts])
        return dict(zip(self.measure.design.groups, rows.T, strict=True))

    def calibrating_needed(self, judged: int) -> int | None:
        """Forecast with how many calibrating trainings every gate catches planted leaks.

        Args:
            judged: how many further trainings are judged.

        Returns:
            At least the number of these trainings; None if no number that is tried is enough.
        """
        every = np.arange(len(self.rows))
        arguments = (self.model, self.point, self.work.blocks, self._parts)
        look = TrainingsLook(Division(every[1:], every[:1]), last=False)
        most = len(every)
        for inference in self.measure.inferences(*arguments, look):
            needed = inference.calibrating_needed(judged)
            if needed is None:
                return None
            most = max(most, needed)
        return most
