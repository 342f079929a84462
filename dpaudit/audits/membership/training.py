"""One training of a membership game: train, ask, and keep the features that attacks read.

Beside these it keeps what its answers leave open: what has no answer, and what another training
shows too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.membership.features import (
    OF_INTERACTIONS,
    OF_USERS,
    STEPS,
    Numbers,
    Pairs,
    Shown,
)
from dpaudit.attacks.membership.reconstruction import WAYS, reconstructed
from dpaudit.auditor.trainings import hit_rate_and_mrr, ndcg, outcomes, precision_and_recall
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.audits.membership.design import FOLDS, Design
from dpaudit.audits.models.config import SHOWN
from dpaudit.core.errors import ConfigError, RunError
from dpaudit.core.membership import HISTORIES, OBSERVERS, OF_FACTORS, ROWS, WITNESS, Observer, Unit
from dpaudit.core.messages import place
from dpaudit.data.interactions import Interactions
from dpaudit.data.readers.load import load
from dpaudit.recommenders.base import Answer, Factors, Indices, Query, Scores, Trainable
from dpaudit.recommenders.checks import checked_answer
from dpaudit.recommenders.forgetting import Forgetting
from dpaudit.recommenders.returned import Returned
from dpaudit.recommenders.saving import digest_of_folder

Mask = NDArray[np.bool_]

# Columns that `beside` adds to features.
BESIDE = 2
# Lists that differ less between users may be the same in two trainings by chance.
_PERSONAL = 10
# Scores that differ by less, relatively to their size, are equal up to rounding.
_ROUNDING = 8 * float(np.finfo(np.float32).eps)
# Scores of a training whose rounding is a larger share of their range are compared at this one.
_MOST = 0.01
# The least mean correlation of scores, or share of equal lists, that is no chance.
_FIXED = 0.1


def beside(
    features: Numbers, shown: Shown, design: Design, unit: Unit, observer: Observer, kept: Mask
) -> Numbers:
    """Return what each target has no answer for, and a mark of what is shown of it `(n, 2)`.

    The first number is the share of the scores or lists asked that are missing, 0 to 1. A user or
    item without interactions in the training may go without an answer. The second is a score, or
    a digest of a list.

    Args:
        features: the features `(n, F)`.
        shown: what the model shows.
        design: the targets.
        unit: what a target is.
        observer: who observes the model.
        kept: the rows of the training that it has not forgotten `(R,)`.
    """
    data = design.ratings
    user_there = np.bincount(data.user[kept], minlength=data.n_users) > 0
    item_there = np.bincount(data.item[kept], minlength=data.n_items) > 0
    count = len(features)
    if observer in (*OF_FACTORS, WITNESS):
        return np.stack((np.zeros(count), features[:, 0]), axis=1)
    if observer == HISTORIES and shown.after is not None:
        sent, items = design.histories
        # After no item at all a model may say nothing.
        lacking = np.isnan(shown.after) & item_there[items] & (sent[:, -1:] >= 0)
        share = lacking[:, :2].reshape(-1, 4 * STEPS).mean(1)
        first = design.tested_users.first
        share = share[first:].reshape(count, -1).mean(1) if unit == "user" else share[:first]
        return np.stack((share, features[:, 0]), axis=1)
    if observer in ("scores", ROWS):
        query, scores = design.query, features[:, int(observer == ROWS)]
        lacking = np.isnan(shown.scores) & user_there[query.users] & item_there[query.items]
        if unit == "user":
            asked = lacking[design.tested_users.first :].reshape(2, count, -1)
            return np.stack((asked.mean((0, 2)), scores), axis=1)
        return np.stack((lacking[:count], scores), axis=1)
    empty = (shown.lists < 0).all(1) & user_there[design.listed]
    digests = np.array([crc32(row.tobytes()) for row in shown.lists], np.float64)
    known = design.knowledge
    if observer == "others-lists":
        places = np.resize(known.observed, count)
        share = np.full(count, empty[known.observed].mean())
        return np.stack((share, digests[places]), axis=1)
    places = known.list_of(design.users if unit == "user" else design.tested.users)
    return np.stack((empty[places], digests[places]), axis=1)


def repeated(marks: Numbers, present: Mask, observer: Observer) -> tuple[int, int] | None:
    """Return two trainings with different coins that show the same; None if there are none.

    Scores are the same if they are equal up to rounding, a factor and a constant. Lists that
    hardly differ between users are only compared in all trainings together, as few such lists may
    be equal by chance.

    Args:
        marks: the marks of all targets in each training `(T, n)`.
        present: the coins `(T, m)`.
        observer: who observes the model.
    """
    if observer in ("own-list", "others-lists"):
        return _equal_lists(marks, present)
    low, width = marks.min(1), np.ptp(marks, axis=1)
    unit = (marks - low[:, None]) / np.where(width > 0, width, 1)[:, None]
    size = np.abs(marks).max(1)
    error = np.where(width > 0, _ROUNDING * size / np.where(width > 0, width, 1), 0)
    # Equal rows have neighbouring projections, so T comparisons do.
    order = np.argsort(unit @ np.cos(np.arange(marks.shape[1])), kind="stable")
    for pair in pairwise(order):
        first, second = sorted(int(training) for training in pair)
        apart = np.abs(unit[first] - unit[second]).max()
        same = apart <= min(error[first] + error[second], _MOST)
        if same and (present[first] != present[second]).any():
            return first, second
    return None


def unchanged(first: NDArray[Any], other: NDArray[Any], second: NDArray[Any]) -> bool:
    """Whether an answer to other data differs no more than another answer to the same data.

    Without noise of its own, a model has to answer the same. The mean of n independent differences
    may be 3/√n above that of others, relatively.

    Args:
        first: scores, lists or factors.
        other: those of a training on other data with the same seed.
        second: those of another training on the data of the first, with the same seed.
    """
    if not first.size or first.shape != other.shape:
        return False
    return _distance(first, other) <= (1 + 3 / np.sqrt(first.size)) * _distance(first, second)


def has_fixed_part(marks: Numbers, observer: Observer) -> bool:
    """Whether what trainings with different seeds show has a part in common.

    Scores that are noise have none: such a model learns nothing, and tells nothing.

    Args:
        marks: the marks of all targets in each training `(T, n)`.
        observer: who observes the model.
    """
    if observer in ("own-list", "others-lists"):
        return bool((marks[1:] == marks[:-1]).mean() > _FIXED)
    away = marks - marks.mean(1, keepdims=True)
    size = np.sqrt(np.einsum("tn,tn->t", away, away))
    unit = away / np.where(size > 0, size, 1)[:, None]
    return bool(np.einsum("tn,tn->t", unit[1:], unit[:-1]).mean() > _FIXED)


def _distance(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Return the mean distance of scores, or the share of the places of lists that differ."""
    if first.dtype.kind == "i":
        return float((first != second).mean())
    known = np.isfinite(first) & np.isfinite(second)
    away = np.where(known, first.astype(np.float64) - second, 0.0)
    return float(np.abs(away).mean() + (np.isfinite(first) != np.isfinite(second)).mean())


def _equal_lists(marks: Numbers, present: Mask) -> tuple[int, int] | None:
    first: dict[bytes, int] = {}
    pair = None
    for training, row in enumerate(marks):
        other = first.setdefault(row.tobytes(), training)
        if other != training and (present[other] != present[training]).any():
            pair = pair or (other, training)
    personal = pair is not None and len(np.unique(marks[pair[0]])) >= _PERSONAL
    return pair if personal or len(first) == 1 else None


Packed = NDArray[np.float64]
# What a training returns besides its features: what is reconstructed from its factors, the seconds
# of a training and of the deletion after it, the nDCG of groups, the digest of its model if it is
# kept, and utility, of all held-out interactions and of each fold; and their places.
BESIDES = 5
RECONSTRUCTED, TOOK, BY_GROUP, DIGEST, USEFUL = range(-BESIDES, 0)


class Utility(NamedTuple):
    """How good one trained model is on the held-out interactions.

    Attributes:
        ndcg: normalised discounted cumulative gain of the lists, mean over users; NaN without
            lists.
        recall: share of a user's held-out items that the list shows, mean over users; likewise.
        rmse: root mean squared error of predicted ratings, clipped to the scale; NaN if scores are
            no ratings, the data are purchases, or the model knows none of the interactions.
        precision: share of a list's places that show a held-out item, mean over users; as `ndcg`.
        mae: mean absolute error of the predictions; as `rmse`.
        hits: share of users whose list shows a held-out item; as `ndcg`.
        mrr: 1 over the place of the first such item in the list, 0 without one; as `ndcg`.
        coverage: share of all items that some list shows; NaN without lists.
    """

    ndcg: float = math.nan
    recall: float = math.nan
    rmse: float = math.nan
    precision: float = math.nan
    mae: float = math.nan
    hits: float = math.nan
    mrr: float = math.nan
    coverage: float = math.nan


def asked_of(trainable: Trainable, observers: Collection[Observer]) -> set[str]:
    """Return what is asked of trained models: `scores` of pairs, `lists`, or both.

    It is what these observers see, and what else the model can show, which measures utility.
    """
    seen = {SHOWN[observer] for observer in observers}
    return {"scores", "lists"} & (seen | ({"scores", "lists"} - set(trainable.leaves_out)))


def measures(trainable: Trainable, observers: Collection[Observer]) -> set[str]:
    """Return which fields of `Utility` a model with these observers has."""
    asked, errors = asked_of(trainable, observers), {"rmse", "mae"}
    rated = "scores" in asked and trainable.predicts_ratings
    lists = set(Utility._fields) - errors
    return (lists if "lists" in asked else set()) | (errors if rated else set())


def kept(trainable: Trainable, observers: Collection[Observer]) -> list[Observer]:
    """Return the observers whose features of each training are kept: these, and cheap ones.

    Scores and lists are asked of every model that can show them. So all who see no more than these
    are kept, and asking for one of them later trains nothing. Factors are asked for only if need
    be, and then both who see something of them are kept; so are the scores of further pairs.
    """
    asked = asked_of(trainable, observers)
    if set(OF_FACTORS) & set(observers):
        asked.add("factors")
    cheap = {observer for observer in OBSERVERS if SHOWN[observer] in asked} - {ROWS}
    return [one for one in (*OBSERVERS, WITNESS) if one in cheap.union(observers)]


@dataclass(frozen=True, eq=False)
class Training:
    """The work of one training; a pure function of its index.

    Attributes:
        trainable: what is trained.
        design: targets, coins and questions.
        blocks: the features to keep: unit and observer.
        saves: the folder in which trained models are kept; None keeps none.
    """

    trainable: Trainable
    design: Design
    blocks: Sequence[tuple[Unit, Observer]]
    saves: Path | None = None

    @classmethod
    def of(
        cls,
        trainable: Trainable,
        design: Design,
        units: Sequence[Unit],
        observers: Collection[Observer],
        saves: Path | None = None,
    ) -> Self:
        """Return the work of a training whose features these observers see, and cheap ones."""
        seen = kept(trainable, observers)
        blocks = [(unit, observer) for unit in units for observer in seen]
        return cls(trainable, design, blocks, saves)

    def saved(self, index: int) -> Path:
        """Return the folder of the model of a training.

        Raises:
            TypeError: models are not kept.
        """
        if self.saves is None:
            raise TypeError("models of these trainings are not kept")
        return self.saves / f"training-{self.design.training_seed(index)}"

    def digest(self, index: int, row: Packed) -> str:
        """Return the digest of the model of a training.

        Args:
            index: the training.
            row: what it showed.

        Raises:
            RunError: the model is no longer what the training kept.
        """
        folder = self.saved(index)
        digest = digest_of_folder(folder)
        if not np.array_equal(_words(digest), unpacked(row, len(self.blocks) + BESIDES)[DIGEST]):
            raise RunError(
                f"{place(folder)} is no longer the model that its training kept: give "
                "recommender.save another folder, so that all are trained anew"
            )
        return digest

    def __call__(self, index: int) -> Packed:
        """Train with the coins of this index; return the packed features and the utility."""
        return self.together((index,))[0]

    def together(self, part: tuple[int, ...]) -> Packed:
        """Return what a call with each index returns `(n, L)`.

        A training that ends without a model has a row of NaN; without any model, L is 1.
        """
        return outcomes(self._trained, part, np.full((1, 1), np.nan))

    def _trained(self, part: tuple[int, ...]) -> Packed:
        design, query = self.design, self.query
        kept = np.stack([design.kept(index) for index in part])
        seeds = [design.training_seed(index) for index in part]
        shape = design.ratings.n_users, design.ratings.n_items
        answers: Iterable[Answer]
        if self.saves is None:
            answers = self.trainable.answers(design.ratings, kept, seeds, query)
        else:
            answers = (
                self.trainable.answer_saved(design.data(index), seed, query, self.saved(index))
                for index, seed in zip(part, seeds, strict=True)
            )
        packed_rows = [
            self._packed(checked_answer(answer, query, shape), rows & self._stays, index)
            for answer, rows, index in zip(answers, kept, part, strict=True)
        ]
        return np.stack(packed_rows)

    def parts(self, trainings: int) -> list[tuple[int, ...]]:
        """Return the indices of trainings in the blocks that are trained together.

        With more trainings there are more blocks, and only the last one may grow.
        """
        size = self.trainable.together
        starts = range(0, trainings, size)
        return [tuple(range(start, min(start + size, trainings))) for start in starts]

    def _packed(self, answer: Answer, kept: NDArray[np.bool_], index: int) -> Packed:
        factors = answer.factors.items if answer.factors else np.empty((0, 0), np.float32)
        of_pairs, further = np.split(answer.scores, [len(self.design.query.users)])
        before = None if answer.before is None else answer.before[: len(of_pairs)]
        shown = Shown(of_pairs, answer.lists, factors, before, answer.after, further)
        # Both units read what one fit says of them.
        rows: tuple[Numbers, ...] = ()
        if any(observer == ROWS for _, observer in self.blocks):
            rows = self.design.questions.features(shown, self.trainable.predicts_ratings)
        blocks = [self._block(shown, rows, unit, observer, kept) for unit, observer in self.blocks]
        digest = digest_of_folder(self.saved(index)) if self.saves else ""
        folds = self.design.folds
        parts = [np.ones(len(folds), np.bool_), *(folds == fold for fold in range(FOLDS))]
        useful = np.array([self._useful(answer, kept, here) for here in parts])
        took = np.array([answer.took or (math.nan, math.nan)])
        hidden = self._reconstructed(answer.factors, index)
        return packed([*blocks, hidden, took, self._by_group(answer.lists), _words(digest), useful])

    def answer(self, data: Interactions, seed: int) -> Answer:
        """Train on data, and return what the model shows, checked.

        Raises:
            NoModelError: it diverges.
            RunError: the training fails, or what it shows cannot be used.
        """
        query = self.query
        return checked_answer(self.trainable.answer(data, seed, query), query, data.shape)

    @property
    def query(self) -> Query:
        """Ask for what observers see, and for what measures utility if it is shown."""
        every, none = self.design.query, np.empty(0, np.int32)
        seen = {observer for _, observer in self.blocks}
        asked = asked_of(self.trainable, seen)
        users, items = (every.users, every.items) if "scores" in asked else (none, none)
        if ROWS in seen:
            more = self.design.questions.asked
            users, items = np.concatenate((users, more[0])), np.concatenate((items, more[1]))
        listed = every.listed if "lists" in asked else none
        factors, sent = bool(seen & set(OF_FACTORS)), HISTORIES in seen
        after = self.design.histories if sent else None
        return Query(users, items, listed, every.k, factors, WITNESS in seen, after)

    def _block(
        self,
        shown: Shown,
        rows: Sequence[Numbers],
        unit: Unit,
        observer: Observer,
        kept: NDArray[np.bool_],
    ) -> Numbers:
        """Return the features, then what `beside` adds; `rows` are those of interactions, users."""
        design, rated = self.design, self.trainable.predicts_ratings
        if observer == ROWS:
            features = rows[unit == "user"]
        elif unit == "user":
            features = OF_USERS[observer](shown, design.knowledge, design.tested_users)
        else:
            features = OF_INTERACTIONS[observer](shown, design.knowledge, design.tested, rated)
        more = beside(features, shown, design, unit, observer, kept)
        return np.concatenate((features, more), axis=1)

    def _reconstructed(self, factors: Factors | None, index: int) -> Numbers:
        """Return what factors tell of the target interactions; NaN without either `(3, 2)`."""
        design, of, count = self.design, self.design.tested, len(self.design.rows)
        if factors is None or not count:
            return np.full((len(WAYS), 2), np.nan)
        hidden = Pairs(of.users[:count], of.items[:count], of.values[:count])
        present = design.coins(index)[:count]
        return reconstructed(
            factors.items, factors.users, design.knowledge, hidden, present, design.k
        )

    def _useful(self, answer: Answer, kept: Mask, here: Mask) -> Utility:
        """Return the utility on some of the held-out interactions; NaN without any."""
        lists = self._usefulness(answer.lists, here) if len(answer.lists) and here.any() else {}
        rated = self.trainable.predicts_ratings and len(answer.scores) and here.any()
        errors = self._errors(answer.scores, kept, here) if rated else {}
        return Utility(**lists, **errors)

    def _errors(self, scores: Scores, kept: Mask, here: Mask) -> dict[str, float]:
        """Return both errors of ratings whose user and item the training has; none without such.

        A rating without a prediction has the largest error that the scale allows.
        """
        design, held, data = self.design, self._held, self.design.ratings
        users = np.isin(design.tested.users[held][here], data.user[kept])
        items = np.isin(design.tested.items[held][here], data.item[kept])
        predictions = scores[held][here].astype(np.float64)
        values = design.tested.values[held][here]
        able = ~np.isnan(predictions) | (users & items)
        low, high = data.scale.minimum, data.scale.maximum
        if not able.any() or data.scale.width == 0 or np.isnan(predictions).all():
            return {}
        most = np.maximum(values - low, high - values)
        away = np.where(np.isnan(predictions), most, np.clip(predictions, low, high) - values)[able]
        return {"rmse": float(np.sqrt(np.mean(away**2))), "mae": float(np.mean(abs(away)))}

    def _usefulness(self, every: Indices, here: Mask) -> dict[str, float]:
        """Return how well lists show held-out items, mean over users who have such."""
        arguments = self._pairs(every, here)
        [precision], [recall] = precision_and_recall(*arguments)
        [hit_rate], [mrr] = hit_rate_and_mrr(*arguments)
        shown = np.unique(every[every >= 0])
        return {
            "ndcg": float(ndcg(*arguments)[0]),
            "recall": recall,
            "precision": precision,
            "hits": hit_rate,
            "mrr": mrr,
            "coverage": len(shown) / self.design.ratings.n_items,
        }

    def _by_group(self, every: Indices) -> Numbers:
        """Return the nDCG of each group's lists `(2, G)`; NaN without lists or held-out items.

        The first row is of all held-out items, the second of those in odd folds.
        """
        owners = self.design.tested.users[self._held]
        odd = self.design.folds % 2 > 0
        gains = [
            [self._gain(every, among[owners] & half) for among in self.design.groups.values()]
            for half in (np.ones_like(odd), odd)
        ]
        return np.array(gains, np.float64)

    def _gain(self, every: Indices, here: Mask) -> float:
        return float(ndcg(*self._pairs(every, here))[0]) if here.any() and len(every) else math.nan

    def _pairs(self, every: Indices, here: Mask) -> tuple[Indices, Indices, Indices, Indices]:
        """Return the lists of who has some held-out interactions, these users, and the pairs."""
        owners = self.design.tested.users[self._held][here]
        users = np.unique(owners)
        lists = every[None, np.searchsorted(self.design.listed, users)]
        return lists, users, owners, self.design.tested.items[self._held][here]

    @cached_property
    def _stays(self) -> NDArray[np.bool_]:
        """The interactions that a model has when it is asked, if it was trained on them `(R,)`."""
        every = self.design.ratings
        if isinstance(self.trainable, Forgetting):
            return ~self.trainable.gone(every)
        return np.ones(len(every), np.bool_)

    @property
    def _held(self) -> slice:
        """The held-out interactions among the tested ones."""
        return slice(len(self.design.rows), len(self.design.tested.users))


def _words(digest: str) -> Numbers:
    """Return a digest as whole numbers `(1, n)`."""
    return np.frombuffer(bytes.fromhex(digest), np.uint32).astype(np.float64)[None]


def packed(blocks: Sequence[Numbers]) -> Packed:
    """Return matrices as one vector that `unpacked` reads: their shapes, then their numbers."""
    shapes = np.array([block.shape for block in blocks], np.float64).reshape(-1)
    return np.concatenate((shapes, *(block.reshape(-1) for block in blocks)))


def all_unpacked(rows: Sequence[Packed], count: int) -> list[list[Numbers]]:
    """Return the `count` matrices of each training; NaN without a model, and none without any."""
    trainings = [None if np.isnan(row[0]) else unpacked(row, count) for row in rows]
    some = next((training for training in trainings if training), None)
    if some is None:
        return []
    nothing = [np.full_like(block, np.nan) for block in some]
    return [training or nothing for training in trainings]


def unpacked(vector: Packed, count: int) -> list[Numbers]:
    """Return the `count` matrices of a packed vector."""
    shapes = vector[: 2 * count].reshape(count, 2).astype(int)
    ends = np.cumsum(shapes.prod(1))
    parts = np.split(vector[2 * count :], ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def hand_out(config: MembershipConfig) -> Iterator[Path]:
    """Write the folder of each training of each recommender that is `returned`; yield it.

    Raises:
        ConfigError: no recommender is returned, the config has no seed of its own, or a folder
            exists or cannot be written.
        DataError: the data cannot be read, or there are too few.
    """
    returned = [table for table in config.recommender if table.returned is not None]
    if not returned:
        raise ConfigError(
            "no [[recommender]] has returned, the folder of trainings that are done elsewhere: "
            "give it, such as returned = 'trainings'"
        )
    if "seed" not in config.model_fields_set:
        raise ConfigError(
            "the config has no seed, which decides who is in which training, and the audit has to "
            "use the same: write seed = 1 or another number"
        )
    ratings = load(config.source)
    table = config.fitted(ratings).membership
    design = Design.of(ratings, table, config.seed)
    for recommender in returned:
        trainable = recommender.create("recommender")
        if not isinstance(trainable, Returned):
            raise TypeError("a returned recommender has trainings elsewhere")
        observers = table.observers_of(recommender)
        training = Training.of(trainable, design, table.units, observers)
        for index in range(table.trainings):
            seed = design.training_seed(index)
            try:
                yield trainable.hand_out(design.data(index), seed, training.query)
            except FileExistsError as error:
                raise ConfigError(
                    f"{place(Path(error.filename))} exists: remove the trainings of an earlier "
                    "split, or name another folder in returned"
                ) from error
            except OSError as error:
                raise ConfigError(
                    f"{place(trainable.cwd / trainable.returned)} cannot be written "
                    f"({error.strerror}): name another folder in returned"
                ) from error
