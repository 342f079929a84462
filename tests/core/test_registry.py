"""Parameters that a plug-in does not know are all named, with what it knows."""

from __future__ import annotations

from typing import Any

import pytest

from dpaudit.core import registry
from dpaudit.core.errors import ConfigError


def refused(group: registry.Group, name: str, **parameters: Any) -> str:
    swept = {"epsilon": 1.0, "variant": "published"} if group == "defenses" else {}
    with pytest.raises(ConfigError) as caught:
        registry.create(group, name, "here", {**parameters, **swept})
    said = str(caught.value)
    assert "\n" not in said
    return said


@pytest.mark.cases(
    ("group", "name", "parameters", "begin", "end"),
    [
        (
            *("defenses", "dpsgd-mf", {"min_ratings": 20, "min_co_ratings": 10, "top_k": 20}),
            "min_ratings, min_co_ratings and top_k are not known to defense 'dpsgd-mf', which "
            "knows adjacency, clip_norm, ",
            ": remove them",
        ),
        (
            *("defenses", "slope-one", {"epochs": 3, "min_rating": 5, "top": 20}),
            "epochs, min_rating and top are not known to defense 'slope-one', which knows "
            "adjacency, delta_r, min_co_ratings, min_ratings, outputs, similarity, top_k",
            "; did you mean 'min_ratings' for min_rating, 'top_k' for top?",
        ),
        (
            *("defenses", "slope-one", {"epochs": 3}),
            "epochs is not known to defense 'slope-one'; use one of adjacency, delta_r, ",
            "top_k",
        ),
        (
            *("attacks", "linear-ideal", {"ridge": 1, "folds": 2}),
            "ridge and folds are not known to attack 'linear-ideal', which knows combine, ",
            ": remove them",
        ),
        (
            *("attacks", "linear-ideal", {"readr": "round-clip"}),
            "readr is not known to attack 'linear-ideal'",
            "; did you mean 'reader'?",
        ),
        (
            *("recommenders", "surprise", {"modl": "SVD", "factors": 3}),
            "modl and factors are not known to recommender 'surprise', which knows model, settings",
            "; did you mean 'model' for modl?",
        ),
        (
            *("recommenders", "surprise", {"n_factors": 3}),
            "n_factors is not known to recommender 'surprise'",
            "; what its constructor takes stands in here.params.settings",
        ),
        (
            *("recommenders", "most-popular", {"model": "als", "settings": {}}),
            "model and settings are not known to recommender 'most-popular'",
            ", which has no parameters: remove them",
        ),
    ],
)
def test_all_unknown_parameters_are_named_in_one_sentence(
    group: registry.Group, name: str, parameters: dict[str, Any], begin: str, end: str
) -> None:
    said = refused(group, name, **parameters)
    assert said.startswith(f"here.params.{begin}")
    assert said.endswith(end)


def test_keys_of_the_model_s_own_table_are_no_parameters() -> None:
    known = refused("defenses", "slope-one", epochs=3).partition("use one of")[2]
    assert not {"epsilon", "variant"} & set(known.replace(",", "").split())


def test_a_long_name_is_cut() -> None:
    assert len(refused("defenses", "slope-one", **{"x" * 5000: 1, "y" * 5000: 2})) < 500
