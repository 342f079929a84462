"""What every registered recommender must state and do, with its real library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpaudit.core import registry
from dpaudit.core.errors import ConfigError
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.testing.contract import check_recommender

# The library that each adapter needs, and the parameters to test it with.
CASES: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "most-popular": ("numpy", [{}]),
    "implicit": (
        "implicit",
        [
            {"model": model, "settings": settings}
            for model, settings in (
                ("als", {"factors": 4}),
                ("bpr", {"factors": 4}),
                ("lmf", {"factors": 4}),
                ("item-item", {"K": 5}),
            )
        ],
    ),
    "cornac": (
        "cornac",
        [
            {"model": "MF", "settings": {"k": 4}},
            {"model": "BPR", "settings": {"k": 4}},
            {"model": "PMF", "settings": {"k": 4}},
            {"model": "NMF", "settings": {"k": 4}},
            {"model": "HPF", "settings": {"k": 4}},
            {"model": "ItemKNN"},
            {"model": "EASE"},
            {"model": "BaselineOnly"},
        ],
    ),
    "lenskit": (
        "lenskit",
        [
            {"model": "BiasedMFScorer", "settings": {"embedding_size": 4}},
            {"model": "ImplicitMFScorer", "settings": {"embedding_size": 4}},
            {"model": "FunkSVDScorer", "settings": {"embedding_size": 4, "epochs": 5}},
            {"model": "BiasedSVDScorer", "settings": {"embedding_size": 4}},
            {"model": "ItemKNNScorer", "settings": {"max_nbrs": 5}},
            {"model": "UserKNNScorer", "settings": {"feedback": "implicit"}},
            {"model": "EASEScorer"},
            {"model": "SLIMScorer"},
            {"model": "BiasScorer"},
            {"model": "FlexMFExplicitScorer"},
            {"model": "FlexMFImplicitScorer"},
        ],
    ),
    "lightfm": (
        "lightfm",
        [
            {"model": model, "settings": {"no_components": 4, "epochs": 3}}
            for model in ("warp", "bpr", "logistic")
        ],
    ),
    "surprise": (
        "surprise",
        [
            {"model": "SVD", "settings": {"n_factors": 4}},
            {"model": "SVD", "settings": {"n_factors": 4, "biased": False}},
            {"model": "SVDpp", "settings": {"n_factors": 4, "n_epochs": 3}},
            {"model": "NMF", "settings": {"n_factors": 4}},
            {"model": "NMF", "settings": {"n_factors": 4, "biased": True}},
            {"model": "KNNBasic", "settings": {"k": 5}},
            {"model": "KNNWithMeans"},
            {"model": "KNNWithZScore"},
            {
                "model": "KNNBaseline",
                "settings": {"sim_options": {"name": "pearson_baseline", "user_based": False}},
            },
            {"model": "SlopeOne"},
            {"model": "CoClustering"},
            {"model": "BaselineOnly"},
        ],
    ),
    "torch": (
        "opacus",
        [
            {"model": model, "dimensions": 4, "epochs": 2, "sampling_rate": 0.1, **private}
            for model in ("mf", "ncf")
            for private in ({}, {"noise_multiplier": 1.0})
        ]
        + [
            {"model": model, "dimensions": 4, "epochs": 2, "sampling_rate": 0.3, **settings}
            for model, settings in (
                ("two-tower", {}),
                ("lightgcn", {"layers": 2}),
                ("multvae", {}),
                ("sasrec", {"heads": 2, "length": 4}),
                ("gru4rec", {"length": 4, "negatives": 5}),
            )
        ],
    ),
}
FORMS = [(name, parameters) for name, (_, forms) in CASES.items() for parameters in forms]


def data() -> Ratings:
    rng = np.random.default_rng(5)
    user, item = np.nonzero(rng.random((20, 12)) < 0.5)
    value = rng.integers(1, 6, len(user)).astype(np.float32)
    return Ratings.build(user, item, value, 20, 12, Scale(1, 5, 1))


@pytest.mark.parametrize(("name", "parameters"), FORMS)
# Warnings of a library about its own calls are not ours.
@pytest.mark.filterwarnings("ignore")
def test_the_adapter_keeps_the_contract(name: str, parameters: dict[str, Any]) -> None:
    pytest.importorskip(CASES[name][0])
    check_recommender(registry.create("recommenders", name, "recommender.0", parameters), data())


def test_every_registered_adapter_is_tested() -> None:
    ours = [
        name
        for name in registry.names("recommenders")
        if registry.load("recommenders", name).__module__.startswith("dpaudit.")
    ]
    assert sorted(CASES) == ours


@pytest.mark.parametrize(
    "name", [name for name, (_, forms) in CASES.items() if "settings" in forms[0]]
)
@pytest.mark.filterwarnings("ignore")
def test_a_setting_that_the_library_does_not_know_is_refused(name: str) -> None:
    pytest.importorskip(CASES[name][0])
    made = registry.create("recommenders", name, "x", {"settings": {"no_such_setting": 1}})
    with pytest.raises(ConfigError, match=r"no_such_setting.*correct params.settings"):
        made.fit(_matrix(), 1)


def _matrix() -> Any:
    from dpaudit.data.interactions import interactions_of

    return interactions_of(data())
