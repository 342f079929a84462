"""What all trained defenses share: how a training step ends."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.core.errors import NoModelError
from dpaudit.defenses.training import end_step


def wild() -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array([1.5, np.nan, np.inf, -np.inf, 1e30], np.float32)


@pytest.mark.parametrize("variant", ["published", "nonprivate"])
def test_a_form_that_diverges_says_when_and_what_helps(variant: str) -> None:
    with pytest.raises(NoModelError, match=r"^mine: no finite numbers after round 7: lower it$"):
        end_step(variant, "mine", 7, "round", "lower it", np.ones(2, np.float32), wild())  # type: ignore[arg-type]


def test_a_corrected_form_keeps_its_numbers_in_a_public_range() -> None:
    numbers, sound = wild(), np.array([-3.0, 2.0**19], np.float32)
    before = sound.copy()
    end_step("corrected", "mine", 7, "round", "lower it", numbers, sound)
    assert numbers.tolist() == [1.5, 0, 2**20, -(2**20), 2**20]
    np.testing.assert_array_equal(sound, before)
