"""The ε of a list by its laws, against closed forms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Scale
from dpaudit.defenses.base import EntryPair, ExactScores
from dpaudit.defenses.top_k.defense import TopK
from dpaudit.defenses.top_k.laws import JointLaw, PeelingLaw, extreme_lists, largest_ratio

RARE = 1e-6
STARS = Scale(1, 5, 1)


def test_without_privacy_two_lists_are_told_apart_or_are_the_same() -> None:
    defense = TopK(epsilon=math.inf, variant="nonprivate", top_k=3)
    assert defense.pair_epsilon(defense.pair("last-ranked", Scale())) == math.inf
    row = np.array([5, 4, 3, 2, 1], np.float32)
    low = np.array([5, 4, 3, 2, 1.5], np.float32)
    assert defense.pair_epsilon(EntryPair(ExactScores(row, 0), ExactScores(low, 0), "")) == 0


# The extreme lists.


def every_list(law: JointLaw | PeelingLaw, items: int, k: int) -> np.ndarray:
    kinds = itertools.permutations if isinstance(law, PeelingLaw) else itertools.combinations
    return law.log_probability(np.array(list(kinds(range(items), k)), np.int32))


def random_scores(seed: int, items: int) -> tuple[np.ndarray, np.ndarray, int]:
    rng = np.random.default_rng(seed)
    before = rng.choice([1.0, 2.0, 3.5, 5.0], items).astype(np.float32)
    after, moved = before.copy(), int(rng.integers(items))
    after[moved] = 6 - before[moved]
    return before, after, moved


@pytest.mark.cases("kind", [JointLaw, PeelingLaw])
@pytest.mark.cases(("items", "k"), [(2, 1), (4, 1), (4, 2), (4, 3), (6, 2), (6, 3), (6, 4), (7, 5)])
def test_extreme_lists_hold_the_largest_ratio_of_all(
    kind: type[JointLaw | PeelingLaw], items: int, k: int
) -> None:
    found_on = set()
    for seed in range(12):
        before, after, moved = random_scores(100 * items + seed, items)
        everyone = np.arange(items, dtype=np.int32)
        for rate in (0.05, 0.4, 2.0):
            laws = [kind(everyone, rate * row.astype(float), k) for row in (before, after)]
            p, q = (every_list(law, items, k) for law in laws)
            assert np.exp(p).sum() == pytest.approx(1)
            lists = extreme_lists(before, moved, k)
            assert lists.shape == (2, k)
            assert lists[0, 0] == moved
            assert moved not in lists[1]
            ratios = abs(laws[1].log_probability(lists) - laws[0].log_probability(lists))
            assert ratios.max() == pytest.approx(abs(q - p).max(), abs=1e-9)
            found_on.add(int(ratios.argmax()))
            assert largest_ratio(laws, lists) == ratios.max()
    # Both lists are needed, except that for long lists the one without the item suffices.
    assert found_on == ({0, 1} if 1 < 2 * k <= items and items > 2 else found_on | {1})


# The ε of a mechanism.


def rows(before: np.ndarray, after: np.ndarray, unit: float) -> EntryPair:
    first, second = (ExactScores(row.astype(np.float32), unit) for row in (before, after))
    return EntryPair(first, second, "rows")


@pytest.mark.parametrize("mechanism", ["joint", "peeling"])
def test_a_corrected_mechanism_attains_its_claim_and_no_more(mechanism: str) -> None:
    defense = TopK(epsilon=1.3, variant="corrected", mechanism=mechanism, top_k=3)  # type: ignore[arg-type]
    worst = [defense.pair_epsilon(defense.pair(name, STARS)) for name in defense.pairs()]
    assert all(value is not None and value <= 1.3 + 1e-6 for value in worst)
    assert max(value for value in worst if value is not None) == pytest.approx(1.3, abs=1e-6)


@pytest.mark.cases("enumeration", ["meant", "printed"])
@pytest.mark.cases("steps", [1, 7, 1000, None])
@pytest.mark.cases("epsilon", [0.01, 2.0])
def test_the_chain_loses_without_bound(enumeration: str, steps: int | None, epsilon: float) -> None:
    chain = {"iterations": steps} if steps else {"mechanism": "exact"}
    defense = TopK(epsilon=epsilon, top_k=4, enumeration=enumeration, **chain)  # type: ignore[arg-type]
    assert defense.pair_epsilon(defense.pair("last-ranked", STARS)) == math.inf


def test_the_limit_over_all_single_items_is_finite() -> None:
    # k = 1: every set is listed, whatever the data are.
    defense = TopK(epsilon=1.0, top_k=1, mechanism="exact", left_window=1, right_window=1)
    before = np.array([1.0, 4.0, 3.0, 2.0])
    after = np.array([5.0, 4.0, 3.0, 2.0])
    epsilon = defense.pair_epsilon(rows(before, after, 5.0))
    laws = [np.exp(row / 5) / np.exp(row / 5).sum() for row in (before, after)]
    assert epsilon == pytest.approx(np.abs(np.log(laws[1] / laws[0])).max(), abs=1e-6)


def test_several_changed_entries_have_no_closed_form() -> None:
    defense = TopK(epsilon=1.0, variant="corrected", top_k=2)
    before, after = np.array([1.0, 4, 3, 2]), np.array([5.0, 3, 3, 2])
    assert defense.pair_epsilon(rows(before, after, 4.0)) is None


def test_draws_of_the_joint_law_do_not_contradict_its_worst_ratio() -> None:
    # The event "item 0 is shown" on the worst pair, ε = 2: e^2 times as likely.
    defense, trials = TopK(epsilon=2.0, variant="corrected", top_k=2), 100_000
    pair = defense.pair("among-best", STARS)
    before, after = (
        int((defense.release_list(row, Streams.first(1, name, trials)).items == 0).any(1).sum())
        for row, name in ((pair.before, "before"), (pair.after, "after"))
    )
    assert after > before
    p = after / trials * math.exp(-2)
    assert binom.cdf(before, trials, p * 0.93) > RARE
    # The ratio is that of e^2 and not of e^1.7.
    assert binom.cdf(before, trials, after / trials * math.exp(-1.7)) < RARE
