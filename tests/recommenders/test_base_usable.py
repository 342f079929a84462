"""Which settings of a library's documentation are taken, dropped and refused."""

from __future__ import annotations

from typing import Any

import pytest

from dpaudit.core.errors import ConfigError
from dpaudit.recommenders.base import usable


class Library:
    def __init__(self, factors: int = 8, num_threads: int = 0) -> None:
        self.factors, self.num_threads = factors, num_threads


@pytest.mark.cases(
    ("given", "taken"),
    [
        ({"factors": 4}, {"factors": 4}),
        ({"num_threads": 4}, {"num_threads": 4}),
        ({"use_gpu": False}, {}),
        ({"device": "cpu", "n_jobs": 1, "verbose": False, "show_progress": False}, {}),
        ({"random_state": 42, "factors": 4}, {"factors": 4}),
        ({"seed": 42}, {}),
        ({"epochs": 3}, {"epochs": 3}),
    ],
)
def test_what_an_audit_does_anyway_is_left_out(given: dict[str, Any], taken: Any) -> None:
    assert usable("lib (als)", given, Library, "epochs") == taken


@pytest.mark.cases(
    ("key", "value", "said"),
    [
        ("use_gpu", True, "dpaudit trains on the CPU: remove use_gpu"),
        ("device", "cuda", "dpaudit trains on the CPU: remove device"),
        ("n_jobs", -1, "dpaudit trains on one thread"),
        ("verbose", True, "dpaudit trains quietly: remove verbose"),
        ("factor", 4, "did you mean 'factors'?"),
    ],
)
def test_any_other_names_the_setting_and_the_remedy(key: str, value: object, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        usable("lib (als)", {key: value}, Library)
    assert f"params.settings.{key}" in str(caught.value)
    assert said in str(caught.value)


def test_a_constructor_that_refuses_names_gets_all_but_what_an_audit_decides() -> None:
    given = {"embedding_size": 4, "random_state": 3, "use_gpu": False}
    assert usable("lenskit (EASEScorer)", given, None) == {"embedding_size": 4}
    with pytest.raises(ConfigError, match="CPU"):
        usable("lenskit (EASEScorer)", {"device": "cuda"}, None)
