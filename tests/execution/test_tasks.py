"""Digests of the parts of tasks: equal parts have equal ones, and any change another."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from dpaudit.core.streams import Streams
from dpaudit.execution.tasks import digest_of

# Each differs from all others in what decides a result.
PARTS: list[tuple[Any, ...]] = [
    (1,),
    (2,),
    (1.0,),
    ("1",),
    (1, 1),
    ((1, 1),),
    ("ab", "c"),
    ("a", "bc"),
    (np.array([1, 2]),),
    (np.array([1, 2], np.int32),),
    (np.array([[1, 2]]),),
    (np.array([2, 1]),),
    (Streams.first(1, "test", 4),),
    (Streams.first(2, "test", 4),),
    (Streams.first(1, "other", 4),),
    (Streams.first(1, "test", 5),),
    (Streams(Streams.first(1, "test", 4).key, np.arange(1, 5)),),
]


def test_equal_parts_have_equal_digests_and_others_have_others() -> None:
    assert [digest_of(*part) for part in PARTS] == [digest_of(*part) for part in PARTS]
    alike = [pair for pair in combinations(PARTS, 2) if len({digest_of(*one) for one in pair}) == 1]
    assert alike == []


def test_what_has_no_digest_is_refused() -> None:
    with pytest.raises(TypeError):
        digest_of(object())
