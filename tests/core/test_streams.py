from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpaudit
from dpaudit.core.streams import Streams, generator, seed_sequence, stream_key

PACKAGE = Path(dpaudit.__file__).parent
# A call of the user's mechanism gets the generator of its own seed sequence; a message tells the
# user how to call the mechanism. The contract changes numpy's global state, which must not matter,
# and adapters seed it for libraries that draw from it, as do calls of a mechanism that may.
MADE = {
    "audits/mechanism/calls.py": 1,
    "audits/mechanism/one_call.py": 2,
    "recommenders/base.py": 1,
    "testing/contract.py": 1,
    "testing/defenses.py": 2,
    "testing/attacks.py": 1,  # tries whether an attack reads the global state
}


def test_purposes_children_and_seeds_share_no_stream() -> None:
    kinds = [
        generator(1, "a"), generator(1, "b"), generator(2, "a"), generator((1, 2), "a"),
        generator(1, "a", child=0), generator(1, "a", child=1),
    ]  # fmt: skip
    assert len({stream.random() for stream in kinds}) == len(kinds)


def test_a_stream_is_a_function_of_its_name() -> None:
    assert generator(3, "x", child=2).random() == generator((3,), "x", child=2).random()


@pytest.mark.cases(
    "seed",
    [0, 3, 2**32 - 1, 2**32, 2**40 + 7, 2**130, (1, 0, 2**64), (), np.int64(5), (np.int64(9),)],
)
def test_streams_are_those_of_numpys_entropy(seed: Any) -> None:
    numbers = [*map(int, seed)] if isinstance(seed, tuple) else [int(seed)]
    for purpose, child in (("", None), ("x", 2), ("fünf", 2**33)):
        key = () if child is None else (child,)
        expected = np.random.SeedSequence([*numbers, *purpose.encode()], spawn_key=key)
        sequence = seed_sequence(seed, purpose, child=child)
        np.testing.assert_array_equal(sequence.generate_state(8), expected.generate_state(8))


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="the seed -1 is negative"):
        seed_sequence((2, -1), "x")


def test_trials_keep_their_streams_in_blocks() -> None:
    whole = Streams.first(5, "test", 10)
    parts = list(whole.blocks(4))
    assert [len(part) for part in parts] == [4, 4, 2]
    np.testing.assert_array_equal(np.concatenate([part.trials for part in parts]), whole.trials)
    assert not np.array_equal(stream_key(5, "test"), stream_key(5, "tests"))


def test_streams_are_made_in_one_place() -> None:
    construction = re.compile(r"default_rng\(\w|SeedSequence\(|np\.random\.(?:seed|rand|normal)\b")
    counts = {
        path.relative_to(PACKAGE).as_posix(): len(
            construction.findall(path.read_text(encoding="utf-8"))
        )
        for path in PACKAGE.rglob("*.py")
    }
    del counts["core/streams.py"]
    # Scripts that 'dpaudit init' writes are the user's own code.
    made = {name: n for name, n in counts.items() if n and not name.startswith("cli/scripts/")}
    assert made == MADE
