"""Shards: the parts into which a run is divided without a scheduler."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dpaudit.core.errors import ConfigError
from dpaudit.execution.tasks import digest_of

# The most shards of a run.
_MOST = 100_000


@dataclass(frozen=True)
class Shard:
    """One of several parts of a run.

    Attributes:
        index: its number, from 1.
        count: the number of shards.
    """

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read `i/n`.

        Raises:
            ConfigError: it is not such a fraction.
        """
        match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
        if not match or not 1 <= int(match[1]) <= int(match[2]) <= _MOST:
            raise ConfigError(f"the option --shard {text!r} is not i/n with i from 1 to n, as 3/16")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def has(self, number: int, *scope: str) -> bool:
        """Whether this shard runs task `number` of a scope; scopes start at different shards."""
        first = int(digest_of(*scope)[:8], 16)
        return (first + number) % self.count == self.index - 1


# Runs no task: all results must be in the store.
NOTHING = Shard(0, 1)
