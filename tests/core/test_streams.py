from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import dpaudit
from dpaudit.core.streams import Streams, generator, seed_sequence, stream_key

PACKAGE = Path(dpaudit.__file__).parent
# A call of the user's mechanism gets the generator of its own seed sequence; a message tells the
# user how to call the mechanism. The contract changes numpy's global state, which must not matter,
# and adapters seed it for libraries that draw from it.
MADE = {
    "auditor/black_box/isolated.py": 1,
    "auditor/black_box/blocks.py": 1,
    "recommenders/base.py": 1,
    "testing/contract.py": 1,
}


def test_purposes_children_and_seeds_share_no_stream() -> None:
    kinds = [
        generator(1, "a"), generator(1, "b"), generator(2, "a"), generator((1, 2), "a"),
        generator(1, "a", child=0), generator(1, "a", child=1),
    ]  # fmt: skip
    assert len({each.random() for each in kinds}) == len(kinds)


def test_a_stream_is_a_function_of_its_name() -> None:
    assert generator(3, "x", child=2).random() == generator((3,), "x", child=2).random()
    assert seed_sequence(3, "x").entropy == [3, ord("x")]


def test_trials_keep_their_streams_in_blocks() -> None:
    whole = Streams.first(5, "test", 10)
    parts = list(whole.blocks(4))
    assert [len(part) for part in parts] == [4, 4, 2]
    np.testing.assert_array_equal(np.concatenate([part.trials for part in parts]), whole.trials)
    assert not np.array_equal(stream_key(5, "test"), stream_key(5, "tests"))


def test_streams_are_made_in_one_place() -> None:
    made = re.compile(r"default_rng\(\w|SeedSequence\(|np\.random\.(?:seed|rand|normal)\b")
    found = {
        path.relative_to(PACKAGE).as_posix(): len(made.findall(path.read_text(encoding="utf-8")))
        for path in PACKAGE.rglob("*.py")
    }
    del found["core/streams.py"]
    assert {name: count for name, count in found.items() if count} == MADE
