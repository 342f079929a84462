"""What the server knows before any submission: how popular an item is."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import SubmissionTest, TranscriptReader
from dpaudit.attacks.federated.base import Numbers
from dpaudit.core.plugin import STRICT
from dpaudit.core.transcripts import Pairs, Round, Verdicts


@parameters(frozen=True, config=STRICT)
class Popularity(SubmissionTest):
    """Take a pair for real by what the server knows of its item before any round.

    It looks at no submission, so what another attack finds beyond it is what the rounds leak. It
    has no p-value. Where users draw their fakes uniformly and rate what is popular, an item that
    many may submit for is likely to be rated by each of them.

    Attributes:
        by: `candidates`, how many users may submit for the item, which the server sees; or
            `response`, the share of real submissions that it estimated, where users were asked.
    """

    by: Literal["candidates", "response"] = "candidates"

    name: ClassVar[str] = "popularity"
    title: ClassVar[str] = "What is known of the item before any round"
    source: ClassVar[str] = (
        "Luo, Zhang, Zhang, Liu & Wang, A Smart Privacy-Preserving Learning Method by Fake "
        "Gradients to Protect Users Items in Recommender Systems, 2020, "
        "doi:10.1155/2020/6683834, sections 4.2 and 4.4 (the randomised response)"
    )

    def reader(self, pairs: Pairs) -> TranscriptReader:
        """A observer of these pairs; it sees nothing in any round."""
        known = pairs.shares if self.by == "response" else pairs.candidates
        return _Known(known[pairs.items].astype(np.float64))


class _Known:
    def __init__(self, scores: Numbers) -> None:
        self.scores = scores

    def see(self, round_: Round) -> None:
        """Nothing."""

    def verdicts(self) -> Verdicts:
        return Verdicts(self.scores, None)
