"""The catalogue's entries on matrix factorisation: laws by quadrature, games with few trials."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from dpaudit.bounds.frequentist.labels import label_epsilon
from dpaudit.bounds.multiplicity import split
from dpaudit.claims.catalogue import chosen
from dpaudit.claims.games import PosteriorGame, StepsGame
from dpaudit.claims.liu_wang_smola_2015 import OwnBoundGame, pair, sign_law
from dpaudit.claims.record import Check, ClaimGame, PublishedClaim
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import STARS, from_profiles
from dpaudit.defenses.factorization.exact_posterior import ExactFactors
from dpaudit.defenses.factorization.sampled import SampledFactors
from dpaudit.defenses.factorization.sgd import SgdFactors

RARE = 1e-6
# The level of each game if 60 games are judged together.
LEVEL = split(0.05, 60)
ENTRIES = {entry.id: entry for entry in chosen(["lws15", "berlioz15"])}
GAMES = [
    (entry, role, game)
    for entry in ENTRIES.values()
    for role, games in (("published", entry.published), ("corrected", entry.corrected))
    for game in games
    if not isinstance(game, Check)
]
NAMES = [f"{entry.id}/{role}/{game.label}" for entry, role, game in GAMES]


@pytest.mark.long
@pytest.mark.parametrize(("entry", "role", "game"), GAMES, ids=NAMES)
def test_false_claims_are_refuted_in_a_game_cut_short_and_others_are_not(
    entry: PublishedClaim, role: str, game: ClaimGame
) -> None:
    epsilon, delta = game.claimed()
    seen = game.run(game.trials // 4, 0)
    bound, _ = label_epsilon(seen.absent, seen.present, delta=delta, alpha=LEVEL, seed=0)
    if role == "published" and entry.recorded == "falsified":
        assert bound.lower > epsilon
    else:
        assert bound.lower <= epsilon


@pytest.mark.cases("entry", ENTRIES.values(), ids=lambda entry: entry.id)
@pytest.mark.cases("seed", range(3))
def test_statements_of_algebra_fail_where_the_verdict_says_so(
    entry: PublishedClaim, seed: int
) -> None:
    for experiment in entry.published:
        if isinstance(experiment, Check):
            assert (experiment.counterexample(seed) is not None) == (entry.recorded == "falsified")


# The laws of one item, from the paper's text alone.

Density = Callable[[float], float]


def user_factor(
    v: float, rating: float | None, factor: float, s: float, b_0: float, ends: tuple[float, float],
    cut: bool,
) -> float:  # fmt: skip
    """E_{u ~ N(0, s²)} e^−ℓ, with predictions restricted to the range or clipped to it."""
    low, high = (end - b_0 for end in ends)

    def density(u: float) -> float:
        shown = min(max(u * v, low), high) if cut else u * v
        loss = 0.0 if rating is None else factor * (rating - b_0 - shown) ** 2
        return math.exp(-loss - (u / s) ** 2 / 2) / (s * math.sqrt(2 * math.pi))

    edges = sorted((low / v, high / v))
    inner = [max(edges[0], -14 * s), min(edges[1], 14 * s)]
    total = float(integrate.quad(density, *inner, epsabs=1e-13, limit=200)[0])
    if cut:
        for one, other in ((-14 * s, inner[0]), (inner[1], 14 * s)):
            total += float(integrate.quad(density, one, other, epsabs=1e-13, limit=200)[0])
    return total


@cache
def extremes(
    epsilon: float, least: float, s: float, b_0: float, margin: float, cut: bool,
    before: tuple[float | None, ...], after: tuple[float | None, ...],
) -> float:  # fmt: skip
    """The largest |ln p'(v)/p(v)| over one item's factor v, given all users' ratings, w = 1."""
    factor, ends = epsilon / (4 * least), (1 - margin, 5 + margin)

    def g(v: float, ratings: tuple[float | None, ...]) -> float:
        return math.prod(user_factor(v, r, factor, s, b_0, ends, cut) for r in ratings)

    def normal(ratings: tuple[float | None, ...]) -> float:
        # 24 nodes per piece; the pieces are short near 0.
        marks = s * np.array([1e-9, 0.02, 0.1, 0.3, 0.8, 2, 4, 9])
        nodes, weights = np.polynomial.legendre.leggauss(24)
        total = 0.0
        for a, b in pairwise(marks):
            points = a + (b - a) * (nodes + 1) / 2
            total += sum(
                w * (b - a) / 2 * g(v, ratings) * math.exp(-((v / s) ** 2) / 2)
                for v, w in zip(points, weights, strict=True)
            )
        return total

    ratio = math.log(normal(after) / normal(before))
    return max(
        abs(math.log(g(v, after) / g(v, before)) - ratio) for v in np.geomspace(1e-6, 1e3, 60)
    )


VALUE: Any = ((5.0,), (1.0,))
FIRST: Any = ((3.0, None), (3.0, 5.0))
QUADRATURES = {
    ("lws15-thm2-user", "published", 0): (2.0, 16.0, 5.0, 1.0, 0.0, False, *VALUE),
    ("lws15-thm2-user", "published", 1): (8.0, 16.0, 5.0, 1.0, 0.0, False, *VALUE),
    ("lws15-thm2-user", "corrected", 0): (8.0, 16.0, 5.0, 1.0, 0.0, True, *VALUE),
    ("lws15-thm2-row", "corrected", 0): (1.0, 50.0, 10.0, 3.0, 1.0, True, (3.0,), (3.0, 3.0)),
    ("lws15-s5-rating", "published", 0): (8.0, 32.0, 5.0, 1.0, 0.0, False, *VALUE),
    ("lws15-s5-rating", "corrected", 0): (8.0, 32.0, 5.0, 1.0, 0.0, True, *VALUE),
    ("lws15-s5-rating-small-bound", "published", 0): (8.0, 16.0, 5.0, 1.0, 0.0, False, *VALUE),
    ("lws15-s5-rating-small-bound", "corrected", 0): (8.0, 160.0, 5.0, 1.0, 0.0, True, *VALUE),
    ("lws15-s3-personal", "published", 0): (8.0, 32.0, 5.0, 1.0, 0.0, False, *FIRST),
    ("lws15-s3-personal", "corrected", 0): (8.0, 32.0, 5.0, 1.0, 0.0, True, *FIRST),
}


@pytest.mark.cases(("place", "arguments"), QUADRATURES.items(), ids=list(map(str, QUADRATURES)))
def test_the_law_of_one_item_is_that_of_the_text(place: Any, arguments: Any) -> None:
    game = game_at(*place)
    truth = game.truth
    assert truth is not None
    assert extremes(*arguments) == pytest.approx(truth.value, abs=3e-5)
    # λ = 2B/(ε s²), with the defense's B.
    epsilon, least, s = arguments[:3]
    defense = game.defense
    assert defense.decay == pytest.approx(2 * least / (epsilon * s**2))
    assert defense.largest_loss(STARS) == least


def game_at(id_: str, role: str, place: int) -> Any:
    return getattr(ENTRIES[id_], role)[place]


def test_every_finite_truth_is_checked_here() -> None:
    checked = set(QUADRATURES) | {
        ("lws15-thm2-user", "corrected", 1),
        ("lws15-thm2-retries", "published", 0),
        ("lws15-s3-personal-replaced", "published", 0),
        ("lws15-s3-personal-replaced", "corrected", 0),
    }
    for entry in chosen(["lws15"]):
        for role in ("published", "corrected"):
            for place, game in enumerate(getattr(entry, role)):
                truth = getattr(game, "truth", None)
                if truth is not None and math.isfinite(truth.value):
                    assert (entry.id, role, place) in checked
    for role in ("published", "corrected"):
        one, other = (game_at(f"lws15-s3-personal{end}", role, 0) for end in ("", "-replaced"))
        assert one.truth == other.truth
        assert (one.defense, one.data) == (other.defense, other.data)


def test_with_biases_the_supremum_is_at_an_infinite_bias() -> None:
    # r̂ = 5 + z is clipped to 1..5, z ~ N(0, s² (2 + v²)) under the prior: E e^{−ℓ} for each
    # rating. As b_i → −∞ all predictions are 1, and the loss of 5 is ε/4 = 2, that of 1 is 0.
    s, factor = 1.5, 8 / 64

    def mean(rating: float) -> float:
        def of_v(v: float) -> float:
            law = stats.norm(scale=s * math.sqrt(2 + v**2))

            def inside(z: float) -> float:
                return math.exp(-factor * (rating - 5 - z) ** 2) * float(law.pdf(z))

            ends = law.cdf(-4) * math.exp(-factor * (rating - 1) ** 2) + 0.5 * math.exp(
                -factor * (rating - 5) ** 2
            )
            return float(integrate.quad(inside, -4, 0)[0] + ends) * math.exp(-((v / s) ** 2) / 2)

        return float(integrate.quad(of_v, 0, 9 * s, epsrel=1e-6)[0])

    truth = game_at("lws15-thm2-user", "corrected", 1).truth
    assert 2 + math.log(mean(5) / mean(1)) == pytest.approx(truth.value, abs=3e-5)


def passes(rated: int) -> float:
    """P(both predictions are in [0, 6]) under the posterior without a range; ratings 5, b_0 = 3."""
    s, factor = 30.0, 1 / 200
    nodes = s * stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    sums = np.zeros((2, 2, len(nodes)))
    # Given u the items are independent: N(v; 0, s²) e^{−k (2 − u v)²} is normal in v.
    for mine in range(2):
        k = factor * mine
        precision = 1 / (2 * s**2) + k * nodes**2
        centre, root = 2 * k * nodes / precision, np.sqrt(2 * precision)
        whole = np.exp(2 * k * nodes * centre - 4 * k) / np.sqrt(2 * precision) / s
        ends = np.sort(np.stack((-3 / nodes, 3 / nodes)), 0)
        share = stats.norm.cdf((ends[1] - centre) * root) - stats.norm.cdf(
            (ends[0] - centre) * root
        )
        sums[mine] = whole * share, whole
    kept, all_ = (sums[1, i] ** rated * sums[0, i] ** (2 - rated) for i in (0, 1))
    return float(kept.mean() / all_.mean())


@pytest.mark.long
def test_a_run_fails_as_often_as_its_draws_leave_the_range() -> None:
    game = game_at("lws15-thm2-retries", "published", 0)
    fails = [(1 - passes(rated)) ** 20 for rated in (1, 2)]
    assert math.log(fails[0] / fails[1]) == pytest.approx(game.truth.value, abs=3e-3)
    assert [passes(1), passes(2)] == pytest.approx([0.078, 0.260], abs=5e-4)
    assert fails == pytest.approx([0.196, 0.0024], rel=0.01)
    seen = game.run(5000, 0)
    for scores, p in zip((seen.absent, seen.present), fails, strict=True):
        assert likely(int(scores.sum()), 5000, p)
        assert not likely(int(scores.sum()), 5000, 0.1)


def likely(count: int, trials: int, p: float) -> bool:
    tails = stats.binom.cdf(count, trials, p), stats.binom.sf(count - 1, trials, p)
    return bool(2 * min(tails) > RARE)


# Infinite losses.


def test_signs_tell_which_items_were_rated() -> None:
    game = game_at("lws15-thm2-rated", "published", 0)
    for ratings, share in ((game.data.before, 0.0), (game.data.after, 0.5)):
        law = game.defense.law(game.defense.prepare(ratings, game.data.public))
        draws = law.draw(Streams.first(0, "signs", 10_000))[:, :, 0]
        assert likely(int((draws.prod(1) < 0).sum()), 10_000, share)
        # If all pairs are tested, it is impossible on both data sets.
        defense = replace(game.defense, accept="all")
        tested = defense.law(defense.prepare(ratings, game.data.public))
        assert (tested.draw(Streams.first(0, "signs", 2000))[:, :, 0].prod(1) > 0).all()


def ratio(game: Any, laws: tuple[ExactFactors, ExactFactors], draws: Any) -> Any:
    return laws[1].log_density(draws) - laws[0].log_density(draws)


def test_a_row_more_makes_large_factors_rarer_without_limit() -> None:
    game = game_at("lws15-thm2-row", "published", 0)
    assert isinstance(game, PosteriorGame)
    laws = tuple(
        game.defense.law(game.defense.prepare(ratings, game.data.public))
        for ratings in (game.data.before, game.data.after)
    )
    draws = np.zeros((3, 1, 2))
    draws[:, 0, 0] = 1e3, 1e4, 1e5
    falls = np.diff(ratio(game, (laws[0], laws[1]), draws))
    np.testing.assert_allclose(falls, -math.log(10), rtol=1e-3)


def test_another_b_makes_another_width() -> None:
    game = game_at("lws15-thm2-bound", "published", 0)
    assert isinstance(game, OwnBoundGame)
    first, second = game.laws()
    laws = first, second
    assert [law.deviation**2 for law in laws] == pytest.approx([0.25, 0.5])
    draws = np.zeros((3, 2, 2))
    draws[:, :, 0] = np.array([[1e2], [2e2], [4e2]])
    # (‖V‖²/2s²)(1 − 1/ρ), ρ = 2, up to the constraint's factor, which both share.
    rises = np.diff(ratio(game, laws, draws))
    np.testing.assert_allclose(rises, [6e4, 24e4], rtol=1e-3)


# Algebra.


def test_the_bound_on_a_near_draw_is_attained() -> None:
    # Randomised response, with δ of probability moved to the output with the largest ratio.
    epsilon, delta = 1.0, 0.1
    p, q = math.exp(epsilon) / (1 + math.exp(epsilon)) + delta, 1 / (1 + math.exp(epsilon)) - delta
    assert p - math.exp(epsilon) * q == pytest.approx((1 + math.exp(epsilon)) * delta)


def test_the_law_of_signs_is_that_of_draws() -> None:
    tau, epsilon = 4, 16.0
    defense = SampledFactors(
        epsilon=epsilon, variant="corrected", cap=tau, margin=0.0, mean=3.0, dimensions=1,
        biases=False, decay=2 * 16 * tau / (epsilon * 100.0**2),
    )  # fmt: skip
    profile = [[(item, 5.0) for item in range(tau)]]
    law = defense.law(defense.prepare(from_profiles(profile, tau)))
    positive = (law.draw(Streams.first(0, "signs", 20_000))[:, :, 0] > 0).sum(1)
    expected = 20_000 * sign_law(tau, epsilon, 100.0)
    seen = np.bincount(positive, minlength=tau + 1)
    assert stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), tau) > RARE
    wrong = 20_000 * sign_law(tau, epsilon / 2, 100.0)
    assert stats.chi2.sf(((seen - wrong) ** 2 / wrong).sum(), tau) < RARE
    # As the deviation grows every prediction is 1 or 5: e^{−(ε/4) f}, f the share that is 1.
    k = np.arange(tau + 1)
    limit = stats.binom.pmf(k, tau, 0.5) * (np.exp(-4 * k / tau) + np.exp(-4 * (1 - k / tau)))
    np.testing.assert_allclose(sign_law(tau, epsilon, 1e6), limit / limit.sum(), rtol=1e-3)


# Budgets of users. The densities are of laws with the same prior, so the width of their log-ratio
# over all V bounds the log-ratio of the normalised ones.


def width(
    before: list[tuple[int, float]], after: list[tuple[int, float]], share: float | None
) -> float:
    """The width of ln p'/p over many V, where one user with these ratings is replaced, ε = 400."""
    shares = None if share is None else np.array([share, 1.0])
    model = SampledFactors(
        400.0, "corrected", cap=6, margin=0.0, mean=1.0, dimensions=1, biases=False,
        loss_bound=48.0, budgets=share is not None,
    )  # fmt: skip
    source = np.random.default_rng(0)
    draws = np.zeros((4000, 6, 2))
    draws[:, :, 0] = source.normal(0, 1, (4000, 6)) * 10 ** source.uniform(-2, 3, (4000, 6))
    densities = [
        model.law(model.prepare(replace(ratings, budgets=shares))).log_density(draws)
        for profile in (before, after)
        for ratings in [from_profiles([profile, [(0, 4.0)]], 6)]
    ]
    return float(np.ptp(densities[1] - densities[0]))


MANY: list[tuple[int, float]] = [(item, 5.0) for item in range(6)]


@pytest.mark.cases("share", [1.0, 0.25, 0.05])
@pytest.mark.cases("count", [1, 2, 4, 6])
def test_a_public_share_bounds_what_removing_and_replacing_cost(count: int, share: float) -> None:
    high = [(item, 5.0) for item in range(count)]
    # Removed: a quarter of ε_u, which is at most the share of ε. With one rating it is attained but
    # for ln 2: if v is 0 the error is 4, and if v is large it is 0 for half of all u.
    loss = 400 * min(share, count * 16 / 48)
    assert width(high, [], share) <= loss / 4
    if count == 1:
        assert width(high, [], share) > loss / 4 - 0.75
    for other in ([(0, 1.0)], [(5, 1.0)], [(item, 1.0) for item in range(6)], MANY[::-2]):
        assert width(high, other, share) <= 400 * share / 2


def test_a_weight_by_the_number_of_ratings_alone_bounds_no_replacement() -> None:
    # A user with one rating has ε_u = ε/3 and one with six has ε. With a share of a third for both
    # the width is at most ε/6; without it, only (ε_u + ε)/4 is.
    one = [(5, 1.0)]
    assert width(one, MANY, 1 / 3) <= 400 / 6
    assert 400 / 6 < width(one, MANY, None) <= (400 / 3 + 400) / 4


@pytest.mark.cases("count", [1, 2, 3, 5])
def test_a_rating_more_costs_its_own_weight_and_what_it_takes_from_the_others(count: int) -> None:
    # a = εc/4B, m_0 = B/c = 3, w_m = min(1, 3/m)
    a, w, w_next = 400 * 16 / (4 * 48), min(1, 3 / count), min(1, 3 / (count + 1))
    for last in (1.0, 5.0):
        profile = [(item, 5.0) for item in range(count)]
        most = a * (count * w - (count - 1) * w_next)
        assert width(profile, [*profile, (5, last)], None) <= most + 1e-6


@pytest.mark.cases("seed", range(20))
def test_a_loss_that_is_small_without_the_user_bounds_the_loss_of_privacy(seed: int) -> None:
    source = np.random.default_rng(seed)
    absent, loss = source.dirichlet(np.full(12, 0.5)), source.exponential(2, 12)
    present = absent * np.exp(-loss)
    z = present.sum()
    present /= z
    # The worst sets, for each t.
    assert np.maximum(present - absent / z, 0).sum() < 1e-12
    for t in (0.0, 0.5, 2.0):
        assert np.maximum(absent - math.exp(t) * present, 0).sum() <= absent[loss > t].sum() + 1e-12
    assert -math.log(z) <= (absent * loss).sum()


def test_a_loss_that_is_small_with_the_user_bounds_nothing() -> None:
    absent, loss = np.array([0.01, 0.99]), np.array([0.0, 10.0])
    present = absent * np.exp(-loss)
    present /= present.sum()
    assert present[1] == pytest.approx(0.0045, abs=1e-4)
    assert np.maximum(absent - present, 0).sum() == pytest.approx(0.985, abs=1e-3)


# Descent.


@pytest.mark.long
def test_a_pass_over_ratings_with_own_means_has_the_losses_of_the_derivation() -> None:
    game = game_at("berlioz15-s4-mean", "published", 0)
    assert isinstance(game, StepsGame)
    seen = game.run(20_000, 0)
    # The full ratio is attained if the target user's noise lies beyond both centres on one side and
    # all four others' on the other.
    top = 2 * (1 - 1 / 5)
    for scores, sign in ((seen.present, 1), (seen.absent, -1)):
        assert abs(scores).max() <= top + 2**-8
        assert likely(int((sign * scores >= top - 2**-8).sum()), 20_000, 2.0**-5)
        assert not likely(int((sign * scores >= top - 2**-8).sum()), 20_000, 2.0**-4)
    # On the other data set this event is e^−1.6 times as likely.
    rare = int((seen.absent >= top - 2**-8).sum())
    assert likely(rare, 20_000, 2.0**-5 * math.exp(-top))


@pytest.mark.long
def test_a_pass_with_a_public_mean_moves_one_error() -> None:
    game = game_at("berlioz15-s4-value", "published", 0)
    seen = game.run(20_000, 0)
    # The errors are 0 and −4, up to the initial factors' product, and clamped at −2 and 2. On a
    # grid of 1/2 the noise, of scale 4, rounds to 0 within 1/4 of it.
    here = 0.5 + (1 - math.exp(-0.25 / 4)) / 2
    assert likely(int((seen.absent <= -1 + 2**-8).sum()), 20_000, here)
    beyond = 1 - 0.5 * math.exp(-2 / 4)
    low = math.log(beyond / (0.5 * math.exp(-2 / 4)))
    assert seen.present.max() == pytest.approx(low, abs=0.05)
    # Values that round to −2 are clamped too.
    clamped = 1 - 0.5 * math.exp(-2.25 / 4)
    assert likely(int((seen.present >= low - 0.05).sum()), 20_000, clamped)
    assert game.defense == SgdFactors(epsilon=1.0, epochs=1, dimensions=1)


def test_the_only_rating_of_an_item_moves_it() -> None:
    seen = game_at("berlioz15-s4-added", "published", 0).run(2000, 0)
    assert not seen.absent.any()
    # Its noise is rounded to 0 in a few per cent of the trials.
    assert seen.present.mean() > 0.9


@pytest.mark.long
def test_a_user_who_is_sampled_shows_nothing_in_the_other_rounds() -> None:
    defense = SgdFactors(
        epsilon=1.0, variant="corrected", epochs=1, dimensions=1, spread=0.0, clip_norm=1.0,
        sampling_rate=0.1, adjacency="user-replace",
    )  # fmt: skip
    data = pair([[(0, 5)]], [[(0, 1)]], 1, "")
    game = StepsGame("sampled", defense, data)
    seen = game.run(4000, 0)
    # L = 2z/s² with z from N(±1, s²) in a tenth of the rounds and from N(0, s²) in the others.
    s = defense.noise_deviation(data.before.n_items)
    law = stats.norm(scale=2 / s)
    for scores, sign in ((seen.present, 1), (seen.absent, -1)):
        above = int((sign * scores > 2 / s).sum())
        assert likely(above, 4000, 0.9 * law.sf(2 / s) + 0.1 * law.sf(2 / s - 2 / s**2))
        assert not likely(above, 4000, law.sf(2 / s - 2 / s**2))
