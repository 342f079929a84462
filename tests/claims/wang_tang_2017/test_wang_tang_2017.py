"""Wang & Tang 2017: the entries' exact ε by separate computations, and their games' outcomes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from inclusion import INCLUSION  # type: ignore[import-not-found]
from numpy.typing import NDArray

from dpaudit.bounds.frequentist.labels import label_epsilon
from dpaudit.bounds.planning import label_power
from dpaudit.claims.catalogue import chosen
from dpaudit.claims.games import PosteriorGame, StepsGame
from dpaudit.claims.record import Check, PublishedClaim
from dpaudit.claims.wang_tang_2017 import data
from dpaudit.claims.wang_tang_2017 import data as algebra
from dpaudit.claims.wang_tang_2017.games import BatchGame
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.neighborhood.sgd import SgdSimilarity

Exact = NDArray[np.float64]
Rated = dict[int, float]
GAMES: list[tuple[PublishedClaim, str, Any]] = [
    (entry, role, experiment)
    for entry in chosen(["wt17"])
    for role, experiments in (("published", entry.published), ("corrected", entry.corrected))
    for experiment in experiments
    if not isinstance(experiment, Check)
]


def games(kind: type[Any]) -> pytest.MarkDecorator:
    experiments = [(entry, role, game) for entry, role, game in GAMES if type(game) is kind]
    names = [f"{entry.id}/{role}/{game.label}" for entry, role, game in experiments]
    return pytest.mark.parametrize(("entry", "role", "game"), experiments, ids=names)


def profiles(ratings: Ratings) -> list[Rated]:
    users = (ratings.profile(user) for user in range(ratings.n_users))
    return [dict(zip(p.items.tolist(), p.values.tolist(), strict=True)) for p in users]


def means(game: Any, ratings: Ratings) -> Exact:
    """The item means that the mechanism uses."""
    if game.defense.variant == "corrected":
        return np.full(ratings.n_items, 3.0)
    if not getattr(game.defense, "centred", True):
        return np.zeros(ratings.n_items)
    public = game.data.public or ratings
    of_items = (public.value[public.item == item] for item in range(ratings.n_items))
    return np.array([values.mean(dtype=float) for values in of_items])


# Gradient descent, by eqs (2) and (5).


def gradients(game: Any, ratings: Ratings) -> dict[tuple[int, int], Exact]:
    """Each rating's gradient of its item's row `(M,)` at equal similarities, by (user, item)."""
    defense, known, rows = game.defense, means(game, ratings), {}
    start = defense.rescale * defense.start
    for user, rated in enumerate(profiles(ratings)):
        for item in rated:
            others = [j for j in rated if j != item]
            out = np.zeros(ratings.n_items)
            if others:
                x = np.array([rated[j] for j in others]) - known[others]
                error = float(x.mean()) - (rated[item] - known[item])
                if defense.variant == "published":
                    # e_max = 0.5 + (4 − 1)/2
                    error = min(2.0, max(-2.0, error))
                out[others] = error * (x - x.mean()) / (start * len(others))
                if defense.variant == "corrected":
                    most = defense.clip_norm / len(rated)
                    out *= min(1.0, most / max(float(abs(out).sum()), 1e-12))
            rows[user, item] = out
    return rows


def whole(game: Any, ratings: Ratings) -> Exact:
    total = np.zeros((ratings.n_items, ratings.n_items))
    for (_, item), gradient in gradients(game, ratings).items():
        total[item] += gradient
    return total


def scale(defense: SgdSimilarity) -> float:
    """The scale of the first step's noise, from Algorithm 1 or the corrected form's docstring."""
    if defense.variant == "published":
        return (
            defense.sampling_rate * defense.steps * (2 * 2.0 * 4 / defense.weight) / defense.epsilon
        )
    amplified = math.log(
        1 + (math.exp(defense.epsilon / defense.steps) - 1) / defense.sampling_rate
    )
    return 2 * defense.clip_norm / amplified


@games(StepsGame)
def test_a_whole_batch_shows_the_shift_over_the_noise(
    entry: PublishedClaim, role: str, game: StepsGame
) -> None:
    moved = whole(game, game.data.after) - whole(game, game.data.before)
    law = float(abs(moved).sum()) / scale(game.defense)
    if game.truth is None:
        assert role == "corrected"
        assert law <= game.claimed()[0]
    else:
        assert law == pytest.approx(game.truth.value, rel=1e-5)


@pytest.mark.cases("size", [2, 4, 6, 8, 20])
def test_a_rating_moves_all_rows_of_its_user(size: int) -> None:
    game = StepsGame(
        "any", SgdSimilarity(epsilon=1.0, steps=1, start=1 / size), data.one_rating(size)
    )
    moved = abs(whole(game, game.data.after) - whole(game, game.data.before))
    bound = 2 * 2 * 4 / 10
    assert moved.max() <= bound * (1 + 1e-9)
    assert moved[0].sum() == pytest.approx(size / 2 * bound)
    assert moved.sum() == pytest.approx((3 * size / 2 - 1) * bound)


def test_no_published_game_has_a_record_that_the_theorem_removes() -> None:
    # |r_uj − r̂_ui| ≤ φ for every prediction at equal similarities.
    kept = [
        game
        for _, role, game in GAMES
        if role == "published" and isinstance(game, StepsGame | BatchGame)
    ]
    assert {len(game.data.before) for game in kept} >= {3, 9, 21, 10}
    for game in kept:
        for ratings in (game.data.before, game.data.after):
            known = means(game, ratings)
            for rated in profiles(ratings):
                x = np.array([value - known[item] for item, value in rated.items()])
                for place in range(len(x)):
                    others = np.delete(x, place)
                    assert abs(others - others.mean()).max() <= 4


def test_a_negative_similarity_doubles_the_bound_of_a_coordinate() -> None:
    counterexample = algebra.negative_similarities(0)
    assert counterexample == "centred ratings: 2.00 φ/(|S_i| I_u); raw ratings: 2.50 φ/(|S_i| I_u)"


def losses(shown: Exact, unit: Exact, noise: float) -> Exact:
    return np.asarray((abs(shown) - abs(shown - unit)).sum(-1) / noise)


def corners(units: list[tuple[Exact, Exact]], noise: float) -> list[tuple[Exact, Exact]]:
    """Each row's losses (D, D') at all corners of the pieces on which they are linear."""
    losses_at = []
    for before, after in units:
        ends = [sorted({0.0, a, b}) for a, b in zip(before, after, strict=True)]
        points = np.array(list(itertools.product(*ends)))
        losses_at.append((losses(points, before, noise), losses(points, after, noise)))
    return losses_at


def supremum(rows: list[tuple[Exact, Exact]], idle: int) -> float:
    """`sup ln (idle + Σ e^v)/(idle + Σ e^u)` over a corner of each row (Dinkelbach 1967)."""
    ratio = 1.0
    for _ in range(100):
        best = [int(np.argmax(np.exp(v) - ratio * np.exp(u))) for u, v in rows]
        top = idle + sum(math.exp(v[k]) for (_, v), k in zip(rows, best, strict=True))
        bottom = idle + sum(math.exp(u[k]) for (u, _), k in zip(rows, best, strict=True))
        ratio = top / bottom
    return math.log(ratio)


@pytest.mark.parametrize("size", [2, 4])
def test_the_mixture_over_one_rating_has_its_supremum_at_a_corner(size: int) -> None:
    game = chosen(["wt17-thm1-amplification"])[0].published[size // 2 - 1]
    assert isinstance(game, BatchGame)
    assert game.truth is not None
    before, after = gradients(game, game.data.before), gradients(game, game.data.after)
    others = [key for key in before if key[0] != 0]
    assert all(not before[key].any() and not after[key].any() for key in others)
    units = [(before[0, item], after[0, item]) for item in range(size + 1)]
    rows = corners(units, scale(game.defense))
    epsilon = max(supremum(rows, len(others)), supremum([(v, u) for u, v in rows], len(others)))
    assert epsilon == pytest.approx(game.truth.value, abs=1e-6)
    if size == 2:
        # Two of the three rows have losses of ±5, and the third has 0.
        assert epsilon == pytest.approx(
            math.log((0.8 + 0.2 * math.e**5) / (0.8 + 0.2 * math.e**-5))
        )


def test_the_corrected_mixture_is_tight() -> None:
    game = chosen(["wt17-thm1-amplification"])[0].corrected[0]
    assert isinstance(game, BatchGame)
    before, after = (gradients(game, r) for r in (game.data.before, game.data.after))
    unit = [
        np.stack([data.get((0, item), np.zeros(3)) for item in range(3)])
        for data in (before, after)
    ]
    others = np.stack([after.get((1, item), np.zeros(3)) for item in range(3)])
    assert np.array_equal(unit[1], others)
    assert abs(unit[0] - others).sum() == pytest.approx(2 * game.defense.clip_norm)
    # P/Q is largest where the two laws of a batch differ by e^{ε_0}.
    once = 2 * game.defense.clip_norm / scale(game.defense)
    assert math.log(0.9 + 0.1 * math.exp(once)) == pytest.approx(game.claimed()[0])


@games(BatchGame)
def test_the_first_step_is_scored_by_the_mixture(
    entry: PublishedClaim, role: str, game: BatchGame
) -> None:
    if game.defense.steps > 1:
        game = BatchGame(game.label, SgdSimilarity(**{**vars(game.defense), "steps": 1}), game.data)
    defense, trials = game.defense, 12
    model = defense.prepare(game.data.before, game.data.public)
    streams = Streams.first(7, "batches/absent", trials)
    shown = np.empty((trials, model.n_items, model.n_items))
    for item in range(model.n_items):
        row, following = (step.copy() for step in defense.iterates(model, item, streams))
        kept = (1 - defense.learning_rate * defense.decay) * row.astype(float)
        shown[:, item] = ((kept - following) / (defense.learning_rate * defense.rescale)).T[:trials]

    def log_density(ratings: Ratings) -> Exact:
        units: dict[Any, Exact] = {}
        for (user, item), gradient in gradients(game, ratings).items():
            unit = user if defense.variant == "corrected" else (user, item)
            units.setdefault(unit, np.zeros(shown.shape[1:]))[item] += gradient
        densities = [losses(shown, unit, scale(defense)).sum(-1) for unit in units.values()]
        return np.asarray(np.logaddexp.reduce(densities))

    ratio = log_density(game.data.after) - log_density(game.data.before)
    assert np.ptp(ratio) > 0.05
    # The tolerance covers the grid and the iterates' single precision.
    assert abs(game.run(trials, 7).absent - ratio).max() < 2.0**-9 + 2e-3


def test_a_mixture_over_pairs_is_refused() -> None:
    game = BatchGame(
        "pairs", SgdSimilarity(epsilon=1.0, sampling_rate=0.2, more_than=0), data.sampled(4)
    )
    with pytest.raises(ValueError, match="has 2 of 10 units: make it 1"):
        game.run(2, 0)


# Posterior sampling, by eq. (2).


def weight(game: PosteriorGame) -> float:
    """The factor of a squared error: ε/4B or half of it, divided by ϱ."""
    defense = game.defense
    once = defense.epsilon / (4 * 16 * defense.cap) / defense.temperature
    return float(once * (1.0 if defense.likelihood == "squares" else 0.5))


def row_laws(game: PosteriorGame, item: int, nodes: int = 4000) -> tuple[Exact, Exact]:
    """Prior and log-densities on D and D' on the directions of a row with at most two neighbours.

    A node with prior weight 0 lies just beside each jump.
    """
    trials = [profiles(ratings) for ratings in (game.data.before, game.data.after)]
    near = sorted({j for p in trials[0] + trials[1] if item in p for j in p} - {item})
    known = means(game, game.data.before)
    if len(near) == 1:
        rows, prior = np.array([[-1.0, 1.0]]), np.array([0.5, 0.5])
    else:
        assert len(near) == 2
        inside = (np.arange(nodes) + 0.5) / nodes
        ends = np.concatenate(([1e-12], inside, [1 - 1e-12]))
        angle = (np.arange(4)[:, None] + ends).ravel() * np.pi / 2
        rows = np.stack((np.cos(angle), np.sin(angle)))
        prior = np.tile(np.concatenate(([0], np.full(nodes, 1 / (4 * nodes)), [0])), 4)
    logs = []
    for trial in trials:
        total = np.zeros(rows.shape[1])
        for rated in trial:
            others = [j for j in rated if j != item]
            if item in rated and others:
                s = rows[[near.index(j) for j in others]]
                x = np.array([rated[j] for j in others]) - known[others]
                shown = known[item] + x @ s / abs(s).sum(0)
                if game.defense.variant == "corrected":
                    shown = np.clip(shown, 1, 5)
                total -= weight(game) * (shown - rated[item]) ** 2
        logs.append(total - np.logaddexp.reduce(total[prior > 0] + np.log(prior[prior > 0])))
    return prior, np.array(logs)


@games(PosteriorGame)
def test_a_posteriors_truth_is_that_of_its_rows(
    entry: PublishedClaim, role: str, game: PosteriorGame
) -> None:
    up = down = 0.0
    for item in range(game.data.before.n_items):
        _, (before, after) = row_laws(game, item)
        up, down = up + float((after - before).max()), down + float((before - after).max())
    assert game.truth is not None
    assert max(up, down) == pytest.approx(game.truth.value, rel=2e-6, abs=1e-6)


def test_own_law_holds_and_is_approached() -> None:
    # P3 with many other users and means near 1: the loss tends to 4·4D²k, and ε = 4·4·4²k.
    assert 0.65 < sup_of_signs(1.0, "halves", 324, 3, 1.05) < 0.7
    near = sup_of_signs(1.0, "halves", 10**7, 10**5, 1.001)
    assert 0.999 < near < 1
    assert 1.998 < sup_of_signs(1.0, "squares", 10**7, 10**5, 1.001) < 2


def sup_of_signs(epsilon: float, likelihood: str, against: int, for_it: int, mean: float) -> float:
    """P3 in closed form, over the 16 patterns of signs."""
    k = epsilon / 128 * (1.0 if likelihood == "squares" else 0.5)
    high, low = 5 - mean, mean - 1
    # The odds of a positive sign: x or x' adds 4 high² k, each of the others takes 4 high low k.
    weight, pin, crowd = 4 * high**2 * k, -4 * high * low * k * against, 4 * high**2 * k * for_it
    odds = [
        (weight + pin, pin),
        (weight + pin, pin),
        (crowd, crowd + weight),
        (crowd, crowd + weight),
    ]
    patterns = itertools.product((1, -1), repeat=4)
    return max(
        abs(sum(_log(sign * b) - _log(sign * a) for sign, (a, b) in zip(signs, odds, strict=True)))
        for signs in patterns
    )


def _log(odds: float) -> float:
    return float(-np.logaddexp(0, -odds))


# The games' outcomes.


def few(game: Any) -> int:
    """A smaller number of trials than the game's own."""
    trials: int = game.trials
    return min(trials, 3000 if isinstance(game, StepsGame) else 60_000)


@pytest.mark.long
@pytest.mark.parametrize(
    ("entry", "role", "game"),
    [case for case in GAMES if case[2].label != "three ratings, ε/τ = 4"],
    ids=[
        f"{entry.id}/{role}/{game.label}"
        for entry, role, game in GAMES
        if game.label != "three ratings, ε/τ = 4"
    ],
)
def test_runs_refute_what_is_false_and_nothing_else(
    entry: PublishedClaim, role: str, game: Any
) -> None:
    seen = game.run(few(game), 1)
    bound, test = label_epsilon(seen.absent, seen.present, alpha=0.01, seed=1)
    refuted = test.p_value(game.claimed()[0], 0.0, 0.01) <= 0.01
    assert refuted == (role == "published" and entry.recorded == "falsified")
    if game.truth is not None:
        assert bound.lower <= game.truth.value


@pytest.mark.long
def test_the_rarest_event_is_planned_to_be_seen() -> None:
    game = chosen(["wt17-s5.2-rating-halves"])[0].published[0]
    assert isinstance(game, PosteriorGame)
    rng, draws = np.random.default_rng(0), 1_000_000
    ratios = []
    for trial in (0, 1):
        total = np.zeros(draws)
        for item in range(3):
            prior, logs = row_laws(game, item, 1000)
            law = prior * np.exp(logs[trial])
            nodes = rng.choice(len(law), draws, p=law / law.sum())
            total += (logs[0] - logs[1])[nodes]
        ratios.append(total)
    p, q = (float((ratio >= 4.6).mean()) for ratio in ratios)
    assert p > 100 * q > 0
    # Of about sixty games.
    alpha = 0.05 / 60
    assert label_power(p, q, 2 * game.trials, claimed=4.0, delta=0.0, alpha=alpha) > 0.95


# Algebra.

FALSE: dict[str, Any] = {
    "wt17-thm1-sensitivity": algebra.uneven_sensitivity,
    "wt17-alg1-touched": algebra.touched_coordinates,
    "wt17-s4.1-squares": algebra.squared_steps,
    "wt17-s4.2-h": algebra.printed_inclusion,
}


@pytest.mark.cases(("id_", "words"), [
    ("wt17-thm1-sensitivity", "27.76 ΔF"),
    ("wt17-alg1-touched", "(0, 1) is noised"),
    ("wt17-s4.1-squares", "grows with k"),
    ("wt17-s4.2-h", "H = 0.978"),
])  # fmt: skip
def test_a_counterexample_says_what_fails(id_: str, words: str) -> None:
    entry = chosen([id_])[0]
    (check,) = (experiment for experiment in entry.published if isinstance(experiment, Check))
    counterexample = check.counterexample(3)
    assert counterexample is not None
    assert words in counterexample
    assert FALSE[id_](3) == counterexample


@pytest.mark.parametrize("seed", [0, 3])
def test_weights_are_short_at_first_or_at_last(seed: int) -> None:
    start, noised = chosen(["wt17-alg1-weights"])[0].published
    assert isinstance(start, Check)
    assert isinstance(noised, Check)
    # With s = 0.5 and C = 15 all users with at most 30 ratings.
    counts = np.diff(algebra.generated().by_user.start)
    learned = counts[counts > 20]
    counterexample = start.counterexample(seed) or ""
    assert counterexample.startswith(f"step 1: {learned[learned <= 30].sum()} of {learned.sum()} ")
    words = (noised.counterexample(seed) or "").split("; ")
    assert words[0].startswith(f"step 1: 0 of {learned.sum()} ")
    assert words[1].startswith("step 10: ")
    assert "(0.00%)" not in words[1]
    # With C = 10 and that noise no prediction is below C.
    safe = SgdSimilarity(epsilon=1.0, steps=3)
    assert algebra.short_weights(seed, algebra.generated(), safe) is None


def test_the_printed_h_is_no_inclusion_probability() -> None:
    a = 0.001
    assert algebra.printed_h(a, a, 100) == pytest.approx(0.9999992, abs=5e-8)
    both = 1 - 2 * (1 - a) ** 100 + (1 - 2 * a) ** 100
    assert both == pytest.approx(0.00898, abs=5e-6)
    assert algebra.meanings() == pytest.approx(INCLUSION)


def nothing_changed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(algebra, "apply", lambda ratings, change: ratings)


def steep_steps(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(algebra, "_EXPONENT", 0.6)


def right_h(patch: pytest.MonkeyPatch) -> None:
    def right(a: float, b: float, size: int) -> float:
        return 1 - (1 - a) ** size - (1 - b) ** size + (1 - a - b) ** size

    patch.setattr(algebra, "printed_h", right)


@pytest.mark.cases(("id_", "mend"), [
    ("wt17-thm1-sensitivity", nothing_changed),
    ("wt17-alg1-touched", nothing_changed),
    ("wt17-s4.1-squares", steep_steps),
    ("wt17-s4.2-h", right_h),
])  # fmt: skip
def test_a_statement_that_were_right_has_no_counterexample(
    monkeypatch: pytest.MonkeyPatch, id_: str, mend: Any
) -> None:
    mend(monkeypatch)
    assert FALSE[id_](3) is None


@pytest.mark.cases(("id_", "words"), [
    ("wt17-thm1-sensitivity", ["(3n/2 − 1)", "2, 11 and 29", "27.8"]),
    ("wt17-thm1-amplification", ["3.64", "8.39"]),
    ("wt17-thm1-means", ["(3n − 2)(1 − 1/(m + 1))", "3.64"]),
    ("wt17-eq6", ["3.09", "6.06"]),
    ("wt17-eq6-raw", ["3.125", "6.25", "3.52"]),
    ("wt17-alg2-temperature", ["4.02", "4.99"]),
    ("wt17-s5.2-rating", ["1.78", "3.62"]),
    ("wt17-s5.2-rating-halves", ["5.04", "6.86"]),
    ("wt17-s4.2-h", [".9999992", ".00898"]),
])  # fmt: skip
def test_the_reasons_have_these_numbers(id_: str, words: list[str]) -> None:
    because = chosen([id_])[0].because
    assert all(word in because for word in words)
