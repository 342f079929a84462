"""Test the popularity baseline."""

from __future__ import annotations

import numpy as np

from dpaudit.attacks.base import SubmissionTest
from dpaudit.attacks.federated.gradient_ratio import GradientRatio, Popularity
from dpaudit.attacks.federated.residuals import Energy, TwoSample, ZeroMean
from dpaudit.core.releases import Round, UserItemPairs


def test_scores_are_what_is_known_of_the_items_whatever_is_seen() -> None:
    items, shares = np.array([2, 0, 2, 1], np.int32), np.array([0.1, 0.9, 0.4])
    counts = np.array([7, 5, 9])
    pairs = UserItemPairs(np.arange(4, dtype=np.int32), items, 2, 1.0, None, shares, counts)
    for attack, scores in (
        (Popularity(), [9, 7, 9, 5]),
        (Popularity(by="response"), [0.4, 0.1, 0.4, 0.9]),
    ):
        reader = attack.reader(pairs)
        before = reader.verdicts()
        numbers = np.ones((4, 2), np.float32)
        reader.see(Round(np.arange(4, dtype=np.int32), numbers, numbers, numbers, numbers))
        for verdicts in (before, reader.verdicts()):
            assert verdicts.scores.tolist() == scores
            assert verdicts.p_values is None


def test_every_attack_on_transcripts_says_how_many_pairs_it_follows() -> None:
    attacks: list[SubmissionTest] = [
        Popularity(),
        Energy(),
        GradientRatio(),
        ZeroMean(),
        ZeroMean(statistic="hotelling"),
        TwoSample(),
    ]
    assert [attack.most_pairs for attack in attacks] == [None] * 4 + [2000, 1000]
