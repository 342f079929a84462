"""Inference of attributes: how well they are guessed from a model's answers, and what it adds.

**What is trained.** A training has all users, or all but one fold that is guessed. The users of a
fold that it lacks stay in the data as users without interactions or features, so it answers about
them as about someone new. The attacker learns from the answers about the users who are not guessed,
whom all trainings have.

**What the intervals are about.** The sample are the guessed users: an interval is about further
users like these, guessed by what this attacker learned from the others, and about the trainings at
hand. The attacker learned from none of them, so given what was learned their outcomes are
independent, if users and the model's answers about them are, and the bound of `frequentist.means`
needs no law of one outcome. How answers about one user depend on others, no interval counts.

Cross-validation would guess all users, each by what the others show, and find something in noise
too often: the fit for a user sees another, whose fit sees the first, so both are right or both
wrong by the same chance. In 500 audits of noise with 300 users, 43 had an advantage above 0 at a
level of 5 %. A model that ignores its data answers about all users alike whether it has them or
not, so its advantage has the mean 0, and tests count how often it is found to be above 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.attributes import Features, indicators, probabilities
from dpaudit.auditor.measure import (
    Context,
    Measure,
    MetricKey,
    RecordPart,
    Subject,
    data_record,
    judged_bases,
    points,
)
from dpaudit.auditor.trainings import attempted, diverged
from dpaudit.audits.attributes.config import Attributes, AttributesConfig, Seen
from dpaudit.audits.models.subject import MemberModel, MemberPoint, points_of
from dpaudit.bounds.frequentist.intervals import student_mean
from dpaudit.bounds.frequentist.means import betting_mean
from dpaudit.bounds.frequentist.roc import auc_in_folds
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.estimate import Estimate
from dpaudit.core.messages import show
from dpaudit.core.streams import generator
from dpaudit.data.interactions import Interactions, interactions_of
from dpaudit.data.ratings import Ratings
from dpaudit.execution.tasks import Task
from dpaudit.recommenders.base import Answer, Query, Trainable
from dpaudit.recommenders.checks import checked_answer
from dpaudit.record import bases
from dpaudit.record.result import DataRecord, Family, FindingRecord, Measurement

Classes = NDArray[np.int64]
Folds = NDArray[np.int64]

# The folds of users. The attacker knows the attributes of half of the users, and guesses the others
# in two folds; for each there is a training without it.
FOLDS = 4
GUESSED = (2, 3)
# The fewest users of a class: five in each fold.
FEWEST = 20


@dataclass(frozen=True, eq=False)
class Attribute:
    """An attribute of users.

    Attributes:
        name: its column.
        classes: the class of each user, 0 to C - 1, or -1 if it is unknown `(N,)`.
    """

    name: str
    classes: Classes

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """The number of users of each class `(C,)`."""
        return np.bincount(self.classes[self.known])

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """Mask of the users whose class is known `(N,)`."""
        return self.classes >= 0


def attribute_of(ratings: Ratings, name: str, bounds: Sequence[float] | None) -> Attribute:
    """Return an attribute of users.

    Args:
        ratings: the data.
        name: the column of the users' features.
        bounds: the bounds between classes of numbers; None for their median.

    Raises:
        DataError: the column has one class, a class with too few users, or no numbers for `bounds`.
    """
    place = f"attributes.column = {name!r}"
    if ratings.user_features is None or name not in ratings.user_features:
        raise DataError(
            f"{place} is no column of the users' features: add it to data.users.columns, or name "
            "another"
        )
    column = ratings.user_features[name]
    absent = column.isna().to_numpy()
    values = column[~absent]
    if values.dtype.kind not in "biuf":
        if bounds is not None:
            raise DataError(
                f"attributes.classes.{name} has bounds, and the column {name!r} of data.users "
                "holds texts: remove the bounds, as texts are classes"
            )
        texts, ids = np.unique(values.to_numpy().astype(str), return_inverse=True)
        names, other = [show(str(text)) for text in texts], ""
    else:
        numbers = values.to_numpy().astype(np.float64)
        ids = _classes_of_numbers(numbers, bounds)
        of_class = [numbers[ids == one] for one in np.unique(ids)]
        names = [" to ".join(f"{end:g}" for end in np.unique([n.min(), n.max()])) for n in of_class]
        other = f", or set attributes.classes.{name} to other bounds"
    distinct, ids = np.unique(ids, return_inverse=True)
    if len(distinct) < 2:
        raise DataError(
            f"{place} has {len(distinct)} class{'es' * (len(distinct) != 1)} of users, and only "
            f"two or more can be told apart: name another column{other}"
        )
    counts = np.bincount(ids)
    fewest = int(counts.min())
    if fewest < FEWEST:
        rare = names[int(counts.argmin())]
        raise DataError(
            f"{place} has {len(distinct)} classes, one of them with {fewest} "
            f"user{'s' * (fewest > 1)}, and each needs {FEWEST}: merge {rare} with another in the "
            f"file, leave its cells empty, or name another column{other}"
        )
    classes = np.full(len(column), -1)
    classes[~absent] = ids
    return Attribute(name, classes)


def _classes_of_numbers(numbers: NDArray[np.float64], bounds: Sequence[float] | None) -> Classes:
    if bounds is not None:
        return np.searchsorted(np.asarray(bounds), numbers, "right").astype(np.int64)
    distinct, classes = np.unique(numbers, return_inverse=True)
    return classes if len(distinct) <= 2 else (numbers > np.median(numbers)).astype(np.int64)


def guessed(folds: Folds) -> NDArray[np.bool_]:
    """Mask of the users whose attributes are guessed `(N,)`."""
    return np.isin(folds, GUESSED)


def folds_of(attributes: Sequence[Attribute], seed: int) -> Folds:
    """Return the fold of each user `(N,)`: random, with the classes spread evenly.

    Users are dealt out in the order of their classes, by the first attribute, then the second, and
    at random within these.
    """
    classes = [attribute.classes for attribute in attributes]
    draw = generator(seed, "attributes folds").permutation(len(classes[0]))
    order = np.lexsort((draw, *reversed(classes)))
    folds = np.empty(len(order), np.int64)
    folds[order] = np.arange(len(order)) % FOLDS
    return folds


@dataclass(frozen=True)
class GuessedUsers(Subject[AttributesConfig]):
    """The models, and the users whose attributes are guessed.

    Attributes:
        context: inputs that the measures share.
        ratings: the data.
        attributes: the attributes.
        folds: the fold of each user `(N,)`.
    """

    context: Context[AttributesConfig]
    ratings: Ratings
    attributes: Sequence[Attribute]
    folds: Folds

    @classmethod
    def of(cls, context: Context[AttributesConfig], ratings: Ratings | None) -> Self:
        """Read the attributes, and deal the users out to folds.

        Raises:
            DataError: the users have no such attribute, or too few of them.
        """
        if ratings is None:
            raise TypeError("an audit of attributes needs ratings")
        table = context.config.attributes
        attributes = [attribute_of(ratings, name, table.classes.get(name)) for name in table.column]
        return cls(context, ratings, attributes, folds_of(attributes, context.seed))

    def trials(self) -> int:
        """Return the number of trainings."""
        points = sum(len(model.defenses) for model in self.models())
        return points * self.context.config.attributes.trainings * (1 + len(GUESSED))

    def models(self) -> Iterator[MemberModel]:
        """Yield the user's own models, then the defenses."""
        config, scale = self.context.config, self.ratings.scale
        k = min(config.attributes.k, self.ratings.n_items)
        for model in config.audited:
            points = points_of(model, self.ratings)
            yield MemberModel(model, points, config.observers, scale, k)

    def data(self) -> DataRecord:
        """Record the sizes of the data; guessed users with an attribute are attacked."""
        asked = guessed(self.folds)
        attacked = max(int((attribute.known & asked).sum()) for attribute in self.attributes)
        return data_record(self.ratings, self.ratings, attacked=attacked)

    def attacks(self) -> Mapping[str, dict[str, Any]]:
        """Return the attack."""
        return {
            "logistic regression": {
                "name": "logistic regression",
                "title": "learns from the answers about users whose attribute is known",
                "source": "scikit-learn, standardised inputs, C = 1 / number of inputs",
            }
        }


Numbers = NDArray[np.float64]
_ADVANTAGE = "attributes.advantage"

# The most items whose scores are asked: those with the most interactions.
_SCORED = 2000
# The fold of a training that lacks none.
WHOLE = -1


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
                    for basis in bases.OF_ATTRIBUTES:
                        yield _key(config, model, epsilon, attribute, observer, basis)
            yield MetricKey("attributes.auc", model, epsilon)
            yield MetricKey("attributes.accuracy", model, epsilon)

    @cached_property
    def history(self) -> Numbers:
        """The attacker's probabilities from users' interactions `(1, N, ΣC)`."""
        subject, asked = self.subject, asked_in(self.subject.folds, WHOLE)
        seen = interactions_of(subject.ratings)
        seen.data[:] = 1
        guesses = guesses_of(seen, subject.attributes, subject.folds, asked)
        history = np.full((1, len(subject.folds), guesses.shape[1]), np.nan)
        history[0, asked] = guesses
        return history

    def run(self, model: MemberModel) -> Iterator[RecordPart]:
        """Train the model with and without each guessed fold, and guess, at every ε."""
        for point in model.defenses:
            at = model.stage(point)
            yield from self.context.unit(at, partial(self._measured, at, model, point))
        yield from self._unknown(model.label)

    def _measured(self, stage: str, model: MemberModel, point: MemberPoint) -> Iterator[RecordPart]:
        subject, observers = self.subject, self.table.observers
        data = subject.ratings, subject.attributes, subject.folds
        training = AttributeTraining(point.trainable, *data, self.table, self.context.seed)
        parts = list(product(range(self.table.trainings), (WHOLE, *GUESSED)))
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
        where = model.label, point.epsilon
        for observer, *seen in zip(observers, with_user, without, strict=True):
            for judge, (answers, absent, history) in self._judges(*seen):
                right = judge.balanced(answers)
                others: dict[str, Numbers | float] = {
                    bases.BEYOND_ABSENT: judge.balanced(absent),
                    bases.BEYOND_HISTORY: judge.balanced(history),
                    bases.BEYOND_GUESS: 1 / len(judge.attribute.counts),
                }
                for basis, other in others.items():
                    key = _key(self.context.config, *where, judge.name, observer, basis)
                    yield key.measured(judge.advantage(right, other, key.joint))
                yield from judge.measured(where, answers, observer=observer, basis=bases.ANSWERS)
                yield from judge.measured(where, absent, observer=observer, basis=bases.ABSENT)
        # What needs no model: guesses from the raw history, and of the largest class.
        for judge, [history] in self._judges():
            yield from judge.measured(where, history, basis=bases.HISTORY)
            share = MetricKey("attributes.accuracy", *where, attribute=judge.name)
            yield share.measured(judge.largest, basis=bases.GUESS)

    def _judges(self, *guesses: Numbers) -> Iterator[tuple[Judge, list[Numbers]]]:
        """Yield the judge of each attribute, with guesses `(T, N, C)` of it, the last by history.

        Args:
            guesses: the probabilities of the classes of all attributes `(T, N, ΣC)`.
        """
        subject, seed = self.subject, self.context.seed
        order = generator(seed, "attributes order").permutation(len(subject.folds))
        ends = np.cumsum([len(attribute.counts) for attribute in subject.attributes])[:-1]
        parts = [np.split(every, ends, axis=2) for every in (*guesses, self.history)]
        for attribute, *of_attribute in zip(subject.attributes, *parts, strict=True):
            yield Judge(attribute, subject.folds, order, self.context.family), of_attribute

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
    joint = basis == bases.BEYOND_ABSENT or basis in judged_bases(config, _ADVANTAGE)
    return MetricKey(
        _ADVANTAGE, model, epsilon, attribute=attribute, observer=observer, basis=basis, joint=joint
    )


@dataclass(frozen=True, eq=False)
class AttributeTraining:
    """The work of one training; a pure function of its index and of the fold that it lacks.

    Attributes:
        trainable: what is trained.
        ratings: the data.
        attributes: what is guessed.
        folds: the fold of each user `(N,)`.
        table: says what of the answers is seen, and the length of lists.
        seed: the run's seed.
    """

    trainable: Trainable
    ratings: Ratings
    attributes: Sequence[Attribute]
    folds: Folds
    table: Attributes
    seed: int

    def __call__(self, part: tuple[int, int]) -> Numbers:
        """Train, and return the probabilities of classes `(S, n, ΣC)`; NaN without a model.

        They are of the users of the lacking fold in their order, or of all who are guessed if none
        is lacking, for each of the S observers; the attributes' classes stand side by side.

        Args:
            part: the index of the training, and the fold that it lacks, or `WHOLE`.
        """
        return attempted(lambda: self._trained(*part), np.full((1, 1, 1), np.nan))

    def _trained(self, index: int, lacking: int) -> Numbers:
        child = index * (FOLDS + 1) + lacking + 1
        seed = int(generator(self.seed, "attributes seed", child=child).integers(2**31))
        query = self._query
        answer = self.trainable.answer(self._data(lacking), seed, query)
        checked = checked_answer(answer, query, (self.ratings.n_users, self.ratings.n_items))
        every = [self._features(observer, checked) for observer in self.table.observers]
        asked = asked_in(self.folds, lacking)
        return np.stack([guesses_of(seen, self.attributes, self.folds, asked) for seen in every])

    def _data(self, lacking: int) -> Interactions:
        absent = self.folds == lacking
        frame = self.ratings.user_features
        if frame is not None:
            frame = frame.mask(np.broadcast_to(absent[:, None], frame.shape))
        rows = ~absent[self.ratings.user]
        return Interactions.of(replace(self.ratings.only(rows), user_features=frame))

    @property
    def _query(self) -> Query:
        users = np.arange(self.ratings.n_users, dtype=np.int32)
        none = np.empty(0, np.int32)
        observers = self.table.observers
        scored, listed = "scores" in observers, "own-list" in observers
        raters = np.bincount(self.ratings.item, minlength=self.ratings.n_items)
        items = np.argsort(-raters, kind="stable")[:_SCORED].astype(np.int32)
        pairs = (
            (np.repeat(users, len(items)), np.tile(items, len(users))) if scored else (none,) * 2
        )
        k = min(self.table.k, self.ratings.n_items)
        return Query(*pairs, users if listed else none, k, "factors" in observers)

    def _features(self, observer: Seen, answer: Answer) -> Features:
        if observer == "own-list":
            return indicators(answer.lists, self.ratings.n_items)
        if observer == "scores":
            return answer.scores.reshape(self.ratings.n_users, -1)
        if answer.factors is None or answer.factors.users is None:
            raise ConfigError(
                "attributes.observers has 'factors', and the model publishes none of users: remove "
                "it there"
            )
        return answer.factors.users


def asked_in(folds: Folds, lacking: int) -> NDArray[np.int64]:
    """Return the users whom a training's guesses are about `(n,)`."""
    return np.flatnonzero(guessed(folds) if lacking == WHOLE else folds == lacking)


def guesses_of(
    seen: Features, attributes: Sequence[Attribute], folds: Folds, asked: NDArray[np.int64]
) -> Numbers:
    """Return the probabilities of classes of the asked users, by what the others show `(n, ΣC)`."""
    parts = []
    for attribute in attributes:
        known = np.flatnonzero(~guessed(folds) & attribute.known)
        count = len(attribute.counts)
        parts.append(probabilities(seen[known], attribute.classes[known], seen[asked], count))
    return np.concatenate(parts, axis=1)


@dataclass(frozen=True, eq=False)
class Judge:
    """Judges guesses of one attribute.

    Attributes:
        attribute: the attribute.
        folds: the fold of each user `(N,)`.
        order: the users in a random order `(N,)`.
        family: the family of the run's intervals.
    """

    attribute: Attribute
    folds: Folds
    order: NDArray[np.int64]
    family: Family

    @property
    def name(self) -> str:
        """The attribute's name."""
        return self.attribute.name

    def measured(
        self, where: tuple[str, float], guesses: Numbers, **fields: str
    ) -> Iterator[Measurement]:
        """Yield the AUC and the accuracy of guesses, which hold by themselves.

        Args:
            where: the model's label, and the ε.
            guesses: the probabilities of classes `(T, N, C)`.
            fields: who observes the model, and the basis.
        """
        numbers = {"auc": self.area(guesses), "accuracy": self.accuracy(self.right(guesses))}
        for name, estimate in numbers.items():
            key = MetricKey(f"attributes.{name}", *where, attribute=self.name)
            yield key.measured(estimate, **fields)

    @cached_property
    def asked(self) -> NDArray[np.bool_]:
        """Mask of the users who are guessed, and whose class is known `(N,)`."""
        return self.attribute.known & guessed(self.folds)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """The number of them of each class `(C,)`."""
        return np.bincount(self.attribute.classes[self.asked], minlength=len(self.attribute.counts))

    def right(self, guesses: Numbers) -> Numbers:
        """Return the share of trainings in which the likeliest class is right `(N,)`.

        Args:
            guesses: the probabilities of classes `(T, N, C)`.
        """
        return (guesses.argmax(2) == self.attribute.classes).mean(0)

    def balanced(self, guesses: Numbers) -> Numbers:
        """Return the same of the class that is most likelier than among the known users.

        Such a guess is as good for a rare class as for a frequent one.
        """
        known = self.attribute.classes[self.attribute.known & ~guessed(self.folds)]
        shares = np.bincount(known, minlength=len(self.counts)) / len(known)
        return self.right(guesses / shares)

    def advantage(self, right: Numbers, other: Numbers | float, joint: bool) -> Estimate:
        """Estimate how many more guesses are right, with classes counting alike.

        With n_c users of class c of C who are guessed, and n in all, it is the mean of
        n/(C n_c) (right - other), the difference of the means over classes of both recalls.

        Args:
            right: how often each user's guess is right `(N,)`.
            other: the same of what is compared.
            joint: whether its interval holds together with the others of the family.
        """
        weights = self.counts.sum() / (len(self.counts) * self.counts)
        turn = self.order[self.asked[self.order]]
        values = (weights[self.attribute.classes] * (right - other))[turn]
        most = float(weights.max())
        if joint:
            shares = np.clip((values + most) / (2 * most), 0, 1)
            bet = betting_mean(shares, self.family.alpha, self.family.confidence)
            estimate = bet.mapped(lambda share: most * (2 * share - 1))
            estimate = estimate.changed(method="betting over users")
        else:
            estimate = student_mean(values.tolist(), 1 - self.family.confidence, "users")
        return estimate.mapped(lambda value: min(1.0, max(-1.0, value)))

    def accuracy(self, right: Numbers) -> Estimate:
        """Estimate the share of right guesses; its interval holds by itself."""
        share = student_mean(right[self.asked].tolist(), 1 - self.family.confidence, "users")
        return share.mapped(lambda value: min(1.0, max(0.0, value)))

    @property
    def largest(self) -> Estimate:
        """The share of the largest class."""
        share = float(self.counts.max() / self.counts.sum())
        return Estimate.exact(share, "share of the largest class")

    def area(self, guesses: Numbers) -> Estimate:
        """Estimate the AUC, mean over folds, trainings, and classes if these are more than two.

        The interval holds by itself; see `frequentist.roc.auc_in_folds`.

        Args:
            guesses: the probabilities of classes `(T, N, C)`.
        """
        count = len(self.counts)
        sides = range(count) if count > 2 else (1,)
        asked = np.flatnonzero(self.asked)
        scores = np.concatenate([guesses[:, asked, side] for side in sides])
        labels = [self.attribute.classes[asked] == side for side in sides]
        real = np.repeat(np.stack(labels), len(guesses), axis=0)
        alpha = 1 - self.family.confidence
        return auc_in_folds(scores, real, self.folds[asked], alpha=alpha)
