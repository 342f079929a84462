"""Attacks whose fits of all users do not fit the memory are refused before anything is fitted."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.attacks.reconstruction import RankingReconstruction, Reconstruction
from dpaudit.core.errors import ConfigError
from dpaudit.core.memory import VARIABLE
from dpaudit.core.releases import ItemFactors
from dpaudit.data.ratings import Ratings, Scale

USERS = np.arange(40, dtype=np.int32)
SHARED = Ratings.build(
    np.repeat(USERS, 5), np.tile(np.arange(5), 40), np.ones(200), 40, 50, Scale(1, 5, 1)
)
RELEASE = ItemFactors(np.zeros((1, 50, 9), np.float32), 3.0)


def test_fits_to_ratings_grow_with_users_and_the_square_of_dimensions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "60 kB")
    with pytest.raises(
        ConfigError,
        match=r"69\.1 kB .* users \(40\) .* dimensions \(8\), .* 60 kB \(DPAUDIT_MEMORY\): "
        r".*params\.dimensions",
    ):
        Reconstruction().reconstruct(RELEASE, SHARED, USERS, USERS)
    monkeypatch.setenv(VARIABLE, "70 kB")
    assert Reconstruction().reconstruct(RELEASE, SHARED, USERS, USERS).shape == (1, 40)


@pytest.mark.long
def test_negatives_grow_with_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "15 kB")
    with pytest.raises(
        ConfigError,
        match=r"16 kB .* users \(40\) .* negatives .*\(50\), .* 15 kB \(DPAUDIT_MEMORY\): "
        r".*params\.most",
    ):
        RankingReconstruction().lists(RELEASE, SHARED, USERS, 3)
    assert RankingReconstruction(most=20).lists(RELEASE, SHARED, USERS, 3).shape == (1, 40, 3)
