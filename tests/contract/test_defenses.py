"""What every registered defense must state and do, and more about dpaudit's own."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, get_args

import numpy as np
import pytest

from dpaudit.core import registry
from dpaudit.core.claim import Adjacency, Variant
from dpaudit.core.errors import ConfigError, DpauditError
from dpaudit.core.releases import ItemFactors
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import ListDefense, OnDemandDefense, PredictionDefense, TrainedDefense
from dpaudit.defenses.precision import MOST_EPSILON
from dpaudit.testing.contract import check_defense, check_variants
from dpaudit.testing.defenses import accepted_data, check_independence, neighbours, variants_of

# Those of every installed package keep the contract; of dpaudit's own more is known.
DEFENSES: dict[str, Any] = registry.every("defenses")
OWN = {name: kind for name, kind in DEFENSES.items() if kind.__module__.startswith("dpaudit.")}
TRAINED = [name for name, kind in OWN.items() if issubclass(kind, TrainedDefense)]
VARIANTS: tuple[Variant, ...] = get_args(Variant)


@pytest.mark.parametrize("name", sorted(DEFENSES))
def test_a_defense_keeps_the_contract_that_plug_ins_have(name: str) -> None:
    assert DEFENSES[name].name == name
    check_variants(DEFENSES[name])


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(DEFENSES))
def test_what_different_trials_draw_is_independent(name: str) -> None:
    for defense in variants_of(DEFENSES[name]):
        if defense.claim() is not None:
            check_independence(defense, accepted_data(defense, 4, 6))


def create(name: str, variant: Variant, **parameters: Any) -> Any:
    given = {"epsilon": 1.0, "variant": variant, **OWN[name].quick, **parameters}
    return registry.create("defenses", name, "model.0", given)


@pytest.mark.long
@pytest.mark.cases(
    ("name", "parameters"),
    [
        ("dpsgd-mf", {"sampling_rate": 0.5}),
        ("dpps-mf", {"prior_shape": 2.0, "prior_rate": 1.0}),
        ("dpps-mf", {"biases": False}),
        ("dpsgd-pnbm", {"sampling_rate": 0.5, "neighbors": 3}),
        ("fake-gradients", {"fakes": "zero", "batch_size": 3, "delay": 1}),
        ("privsr", {"social": 0.0}),
        ("privsr-ranking", {"triples": 3}),
    ],
)
@pytest.mark.cases("variant", ["published", "corrected"])
def test_other_forms_keep_it_too(name: str, parameters: dict[str, Any], variant: Variant) -> None:
    defense = create(name, variant, **parameters)
    check_defense(defense, accepted_data(defense))


def test_the_registered_defenses() -> None:
    roles = {
        PredictionDefense: {"slope-one", "cosine"},
        ListDefense: {"top-k"},
        TrainedDefense: {"dpsgd-mf", "dpps-mf", "dpsgd-pnbm", "dpps-pnbm", "neighborhood"},
    }
    for role, names in roles.items():
        assert names <= {name for name, kind in OWN.items() if issubclass(kind, role)}


@pytest.mark.cases("name", sorted(OWN))
def test_an_infinite_epsilon_is_that_of_no_privacy(name: str) -> None:
    for defense in variants_of(OWN[name]):
        claim = defense.claim()
        # Draws of finite length keep no larger ε at δ = 0.
        finite = claim is not None and claim.observer in {"values", "iterates"} and not claim.delta
        most = MOST_EPSILON if finite and defense.variant == "corrected" else 1e6
        on_demand = isinstance(defense, OnDemandDefense)
        least = 1e-6 if on_demand or name == "neighborhood" else 1e-3
        for epsilon in (least, most):
            assert create(name, defense.variant, epsilon=epsilon).epsilon == epsilon
        wrong = [least / 1.001]
        if claim is None:
            assert create(name, defense.variant, epsilon=np.inf).claim() is None
        else:
            wrong.append(np.inf)
        if claim is not None or on_demand:
            wrong.append(1.01 * most)
        for epsilon in wrong:
            with pytest.raises(ConfigError, match=r"model\.0\.params.*epsilon"):
                create(name, defense.variant, epsilon=epsilon)


@pytest.mark.cases("name", sorted(OWN))
def test_claims_say_for_whom_by_which_source(name: str) -> None:
    for defense in variants_of(OWN[name]):
        claim = defense.claim()
        if claim is None:
            continue
        assert min(len(claim.public), len(claim.source)) > 10
        # Steps are run by their law, which only what is observed has.
        usual = {"iterates", "recommender"} if hasattr(defense, "observe") else {"public"}
        if isinstance(defense, OnDemandDefense):
            usual = {"list"} if isinstance(defense, ListDefense) else {"values"}
            assert claim.epsilon == defense.epsilon
        assert claim.observer in usual
        if defense.variant == "published":
            assert re.search(r"\b(19|20)\d\d\b", claim.source)
            # Normal noise has a δ.
            assert (claim.delta > 0) is (name == "fake-gradients")


def test_neighbours_are_those_that_are_derived_for() -> None:
    # A purchase has one value to replace; the paper's lists are about entries of a matrix.
    ratings: set[Adjacency] = {"rating-replace", "rating-add-remove"}
    whole: set[Adjacency] = {"user-replace", "user-add-remove"}
    known: dict[tuple[str, Variant], set[Adjacency]] = {
        **{("slope-one", variant): ratings for variant in VARIANTS},
        **{("cosine", variant): {"rating-add-remove"} for variant in VARIANTS},
        ("top-k", "published"): {"entry-replace"},
        ("top-k", "corrected"): {"entry-replace", "rating-replace"},
        ("dpsgd-mf", "published"): {"rating-replace"},
        ("dpsgd-mf", "corrected"): whole,
    }
    for (name, variant), reached in known.items():
        for adjacency in get_args(Adjacency):
            if adjacency in reached:
                assert create(name, variant, adjacency=adjacency).adjacency == adjacency
                continue
            with pytest.raises(ConfigError, match=r"model\.0\.params.*(adjacency|rating-replace)"):
                create(name, variant, adjacency=adjacency)


@pytest.mark.cases("name", sorted(OWN))
def test_neighbours_are_no_parameter_of_other_defenses(name: str) -> None:
    if "adjacency" not in {field.name for field in dataclasses.fields(OWN[name])}:
        for adjacency in get_args(Adjacency):
            with pytest.raises(ConfigError, match=r"params\.adjacency is not known"):
                create(name, "nonprivate", adjacency=adjacency)


@pytest.mark.parametrize("variant", ["published", "corrected"])
def test_a_model_without_privacy_has_no_other_variant(variant: Variant) -> None:
    with pytest.raises(ConfigError, match=rf"{variant!r} does not exist.*use 'nonprivate'"):
        create("neighborhood", variant)


@pytest.mark.parametrize("name", ["slope-one", "cosine"])
def test_a_published_claim_is_about_one_output(name: str) -> None:
    with pytest.raises(ConfigError, match="outputs"):
        create(name, "published", outputs=2)
    assert create(name, "corrected", outputs=2).outputs == 2


# The largest steps, and the least noise or the most, so that plain descent leaves all ranges.
WILD: dict[str, dict[str, Any]] = {
    "dpsgd-mf": {
        "learning_rate": 1.0, "item_learning_rate": 10.0, "clip_norm": 1e6, "decay": 10.0,
        "epochs": 60,
    },
    "dpps-mf": {"learning_rate": 1e6, "exponent": 0.0, "loss_bound": None, "epochs": 60},
    "dpsgd-pnbm": {"learning_rate": 1e3, "decay": 1.0, "steps": 60},
    "dpps-pnbm": {"learning_rate": 1e6, "decay": 1e6, "exponent": 0.0, "steps": 60},
    "fake-gradients": {"learning_rate": 100.0, "clip_norm": 1e6, "rounds": 60},
    "privsr": {"learning_rate": 1.0, "decay": 10.0, "clip_norm": 1e6, "rounds": 60},
    "privsr-ranking": {"learning_rate": 1.0, "decay": 10.0, "clip_norm": 1e6, "rounds": 60},
}  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.cases("name", sorted({*TRAINED} - {"neighborhood"}))
@pytest.mark.cases("epsilon", [0.1, 100.0])
def test_no_corrected_training_ends_in_an_error_or_a_warning(name: str, epsilon: float) -> None:
    """Whether it does would depend on the data, and no claim covers that."""
    defense = create(name, "corrected", **WILD[name], epsilon=epsilon)
    pair, _ = neighbours(defense, accepted_data(defense))
    items = np.array([2, 0], np.int32)
    for ratings in (pair.before, pair.after):
        models = defense.train(defense.prepare(ratings), Streams.first(2, "test", 2))
        shown = models.public(items)
        published = shown.factors if isinstance(shown, ItemFactors) else shown.rows
        assert np.isfinite(published).all()
        assert np.isfinite(models.predict(np.array([1, 3], np.int32), items)).all()


# The forms in which what counts as public is read from the data, and so moves with them.
READ: dict[str, set[Variant]] = {
    **{name: {"published", "nonprivate"} for name in TRAINED},
    # A rating that disappears is of no candidate: without privacy all are kept.
    "fake-gradients": {"published"},
    "privsr-ranking": {*VARIANTS},
}


@pytest.mark.cases("name", TRAINED)
def test_what_counts_as_public_is_read_from_the_data_or_known_without(name: str) -> None:
    for form in variants_of(OWN[name]):
        defense: Any = form
        pair, _ = neighbours(defense, accepted_data(defense))
        own, alone = (
            defense.public_statistics(defense.prepare(data)) for data in (pair.before, pair.after)
        )
        assert own.any()
        if name == "privsr":
            # Only of ratings that a friend has too, and nobody keeps, does anything show.
            continue
        assert np.array_equal(own, alone) == (defense.variant not in READ[name])
        if defense.variant == "corrected" and own.ndim < 2:
            assert (own == 3).all()


@pytest.mark.cases("name", TRAINED)
def test_no_ratings_are_refused(name: str) -> None:
    none = np.empty(0, np.int32)
    for defense in variants_of(OWN[name]):
        scale = accepted_data(defense).scale
        empty = Ratings.build(none, none, none.astype(np.float32), 2, 2, scale)
        with pytest.raises(DpauditError, match=r"no ratings|there are none|no user has more"):
            defense.prepare(empty)  # type: ignore[attr-defined]


def test_the_best_list_is_likelier_as_epsilon_grows() -> None:
    best: list[float] = []
    for epsilon in (0.5, 5.0, 50.0):
        defense = create("top-k", "corrected", epsilon=epsilon)
        exactly = create("top-k", "nonprivate")
        ratings = accepted_data(defense)
        exact = defense.exact(defense.prepare(ratings), ratings.profile(3))
        shown = exactly.release_list(exact, Streams.first(1, "x", 1)).items
        best.append(float(defense.law(exact).log_probability(shown)[0]))
    assert best == sorted(set(best))
