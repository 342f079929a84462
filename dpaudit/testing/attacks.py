"""Calls of attacks of every role on made-up inputs, and what their results have to be.

Inputs are small and random, and nothing that is measured rests on them. Beside each array that an
attack is given, and in the frames of its callers, stands a coin that it is not given. Its results
may not change with the coin.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks import base as roles
from dpaudit.core import releases
from dpaudit.core.releases import Learning, Profile, Round, Submissions, UserItemPairs
from dpaudit.core.streams import generator
from dpaudit.data.ratings import Ratings, Scale

# Trials, items, candidate values of a rating, length of lists, dimensions of factors.
_TRIALS, _ITEMS, _VALUES, _LENGTH, _D = 6, 12, 5, 4, 3
_USERS, _ROUNDS = 8, 8
# Trials of each data set that a learned attack is fitted on here.
_FITTED = 40

Array = NDArray[Any]


class ContractError(Exception):
    """What a result is instead of what it has to be."""


@dataclass(frozen=True)
class Call:
    """A call of an attack on made-up inputs.

    Attributes:
        method: the method, in words.
        inputs: the values that it is given.
        run: calls it with these values.
        shape: the shape of the result; None where any length will do.
        low: the least allowed value of a result of indices; None for numbers.
        high: the largest one.
        infinite: whether numbers may be infinite.
        fewer: the inputs of the first trials alone, if the result of a trial may not depend on the
            others; else None.
    """

    method: str
    inputs: tuple[Any, ...]
    run: Callable[..., Any]
    shape: tuple[int | None, ...]
    low: int | None = None
    high: int = 0
    infinite: bool = False
    fewer: tuple[Any, ...] | None = None

    def check(self) -> None:
        """Check the result, and that nothing but the inputs decides it.

        Raises:
            ContractError: says what is wrong with the method.
        """
        result = self._result(self.inputs, 0, 0)
        if not _same(self._result(self.inputs, 0, 1), result):
            raise ContractError(
                "gives other results for the same inputs: let its arguments and parameters alone "
                "decide them, no random state and no earlier call"
            )
        if not _same(self._result(self.inputs, 1, 0), result):
            raise ContractError(
                "changes its results with a coin that it is not given: read the arguments alone"
            )
        if self.fewer is not None:
            alone = self._result(self.fewer, 0, 0)
            if len(alone) >= len(result) or not np.allclose(alone, result[: len(alone)]):
                raise ContractError("gives a trial another result beside other trials")

    def _result(self, inputs: tuple[Any, ...], coin: int, state: int) -> Array:
        """Return the result with this coin out of sight, and these states of random generators."""
        given = tuple(_beside(value, coin) for value in inputs)
        before = [array.copy() for array in _arrays(given)]
        kept = np.random.get_state(), random.getstate()  # noqa: NPY002
        np.random.seed(state)  # noqa: NPY002
        random.seed(state)
        try:
            result = np.asarray(self.run(*given))
        finally:
            np.random.set_state(kept[0])  # noqa: NPY002
            random.setstate(kept[1])
        if not all(map(_same, before, _arrays(given))):
            raise ContractError("changes what it is given: copy it first")
        if inputs is self.inputs:
            self._check_form(result)
        return result

    def _check_form(self, result: Array) -> None:
        """Check the shape, the type and the range of the result."""
        if not self._fits(result.shape):
            wanted = ", ".join("any" if size is None else str(size) for size in self.shape)
            raise ContractError(f"gives the shape {result.shape} and not ({wanted})")
        if result.dtype.kind not in ("biuf" if self.low is None else "biu"):
            raise ContractError(f"gives {result.dtype}, which are no numbers of its kind")
        if self.low is not None:
            if ((result < self.low) | (result > self.high)).any():
                raise ContractError(f"gives an index that is not in {self.low} … {self.high}")
            return
        unknown = np.isnan(result) if self.infinite else ~np.isfinite(result)
        if unknown.any():
            raise ContractError("gives a number that is not finite")

    def _fits(self, shape: tuple[int, ...]) -> bool:
        return len(shape) == len(self.shape) and all(
            wanted in (None, size) for size, wanted in zip(shape, self.shape, strict=True)
        )


def calls_of(attack: roles.Attack, views: Sequence[releases.View]) -> Iterator[Call]:
    """Yield calls of an attack, one or more for each role that it has.

    Args:
        attack: the attack.
        views: views of observers whose types dpaudit does not know.

    Raises:
        ContractError: the attack reads such types, and no view of them is given.
    """
    for role, calls in _CALLS:
        if isinstance(attack, role):
            yield from calls(attack, views)


def _membership(attack: roles.MembershipInference, _: Sequence[releases.View]) -> Iterator[Call]:
    rng = generator(0, "contract/membership")
    present = rng.random((2 * _TRIALS, _VALUES)) < 0.5
    attackers = np.arange(2 * _TRIALS) % 2 == 0
    for population in (_ITEMS, 0):
        features = rng.normal(size=(2 * _TRIALS, _VALUES, 2)) + present[:, :, None]
        strangers = rng.normal(size=(2 * _TRIALS, population, 2)) - 2.0
        known = roles.Covariates(rng.normal(size=(_VALUES, 2)), rng.normal(size=(population, 2)))
        fit = features[:, :, 0] - 2.0
        signals = roles.Signals(features, fit, strangers[:, :, 0], strangers, known)
        inputs = (signals.of(~attackers), signals.of(attackers), present[attackers])
        words = f"score with a population of {population}"
        yield Call(words, inputs, attack.score, (_TRIALS, _VALUES))


def _distinguishing(attack: roles.Distinguisher, views: Sequence[releases.View]) -> Iterator[Call]:
    for label, view, fewer in _views(attack, views):
        yield Call(f"score of {label}", view, attack.score, (None,), infinite=True, fewer=fewer)


def _learned(attack: roles.LearnedDistinguisher, views: Sequence[releases.View]) -> Iterator[Call]:
    for label, view, fewer in _views(attack, views, _FITTED):
        yield Call(f"features of {label}", view, attack.features, (None, None), fewer=fewer)
        read = np.asarray(attack.features(*view))
        noise = generator(0, "contract/learned").integers(0, 2, read.shape).astype(read.dtype)

        def scored(absent: Array, present: Array) -> Array:
            return np.asarray(attack.fit(absent, present).score(present))

        yield Call("fit and score", (read, read + noise), scored, (len(read),), infinite=True)


def _list_inference(attack: roles.ListInference, _: Sequence[releases.View]) -> Iterator[Call]:
    rng = generator(0, "contract/inference")
    inputs = (rng.normal(size=(_TRIALS, _VALUES)), np.full(_VALUES, 1 / _VALUES))
    yield Call("infer", inputs, attack.infer, (_TRIALS,), 0, _VALUES - 1)


def _inference(attack: roles.Inference, _: Sequence[releases.View]) -> Iterator[Call]:
    rng = generator(0, "contract/inference")
    terms = np.sort(rng.normal(size=(1, _ITEMS, _VALUES)), axis=2)
    side = releases.SideInformation(
        ratings=10,
        known=rng.normal(30, 3, (1, _ITEMS)),
        terms=terms,
        shown=np.ones((1, _ITEMS, _VALUES), np.bool_),
        place=np.zeros(_TRIALS, np.int64),
        candidates=np.arange(1, _VALUES + 1, dtype=np.float32),
        frequency=np.full(_VALUES, 1 / _VALUES),
    )
    one = attack.shown == "one"
    items = _listed(_TRIALS, "inference").items[:, : 1 if one else _LENGTH]
    kind: type[Any] = releases.Predictions if one else releases.TopList
    release = kind(items, rng.normal(3, 0.5, items.shape).astype(np.float32))
    yield Call("infer", (release, side, 0.5), attack.infer, (_TRIALS,), -1, _VALUES - 1)


def _reconstruction(
    attack: roles.RatingReconstruction, _: Sequence[releases.View]
) -> Iterator[Call]:
    users = np.arange(_USERS, dtype=np.int32)
    inputs = (_factors(_TRIALS), _ratings(), users, (users + 1) % _ITEMS)
    yield Call("reconstruct", inputs, attack.reconstruct, (_TRIALS, _USERS))


def _lists(attack: roles.ListReconstruction, _: Sequence[releases.View]) -> Iterator[Call]:
    inputs = (_factors(_TRIALS), _ratings(), np.arange(_USERS, dtype=np.int32), _LENGTH)
    shape = (_TRIALS, _USERS, _LENGTH)
    yield Call("lists", inputs, attack.lists, shape, -1, _ITEMS - 1)


def _submissions(
    attack: roles.SubmissionReconstruction, _: Sequence[releases.View]
) -> Iterator[Call]:
    rng = generator(0, "contract/submissions")
    ratings = _ratings()
    shared = ratings.value.astype(np.float64)
    shared[::3] = np.nan
    size = (_ROUNDS, len(shared), _D)
    seen = Submissions(
        users=ratings.user,
        items=ratings.item,
        shared=shared,
        shown=rng.normal(size=size).astype(np.float32),
        deviations=np.ones(size, np.float32),
        usual=np.ones(len(shared)),
        factors=rng.normal(size=(_ROUNDS, _ITEMS, _D)).astype(np.float32),
        learning=Learning(rate=0.05, decay=0.1, offset=3.0, start=0.0, spread=1.0),
    )
    inputs = (seen, _factors(1), ratings.only(~np.isnan(shared)))
    yield Call("read", inputs, attack.read, (2, int(seen.kept.sum())))


def _sybil(attack: roles.SybilAttack, _: Sequence[releases.View]) -> Iterator[Call]:
    lists = _listed(_TRIALS).items
    yield Call("outcomes", (lists, 3), attack.outcomes, (_TRIALS,), 0, 10**6)
    seen = attack.outcomes(lists, 3)
    outcomes = np.stack([attack.outcomes(_listed(_FITTED).items, item) for item in range(_VALUES)])
    shape = (_TRIALS, _VALUES)
    yield Call("learned_log_likelihood", (seen, outcomes), attack.learned_log_likelihood, shape)
    inputs = (_drawn("likelihood", *shape), np.array([1, 3, _TRIALS]), 0.3)
    yield Call("guess", inputs, attack.guess, (3,), 0, _VALUES - 1)


def _passive(attack: roles.PassiveAttack, _: Sequence[releases.View]) -> Iterator[Call]:
    inputs = (_listed(_TRIALS, "before"), _listed(_TRIALS, "after"), 3)
    yield Call("scores", inputs, attack.scores, (_TRIALS + 1,), 0, 10**6)


def _test(attack: roles.SubmissionTest, _: Sequence[releases.View]) -> Iterator[Call]:
    rng = generator(0, "contract/test")
    users = np.repeat(np.arange(_USERS, dtype=np.int32), 2)
    items = np.tile(np.arange(_ITEMS, dtype=np.int32), 2)[: len(users)]
    share, able = np.linspace(0.2, 0.8, _ITEMS), np.arange(3, _ITEMS + 3)
    pairs = UserItemPairs(users, items, _D, 1.0, None, share, able)
    place = np.arange(len(users), dtype=np.int32)

    def drawn(rows: int) -> NDArray[np.float32]:
        return rng.normal(size=(rows, _D)).astype(np.float32)

    rounds = tuple(
        Round(
            place,
            drawn(len(users)),
            factors=drawn(_ITEMS),
            fakes=drawn(_ITEMS),
            gradients=drawn(len(users)),
        )
        for _ in range(_ROUNDS)
    )

    def scores(pairs: UserItemPairs, *rounds: Round) -> Array:
        reader = attack.reader(pairs)
        for round_ in rounds:
            reader.see(round_)
        return np.asarray(reader.verdicts().scores)

    yield Call("verdicts", (pairs, *rounds), scores, (len(users),))


_CALLS: tuple[
    tuple[type[roles.Attack], Callable[[Any, Sequence[releases.View]], Iterator[Call]]], ...
] = (
    (roles.MembershipInference, _membership),
    (roles.Distinguisher, _distinguishing),
    (roles.LearnedDistinguisher, _learned),
    (roles.Inference, _inference),
    (roles.ListInference, _list_inference),
    (roles.RatingReconstruction, _reconstruction),
    (roles.ListReconstruction, _lists),
    (roles.SubmissionReconstruction, _submissions),
    (roles.SubmissionTest, _test),
    (roles.SybilAttack, _sybil),
    (roles.PassiveAttack, _passive),
)


def _views(
    attack: roles.Distinguisher | roles.LearnedDistinguisher,
    given: Sequence[releases.View],
    trials: int = _TRIALS,
) -> Iterator[tuple[str, tuple[Any, Any], tuple[Any, Any] | None]]:
    """Yield what it is of, a view, and that of its first trials, for all types that are read."""
    for release, knowledge in attack.reads:
        label = f"{release.__name__} with {knowledge.__name__}"
        make = _VIEWS.get((release, knowledge))
        if make is not None:
            yield label, make(trials), make(trials // 2)
            continue
        fitting = [v for v in given if isinstance(v[0], release) and isinstance(v[1], knowledge)]
        if not fitting:
            raise ContractError(
                f"reads {label}, which dpaudit does not know: give the check a View of them"
            )
        for view in fitting:
            yield label, (view[0], view[1]), None


def _predictions(trials: int) -> releases.Predictions:
    items = np.tile(np.arange(_LENGTH, dtype=np.int32), (trials, 1))
    return releases.Predictions(items, (_drawn("values", trials, _LENGTH) / 8).astype(np.float32))


def _steps(trials: int) -> tuple[releases.NoisedSteps, releases.StepsPair]:
    shown, absent = (_drawn(name, trials, _D) for name in ("shown", "absent"))
    pair = releases.StepsPair(absent, absent + 1.0, np.ones(_D), gaussian=False, grid=2.0**-10)
    return releases.NoisedSteps(shown), pair


def _target() -> releases.TargetUser:
    items, values = np.array([1, 4, 7], np.int32), np.array([5, 1, 3], np.float32)
    return releases.TargetUser(0, Profile(items[:2], values[:2]), Profile(items, values))


def _rows(trials: int) -> releases.SimilarityRows:
    items = np.array([1, 4, 7], np.int32)
    rows = _drawn("rows", trials, 3 * _ITEMS).reshape(trials, 3, _ITEMS).astype(np.float32)
    return releases.SimilarityRows(items, rows, np.full(_ITEMS, 3, np.float32))


def _factors(trials: int) -> releases.ItemFactors:
    factors = _drawn("factors", trials, _ITEMS * (_D + 1)).reshape(trials, _ITEMS, _D + 1)
    return releases.ItemFactors(factors.astype(np.float32), 3.0)


def _listed(trials: int, purpose: str = "lists") -> releases.ItemList:
    order = np.argsort(_drawn(purpose, trials, _ITEMS), axis=1)
    return releases.ItemList(order[:, :_LENGTH].astype(np.int32))


def _ratings() -> Ratings:
    user, item = (axis.reshape(-1) for axis in np.indices((_USERS, _ITEMS)))
    rated = (user + item) % 3 > 0
    value = (1 + (user * 5 + item) % 5).astype(np.float32)
    return Ratings.build(user[rated], item[rated], value[rated], _USERS, _ITEMS, Scale())


def _drawn(purpose: str, trials: int, count: int) -> NDArray[np.float64]:
    """Return normal numbers `(trials, count)`; those of the first trials are always the same."""
    return np.array(generator(0, f"contract/{purpose}").normal(size=(_FITTED, count))[:trials])


@dataclass(frozen=True)
class _Law:
    """The law of a list whose items are drawn in proportion to weights."""

    weights: NDArray[np.float64]

    def log_probability(self, items: NDArray[np.int32]) -> NDArray[np.float64]:
        return np.asarray(np.log(self.weights / self.weights.sum())[items].sum(1))


_LAPLACE = releases.LaplacePair(np.zeros(_LENGTH), np.ones(_LENGTH), 1.0, 2.0**-10)
_DOUBT = releases.ItemInDoubt(3)
_LAWS = releases.ListPair(_Law(np.arange(1.0, _ITEMS + 1)), _Law(np.arange(_ITEMS + 1.0, 1, -1)))
_VIEWS: dict[tuple[type, type], Callable[[int], tuple[Any, Any]]] = {
    (releases.Predictions, releases.LaplacePair): lambda trials: (_predictions(trials), _LAPLACE),
    (releases.Predictions, releases.TargetUser): lambda trials: (_predictions(trials), _target()),
    (releases.NoisedSteps, releases.StepsPair): _steps,
    (releases.ItemList, releases.ItemInDoubt): lambda trials: (_listed(trials), _DOUBT),
    (releases.ItemList, releases.ListPair): lambda trials: (_listed(trials), _LAWS),
    (releases.ItemList, releases.TargetUser): lambda trials: (_listed(trials), _target()),
    (releases.ItemFactors, releases.TargetUser): lambda trials: (_factors(trials), _target()),
    (releases.SimilarityRows, releases.TargetUser): lambda trials: (_rows(trials), _target()),
}


def _beside(value: Any, coin: int) -> Any:
    """Return the same value, whose arrays are parts of larger ones that end with a coin."""
    if isinstance(value, np.ndarray):
        hidden = np.full((1, *value.shape[1:]), coin, value.dtype)
        return np.concatenate([value, hidden])[:-1] if value.ndim else value
    if isinstance(value, Ratings):
        return value
    if isinstance(value, tuple):
        parts = [_beside(part, coin) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value) if field.init]
        return replace(value, **{name: _beside(getattr(value, name), coin) for name in names})
    return value


def _arrays(value: Any) -> Iterator[Array]:
    """Yield the arrays, numbers and words of a value, in order, as arrays."""
    if isinstance(value, np.ndarray | np.generic | int | float | str | None):
        yield np.asarray(value)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _arrays(part)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _arrays(getattr(value, field.name))


def bits_of(value: Any) -> list[Any]:
    """Return the type, the shape and the bytes of each array, number and word in a value."""
    return [(array.dtype, array.shape, array.tobytes()) for array in _arrays(value)]


def _same(one: Array, other: Array) -> bool:
    return one.shape == other.shape and np.array_equal(
        one, other, equal_nan=one.dtype.kind == "f" and other.dtype.kind == "f"
    )
