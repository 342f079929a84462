"""The contract of defenses: their claims, and what each role does on small data."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from scipy import special

from dpaudit.attacks.distinguishing import FloatBits
from dpaudit.audits.trained.pairs import DataPair, target_pair
from dpaudit.core import releases
from dpaudit.core.claim import Adjacency, Variant
from dpaudit.core.errors import ConfigError, DataError, DpauditError, NoModelError
from dpaudit.core.plugin import Plugin
from dpaudit.core.streams import Streams
from dpaudit.data.neighbors import apply
from dpaudit.data.ratings import Friends, Ratings, Scale
from dpaudit.defenses import base as roles
from dpaudit.defenses.precision import grids
from dpaudit.testing.attacks import bits_of
from dpaudit.testing.parameters import kinds_of, refuses, require, words_of

# Trials of on-demand defenses, and of trained ones: more than twice the sixteen that share lanes.
_RELEASED, _TRAINED = 400, 35
# The least change of a prediction or of a row that a constructed pair makes, in ratings.
_VISIBLE = 0.05


def variants_of(kind: type[roles.Defense]) -> Iterator[roles.Defense]:
    """Yield the defense in each variant and for each `adjacency` that it has, as it is `quick`.

    Raises:
        AssertionError: it has none, or refuses one without saying so.
    """
    choices: list[dict[str, Any]] = [{"variant": variant} for variant in get_args(Variant)]
    if "adjacency" in {field.name for field in dataclasses.fields(kind)}:  # type: ignore[arg-type]
        relations = get_args(Adjacency)
        choices = [{**one, "adjacency": relation} for one in choices for relation in relations]
    refused = []
    for choice in choices:
        try:
            yield kind(epsilon=1.0, **choice, **kind.quick)  # type: ignore[call-arg]
        except ValidationError as error:
            words = words_of(error)
            said = any(word in words for word in (*choice, *get_args(Adjacency)))
            require(said, kind, f"refuses {choice} without saying so: {words}")
            refused.append(words)
    require(len(refused) < len(choices), kind, f"has no variant: {'; '.join(refused)}")


def accepted_data(defense: Any, n_users: int = 9, n_items: int = 7) -> Ratings:
    """Return small ratings or purchases that the defense accepts.

    A fifth is sensitive. A third of the users have no friends. An on-demand defense has users with
    20 or more ratings; for a trained one, nobody has rated all.

    Args:
        defense: the defense.
        n_users: the number of users, of data for a trained defense.
        n_items: the number of items, at least six.

    Raises:
        AssertionError: it accepts neither ratings nor purchases.
    """
    rng = np.random.default_rng(0)
    if isinstance(defense, roles.OnDemandDefense):
        n_users, n_items = 30, max(60, 35 + defense.top_k)
        counts = rng.integers(20, 35, n_users)
        rated = rng.random((n_users, n_items)).argsort(1).argsort(1) < counts[:, None]
    else:
        rated = rng.random((n_users, n_items)) < 0.6
        rated[:, :2] = True
        rated[::2, 2:4] = rated[1::2, 4:6] = False
    user, item = np.nonzero(rated)
    linked = rng.random((n_users, n_users)) < 0.3
    np.fill_diagonal(linked, False)
    linked[: n_users // 3] = False
    users, friends = np.nonzero(linked)
    sensitive, values = rng.random(len(user)) < 0.2, rng.choice(Scale().values, len(user))
    ratings = Ratings.build(
        user,
        item,
        values.astype(np.float32),
        n_users,
        n_items,
        Scale(),
        sensitive=sensitive,
        friends=Friends.build(users, friends, n_users),
    )
    ones = np.ones_like(ratings.value)
    purchases = dataclasses.replace(ratings, value=ones, scale=Scale(1, 1, 1))
    for data in (ratings, purchases):
        if not refuses(DataError, defense.prepare, data):
            return data
    raise AssertionError(f"{defense.name}: accepts neither ratings on 1..5 nor purchases")


def check_claim(defense: roles.Defense) -> None:
    """Check what a defense claims for each ε, of whom, and that a private one refuses ε = ∞.

    A published claim has the ε of the parameter, a corrected one a share of it.
    """
    kind, claim = type(defense), defense.claim()
    for epsilon in (0.0, -1.0, math.nan, *(() if claim is None else (math.inf,))):
        refused = refuses(ValidationError, dataclasses.replace, defense, epsilon=epsilon)
        require(refused, kind, f"accepts epsilon = {epsilon} in the variant {defense.variant!r}")
    if defense.variant == "nonprivate":
        require(claim is None, kind, "the variant 'nonprivate' claims something")
        dataclasses.replace(defense, epsilon=math.inf)  # type: ignore[type-var]
    if claim is None:
        return
    require(claim.epsilon > 0 and 0 <= claim.delta < 1, kind, "claims no (ε, δ)")
    require(claim.epsilon <= defense.epsilon, kind, "claims more than its parameter ε")
    if defense.variant == "published":
        require(claim.epsilon == defense.epsilon, kind, "claims another ε than its parameter")
    twice: Any = dataclasses.replace(defense, epsilon=2 * defense.epsilon)  # type: ignore[type-var]
    require(twice.claim().epsilon == 2 * claim.epsilon, kind, "claims no share of its parameter ε")
    named = claim.observer in defense.observers()
    require(named, kind, f"claims something for {claim.observer!r}, which observes nothing")
    # Parameters may leave nothing for others to see, for whom any claim is true.
    others = {*claim.also} <= {*defense.observers(), *kind(epsilon=1.0).observers()}  # type: ignore[call-arg]
    require(others, kind, f"claims something for {claim.also}, some of which are unknown")
    require(claim.adjacency in get_args(Adjacency), kind, "claims something for no neighbours")
    require(len(claim.public) > 3, kind, "does not say what the claim takes for public")
    require(len(claim.source) > 3, kind, "does not say where the claim stands")
    adjacency = getattr(defense, "adjacency", None) or claim.adjacency
    require(adjacency == claim.adjacency, kind, "claims something for other neighbours")


def check_observers(defense: roles.Defense) -> None:
    """Check that there are observers, with words."""
    observers = defense.observers()
    require(observers, type(defense), "has no observers")
    for name, observer in observers.items():
        require(isinstance(observer, releases.Observer), type(defense), f"observer {name} is none")
        require(len(observer.words) > 3, type(defense), f"observer {name} needs words")


def check_lists(defense: roles.OnDemandDefense, ratings: Ratings) -> None:
    """Check that lists depend only on the seed and the trial's index, without repeated items."""
    kind, model = type(defense), defense.prepare(ratings)
    able = np.flatnonzero(np.diff(ratings.by_user.start) >= defense.min_ratings)
    require(len(able), kind, f"no user of these data has {defense.min_ratings} ratings")
    profile = ratings.profile(int(able[0]))
    exact = defense.exact(model, profile)

    def listed(streams: Streams) -> NDArray[np.int32]:
        return defense.release_list(exact, streams).items

    lists = _check_streams(defense, "lists", listed, _RELEASED, least=2)
    require(lists.shape == (_RELEASED, defense.top_k), kind, "lists are not of length top_k")
    unlike = all(len(set(row)) == defense.top_k for row in lists.tolist())
    require(unlike, kind, "a list holds an item twice")
    require(np.isin(lists, exact.candidates).all(), kind, "a rated item is listed")
    if isinstance(defense, roles.ListDefense):
        _check_law(defense, profile.items, exact)
    forms = [defense]
    if isinstance(defense, roles.PredictionDefense):
        _check_predictions(defense, ratings, exact)
        forms += [defense.serving(least) for least in (1, 3)]
    for scale in (ratings.scale, *(() if ratings.scale.width == 0 else (Scale(0, 100, 0.5),))):
        for form in forms:
            check_pairs(form, scale)


def _check_streams(
    defense: roles.Defense,
    what: str,
    shown: Callable[[Streams], NDArray[Any]],
    count: int,
    *,
    least: int | None = None,
) -> NDArray[Any]:
    """Check that the seed, the purpose and the trial's index decide what is shown, and no more.

    Args:
        defense: the defense.
        what: what is shown, for messages.
        shown: returns it, a row for each trial.
        count: the number of trials.
        least: the least number of different rows under a claim; None if no two are the same.

    Returns:
        What is shown in the first trials.
    """
    kind, streams = type(defense), Streams.first(1, "contract", count)
    whole = shown(streams)
    require(shown(streams).tobytes() == whole.tobytes(), kind, f"a seed gives different {what}")
    different = len(np.unique(whole, axis=0))
    drawn = different >= (least or count)
    if defense.claim() is None:
        # A training may draw where it begins.
        drawn = different == 1 or (isinstance(defense, roles.TrainedDefense) and drawn)
    for seed, purpose in ((2, "contract"), (1, "other")):
        other = shown(Streams.first(seed, purpose, count))
        drawn &= (other.tobytes() != whole.tobytes()) == (different > 1)
    require(
        drawn, kind, f"{what} of different trials or seeds are the same, or differ without a claim"
    )
    for chosen in (list(range(17)), [16], [count - 1, 3]):
        alone = shown(Streams(streams.key, np.array(chosen, np.int64)))
        same = alone.tobytes() == whole[chosen].tobytes()
        require(same, kind, f"{what} depend on other trials")
    with ThreadPoolExecutor(2) as pool:
        parts = np.concatenate(list(pool.map(shown, streams.blocks(8))))
    require(parts.tobytes() == whole.tobytes(), kind, f"{what} depend on threads")
    return whole


def _check_predictions(defense: roles.PredictionDefense, ratings: Ratings, exact: Any) -> None:
    """Check what is shown with its values, and that its noise grows as ε falls."""
    kind, items = type(defense), np.arange(ratings.n_items, dtype=np.int32)

    def shown(streams: Streams, top: bool) -> NDArray[np.float32]:
        request = (
            releases.SeesTop(defense.top_k)
            if top
            else releases.SeesItems(np.tile(items, (len(streams), 1)))
        )
        release = defense.release(exact, streams, request)
        return np.concatenate([release.values, release.items.astype(np.float32)], axis=1)

    _check_streams(defense, "predictions", partial(shown, top=False), _RELEASED)
    _check_streams(defense, "ranked predictions", partial(shown, top=True), _RELEASED)
    scales = [
        dataclasses.replace(defense, epsilon=e).noise_of_predictions(ratings.scale).scale  # type: ignore[type-var]
        for e in (defense.epsilon, 2 * defense.epsilon)
    ]
    right = math.isclose(scales[0], 2 * scales[1], rel_tol=1e-7)
    right &= (scales[0] > 0) == (defense.claim() is not None)
    require(right, kind, "the noise is not in proportion to 1/ε")


def _check_law(defense: roles.ListDefense, rated: NDArray[np.int32], exact: Any) -> None:
    """Check that lists that are drawn are possible, and others not."""
    kind, law = type(defense), defense.law(exact)
    shown = defense.release_list(exact, Streams.first(1, "contract", 2000)).items
    logs = law.log_probability(shown)
    require((np.isfinite(logs) & (logs <= 1e-12)).all(), kind, "a list that is drawn is impossible")
    lists, places = np.unique(shown, axis=0, return_index=True)
    require(np.exp(logs[places]).sum() <= 1 + 1e-9, kind, "lists have more than all probability")
    twice, known = lists[:1].copy(), lists[:1].copy()
    twice[0, 0] = twice[0, -1]
    known[0, 0] = rated[0]
    for impossible in (twice, known)[defense.top_k == 1 :]:
        none = np.isneginf(law.log_probability(impossible)).all()
        require(none, kind, "a list with an item twice, or a rated item, is possible")
    _check_draws(defense, exact)


def _check_draws(defense: roles.ListDefense, exact: Any) -> None:
    """Check that lists are drawn as often as their law says, at ε and at multiples of it.

    Any two laws p and q have `E_p[q / (p + q)] = E_q[p / (p + q)]`, the sum of `pq / (p + q)`.
    """
    forms: list[Any] = [
        dataclasses.replace(defense, epsilon=factor * defense.epsilon)  # type: ignore[type-var]
        for factor in (1, 4, 16, 64, 256)
    ]
    # A larger ε may be refused, as weights of items are too far apart for it.
    forms = [form for form in forms if not refuses(ConfigError, form.law, exact)]
    for form, other in pairwise(forms):
        shares = []
        for p, q in ((form, other), (other, form)):
            lists = p.release_list(exact, Streams.first(1, f"ε = {p.epsilon}", 4000)).items
            logs = [one.law(exact).log_probability(lists) for one in (q, p)]
            shares.append(special.expit(logs[0] - logs[1]))
        error = math.hypot(*(share.std() / math.sqrt(len(share)) for share in shares))
        apart = abs(shares[0].mean() - shares[1].mean())
        words = "lists are drawn more often, or more seldom, than their law says"
        require(apart <= 5.1 * error + 1e-9, type(defense), words)


def check_pairs(defense: roles.OnDemandDefense, scale: Scale) -> None:
    """Check that constructed pairs are neighbours under the claim, in which what is shown differs.

    Args:
        defense: the defense.
        scale: the rating scale.

    Raises:
        AssertionError: a pair is not what it says.
    """
    kind, claim, changes = type(defense), defense.claim(), []
    adjacency = getattr(defense, "adjacency", claim.adjacency if claim else None)
    require(defense.pairs(), kind, "constructs no pair of neighbours")
    for name, summary in defense.pairs().items():
        require(len(summary) > 20, kind, f"does not describe the pair {name}")
        case: Any = defense.pair(name, scale)  # type: ignore[attr-defined]
        require(case.summary == summary, kind, f"describes the pair {name} in two ways")
        if isinstance(defense, roles.ListDefense):
            old, new = case.before, case.after
            same = np.array_equal(old.candidates, new.candidates)
            require(same, kind, f"the pair {name} changes what can be shown")
            rows = np.stack([row.scores[old.candidates] for row in (old, new)])
            on_scale = ((rows >= scale.minimum) & (rows <= scale.maximum)).all()
            require(on_scale, kind, f"the pair {name} leaves the scale")
            moved = np.flatnonzero(old.scores != new.scores)
            require(len(moved), kind, f"the pair {name} changes no entry")
            one = adjacency != "entry-replace" or len(moved) == 1
            require(one, kind, f"the pair {name} changes more than one entry")
            lists = defense.release_list(old, Streams.first(1, "contract", 200)).items
            laws = [defense.law(row).log_probability(lists) for row in (old, new)]
            differ = claim is None or (laws[0] != laws[1]).any()
            require(differ, kind, f"the pair {name} has one law of lists")
            changes.append(float(abs(rows[1] - rows[0]).max()))
            continue
        before, after = case.ratings, apply(case.ratings, case.change)
        for data in (before, after):
            served = (np.diff(data.by_user.start) >= defense.min_ratings).all()
            require(served, kind, f"the pair {name} has users who are not served")
            shown = case.items[0] not in data.profile(case.target).items
            require(shown, kind, f"the pair {name} predicts a rated item")
        adjacent = case.change.adjacency == adjacency
        require(adjacent, kind, f"the pair {name} is none of neighbours of the claim")
        model, item = defense.prepare(before), case.items[0]
        first = defense.exact(model, before.profile(case.target)).scores[item]
        quick = defense.exact_after(model, case.change, case.target).scores[item]
        anew = defense.exact(defense.prepare(after), after.profile(case.target)).scores[item]
        require(abs(quick - anew) < 1e-5, kind, f"exact_after is not exact in the pair {name}")
        changes.append(float(abs(quick - first)))
    require(max(changes) > _VISIBLE, kind, f"no pair changes what is shown by {_VISIBLE}")


def check_trainings(defense: roles.TrainedDefense[Any], ratings: Ratings) -> None:
    """Check that models depend only on the seed and the trial's index, for any blocks, threads.

    Also checked: what models of subsets are, what counts as public, data without ratings, what
    observers see, and that no training of a corrected form ends in an error.
    """
    prepared = defense.prepare(ratings)

    def shown(streams: Streams) -> NDArray[np.float32]:
        return _trained(defense, prepared, streams, ratings)

    _check_streams(defense, "models", shown, _TRAINED)
    if defense.trains_subsets():
        _check_subsets(defense, ratings)
    _check_no_ratings(defense, ratings)
    _check_views(defense, ratings)
    if defense.variant == "corrected":
        check_extremes(defense, ratings)
    if isinstance(defense, roles.FederatedDefense | roles.SubmittingDefense):
        _check_submissions(defense, prepared, ratings.n_users)


def _trained(
    defense: roles.TrainedDefense[Any], prepared: Any, streams: Streams, ratings: Ratings
) -> NDArray[np.float32]:
    """Return predictions and all numbers that are published of two items, a row for each trial."""
    kind, trials = type(defense), len(streams)
    models = defense.train(prepared, streams)
    few = np.arange(min(2, ratings.n_items), dtype=np.int32)
    some = np.indices((min(9, ratings.n_users), ratings.n_items))
    users, items = (part.astype(np.int32).reshape(-1) for part in some)
    shown = models.predict(users, items)
    require(shown.shape == (trials, len(users)), kind, "predictions are not of shape (W, n)")
    require(shown.dtype == np.float32, kind, "predictions are not float32")
    low, high = ratings.scale.minimum, ratings.scale.maximum
    on_scale = defense.ranks or ((shown >= low) & (shown <= high)).all()
    require(on_scale, kind, "a prediction is not on the scale of ratings")
    published = models.public(few) if hasattr(models, "public") else None
    parts = [getattr(published, name) for name in getattr(published, "__dataclass_fields__", ())]
    rows = [part.reshape(trials, -1) for part in parts if np.ndim(part) > 1]
    numbers = np.concatenate([shown, *rows], axis=1)
    require(np.isfinite(numbers).all(), kind, "a prediction or published number is not finite")
    return numbers


def _check_subsets(defense: roles.TrainedDefense[Any], ratings: Ratings) -> None:
    kept = np.random.default_rng(0).random((3, len(ratings))) < 0.8
    users, items = ratings.user[:5], ratings.item[:5]
    streams = Streams.first(1, "contract", len(kept))
    together = defense.train_subsets(ratings, kept, streams).predict(users, items)
    for row, subset, trial in zip(together, kept, streams.blocks(1), strict=True):
        alone = defense.train(defense.prepare(ratings.only(subset)), trial).predict(users, items)
        same = alone[0].tobytes() == row.tobytes()
        require(same, type(defense), "a model of a subset is not that of the subset alone")


def _check_no_ratings(defense: roles.TrainedDefense[Any], ratings: Ratings) -> None:
    """Check that data without ratings are refused by words, or learned from like others."""
    none = np.empty(0, np.int32)
    empty = Ratings.build(none, none, none.astype(np.float32), 2, 2, ratings.scale)
    try:
        models = defense.train(defense.prepare(empty), Streams.first(1, "contract", 1))
    except DpauditError:
        return
    shown = models.predict(np.array([0], np.int32), np.array([1], np.int32))
    require(np.isfinite(shown).all(), type(defense), "no ratings give a model that is not finite")


def neighbours(
    defense: roles.TrainedDefense[Any], ratings: Ratings, observer: str | None = None
) -> tuple[DataPair, releases.TargetUser]:
    """Return data sets that are neighbours under the claim, and the user in whom they differ.

    Args:
        defense: the defense; without a claim one rating differs.
        ratings: the data set D.
        observer: who chooses among users; by default any user may be the target.

    Raises:
        ConfigError: the observer sees nothing of known law on these data.
        DataError: no user can be the target.
    """
    claim = defense.claim()
    adjacency: Adjacency = "rating-replace" if ratings.scale.width else "rating-add-remove"
    if claim is not None:
        adjacency = claim.adjacency
    targets = None if observer is None else defense.targets(ratings, observer)
    return target_pair(ratings, adjacency, defense.least_ratings(), targets)


def _check_views(defense: roles.TrainedDefense[Any], ratings: Ratings) -> None:
    """Check what observers see of two neighbouring data sets, unless they refuse by words."""
    kind, refused = type(defense), []
    for name, observer in defense.observers().items():
        try:
            defense.check_observed(name)
            pair, target = neighbours(defense, ratings, name)
            before, after = (defense.prepare(data, ratings) for data in (pair.before, pair.after))
            known, shared = (bits_of(defense.public_statistics(data)) for data in (before, after))
            require(known == shared, kind, "neighbours do not share what counts as public")
            rated = ratings.profile(target.observer).items
            unrated = np.setdiff1d(np.arange(ratings.n_items), rated).astype(np.int32)
            items = target.items.astype(np.int32)
            seen = releases.PreparedPair(before, after, items, target, unrated, top_k=2)
            streams = Streams.first(1, name, 16)
            once, again = (list(observer.views(seen, after, streams)) for _ in range(2))
        except (ConfigError, DataError) as error:
            refused.append(f"{name}: {error}")
            continue
        for view in once:
            for part, wanted in zip(view, observer.shows, strict=True):
                words = f"observer {name} shows {type(part).__name__}, not {wanted.__name__}"
                require(isinstance(part, wanted), kind, words)
        require(bits_of(once) == bits_of(again), kind, f"a seed shows {name} different views")
        if defense.claim() is not None and observer.shows == (
            releases.NoisedSteps,
            releases.StepsPair,
        ):
            _check_grid(kind, name, once)
    count = len(defense.observers())
    require(len(refused) < count, kind, f"no observer can be run: {'; '.join(refused)}")


def _check_grid(kind: type[Plugin], name: str, views: list[Any]) -> None:
    """Check that each noised number is on a public grid, on which either data set can release all.

    Otherwise its low bits would tell the number below the noise.
    """
    whole, bits = FloatBits(), FloatBits(precision="single", bits=31)
    impossible = count = 0
    for release, known in views:
        scale = np.broadcast_to(known.scale, release.shown.shape)
        steps = np.broadcast_to(known.grid, scale.shape)
        # Of mini-batches a step is scaled to the whole; two numbers may share a grid.
        fine = (steps >= grids(scale) / 64)[scale > 0].all()
        require(fine, kind, f"the grid of what {name} sees is too fine for its noise")
        told = whole.score(release, known).any()
        require(not told, kind, f"the bits of what {name} sees tell D and D' apart")
        impossible += int(abs(bits.score(release, known)).sum())
        count += release.shown.size
    require(impossible < 0.01 * count, kind, f"the bits of what {name} sees tell D and D' apart")


def check_extremes(defense: roles.TrainedDefense[Any], ratings: Ratings) -> None:
    """Train on D and D' with each number at either end of its range: nothing ends in an error.

    Whether it does would depend on the data, which no claim covers. Settings that are refused for
    what is public (ConfigError) are left out; numbers that are given to be quick stay.
    """
    kind, hints = type(defense), get_type_hints(type(defense), include_extras=True)
    users, items = np.zeros(1, np.int32), np.zeros(1, np.int32)
    pair, _ = neighbours(defense, ratings)
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        for number, low, high in kinds_of(hints[field.name]):
            if number is not float or field.name == "epsilon" or field.name in kind.quick:
                continue
            for value in (low, math.nextafter(high, 0)):
                try:
                    extreme: Any = dataclasses.replace(defense, **{field.name: float(value)})  # type: ignore[type-var]
                    prepared = [extreme.prepare(data) for data in (pair.before, pair.after)]
                    models = [extreme.train(data, Streams.first(2, "x", 2)) for data in prepared]
                    shown = [model.predict(users, items) for model in models]
                except (ValidationError, ConfigError):
                    continue
                except NoModelError as error:
                    words = f"a corrected training ends in an error with {field.name} = {value:g}"
                    raise AssertionError(f"{kind.name}: {words}") from error
                words = f"a prediction is not finite with {field.name} = {value:g}"
                require(np.isfinite(shown).all(), kind, words)


def _check_submissions(defense: Any, prepared: Any, n_users: int) -> None:
    """Check that what users submit in a training depends only on the trial."""
    kind, trial = type(defense), Streams.first(1, "contract", 1)
    observed = np.arange(n_users) < 3
    if isinstance(defense, roles.SubmittingDefense):
        try:
            defense.check_submissions()
        except ConfigError:
            return
        sent, again = (defense.submissions(prepared, trial, observed)[0] for _ in range(2))
        require(observed[sent.users].all(), kind, "submissions are of users who are not observed")
        require(len(sent.shown) == defense.rounds, kind, "submissions are not of each round")
        same = bits_of(sent) == bits_of(again)
    else:
        seen = [defense.transcript(prepared, trial, observed) for _ in range(2)]
        once, other = ([list(one.rounds()), one.pairs, one.real] for one in seen)
        require(len(once[0]) == defense.rounds, kind, "a transcript is not of each round")
        same = bits_of(once) == bits_of(other)
    require(same, kind, "a trial gives different submissions")


def check_independence(defense: roles.Defense, ratings: Ratings) -> None:
    """Check that what is drawn in different trials, and for D and D', is not correlated.

    This trains 6000 models, or draws 80 000 lists. It errs at a rate of 1e-6.

    Args:
        defense: a defense that draws noise.
        ratings: data that it accepts, small ones.

    Raises:
        AssertionError: the numbers are correlated.
    """
    kind, count = type(defense), 3000 if isinstance(defense, roles.TrainedDefense) else 40_000
    purposes = [Streams.first(7, name, count) for name in ("game/absent", "game/present")]
    if isinstance(defense, roles.TrainedDefense):
        pair, _ = neighbours(defense, ratings)
        prepared = [defense.prepare(data, pair.public) for data in (pair.before, pair.after)]
        rows = [
            _trained(defense, data, streams, ratings)
            for data, streams in zip(prepared, purposes, strict=True)
        ]
        column = int(rows[0].std(0).argmax())
        _check_correlations(kind, *(row[:, column] for row in rows))
        return
    if not isinstance(defense, roles.OnDemandDefense):
        raise TypeError(f"{kind.name} is neither trained nor on demand")
    exact = defense.exact(defense.prepare(ratings), ratings.profile(3))
    lists = [defense.release_list(exact, streams).items for streams in purposes]
    _check_correlations(kind, *(shown.sum(1) for shown in lists))
    if isinstance(defense, roles.PredictionDefense):
        request = releases.SeesItems(np.full((count, 1), exact.candidates[0], np.int32))
        x, y = (defense.release(exact, streams, request).values[:, 0] for streams in purposes)
        _check_correlations(kind, x, y)
        # Rounded numbers are seldom equal, by chance.
        require((x == y).mean() < 0.005, kind, "D and D' draw the same noise")


def _check_correlations(kind: type[Plugin], absent: NDArray[Any], present: NDArray[Any]) -> None:
    """Check that numbers of D and D' have no correlation, and that one would be found."""
    x, y = (numbers.astype(np.float64) for numbers in (absent, present))
    for one, other in ((x, y), (x[1:], x[:-1]), (x[16:], x[:-16])):
        planted = other + 12 / math.sqrt(len(x)) * one * other.std() / one.std()
        # Correlations times √n are standard normal.
        near, found = (
            abs(np.corrcoef(one, second)[0, 1]) * math.sqrt(len(x)) for second in (other, planted)
        )
        require(near < 5.1, kind, "what is drawn in different trials is correlated")
        require(found > 5.1, kind, "what is drawn would hide a correlation of trials")
