"""What tests of membership audits share."""

from __future__ import annotations

from typing import Any

import pytest
from scipy.sparse import csr_array

from dpaudit.recommenders.most_popular import MostPopular


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The seeds of the trainings of the most popular items so far."""
    seeds: list[int] = []
    fit = MostPopular.fit

    def counted(self: MostPopular, interactions: csr_array, seed: int) -> Any:
        seeds.append(seed)
        return fit(self, interactions, seed)

    monkeypatch.setattr(MostPopular, "fit", counted)
    return seeds
