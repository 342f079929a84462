"""The contract of defenses, recommenders and attacks, as checks for the test suite of a plug-in.

Each check raises AssertionError with the violation; the plug-in need not be registered.

Example:
    def test_the_defense_keeps_the_contract():
        check_variants(MyDefense)
        check_game(MyDefense(epsilon=1.0), pair, MyAttack(), "my-observer")
"""

from __future__ import annotations

import dataclasses
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from dpaudit.attacks.base import Attack, Distinguisher, LearnedDistinguisher, Reads
from dpaudit.auditor.games import GameScores
from dpaudit.audits.trained.pairs import DataPair, trained_game
from dpaudit.core.plugin import Plugin
from dpaudit.core.releases import TargetUser, View
from dpaudit.core.streams import Streams
from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import Defense, OnDemandDefense, TrainedDefense
from dpaudit.execution.executor import Executor
from dpaudit.execution.workers import Pool, Workers
from dpaudit.recommenders.base import Recommender, taken_by
from dpaudit.recommenders.saving import Saves, digest_of_folder
from dpaudit.testing import defenses
from dpaudit.testing.attacks import ContractError, calls_of
from dpaudit.testing.parameters import check_parameters, refuses, require

_YEAR, _PLACE = re.compile(r"\b(19|20)\d\d\b"), re.compile(r"arXiv:|doi:|eq|Theorem|Definition|§")
_TRIALS = 40


def check_plugin(plugin: type[Plugin]) -> None:
    """Check that a plug-in has metadata, documents its parameters, refuses unknown ones, is frozen.

    Args:
        plugin: the class; all its parameters except `epsilon` have defaults.

    Raises:
        AssertionError: the plug-in violates the contract.
    """
    titled = plugin.title.strip() == plugin.title and len(plugin.title) > 10
    require(titled, plugin, "needs a title")
    require(_YEAR.search(plugin.source), plugin, "source needs the year of the paper")
    place = _PLACE.search(plugin.source)
    require(place, plugin, "source needs a DOI, an arXiv id or a place")
    text = "".join(base.__doc__ or "" for base in plugin.__mro__)
    require("\n\n" in (plugin.__doc__ or "").strip(), plugin, "docstring needs more than a title")
    for field in dataclasses.fields(plugin):  # type: ignore[arg-type]
        explained = re.search(rf"^\s+{field.name}: ", text, re.M)
        require(explained, plugin, f"docstring does not explain {field.name}")
        missing = dataclasses.MISSING
        has_default = field.default is not missing or field.default_factory is not missing
        require(has_default or field.name == "epsilon", plugin, f"{field.name} needs a default")
    _check_instances(plugin)


def _check_instances(plugin: type[Plugin]) -> None:
    """Check that instances are equal by their parameters, know no others, and are frozen."""
    required = {"epsilon": 1.0} if issubclass(plugin, Defense) else {}
    instance = plugin(**required)
    require(instance == plugin(**required), plugin, "equal parameters need to make equal parts")
    refused = refuses(ValidationError, plugin, **required, no_such_parameter=1)
    require(refused, plugin, "an unknown parameter is accepted")
    names = [field.name for field in dataclasses.fields(plugin)]  # type: ignore[arg-type]
    for name in ("no_such_parameter", *names[:1]):
        frozen = refuses(dataclasses.FrozenInstanceError, setattr, instance, name, 1)
        require(frozen, plugin, f"{name} can be changed; use a frozen dataclass")


def check_attack(attack: type[Attack], *views: View) -> None:
    """Check that an attack passes `check_plugin`, has one role, and scores what it is given.

    With its default parameters it is called on made-up inputs. Its results are finite and of the
    right shape, are the same for the same inputs, and change neither with random state that it is
    not given nor with a coin that stands beside its inputs.

    Args:
        attack: the class.
        views: what observers of types of your own show to it.

    Raises:
        AssertionError: the attack violates the contract.
    """
    check_plugin(attack)
    check_parameters(attack)
    roles = [*(set(Attack.__subclasses__()) - {Reads}), *Reads.__subclasses__()]
    count = sum(issubclass(attack, role) for role in roles)
    require(count == 1, attack, f"has {count} roles of dpaudit.attacks.base and needs one")
    if issubclass(attack, Reads):
        require(attack.reads, attack, "reads nothing")
    try:
        calls = list(calls_of(attack(), views))
    except ContractError as error:
        raise AssertionError(f"{attack.name} {error}") from error
    for call in calls:
        try:
            call.check()
        except ContractError as error:
            raise AssertionError(f"{attack.name}: {call.method} {error}") from error


def check_defense(defense: Defense, ratings: Ratings) -> None:
    """Check a defense in one variant: all that `check_plugin` does, and what its role has to do.

    Its parameters refuse wrong values. It claims a share of its ε, about observers that it has.
    What it shows, and every view of its observers, depends on nothing but the data and the streams,
    and lies on a public grid where its law is known. Pairs of neighbours are what they say. No
    training of the corrected form ends in an error.

    Args:
        defense: the defense, private or not.
        ratings: data that it accepts.

    Raises:
        AssertionError: the defense violates the contract.
    """
    check_plugin(type(defense))
    check_parameters(type(defense))
    defenses.check_claim(defense)
    defenses.check_observers(defense)
    if isinstance(defense, OnDemandDefense):
        defenses.check_lists(defense, ratings)
    if isinstance(defense, TrainedDefense):
        defenses.check_trainings(defense, ratings)


def check_variants(kind: type[Defense], ratings: Ratings | None = None) -> None:
    """Run `check_defense` on each variant that a defense has, with its `quick` parameters.

    Args:
        kind: the class.
        ratings: data that it accepts; unless given, small made-up ratings, or purchases.

    Raises:
        AssertionError: the defense violates the contract, or has no variant.
    """
    for defense in defenses.variants_of(kind):
        check_defense(defense, defenses.accepted_data(defense) if ratings is None else ratings)


def check_recommender(recommender: Recommender, ratings: Ratings, k: int = 5) -> None:
    """Check `check_plugin`, the shapes and types of results, and what they depend on.

    They depend on the interactions and the seed alone, not on numpy's global state. Users and items
    without interactions keep their place.

    Args:
        recommender: the recommender.
        ratings: data of at least 3 users and 3 items that it accepts; one user and one item are
            left out of a second training.
        k: the length of lists.

    Raises:
        AssertionError: the recommender violates the contract.
    """
    kind, (n, m) = type(recommender), (ratings.n_users, ratings.n_items)
    check_plugin(kind)
    users, items = (index.astype(np.int32).reshape(-1) for index in np.indices((n, m)))

    def shown(kept: np.ndarray[Any, np.dtype[np.bool_]], noise: int) -> tuple[Any, Any]:
        np.random.seed(noise)  # noqa: NPY002
        fitted = recommender.fit(taken_by(recommender.fit, Interactions.of(ratings, kept)), 3)
        return fitted.scores(users, items), fitted.recommend(np.arange(n, dtype=np.int32), k)

    every = np.ones(len(ratings), np.bool_)
    scores, lists = shown(every, 0)
    require(scores.shape == (n * m,), kind, "scores are not of shape (n,)")
    require(scores.dtype == np.float32, kind, "scores are not float32")
    require(np.isfinite(scores).all(), kind, "a score of a known user and item is no number")
    require(lists.shape == (n, k) and lists.dtype == np.int32, kind, "lists are not (n, k) int32")
    for row in lists.tolist():
        listed = [item for item in row if item != -1]
        require(len(set(listed)) == len(listed), kind, "a list holds an item twice")
        padded = row == listed + [-1] * (len(row) - len(listed))
        require(padded, kind, "a list is not padded at its end")
        require(all(0 <= item < m for item in listed), kind, "a list holds an unknown item")
    again = shown(every, 1)
    same = again[0].tobytes() == scores.tobytes() and again[1].tobytes() == lists.tobytes()
    require(same, kind, "a seed gives different models")
    fewer, shorter = shown((ratings.user != 1) & (ratings.item != 1), 0)
    require(fewer.shape == (n * m,), kind, "a user or item without interactions loses its place")
    require(shorter.shape == (n, k), kind, "a user without interactions gets no list")
    known = np.isin(users, np.flatnonzero(ratings.by_user.start[1:] > ratings.by_user.start[:-1]))
    known &= (users != 1) & (items != 1)
    require(np.isfinite(fewer[known]).all(), kind, "an absent user or item spoils a score")


def check_saves(fitted: Saves) -> None:
    """Check that a trained model writes itself to a given path, the same each time.

    Args:
        fitted: what the `fit` of a user's class returns, with `save(path)`.

    Raises:
        AssertionError: it writes nothing there, something beside it, or something else each time.
    """
    kind, digests = type(fitted), set()
    for _ in range(2):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            fitted.save(str(folder / "model"))
            written = [path.name for path in folder.iterdir()]
            require(written == ["model"], kind, f"saves {written or 'nothing'} instead of 'model'")
            digests.add(digest_of_folder(folder))
    require(len(digests) == 1, kind, "saves something else each time")


def check_game(
    defense: TrainedDefense[Any],
    pair: DataPair,
    attack: Distinguisher | LearnedDistinguisher,
    observer: str,
    target: TargetUser | None = None,
) -> GameScores:
    """Check that game trials depend only on seed and index, and that views have their types.

    Args:
        defense: the trained defense.
        pair: two data sets that it accepts.
        attack: an attack that reads what the observer sees.
        observer: the name of one of the defense's observers.
        target: the target user, for observers of a released model.

    Returns:
        The scores of the game.

    Raises:
        AssertionError: a score depends on other trials or on threads, or a view has another type.
    """
    kind, game = type(defense), trained_game(defense, pair, attack, observer, target)
    streams = Streams.first(0, "contract", 2)
    for view in game.observer.views(game.pair, game.pair.before, streams):
        for shown, wanted in zip(view, game.observer.shows, strict=True):
            words = f"observer {observer} shows {type(shown).__name__}, not {wanted.__name__}"
            require(isinstance(shown, wanted), kind, words)
    require(type(attack).can_read(game.observer.shows), type(attack), f"cannot read {observer}")
    whole = game.run(trials=_TRIALS, seed=1)
    for trials, threads in ((_TRIALS, 1), (_TRIALS, 2), (_TRIALS // 3, 1)):
        again = game.run(trials=trials, seed=1, executor=Executor(Pool(Workers(threads))))
        for name in ("absent", "present"):
            same = np.array_equal(getattr(again, name), getattr(whole, name)[:trials])
            require(same, kind, f"{name}: {trials} trials on {threads} threads differ")
    return whole
