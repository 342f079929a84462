"""Statements of Park & Acharya 2011 that hold by algebra: no instance contradicts them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import entropy

from dpaudit.attacks.inference import LinearIdeal
from dpaudit.audits.on_demand.config import OnDemandConfig
from dpaudit.audits.on_demand.measures import MOST, chosen_users, run_risk
from dpaudit.audits.on_demand.subject import OnDemandModel
from dpaudit.claims import park_acharya_2011 as algebra
from dpaudit.config.load import load
from dpaudit.core.releases import Profile
from dpaudit.core.streams import generator
from dpaudit.data.ratings import Scale
from dpaudit.data.readers.load import load as load_ratings
from dpaudit.defenses.item_item.similarities import Cosine, SlopeOne
from dpaudit.defenses.top_k.defense import TopK
from dpaudit.defenses.top_k.laws import (
    JointLaw,
    Scores,
    SwapSets,
    extreme_lists,
    largest_ratio,
    meant_swaps,
    swap_sets,
)

Statement = Callable[[int], str | None]
Patch = Callable[[pytest.MonkeyPatch], None]

_INSTANCES = 300
# Rounding error of sums and logarithms of some dozens of terms.
_ROUNDING = 1e-9


def exponential_mechanism(seed: int) -> str | None:
    """Theorem 2.2: weights `φ^ε`, where `ln φ` changes by at most 1, have a loss of at most 2ε."""
    rng = generator((seed, 22))
    for _ in range(_INSTANCES):
        size, epsilon = int(rng.integers(2, 30)), float(rng.exponential(2))
        before = 3 * rng.standard_normal(size)
        after = before + rng.uniform(-1, 1, size)
        loss = np.abs(algebra._log_law(epsilon * after) - algebra._log_law(epsilon * before)).max()
        if loss > 2 * epsilon + _ROUNDING:
            return f"{size} outputs, ε = {epsilon:g}: a log-ratio of {loss:g}"
    return None


def slope_one_inversion(seed: int) -> str | None:
    """Theorem 3.3 without noise: every hidden rating can be recovered from one prediction."""
    ratings = algebra._ratings(seed)
    defense = SlopeOne(epsilon=math.inf, variant="nonprivate", min_ratings=10)
    model, users = defense.prepare(ratings), algebra._users(ratings, 10)
    attack = LinearIdeal(reader="round")
    right = run_risk([defense], model, users, attack, trials=_INSTANCES, seed=seed)
    missed = int(_INSTANCES - right.sum())
    return f"{missed} of {_INSTANCES} hidden ratings were not recovered" if missed else None


def set_scores(seed: int) -> str | None:
    """Proposition 4.2: one entry changes `ln φ` by at most 1, with `φ = exp(f/U_r)`."""
    rng = generator((seed, 42))
    for _ in range(_INSTANCES):
        before = rng.uniform(1, 5, 20)
        after = before.copy()
        after[rng.integers(20)] = rng.uniform(1, 5)
        sets = swap_sets(np.argsort(-before).astype(np.int32), 5, "meant", 2, 3)
        moved = (sets.totals(after.astype(np.float32)) - sets.totals(before.astype(np.float32))) / 5
        if np.abs(moved).max() > 1:
            return f"a change of one entry changes ln φ by {np.abs(moved).max():.3g}"
    return None


def ninety_percent(_: int) -> str | None:
    """Section 4.5: every set shares at least k − 1 of k items with the best one."""
    out, into = meant_swaps(1682, 10, 2, 3)
    inside = (out >= 1) & (out <= 10) & ((into > 10) | (into == out))
    return None if inside.all() else f"{int((~inside).sum())} sets swap more than one item"


def sets_epsilon(before: Scores, after: Scores, rate: float, k: int) -> float:
    """Return the ε of drawing a k-set with probability `∝ exp(rate · Σ scores)`; item 0 differs."""
    items = np.arange(len(before), dtype=np.int32)
    laws = [JointLaw(items, rate * row.astype(np.float64), k) for row in (before, after)]
    return largest_ratio(laws, extreme_lists(before, 0, k))


def all_sets(seed: int) -> str | None:
    """Section 4.1, eq. (28) over every k-set: one entry of C costs at most ε."""
    rng = generator((seed, 28))
    for _ in range(_INSTANCES):
        epsilon, k = float(rng.uniform(0.1, 5)), int(rng.integers(1, 5))
        before = rng.choice(Scale().values, 12).astype(np.float32)
        after = before.copy()
        after[0] = 6 - before[0] if before[0] != 3 else 5
        # φ^{ε/2} = exp(ε Σ r / (2 U_r))
        loss = sets_epsilon(before, after, epsilon / (2 * 5), k)
        if loss > epsilon + _ROUNDING:
            return f"k = {k}, ε = {epsilon:g}: a log-ratio of {loss:g}"
    return None


def cosine_inversion(seed: int) -> str | None:
    """Theorem 3.4, where the shown item has a similarity above 0 to the hidden one."""
    return algebra.cosine_inversion(seed, alike=True)


def stationary_law(seed: int) -> str | None:
    """Theorem 4.1: the chain's law is `∝ φ^ε`."""
    return algebra.stationary_law(seed, power=1.0)


HELD: dict[str, tuple[Statement, ...]] = {
    "pa11-s4.1-eq28": (all_sets,),
    "pa11-thm2.2": (exponential_mechanism,),
    "pa11-thm3.3": (slope_one_inversion,),
    "pa11-thm3.4": (cosine_inversion,),
    "pa11-thm4.1": (stationary_law,),
    "pa11-prop4.2": (set_scores,),
    "pa11-s4.5-ninety": (ninety_percent,),
}


@pytest.mark.cases(
    "statement", [one for several in HELD.values() for one in several], ids=lambda one: one.__name__
)
@pytest.mark.cases("seed", [0, 2**63 + 5])
def test_no_instance_contradicts_a_derivation(statement: Statement, seed: int) -> None:
    assert statement(seed) is None


# Planted errors.


def twice_as_likely(patch: pytest.MonkeyPatch) -> None:
    law = algebra._log_law
    patch.setattr(algebra, "_log_law", lambda weights: law(2.5 * weights))


def noisy(patch: pytest.MonkeyPatch) -> None:
    real = SlopeOne
    patch.setitem(globals(), "SlopeOne", lambda **_: real(epsilon=1.0, min_ratings=10))


def scaled(patch: pytest.MonkeyPatch) -> None:
    exact = Cosine.exact

    def wrong(self: Cosine, model: Any, profile: Any) -> Any:
        found = exact(self, model, profile)
        found.scores[:] *= np.float32(1.01)
        return found

    patch.setattr(Cosine, "exact", wrong)


def doubled(patch: pytest.MonkeyPatch) -> None:
    totals = SwapSets.totals
    patch.setattr(SwapSets, "totals", lambda self, scores: 2 * totals(self, scores))


def two_swapped(patch: pytest.MonkeyPatch) -> None:
    real = meant_swaps

    def wrong(*sizes: int) -> tuple[np.ndarray, np.ndarray]:
        out, into = real(*sizes)
        return out, np.where(np.arange(len(into)) == 7, 3, into)

    patch.setitem(globals(), "meant_swaps", wrong)


def more_lost(patch: pytest.MonkeyPatch) -> None:
    truth = sets_epsilon
    patch.setitem(globals(), "sets_epsilon", lambda *rest: 3 * truth(*rest))


@pytest.mark.cases(
    ("statement", "plant"),
    [
        (exponential_mechanism, twice_as_likely),
        (slope_one_inversion, noisy),
        (cosine_inversion, scaled),
        (set_scores, doubled),
        (ninety_percent, two_swapped),
        (all_sets, more_lost),
    ],
)
def test_a_planted_error_is_found(
    monkeypatch: pytest.MonkeyPatch, statement: Statement, plant: Patch
) -> None:
    plant(monkeypatch)
    assert statement(0) is not None


@pytest.mark.cases("power", [0.0, 0.5, 0.7, 0.99, 1.01, 2.0])
def test_no_other_power_is_the_chains_law(power: float) -> None:
    assert algebra.stationary_law(0, power=power) is not None


@pytest.mark.long
def test_what_figure_4b_shows_depends_on_what_is_sampled_and_explored(real_data: Path) -> None:
    """The numbers of docs/claims/pa11.md, of the users of examples/ml-100k-top-k.toml."""
    if not (real_data / "ml-100k" / "u.data").is_file():
        pytest.skip("there is no ml-100k/u.data in DPAUDIT_DATA")
    config = load(Path(__file__).parents[2] / "examples" / "ml-100k-top-k.toml")
    assert isinstance(config, OnDemandConfig)
    assert config.source
    assert config.convergence
    ratings, steps = load_ratings(config.source), config.convergence.steps[-1]
    models = {model.label: model for model in OnDemandModel.of(config, ratings)}
    numbers: dict[float, list[list[float]]] = {}
    for label in ("published", "published, paused"):
        model = models[label]
        for profile in chosen_users(model.users(), config.convergence.users, config.seed):
            for defense in model.chains:
                assert isinstance(defense, TopK)
                assert isinstance(defense.u_s, float)
                chain = defense.chain(defense.exact(model.prepared, profile))
                laws = chain.laws(range(steps + 1))
                spent = np.stack([laws[0], laws[:steps].mean(axis=0)])
                read = np.vstack([laws[[0, steps]], spent])
                # KL of the laws on the first k̂ sets, over the probabilities of the last set that
                # the chain reaches; the next one is generated.
                reached, generated = (
                    sum(
                        share * chain.divergence_of(read, min(top + more, MOST))
                        for top, share in enumerate(chain.explored(steps, MOST), 1)
                    )
                    for more in (0, 1)
                )
                # The least U_s of eq. (36), and that of section 4.5.
                rates = (chain.up + chain.down).max() * defense.u_s
                rule = 10 * math.exp(-np.diff(chain.log_stationary)[0] / defense.epsilon)
                # The law on two sets in the other place of KL.
                limit = softmax(chain.log_stationary[:2])
                other = entropy(limit, laws[steps, :2])
                row = [*reached, *generated, other, rates > rule]
                numbers.setdefault(defense.epsilon, []).append(row)
    means = {epsilon: np.mean(rows, axis=0) for epsilon, rows in numbers.items()}
    for epsilon, law, share in ((0.1, 0.0012, 0.027), (1, 0.0012, 0.027), (10, 0.0010, 0.025)):
        assert means[epsilon][[1, 3]] == pytest.approx([law, share], rel=0.05)
        # A chain may end before it has generated ten sets, with or without the next one.
        assert means[epsilon][4:8] == pytest.approx(means[epsilon][:4], rel=0.01)
        assert means[epsilon][-1] == 0
    assert means[100][:4] == pytest.approx([1.7e-5] * 4, rel=0.05)
    assert means[100][4:8] == pytest.approx([0.598] * 4, abs=5e-4)
    assert means[100][8] == pytest.approx(4.0, abs=0.05)
    assert means[100][-1] == pytest.approx(0.06)


@pytest.mark.long
def test_the_divergence_on_two_sets_depends_little_on_the_users(real_data: Path) -> None:
    """A chain that stays at S_0 is ln(1 + (φ(S_1)/φ(S_0))^ε) from its limit on S_0 and S_1."""
    if not (real_data / "ml-100k" / "u.data").is_file():
        pytest.skip("there is no ml-100k/u.data in DPAUDIT_DATA")
    config = load(Path(__file__).parents[2] / "examples" / "ml-100k-top-k.toml")
    assert isinstance(config, OnDemandConfig)
    assert config.source
    ratings = load_ratings(config.source)
    model = next(each for each in OnDemandModel.of(config, ratings) if "paused" in each.label)
    (defense,) = model.chains
    assert isinstance(defense, TopK)
    everyone = [ratings.profile(user) for user in range(ratings.n_users)]

    def mean(prepared: Any, users: Sequence[Profile]) -> float:
        scores = [np.sort(defense.exact(prepared, user).scores)[::-1] for user in users]
        # ln φ(S_0) − ln φ(S_1), with φ = exp(f/U_r) and S_1 = S_0 less its last item
        gaps = np.array([float(row[9]) - float(row[10]) for row in scores]) / 5
        return float(np.log1p(np.exp(-defense.epsilon * gaps)).mean())

    assert mean(model.prepared, model.users()) == pytest.approx(0.600, abs=5e-4)
    assert mean(defense.prepare(ratings), everyone) == pytest.approx(0.594, abs=5e-4)
