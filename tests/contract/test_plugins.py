"""What every registered defense and attack must state and do."""

from __future__ import annotations

import dataclasses
import re
from types import NoneType
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from pydantic import ValidationError

from dpaudit.core import registry
from dpaudit.core.claim import OBSERVERS, Adjacency, Claim, Variant
from dpaudit.core.errors import ConfigError
from dpaudit.core.releases import SeesItems, SeesTop
from dpaudit.core.streams import Streams
from dpaudit.data.neighbors import apply
from dpaudit.data.ratings import Ratings, Scale, from_profiles
from dpaudit.defenses.base import EntryPair, ListDefense, PredictionPair, TrainedDefense
from dpaudit.defenses.precision import MOST_EPSILON
from dpaudit.kernels.exact_noise import laplace_at
from dpaudit.testing.contract import check_attack, check_defense, check_plugin

# Other packages' plug-ins may be installed beside; they have their own contract tests.
DEFENSES, ATTACKS = (
    {
        name: part
        for name, part in registry.every(group).items()
        if part.__module__.startswith("dpaudit.")
    }
    for group in ("defenses", "attacks")
)
PARTS = [("defenses", name) for name in DEFENSES] + [("attacks", name) for name in ATTACKS]
VARIANTS: tuple[Variant, ...] = get_args(Variant)
# Parameters that are given together or not at all.
TOGETHER: dict[str, dict[str, Any]] = {
    "made_up_mean": {"fakes": "rating"},
    "prior_shape": {"prior_rate": 1.0},
    "prior_rate": {"prior_shape": 1.0},
}
# What is trained has its own contract: test_trained.py.
TRAINED = [name for name, part in DEFENSES.items() if issubclass(part, TrainedDefense)]
SHOWN = [name for name in DEFENSES if name not in TRAINED]
KINDS = [(name, variant) for name in SHOWN for variant in VARIANTS]
LISTS = [name for name in SHOWN if issubclass(DEFENSES[name], ListDefense)]
PREDICTIONS = [name for name in SHOWN if name not in LISTS]


def accepted(name: str, variant: str, adjacency: str) -> bool:
    try:
        registry.create(
            "defenses", name, "x", {"epsilon": 1.0, "variant": variant, "adjacency": adjacency}
        )
    except ConfigError:
        return False
    return True


FORMS: list[tuple[str, Variant, Adjacency]] = [
    (name, variant, adjacency)
    for name, variant in KINDS
    for adjacency in get_args(Adjacency)
    if accepted(name, variant, adjacency)
]
PREDICTION_FORMS = [form for form in FORMS if form[0] in PREDICTIONS]
LIST_FORMS = [form for form in FORMS if form[0] in LISTS]


def part_of(group: str, name: str) -> Any:
    return (DEFENSES if group == "defenses" else ATTACKS)[name]


def create(group: Any, name: str, **parameters: Any) -> Any:
    if group == "defenses":
        parameters = {"epsilon": 1.0, **parameters}
    return registry.create(group, name, "model.0", parameters)


def test_the_registered_parts() -> None:
    assert {"slope-one", "cosine"} <= set(PREDICTIONS)
    assert {"top-k"} <= set(LISTS)
    assert {"dpsgd-mf", "dpps-mf", "dpsgd-pnbm", "dpps-pnbm", "neighborhood"} <= set(TRAINED)
    assert {"linear-ideal", "likelihood-ratio", "item-place", "canary"} <= set(ATTACKS)
    assert {"zero-mean", "two-sample", "energy", "gradient-ratio", "popularity"} <= set(ATTACKS)
    # Packages that are installed beside dpaudit may have more.
    assert set(DEFENSES) <= set(registry.names("defenses"))


@pytest.mark.cases(("group", "name"), PARTS)
def test_a_part_keeps_the_contract_that_plug_ins_have(group: str, name: str) -> None:
    part = part_of(group, name)
    assert part.name == name
    assert create(group, name) == create(group, name)
    (check_plugin if group == "defenses" else check_attack)(part)


@pytest.mark.cases(("group", "name"), PARTS)
def test_unknown_parameters_are_refused_by_name(group: str, name: str) -> None:
    with pytest.raises(ConfigError, match=r"model\.0\.params\.no_such_thing is not known"):
        create(group, name, no_such_thing=1)
    names = [field.name for field in dataclasses.fields(part_of(group, name))]
    for parameter in [each for each in names if each not in {"epsilon", "variant"}][:1]:
        with pytest.raises(ConfigError, match=f"did you mean '{parameter}'"):
            create(group, name, **{parameter + "x": 1})


# Parameters that may be negative.
SIGNED = {
    ("dpps-mf", "mean"),
    ("dpps-pnbm", "start"),
    ("fake-gradients", "made_up_mean"),
    ("fake-gradients", "offset"),
    ("privsr", "offset"),
}
# Shares, of which 1 is not one.
BELOW_ONE = {"delta", "density", "memory", "friends_share"}


@pytest.mark.cases(("group", "name"), PARTS)
def test_values_out_of_range_are_refused_by_name(group: str, name: str) -> None:
    for field in dataclasses.fields(part_of(group, name)):
        below = -1e9 if (name, field.name) in SIGNED else -1
        for wrong in (below, "nonsense", [1], float("nan")):
            with pytest.raises(ConfigError, match=rf"model\.0\.params\.{field.name}"):
                create(group, name, **{field.name: wrong})


def number(part: Any, field: str) -> type | None:
    """int or float where the field is a number, else None."""
    hint = get_type_hints(part)[field]
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not NoneType]
    return kinds[0] if kinds[0] in {int, float} else None


@pytest.mark.cases(("group", "name"), PARTS)
def test_values_of_another_type_are_refused_by_name(group: str, name: str) -> None:
    part = part_of(group, name)
    required = {"epsilon": 1.0} if group == "defenses" else {}
    for field in dataclasses.fields(part):
        kind = number(part, field.name)
        wrong: list[Any] = [b"1", {}]
        if get_type_hints(part)[field.name] is not bool:
            wrong.append(True)
        if kind is not None:
            wrong += ["5", "1", "inf"]
        if kind is int:
            wrong += [5.0, 5.5, float("inf")]
        if kind is float and field.name != "epsilon":
            wrong.append(float("inf"))
        for value in wrong:
            with pytest.raises(ConfigError, match=rf"model\.0\.params\.{field.name}\b"):
                create(group, name, **{field.name: value})
            with pytest.raises(ValidationError, match=field.name):
                part(**{**required, field.name: value})
        if kind is float and field.name not in BELOW_ONE:  # a whole number is a number
            others = TOGETHER.get(field.name, {})
            made = create(group, name, **{field.name: 1}, **others)
            assert getattr(made, field.name) == 1
            assert made == create(group, name, **{field.name: 1.0}, **others)
            assert isinstance(getattr(made, field.name), float)


def test_the_types_of_numbers_are_known() -> None:
    """The test above would pass without a number to check."""
    found = {
        (name, field.name): number(part_of(group, name), field.name)
        for group, name in PARTS
        for field in dataclasses.fields(part_of(group, name))
    }
    for name in DEFENSES:
        assert found[name, "epsilon"] is float
        assert found[name, "variant"] is None
    for name in SHOWN:
        assert found[name, "min_ratings"] is found[name, "top_k"] is int
    for name in PREDICTIONS:
        assert found[name, "outputs"] is int
    assert found["slope-one", "delta_r"] is found["cosine", "damping"] is float
    assert found["likelihood-ratio", "grid"] is found["canary", "ridge"] is float
    assert found["dpsgd-mf", "epochs"] is found["dpps-pnbm", "cap"] is int
    assert found["dpsgd-mf", "delta"] is found["dpps-mf", "loss_bound"] is float
    assert found["slope-one", "min_co_ratings"] is found["top-k", "iterations"] is int


def scale_of(name: str) -> Scale:
    return Scale(1, 1, 1) if name == "cosine" else Scale()


@pytest.mark.cases(("name", "variant"), KINDS)
def test_an_infinite_epsilon_is_that_of_no_privacy(name: str, variant: Variant) -> None:
    pure = variant == "corrected" and name in PREDICTIONS
    for epsilon in (1e-6, MOST_EPSILON if pure else 1e6):
        assert create("defenses", name, variant=variant, epsilon=epsilon).epsilon == epsilon
    for epsilon in (1e-7, 1.01 * MOST_EPSILON if pure else 1.001e6):
        with pytest.raises(ConfigError, match=r"model\.0\.params.*epsilon"):
            create("defenses", name, variant=variant, epsilon=epsilon)
    if variant == "nonprivate":
        part = create("defenses", name, variant=variant, epsilon=float("inf"))
        assert part.claim() is None
        if name in PREDICTIONS:
            assert part.noise_scale(scale_of(name)) == 0
        return
    with pytest.raises(ConfigError, match=r"model\.0\.params.*epsilon"):
        create("defenses", name, variant=variant, epsilon=float("inf"))


@pytest.mark.parametrize("name", PREDICTIONS)
def test_a_published_claim_is_about_one_output(name: str) -> None:
    with pytest.raises(ConfigError, match="outputs"):
        create("defenses", name, variant="published", outputs=2)
    assert create("defenses", name, variant="corrected", outputs=2).outputs == 2


def test_neighbours_are_those_that_are_derived_for() -> None:
    # A purchase has one value to replace; the paper's lists are about entries of a matrix.
    def known(name: str, variant: str) -> set[str]:
        return {
            adjacency for form in FORMS if form[:2] == (name, variant) for adjacency in form[2:]
        }

    for variant in VARIANTS:
        assert known("slope-one", variant) == {"rating-replace", "rating-add-remove"}
        assert known("cosine", variant) == {"rating-add-remove"}
    assert known("top-k", "published") == {"entry-replace"}
    assert known("top-k", "corrected") == {"entry-replace", "rating-replace"}


@pytest.mark.cases(("name", "variant"), KINDS)
def test_other_neighbours_are_refused_by_name(name: str, variant: Variant) -> None:
    for adjacency in get_args(Adjacency):
        if (name, variant, adjacency) in FORMS:
            made = create("defenses", name, variant=variant, adjacency=adjacency)
            assert made.adjacency == adjacency
            continue
        with pytest.raises(ConfigError, match=r"model\.0\.params.*\badjacency\b"):
            create("defenses", name, variant=variant, adjacency=adjacency)
        with pytest.raises(ValidationError, match="adjacency"):
            DEFENSES[name](epsilon=1.0, variant=variant, adjacency=adjacency)


def test_a_misspelt_name_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="did you mean 'slope-one'"):
        registry.create("defenses", "slope_one", "model.0", {"epsilon": 1.0})
    with pytest.raises(ConfigError, match="epsilon"):
        registry.create("defenses", "slope-one", "model.0", {})


@pytest.mark.cases(("group", "name"), PARTS)
def test_a_part_is_frozen(group: str, name: str) -> None:
    part = create(group, name)
    names = [*(field.name for field in dataclasses.fields(part)[:1]), "no_such_thing"]
    for field in names:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(part, field, 1)


def data(defense: Any) -> Ratings:
    """Thirty users with at least `min_ratings` of 60 items, on a scale that the defense takes."""
    rng = np.random.default_rng(0)
    scale = Scale(1, 1, 1) if defense.name == "cosine" else Scale()
    profiles = []
    for _ in range(30):
        items = rng.permutation(60)[: int(rng.integers(20, 35))]
        profiles.append([(int(i), float(rng.choice(scale.values))) for i in items])
    return from_profiles(profiles, 60, scale)


@pytest.mark.cases(("name", "variant"), KINDS)
def test_a_defense_keeps_the_contract_that_plug_ins_have(name: str, variant: Variant) -> None:
    defense = create("defenses", name, variant=variant)
    check_defense(defense, data(defense))


@pytest.mark.cases(("name", "variant"), KINDS)
def test_lists_are_a_function_of_the_seed_and_the_trial(name: str, variant: Variant) -> None:
    defense = create("defenses", name, variant=variant)
    ratings = data(defense)
    exact = defense.exact(defense.prepare(ratings), ratings.profile(3))
    once, again, other = (
        defense.release_list(exact, Streams.first(seed, "x", 400)).items for seed in (1, 1, 2)
    )
    assert once.shape == (400, defense.top_k)
    assert all(len(set(row)) == defense.top_k for row in once.tolist())
    assert np.isin(once, exact.candidates).all()
    assert once.tobytes() == again.tobytes()
    # A trial's list does not depend on the other trials.
    some = Streams(Streams.first(1, "x", 1).key, np.array([7, 300], np.int64))
    np.testing.assert_array_equal(defense.release_list(exact, some).items, once[[7, 300]])
    assert (once.tobytes() == other.tobytes()) is (variant == "nonprivate")
    assert (len(np.unique(once, axis=0)) == 1) is (variant == "nonprivate")


@pytest.mark.cases("name", SHOWN)
def test_lists_of_different_trials_are_independent(name: str) -> None:
    # The sums of the shown items' numbers, of D and D' and of neighbouring data sets.
    defense = create("defenses", name)
    ratings = data(defense)
    exact = defense.exact(defense.prepare(ratings), ratings.profile(3))
    n = 40_000
    absent, present = (
        defense.release_list(exact, Streams.first(7, purpose, n)).items.sum(1).astype(np.float64)
        for purpose in ("entry/absent", "entry/present")
    )
    # Correlations times √n are standard normal: 4.9 has a false-failure rate of 1e-6, here of two.
    for x, y in ((absent, present), (absent[1:], absent[:-1])):
        assert abs(np.corrcoef(x, y)[0, 1]) * np.sqrt(n) < 5.03
        assert abs(np.corrcoef(x, y + 0.06 * x)[0, 1]) * np.sqrt(n) > 5.03


@pytest.mark.cases(
    ("name", "variant"), [(name, variant) for name, variant in KINDS if name in PREDICTIONS]
)
def test_releases_are_a_function_of_the_seed_and_the_trial(name: str, variant: Variant) -> None:
    defense = create("defenses", name, variant=variant)
    ratings = data(defense)
    observers = (SeesItems(np.tile(np.arange(60, dtype=np.int32), (400, 1))), SeesTop(20))
    for observer in observers:
        once, again, other = (
            defense.release(
                defense.exact(defense.prepare(ratings), ratings.profile(3)),
                Streams.first(seed, "x", 400),
                observer,
            )
            for seed in (1, 1, 2)
        )
        assert once.values.tobytes() == again.values.tobytes()
        assert once.items.tobytes() == again.items.tobytes()
        same = once.values.tobytes() == other.values.tobytes()
        distinct = len({row.tobytes() for row in once.values})
        assert same is (variant == "nonprivate")
        assert distinct == (1 if variant == "nonprivate" else 400)


@pytest.mark.parametrize("name", PREDICTIONS)
def test_trials_are_independent(name: str) -> None:
    """Noises of different trials, and of D and D', are uncorrelated."""
    defense = create("defenses", name)
    ratings = data(defense)
    exact = defense.exact(defense.prepare(ratings), ratings.profile(3))
    item = int(exact.candidates[0])
    n = 40_000
    noise = {
        purpose: defense.release(
            exact, Streams.first(7, purpose, n), SeesItems(np.full((n, 1), item, np.int32))
        )
        .values[:, 0]
        .astype(np.float64)
        for purpose in ("game/absent", "game/present")
    }
    absent, present = noise["game/absent"], noise["game/present"]
    # Correlations times √n are standard normal: 4.9 has a false-failure rate of 1e-6, here of two.
    for x, y in ((absent, present), (absent[1:], absent[:-1])):
        assert abs(np.corrcoef(x, y)[0, 1]) * np.sqrt(n) < 5.03
        assert abs(np.corrcoef(x, y + 0.04 * x)[0, 1]) * np.sqrt(n) > 5.03
    # Two rounded values are equal by chance; the noise before rounding has no value in common.
    assert (absent == present).mean() < 0.005
    raw = np.empty((2, n, 1))
    for draws, purpose in zip(raw, noise, strict=True):
        streams = Streams.first(7, purpose, n)
        laplace_at(draws, np.full((n, 1), item, np.int32), streams.trials, 0, streams.key)
    assert len(np.intersect1d(raw[0], raw[1])) == 0


@pytest.mark.cases(("name", "variant", "adjacency"), FORMS)
def test_claims(name: str, variant: Variant, adjacency: Adjacency) -> None:
    claim = create("defenses", name, variant=variant, adjacency=adjacency, epsilon=0.7).claim()
    if variant == "nonprivate":
        assert claim is None
        return
    assert isinstance(claim, Claim)
    assert claim.epsilon == 0.7
    assert 0 <= claim.delta < 1
    assert claim.adjacency == adjacency
    assert claim.observer in OBSERVERS
    assert (claim.observer == "list") is (name in LISTS)
    assert len(claim.public) > 10
    assert len(claim.source) > 10
    if variant == "published":
        assert re.search(r"\b(19|20)\d\d\b", claim.source)


@pytest.mark.cases(
    ("name", "variant"), [(name, variant) for name, variant in KINDS if name in PREDICTIONS]
)
def test_noise_grows_as_epsilon_falls(name: str, variant: Variant) -> None:
    scale = scale_of(name)
    scales = [
        create("defenses", name, variant=variant, epsilon=e).noise_scale(scale) for e in (0.5, 1, 2)
    ]
    if variant == "nonprivate":
        assert scales == [0, 0, 0]
    else:
        np.testing.assert_allclose(scales, scales[1] * np.array([2, 1, 0.5]))


@pytest.mark.cases(("name", "variant", "adjacency"), PREDICTION_FORMS)
@pytest.mark.cases("least", [1, 3, 20])
def test_worst_cases_are_genuine_instances(
    name: str, variant: Variant, adjacency: Adjacency, least: int
) -> None:
    defense = create("defenses", name, variant=variant, adjacency=adjacency, min_ratings=least)
    shifts = []
    assert defense.pairs()
    for pair, summary in defense.pairs().items():
        case = defense.pair(pair, scale_of(name))
        assert isinstance(case, PredictionPair)
        assert case.summary == summary
        assert len(case.summary) > 20
        before, after = case.ratings, apply(case.ratings, case.change)
        for trial in (before, after):
            counts = np.diff(trial.by_user.start)
            assert (counts >= least).all()
            assert case.items[0] not in trial.profile(case.target).items
        assert case.change.adjacency == adjacency
        claim = defense.claim()
        assert variant == "nonprivate" or case.change.adjacency == claim.adjacency
        model = defense.prepare(before)
        old = defense.exact(model, before.profile(case.target)).scores[case.items[0]]
        new = defense.exact_after(model, case.change, case.target).scores[case.items[0]]
        anew = defense.exact(defense.prepare(after), after.profile(case.target))
        assert new == pytest.approx(float(anew.scores[case.items[0]]), abs=1e-5)
        shifts.append(float(abs(new - old)))
    assert max(shifts) > 0.05


@pytest.mark.cases(("name", "variant"), [(name, v) for name, v in KINDS if name in LISTS])
def test_a_list_that_is_drawn_has_a_probability(name: str, variant: Variant) -> None:
    defense = create("defenses", name, variant=variant)
    ratings = data(defense)
    exact = defense.exact(defense.prepare(ratings), ratings.profile(3))
    law = defense.law(exact)
    found = defense.release_list(exact, Streams.first(1, "x", 2000)).items
    logs = law.log_probability(found)
    assert (np.isfinite(logs) & (logs <= 1e-12)).all()
    # Different lists that were seen have no more than all of the probability.
    lists, places = np.unique(found, axis=0, return_index=True)
    assert np.exp(logs[places]).sum() <= 1 + 1e-9
    # No item twice, and none that the user has rated.
    twice, rated = lists[:1].copy(), lists[:1].copy()
    twice[0, 0] = twice[0, 1]
    rated[0, 0] = ratings.profile(3).items[0]
    for impossible in (twice, rated):
        assert np.isneginf(law.log_probability(impossible)).all()


@pytest.mark.parametrize("name", LISTS)
def test_the_best_list_is_likelier_as_epsilon_grows(name: str) -> None:
    best: list[float] = []
    for epsilon in (0.5, 5.0, 50.0):
        defense = create("defenses", name, variant="corrected", epsilon=epsilon)
        ratings = data(defense)
        exact = defense.exact(defense.prepare(ratings), ratings.profile(3))
        exactly = create("defenses", name, variant="nonprivate")
        shown = exactly.release_list(exact, Streams.first(1, "x", 1)).items
        best.append(float(defense.law(exact).log_probability(shown)[0]))
    assert best == sorted(set(best))


@pytest.mark.cases(("name", "variant", "adjacency"), LIST_FORMS)
@pytest.mark.cases("scale", [Scale(), Scale(0, 100, 0.5)])
def test_worst_cases_of_lists_are_genuine_instances(
    name: str, variant: Variant, adjacency: Adjacency, scale: Scale
) -> None:
    defense = create("defenses", name, variant=variant, adjacency=adjacency)
    assert defense.pairs()
    for pair, summary in defense.pairs().items():
        case = defense.pair(pair, scale)
        assert isinstance(case, EntryPair)
        assert case.summary == summary
        assert len(case.summary) > 20
        before, after = case.before, case.after
        np.testing.assert_array_equal(before.candidates, after.candidates)
        for row in (before, after):
            shown = row.scores[row.candidates]
            assert ((shown >= scale.minimum) & (shown <= scale.maximum)).all()
        moved = np.flatnonzero(before.scores != after.scores)
        assert len(moved) == 1 if adjacency == "entry-replace" else len(moved) > 0
        # The trials differ to those who see the list.
        lists = defense.release_list(before, Streams.first(1, "x", 200)).items
        laws = [defense.law(row).log_probability(lists) for row in (before, after)]
        assert variant == "nonprivate" or (laws[0] != laws[1]).any()
