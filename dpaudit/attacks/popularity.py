"""What the server knows before any submission: how often an item's submissions are real."""

from __future__ import annotations

from typing import ClassVar

from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.transcript import Numbers, Reads, Watcher
from dpaudit.parts import STRICT, Part
from dpaudit.transcripts import Pairs, Round, Verdicts


@parameters(frozen=True, config=STRICT)
class Popularity(Part):
    """Take a submission for real as often as the item's submissions are, by the server's estimate.

    It looks at no submission, so what another attack finds beyond it is what the rounds leak. The
    share is a prior probability that a pair is real; it has no p-value.
    """

    name: ClassVar[str] = "popularity"
    title: ClassVar[str] = "Share of real submissions of the item, known before any round"
    source: ClassVar[str] = (
        "Luo, Zhang, Zhang, Liu & Wang, A Smart Privacy-Preserving Learning Method by Fake "
        "Gradients to Protect Users Items in Recommender Systems, 2020, "
        "doi:10.1155/2020/6683834, sections 4.2 and 4.4 (the randomised response)"
    )
    reads: ClassVar[Reads] = "all"

    def watch(self, pairs: Pairs) -> Watcher:
        """A watcher of these pairs; it sees nothing in any round."""
        return _Shares(pairs.shares[pairs.items])


class _Shares:
    def __init__(self, scores: Numbers) -> None:
        self.scores = scores

    def see(self, round_: Round) -> None:
        """Nothing."""

    def verdicts(self) -> Verdicts:
        return Verdicts(self.scores, None)
