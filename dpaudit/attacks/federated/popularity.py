"""A baseline without submissions: the popularity of an item."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import Form, SubmissionTest, TranscriptReader
from dpaudit.attacks.federated.base import Numbers
from dpaudit.core.plugin import STRICT
from dpaudit.core.transcripts import Round, UserItemPairs, Verdicts


@parameters(frozen=True, config=STRICT)
class Popularity(SubmissionTest):
    """Score a pair by what the server knows about its item before any round.

    It uses no submission, so the advantage of another attack over it is the leak of the rounds. It
    has no p-value. If users draw fakes uniformly but rate popular items, an item that many users
    may submit for is likely to be rated by each of them.

    Attributes:
        by: `candidates`, the number of users who may submit for the item, which the server sees; or
            `response`, the share of real submissions estimated by randomised response, if used.
    """

    by: Literal["candidates", "response"] = "candidates"

    name: ClassVar[str] = "popularity"
    title: ClassVar[str] = "Popularity of the item, known before any round"
    source: ClassVar[str] = (
        "Luo, Zhang, Zhang, Liu & Wang, A Smart Privacy-Preserving Learning Method by Fake "
        "Gradients to Protect Users Items in Recommender Systems, 2020, "
        "doi:10.1155/2020/6683834, sections 4.2 and 4.4 (the randomised response)"
    )
    usual: ClassVar[tuple[Form, ...]] = (Form({"by": "candidates"}), Form({"by": "response"}))
    rank: ClassVar[int] = 1

    def reader(self, pairs: UserItemPairs) -> TranscriptReader:
        """Return a reader of these pairs; it ignores all rounds."""
        known = pairs.shares if self.by == "response" else pairs.candidates
        return _PopularityReader(known[pairs.items].astype(np.float64))


class _PopularityReader:
    def __init__(self, scores: Numbers) -> None:
        self.scores = scores

    def see(self, round_: Round) -> None:
        """Ignore the round."""

    def verdicts(self) -> Verdicts:
        return Verdicts(self.scores, None)
