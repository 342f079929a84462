"""What every registered recommender that is trained must state and do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest

from dpaudit.attacks.distinguishing.float_bits import FloatBits
from dpaudit.audits.trained.game_targets import target_pair
from dpaudit.audits.trained.trained_game import DataPair
from dpaudit.core import registry
from dpaudit.core.claim import OBSERVERS, Adjacency, Claim, Variant
from dpaudit.core.errors import ConfigError, DpauditError
from dpaudit.core.observation import PreparedPair
from dpaudit.core.releases import ItemFactors, NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.data.neighbors import Change, RatingRemoved, UserReplaced, apply
from dpaudit.data.ratings import Friends, Ratings, Scale
from dpaudit.defenses.base import TrainedDefense
from dpaudit.defenses.federated.candidates import Candidates
from dpaudit.defenses.precision import MOST_EPSILON, grids
from dpaudit.defenses.social.rows import RankingRows, SocialRows
from dpaudit.defenses.training_checks import lane_blocks
from dpaudit.testing.contract import check_defense

# Other packages' plug-ins may be installed beside; they have their own contract tests.
DEFENSES = {
    name: part
    for name, part in registry.load_all("defenses").items()
    if issubclass(part, TrainedDefense) and part.__module__.startswith("dpaudit.")
}
VARIANTS: tuple[Variant, ...] = get_args(Variant)
# Small, and every draw of a posterior passes.
SMALL: dict[str, dict[str, Any]] = {
    "dpsgd-mf": {"dimensions": 2, "epochs": 2},
    "dpps-mf": {"dimensions": 2, "epochs": 3, "cap": 40},
    "dpsgd-pnbm": {"steps": 2, "more_than": 1},
    "dpps-pnbm": {"steps": 2, "more_than": 1, "cap": 40},
    "fake-gradients": {"dimensions": 2, "rounds": 3},
    "privsr": {"dimensions": 2, "rounds": 3},
    "privsr-ranking": {"dimensions": 2, "rounds": 3, "triples": 3},
}
# These learn from purchases, and what they predict is on no scale.
RANKINGS = {"privsr-ranking"}


def create(name: str, variant: str, **parameters: Any) -> Any:
    extra = {"accept": "any"} if (name, variant) == ("dpps-mf", "published") else {}
    small = SMALL.get(name, {}) | extra
    given = {"epsilon": 1.0, "variant": variant} | small | parameters
    return registry.create("defenses", name, "model.0", given)


KINDS = [
    (name, variant)
    for name in DEFENSES
    for variant in VARIANTS
    if name != "neighborhood" or variant == "nonprivate"
]
PRIVATE = [kind for kind in KINDS if kind[1] != "nonprivate"]
# Without noise these have nothing to draw; a factorisation draws where it begins.
FIXED = {("neighborhood", "nonprivate"), ("dpsgd-pnbm", "nonprivate"), ("dpps-pnbm", "nonprivate")}
ITEMS = np.array([2, 0], np.int32)


def drawn(seed: int = 0, n_users: int = 9, n_items: int = 7) -> Ratings:
    source = np.random.default_rng(seed)
    rated = source.random((n_users, n_items)) < 0.6
    rated[:, :2] = True
    user, item = np.nonzero(rated)
    value = source.integers(1, 6, len(user)).astype(np.float32)
    linked = source.random((n_users, n_users)) < 0.3
    np.fill_diagonal(linked, False)
    users, friends = np.nonzero(linked)
    return Ratings.build(
        user,
        item,
        value,
        n_users,
        n_items,
        Scale(),
        sensitive=source.random(len(user)) < 0.2,
        friends=Friends.build(users, friends, n_users),
    )


def data(name: str, n_users: int = 9, n_items: int = 7) -> Ratings:
    """What this defense learns from; in a ranking all have user 1 for their friend."""
    ratings = drawn(0, n_users, n_items)
    if name not in RANKINGS:
        return ratings
    users = np.setdiff1d(np.arange(n_users), [1])
    friends = Friends.build(users, np.ones_like(users), n_users)
    ones = np.ones_like(ratings.value)
    return replace(ratings, value=ones, scale=Scale(1, 1, 1), friends=friends)


def neighbours(ratings: Ratings, adjacency: Adjacency) -> DataPair:
    if ratings.scale.width:
        return target_pair(ratings, adjacency, 1)[0]
    last = int(ratings.profile(1).items[-1])
    change: Change = RatingRemoved(1, last)
    if adjacency == "user-replace":
        items = np.setdiff1d(np.arange(ratings.n_items), [last]).astype(np.int32)
        change = UserReplaced(1, items, np.ones(len(items), np.float32))
    return DataPair(ratings, apply(ratings, change), ratings, "user 1 changes")


# The largest steps, and the least noise or the most, so that plain descent leaves all ranges.
WILD: dict[str, dict[str, Any]] = {
    "dpsgd-mf": {"learning_rate": 1.0, "item_learning_rate": 10.0, "clip_norm": 1e6, "decay": 10.0},
    "dpps-mf": {"learning_rate": 1e6, "exponent": 0.0},
    "dpsgd-pnbm": {"learning_rate": 1e3, "decay": 1.0},
    "dpps-pnbm": {"learning_rate": 1e6, "decay": 1e6, "exponent": 0.0},
    "fake-gradients": {"learning_rate": 100.0, "clip_norm": 1e6},
    "privsr": {"learning_rate": 1.0, "decay": 10.0, "clip_norm": 1e6},
    "privsr-ranking": {"learning_rate": 1.0, "decay": 10.0, "clip_norm": 1e6},
}


@pytest.mark.filterwarnings("error")
@pytest.mark.cases("name", sorted(name for name, kind in KINDS if kind == "corrected"))
@pytest.mark.cases("epsilon", [0.1, 100.0])
def test_no_corrected_training_ends_in_an_error_or_a_warning(name: str, epsilon: float) -> None:
    """Whether it does would depend on the data, and no claim covers that."""
    last = "epochs" if "mf" in name else "steps" if "pnbm" in name else "rounds"
    defense = create(name, "corrected", **WILD[name], **{last: 60}, epsilon=epsilon)
    whole = data(name)
    for ratings in (whole, neighbours(whole, defense.claim().adjacency).after):
        models = defense.train(defense.prepare(ratings), Streams.first(2, "test", 2))
        assert np.isfinite(numbers(models)).all()
        assert np.isfinite(models.predict(np.array([1, 3], np.int32), ITEMS)).all()


def numbers(models: Any) -> Any:
    """What is published of two items, or where nothing is, two predictions `(W, …)`."""
    if not hasattr(models, "public"):
        return models.predict(np.array([1, 3], np.int32), ITEMS)
    shown = models.public(ITEMS)
    return shown.factors if isinstance(shown, ItemFactors) else shown.rows


def test_these_are_trained() -> None:
    assert set(SMALL) | {"neighborhood"} <= set(DEFENSES)
    assert len(PRIVATE) >= 8


@pytest.mark.cases(("name", "variant"), KINDS)
def test_an_infinite_epsilon_is_that_of_no_privacy(name: str, variant: Variant) -> None:
    least = 1e-6 if name == "neighborhood" else 1e-3
    pure = (name, variant) == ("dpsgd-pnbm", "corrected")
    for epsilon in (least, MOST_EPSILON if pure else 1e6):
        assert create(name, variant, epsilon=epsilon).epsilon == epsilon
    wrong = [least / 1.001, 0.0, -1.0, float("nan")]
    if variant != "nonprivate":
        wrong += [1.01 * MOST_EPSILON if pure else 1.001e6, float("inf")]
    for epsilon in wrong:
        with pytest.raises(ConfigError, match=r"model\.0\.params.*epsilon"):
            create(name, variant, epsilon=epsilon)
    if variant == "nonprivate":
        assert create(name, variant, epsilon=float("inf")).claim() is None


@pytest.mark.cases(("name", "variant"), KINDS)
def test_claims(name: str, variant: Variant) -> None:
    defense = create(name, variant, epsilon=0.7)
    claim = defense.claim()
    assert (defense.variant, defense.epsilon) == (variant, 0.7)
    if variant == "nonprivate":
        assert claim is None
        return
    assert isinstance(claim, Claim)
    # A corrected posterior keeps a share of the parameter, and its claim says which.
    if variant == "published":
        assert claim.epsilon == 0.7
        # Normal noise has a δ.
        assert (claim.delta > 0) is (name == "fake-gradients")
    else:
        assert 0 < claim.epsilon <= 0.7
        assert create(name, variant, epsilon=1.4).claim().epsilon == 2 * claim.epsilon
    assert 0 <= claim.delta < 1
    assert claim.adjacency in get_args(Adjacency)
    assert claim.observer in OBSERVERS
    assert claim.observer in {"iterates", "recommender", "public"}
    # Steps are run by their law, which only what is observed has.
    assert (claim.observer != "public") is hasattr(defense, "observe")
    assert len(claim.public) > 10
    assert len(claim.source) > 10


@pytest.mark.cases("adjacency", get_args(Adjacency))
def test_neighbours_that_are_not_derived_for_are_refused_by_name(adjacency: Adjacency) -> None:
    known = {
        "published": {"rating-replace"},
        "corrected": {"user-replace", "user-add-remove"},
    }
    for variant, reached in known.items():
        if adjacency in reached:
            assert create("dpsgd-mf", variant, adjacency=adjacency).claim().adjacency == adjacency
            continue
        with pytest.raises(ConfigError, match=r"model\.0\.params.*(adjacency|rating-replace)"):
            create("dpsgd-mf", variant, adjacency=adjacency)
    for name in set(DEFENSES) - {"dpsgd-mf"}:
        variant = "nonprivate" if name == "neighborhood" else "published"
        with pytest.raises(ConfigError, match=r"params\.adjacency is not known"):
            create(name, variant, adjacency=adjacency)


@pytest.mark.parametrize("variant", ["published", "corrected"])
def test_a_model_without_privacy_has_no_other_variant(variant: str) -> None:
    with pytest.raises(ConfigError, match=rf"{variant!r} does not exist.*use 'nonprivate'"):
        create("neighborhood", variant)


@pytest.mark.cases(("name", "variant"), KINDS)
def test_a_defense_keeps_the_contract_that_plug_ins_have(name: str, variant: Variant) -> None:
    check_defense(create(name, variant), data(name))


@pytest.mark.long
@pytest.mark.parametrize(("name", "variant"), KINDS)
def test_models_are_a_function_of_the_seed_and_the_trial(name: str, variant: Variant) -> None:
    defense = create(name, variant)
    prepared = defense.prepare(data(name))
    many = Streams.first(1, "x", 35)
    users, items = (part.astype(np.int32) for part in np.divmod(np.arange(63), 7))

    def trained(streams: Streams) -> tuple[Any, Any]:
        models = defense.train(prepared, streams)
        return numbers(models), models.predict(users, items)

    whole, shown = trained(many)
    assert shown.shape == (35, 63)
    assert shown.dtype == np.float32
    assert np.isfinite(shown).all()
    assert name in RANKINGS or ((shown >= 1) & (shown <= 5)).all()
    assert np.isfinite(whole).all()
    again, _ = trained(many)
    assert again.tobytes() == whole.tobytes()
    other, _ = trained(Streams.first(2, "x", 35))
    purpose, _ = trained(Streams.first(1, "y", 35))
    same = (name, variant) in FIXED
    assert (other.tobytes() == whole.tobytes()) is (purpose.tobytes() == whole.tobytes()) is same
    assert len({row.tobytes() for row in whole}) == (1 if same else 35)
    # 17 trials together, trial 16 and others alone, and blocks in two threads.
    for trials in (list(range(17)), [16], [34, 3]):
        part = trained(Streams(many.key, np.array(trials, np.int64)))
        assert part[0].tobytes() == whole[trials].tobytes()
        assert part[1].tobytes() == shown[trials].tobytes()
    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(trained, lane_blocks(many)))
    assert np.concatenate([part[0] for part in parts]).tobytes() == whole.tobytes()
    assert np.concatenate([part[1] for part in parts]).tobytes() == shown.tobytes()


@pytest.mark.parametrize(("name", "variant"), PRIVATE)
@pytest.mark.long
def test_trials_are_independent(name: str, variant: Variant) -> None:
    defense = create(name, variant)
    n = 3000
    pair = neighbours(data(name, n_users=4, n_items=3), defense.claim().adjacency)
    absent, present = (
        numbers(defense.train(defense.prepare(ratings, pair.public), Streams.first(7, purpose, n)))
        .reshape(n, -1)[:, 1]
        .astype(np.float64)
        for ratings, purpose in ((pair.before, "play/absent"), (pair.after, "play/present"))
    )
    # Correlations times √n are standard normal: 5.1 errs at a rate of 1e-6 over all three.
    for x, y in ((absent, present), (absent[1:], absent[:-1]), (absent[16:], absent[:-16])):
        assert abs(np.corrcoef(x, y)[0, 1]) * np.sqrt(n) < 5.1
        shared = y + 0.25 * x * y.std() / x.std()
        assert abs(np.corrcoef(x, shared)[0, 1]) * np.sqrt(n) > 5.1


def statistics(prepared: Any) -> Any:
    """The mean, or items' means, that the model knows, who may submit for what, or friends."""
    if isinstance(prepared, Candidates):
        return np.bincount(prepared.users * 100 + prepared.items, minlength=2000)
    if isinstance(prepared, SocialRows):
        return prepared.similarity.toarray()
    if isinstance(prepared, RankingRows):
        # What user 1 shares shows in what is near all others.
        near = np.zeros((prepared.n_users, prepared.n_items), bool)
        users = np.repeat(np.arange(prepared.n_users), np.diff(prepared.sets.near_start))
        near[users, prepared.sets.near] = True
        return near[np.arange(prepared.n_users) != 1]
    rows = getattr(prepared, "rows", prepared)
    return np.asarray(rows.mean if hasattr(rows, "mean") else rows.means)


@pytest.mark.cases(("name", "variant"), KINDS)
def test_neighbours_share_what_counts_as_public(name: str, variant: Variant) -> None:
    defense = create(name, variant)
    claim = defense.claim()
    adjacency: Adjacency = claim.adjacency if claim else "rating-replace"
    pair = neighbours(data(name), adjacency)
    own, shared, alone = (
        statistics(defense.prepare(*data))
        for data in ((pair.before,), (pair.after, pair.before), (pair.after,))
    )
    np.testing.assert_array_equal(own, shared)
    if name == "fake-gradients":
        # A rating that disappears is of no candidate: without privacy all are kept.
        assert (alone != own).any() == (variant == "published")
        return
    if name == "privsr":
        # Only of ratings that a friend has too, and nobody keeps, does anything show.
        assert own.any()
        return
    if name == "privsr-ranking":
        assert (alone != own).any()
        return
    # What only the corrected form knows without the data moves with them elsewhere.
    assert (alone != own).any() == (variant != "corrected")
    if variant == "corrected":
        assert (own == 3).all()


@pytest.mark.cases(("name", "variant"), KINDS)
def test_no_ratings_are_refused(name: str, variant: Variant) -> None:
    none = np.empty(0, np.int32)
    empty = Ratings.build(none, none, none.astype(np.float32), 2, 2, Scale())
    with pytest.raises(DpauditError, match=r"no ratings|there are none|no user has more"):
        create(name, variant).prepare(empty)


@pytest.mark.cases(("name", "variant"), PRIVATE)
def test_bits_of_what_is_released_tell_nothing(name: str, variant: Variant) -> None:
    """Each noised number lies on a public grid, on which either data set can release all."""
    special = {"triples": "all"} if name == "privsr-ranking" else {"social": 0.0}
    extra = special if name.startswith("privsr") else {}
    defense = create(name, variant, epsilon=1.0, **extra)
    pair = neighbours(data(name), defense.claim().adjacency)
    before, after = (defense.prepare(each, pair.public) for each in (pair.before, pair.after))
    attacks = FloatBits(), FloatBits(precision="single", bits=31)
    for observer, seen in defense.observers().items():
        if seen.shows != (NoisedSteps, StepsPair):
            continue
        impossible = numbers_seen = 0
        streams = Streams.first(1, observer, 16)
        for release, known in seen.views(PreparedPair(before, after), after, streams):
            noised = np.broadcast_to(known.scale, release.shown.shape) > 0
            # Of mini-batches a step is scaled to the whole; two numbers may share a grid.
            steps = np.broadcast_to(known.grid, release.shown.shape)
            least = grids(np.broadcast_to(known.scale, steps.shape)) / 64
            assert (steps[noised] >= least[noised]).all(), observer
            assert not attacks[0].score(release, known).any(), observer
            impossible += int(abs(attacks[1].score(release, known)).sum())
            numbers_seen += release.shown.size
        assert impossible < 0.01 * numbers_seen, observer
