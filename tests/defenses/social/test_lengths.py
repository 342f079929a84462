"""The length of users' factors."""

from __future__ import annotations

import numpy as np

from dpaudit.data.ratings import Scale
from dpaudit.defenses.factors import FactorModels
from dpaudit.defenses.social.lengths import user_lengths
from dpaudit.defenses.social.ranking_models import RankingModels


def test_lengths_are_those_of_the_factors_without_bias_and_padding() -> None:
    users = np.array([[3, 4], [0, 1]], np.float32)
    items = np.ones((3, 2), np.float32)
    single = FactorModels.single(users, items, 2, 3.0, Scale())
    assert user_lengths(single).tolist() == [5, 1]
    single.users[0][:, -1] = 7  # the bias
    assert user_lengths(single).tolist() == [5, 1]
    padded = np.pad(users, ((0, 0), (0, 14)))
    assert user_lengths(RankingModels([padded], [padded], 2)).tolist() == [5, 1]
