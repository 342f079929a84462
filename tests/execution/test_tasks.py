"""Digests of the parts of tasks, where any change is another, and shards that share evenly."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from dpaudit.core.errors import ConfigError
from dpaudit.core.streams import Streams
from dpaudit.execution.tasks import NOTHING, Shard, digest_of

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


def test_a_shard_is_read_as_a_fraction() -> None:
    assert Shard.parse("3/16") == Shard(3, 16)
    assert str(Shard(3, 16)) == "3/16"
    for text in ("", "3", "0/4", "5/4", "-1/4", "3/16/2", "a/b", "1/1000000", "1.0/2", "٣/16"):
        with pytest.raises(ConfigError, match="is not i/n"):
            Shard.parse(text)


def test_every_task_has_one_shard_and_shards_are_even() -> None:
    shards = [Shard(index, 5) for index in range(1, 6)]
    counts: Counter[int] = Counter()
    for scope in ("a", "b", "c", "d"):
        for number in range(50):
            [shard_index] = [shard.index for shard in shards if shard.has(number, scope)]
            counts[shard_index] += 1
    assert set(counts.values()) == {40}
    # Stages of a single task do not all fall on one shard.
    first = {shard.index for shard in shards for scope in "abcdefgh" if shard.has(0, scope)}
    assert len(first) > 2
    assert not any(NOTHING.has(number, "a") for number in range(10))
