"""Shards: how they are written, and that they share the tasks evenly."""

from __future__ import annotations

from collections import Counter

import pytest

from dpaudit.core.errors import ConfigError
from dpaudit.execution.tasks import NOTHING, Shard


def test_a_shard_is_read_as_a_fraction() -> None:
    assert Shard.parse("3/16") == Shard(3, 16)
    assert str(Shard(3, 16)) == "3/16"
    for text in ("", "3", "0/4", "5/4", "-1/4", "3/16/2", "a/b", "1/1000000", "1.0/2", "٣/16"):
        with pytest.raises(ConfigError, match="is not i/n with i from 1 to n"):
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
