"""Inference of attributes: how well they are guessed from a model's answers, and what it adds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.measure import Measure, MetricKey, RecordPart, judged_bases, points
from dpaudit.auditor.no_model import diverged
from dpaudit.audits.attributes.config import AttributesConfig
from dpaudit.audits.attributes.judging import Judge
from dpaudit.audits.attributes.labels import GUESSED
from dpaudit.audits.attributes.subject import GuessedUsers
from dpaudit.audits.attributes.training import WHOLE, Training, asked_in, of_history
from dpaudit.audits.models.subject import MemberModel, MemberPoint
from dpaudit.core.streams import generator
from dpaudit.execution.tasks import Task
from dpaudit.record.bases import (
    ABSENT,
    ANSWERS,
    BEYOND_ABSENT,
    BEYOND_GUESS,
    BEYOND_HISTORY,
    GUESS,
    HISTORY,
    OF_ATTRIBUTES,
)
from dpaudit.record.result import FindingRecord

Numbers = NDArray[np.float64]
_ADVANTAGE = "attributes.advantage"


class AttributeInferences(Measure[AttributesConfig, MemberModel]):
    """`attributes.advantage`, `attributes.auc` and `attributes.accuracy` of trained models."""

    def __init__(self, subject: GuessedUsers) -> None:
        """Keep what is guessed."""
        self.subject, self.context = subject, subject.context
        self.table = self.context.config.attributes

    @classmethod
    def plan(cls, config: AttributesConfig) -> Iterator[MetricKey]:
        """Yield the joint advantages, and those that hold by themselves."""
        table = config.attributes
        for model, epsilon in points(config):
            for attribute in table.column:
                for observer in table.observers:
                    for basis in OF_ATTRIBUTES:
                        yield _key(config, model, epsilon, attribute, observer, basis)
            yield MetricKey("attributes.auc", model, epsilon)
            yield MetricKey("attributes.accuracy", model, epsilon)

    @cached_property
    def history(self) -> Numbers:
        """The attacker's probabilities from users' interactions `(1, N, ΣC)`."""
        subject = self.subject
        row = of_history(subject.ratings, subject.attributes, subject.folds)
        history = np.full((1, len(subject.folds), row.shape[1]), np.nan)
        history[0, asked_in(subject.folds, WHOLE)] = row
        return history

    def run(self, model: MemberModel) -> Iterator[RecordPart]:
        """Train the model with and without each guessed fold, and guess, at every ε."""
        for point in model.defenses:
            at = model.stage(point)
            yield from self.context.unit(at, partial(self._measured, at, model, point))
        yield from self._unknown(model.label)

    def _measured(self, stage: str, model: MemberModel, point: MemberPoint) -> Iterator[RecordPart]:
        subject, observers = self.subject, self.table.observers
        training = Training(
            point.trainable,
            subject.ratings,
            subject.attributes,
            subject.folds,
            observers,
            self.table.k,
            self.context.seed,
        )
        folds = (WHOLE, *GUESSED)
        parts = [(t, fold) for t in range(self.table.trainings) for fold in folds]
        tasks = (Task(training, part, 1, "training", dear=True) for part in parts)
        rows = self.context.tasks(stage, *point.tables, of=[point.words]).run(tasks)
        lost = sum(bool(np.isnan(row).all()) for row in rows)
        yield from diverged(lost, len(parts), "attributes", model.label, point.epsilon)
        if lost:
            return
        shape = (len(observers), self.table.trainings, len(subject.folds), rows[0].shape[2])
        with_user, without = np.full(shape, np.nan), np.full(shape, np.nan)
        for (index, fold), row in zip(parts, rows, strict=True):
            guesses = with_user if fold == WHOLE else without
            guesses[:, index, asked_in(subject.folds, fold)] = row
        for place, observer in enumerate(observers):
            yield from self._judged(
                model.label, point.epsilon, observer, with_user[place], without[place]
            )
        yield from self._baselines(model.label, point.epsilon)

    def _judged(
        self, model: str, epsilon: float, observer: str, answers: Numbers, absent: Numbers
    ) -> Iterator[RecordPart]:
        """Yield the numbers of an observer, who sees the answers in `(T, N, ΣC)`."""
        for judge, here in self._judges():
            name, classes = judge.attribute.name, len(judge.attribute.counts)
            right = judge.balanced(answers[..., here])
            others: dict[str, Numbers | float] = {
                BEYOND_ABSENT: judge.balanced(absent[..., here]),
                BEYOND_HISTORY: judge.balanced(self.history[..., here]),
                BEYOND_GUESS: 1 / classes,
            }
            for basis, other in others.items():
                key = _key(self.context.config, model, epsilon, name, observer, basis)
                yield key.measured(judge.advantage(right, other, key.joint))
            for basis, guesses in ((ANSWERS, answers), (ABSENT, absent)):
                fields = {"attribute": name, "observer": observer, "basis": basis}
                area = MetricKey("attributes.auc", model, epsilon)
                yield area.measured(judge.area(guesses[..., here]), **fields)
                share = MetricKey("attributes.accuracy", model, epsilon)
                yield share.measured(judge.accuracy(judge.right(guesses[..., here])), **fields)

    def _baselines(self, model: str, epsilon: float) -> Iterator[RecordPart]:
        """Yield what needs no model: guesses from the raw history, and of the largest class."""
        for judge, here in self._judges():
            history, name = self.history[..., here], judge.attribute.name
            area = MetricKey("attributes.auc", model, epsilon, attribute=name)
            yield area.measured(judge.area(history), basis=HISTORY)
            share = MetricKey("attributes.accuracy", model, epsilon, attribute=name)
            yield share.measured(judge.accuracy(judge.right(history)), basis=HISTORY)
            yield share.measured(judge.largest, basis=GUESS)

    def _judges(self) -> Iterator[tuple[Judge, slice]]:
        """Yield the judge of each attribute, and where its classes stand among the guesses."""
        subject, start = self.subject, 0
        order = generator(self.context.seed, "attributes order").permutation(len(subject.folds))
        for attribute in subject.attributes:
            end = start + len(attribute.counts)
            yield (
                Judge(attribute, subject.folds, order, self.context.family),
                slice(start, end),
            )
            start = end

    def _unknown(self, model: str) -> Iterator[FindingRecord]:
        """Yield a finding for each attribute that is not known of all users."""
        for attribute in self.subject.attributes:
            users, known = len(attribute.classes), int(attribute.known.sum())
            if known < users:
                yield FindingRecord(
                    model=model,
                    about="missing",
                    text=f"{users - known} of {users} users have no value of "
                    f"{attribute.name!r}: they are in the trainings, and are not guessed.",
                    remedy=f"Fill in the column {attribute.name!r} of data.users to judge them.",
                )


def _key(
    config: AttributesConfig, model: str, epsilon: float, attribute: str, observer: str, basis: str
) -> MetricKey:
    """Return the key of an advantage, joint if it is over the absent user or a gate judges it."""
    joint = basis == BEYOND_ABSENT or basis in judged_bases(config, _ADVANTAGE)
    return MetricKey(
        _ADVANTAGE,
        model,
        epsilon,
        attribute=attribute,
        observer=observer,
        basis=basis,
        joint=joint,
    )
