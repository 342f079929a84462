"""The catalogue's entries on PrivSR: laws, instances, and games with few trials."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, optimize, stats

from dpaudit.bounds.frequentist.labels import label_epsilon
from dpaudit.bounds.multiplicity import split
from dpaudit.claims import meng_2018 as data
from dpaudit.claims import real_data
from dpaudit.claims.catalogue import chosen
from dpaudit.claims.games import StepsGame
from dpaudit.claims.meng_2018 import FinalGame, MessagesGame, SubmittedGame
from dpaudit.claims.record import Check
from dpaudit.core.releases import StepsPair
from dpaudit.core.streams import Streams
from dpaudit.data.source_parts import SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.defenses.social.privsr import PrivSR
from dpaudit.defenses.social.training import SocialTraining

RARE = 1e-6
# The level of each game if 150 games are judged together.
LEVEL = split(0.05, 150)
ENTRIES = {entry.id: entry for entry in chosen(["privsr"])}
PAGE = (Path(__file__).parents[2] / "docs" / "claims" / "privsr.md").read_text(encoding="utf-8")
# Δ on the scale 1..5, and the published noise's scale 2Δ√K/ε with K = 1.
DELTA, NOISE = 4.0, 8.0


def games(id_: str, role: str) -> list[Any]:
    return [
        experiment
        for experiment in getattr(ENTRIES[id_], role)
        if not isinstance(experiment, Check)
    ]


def steps(game: Any, trials: int = 3, *, items: bool = False) -> list[StepsPair]:
    """Submissions, or changes of V, without noise on D and on D', round by round."""
    defense, pair = game.defense, game.data
    before, after = (defense.prepare(r, pair.public) for r in (pair.before, pair.after))
    observe = defense.observe_items if items else defense.observe
    return [step for _, step in observe(before, after, after, Streams.first(3, "steps", trials))]


def certified(game: Any, trials: int) -> float:
    seen, (_, delta) = game.run(trials, 1), game.claimed()
    return label_epsilon(seen.absent, seen.present, delta=delta, alpha=LEVEL, seed=1)[0].lower


# Theorem 1: two kinds of noise, or one.


def test_two_kinds_with_one_h_are_laplace_with_the_root_of_squares() -> None:
    spent = np.array([2.0, 2.0])  # β = 1

    def density(x: float) -> float:
        # Given h: x + y ~ N(0, 2h Σ (8/ε_kind)²).
        variance = 2 * float(((NOISE / spent) ** 2).sum())

        def at(r: float) -> float:
            # r = √h
            return (
                2
                * math.exp(-(r**2) - x**2 / (2 * variance * r**2))
                / math.sqrt(2 * math.pi * variance)
            )

        peak = math.sqrt(abs(x)) / (2 * variance) ** 0.25
        return float(integrate.quad(at, 0, 15, points=[peak], epsabs=0, epsrel=1e-10)[0])

    ratio = math.log(density(30.0) / density(38.0))
    experiment = games("privsr-thm1-mixed", "published")[0]
    assert ratio == pytest.approx(math.sqrt(2), rel=1e-7)
    assert experiment.truth.value == pytest.approx(ratio, rel=1e-7)
    for beta, epsilon in ((1.0, 1.414), (0.1, 1.0945)):
        both = 1 / math.hypot(1 / (1 + beta), 1 / (1 + 1 / beta))
        assert data.both_kinds(beta).value == pytest.approx(both)
        assert both == pytest.approx(epsilon, abs=1e-3)


@pytest.mark.cases(
    ("id_", "place"),
    [
        ("privsr-thm1-mixed", 0),
        ("privsr-thm1-one-kind", 0),
        ("privsr-thm1-one-kind", 1),
        ("privsr-thm1-norm", 0),
    ],
)
def test_the_stated_loss_is_that_of_what_the_defense_shows(id_: str, place: int) -> None:
    experiment = games(id_, "published")[place]
    assert experiment.observer == "iterates"
    (step,) = steps(experiment, items=True)
    assert not step.gaussian
    assert experiment.truth is not None
    loss = (abs(step.present - step.absent) / step.scale).sum(1)
    assert loss == pytest.approx(experiment.truth.value, rel=1e-6)


@pytest.mark.long
def test_of_one_kind_of_noise_in_all_and_unit_factors_the_theorem_holds() -> None:
    defense, pair = data.published(noise_kind="equal"), data.one_rating(sensitive=True)
    experiment = StepsGame("", defense, pair, observer="iterates")
    (step,) = steps(experiment, items=True)
    assert abs(step.present - step.absent) / step.scale == pytest.approx(1.0, rel=1e-6)
    assert certified(experiment, 1_500) <= 1.0


def test_learned_factors_are_longer_than_1() -> None:
    ratings = generate(SyntheticParams(n_users=80, n_items=60, seed=2))
    defense = PrivSR(epsilon=math.inf, variant="nonprivate", social=0.0, learning_rate=1e-3)
    training = SocialTraining(defense, defense.prepare(ratings), Streams.first(0, "norms", 1))
    start = np.linalg.norm(training.users, axis=1)
    for _ in range(200):
        training.run_round()
    assert start.max() < 1
    assert (np.linalg.norm(training.users, axis=1) > 1).mean() > 0.9


# Theorem 1: fitted factors.


@pytest.mark.cases("items", [2, 3, 6])
def test_a_rating_turns_a_fitted_factor_and_all_that_is_submitted(items: int) -> None:
    pair, factors = data.fitted(items)
    game = SubmittedGame("", data.published(beta=1e-3), pair, items=factors)
    v = np.array(factors)

    def fit(values: NDArray[np.float32]) -> float:
        def loss(u: float) -> float:
            return float(((values - u * v) ** 2).sum())

        return float(optimize.minimize_scalar(loss, bounds=(-9, 9), method="bounded").x)

    ratings = pair.before.value.astype(float), pair.after.value.astype(float)
    turned = [fit(values) for values in ratings]
    assert turned == pytest.approx([1.0, -1.0], abs=1e-5)
    sums = [2 * (u * v - values) * u for u, values in zip(turned, ratings, strict=True)]
    rows = [game.defense.prepare(version) for version in (pair.before, pair.after)]
    for total, wanted in zip((game.sums(row) for row in rows), sums, strict=True):
        assert total == pytest.approx(wanted, abs=1e-3)
    loss = abs(sums[1] - sums[0]).sum() / NOISE
    assert loss == pytest.approx(2.5 * items - 1, rel=1e-4)
    truth = game.run(2, 0).truth
    assert truth is not None
    assert truth.value == pytest.approx(1.001 * loss, rel=1e-4)
    # A mechanism in which "only R_ab differs" would have 1.
    assert abs(sums[1][0] - sums[0][0]) / NOISE == pytest.approx(1.5, rel=1e-4)


def refitted(v: NDArray[np.float64], before: NDArray[np.float64], d: float) -> tuple[float, float]:
    """L1 shift of the sums of submissions if the first rating falls by d, and the larger |u|."""
    after = before - d * (np.arange(len(v)) == 0)
    users = [float(v @ r / (v @ v)) for r in (before, after)]
    sums = [2 * (u * v - r) * u for u, r in zip(users, (before, after), strict=True)]
    return float(abs(sums[1] - sums[0]).sum()), max(map(abs, users))


@pytest.mark.cases("d", [4.0, 1.0, 0.01])
@pytest.mark.cases("items", [2, 5])
def test_a_smaller_change_of_a_rating_may_move_the_sums_further(d: float, items: int) -> None:
    # 5 (a − w) = a² + w² and (5 − d) a − 5 w = −(a² + w²), w = k a.
    k = 1 - d / 10
    a = d / 2 / (1 + k**2)
    shift, longest = refitted(np.array([a, -k * a, *[0.0] * (items - 2)]), np.full(items, 5.0), d)
    assert longest == pytest.approx(1.0)
    assert shift / NOISE == pytest.approx(2.5 * items - d / 4)


@pytest.mark.long
def test_no_fitted_pair_of_unit_factors_costs_more_than_the_page_says() -> None:
    rng, most = np.random.default_rng(0), 0.0
    for _ in range(20_000):
        n = int(rng.integers(1, 5))
        v = rng.normal(size=n) * 10.0 ** rng.uniform(-1.5, 1, n)
        before = rng.uniform(1, 5, n)
        shift, longest = refitted(v, before, float(rng.uniform(0, before[0] - 1)))
        if longest <= 1:
            assert shift / NOISE <= 2.5 * n
            most = max(most, shift / NOISE / (2.5 * n))
    assert most > 0.4


# Theorem 3: the recommender, the rounds, the end.


@pytest.mark.parametrize("place", [0, 1])
def test_given_h_a_submission_is_normal_with_its_share_of_the_variance(place: int) -> None:
    experiment = games("privsr-thm3-submission", "published")[place]
    raters = len(experiment.data.before)
    (step,) = steps(experiment, trials=400)
    assert step.gaussian
    assert abs(step.present - step.absent) == pytest.approx(2 * DELTA, rel=1e-6)
    # The deviation is √(2h/n) 8/ε_s, h ~ Exp(1), ε_s = 1.1.
    h = (step.scale[:, 0] * 1.1 / NOISE) ** 2 * raters / 2
    assert stats.kstest(h, "expon").pvalue > RARE
    assert stats.kstest(h * 1.6, "expon").pvalue < RARE


def test_every_round_costs_a_rating_the_whole_budget() -> None:
    experiment = games("privsr-thm3-rounds", "published")[0]
    shown = steps(experiment, trials=20, items=True)
    losses = [abs(step.present - step.absent)[:, 0] / step.scale[:, 0] for step in shown]
    assert len(losses) == 5
    assert np.array(losses) == pytest.approx(1.001, rel=0.02)
    assert losses[0] == pytest.approx(1.001, rel=1e-6)


@pytest.mark.long
def test_the_final_factor_is_a_sum_of_as_many_noises_as_rounds() -> None:
    experiment = games("privsr-alg1-final", "published")[0]
    assert isinstance(experiment, FinalGame)
    rounds, rate, trials = experiment.defense.rounds, experiment.defense.learning_rate, 1_000
    seen = experiment.run(trials, 4)
    deviation = NOISE / 1.001 * math.sqrt(2 * rounds)
    # −V/γ is −1/γ at the start; each round adds −2(5 − 1) on D and 0 on D'; a ≈ 1.
    reach = stats.norm.isf(RARE / 8) * deviation / math.sqrt(trials)
    for scores, pull in ((seen.absent, 8.0), (seen.present, 0.0)):
        assert abs(scores.mean() + 1 / rate + rounds * pull) < reach + 0.5
        assert scores.std() == pytest.approx(deviation, rel=0.25)
    apart = seen.present.mean() - seen.absent.mean()
    assert apart > 4 * reach  # and not one round's 8
    # The tolerance of a quarter is wide: such sums have kurtosis 3 + 3/10, so the relative variance
    # of their sample variance is 2.3/n.
    assert math.sqrt(2.3 / trials) / 2 * stats.norm.isf(RARE / 8) < 0.25


@pytest.mark.cases(("rounds", "factor"), [(2, 1.0), (4, 1.0), (3, 0.7)])
def test_the_ratio_of_sums_of_laplace_draws_tends_to_the_sum_of_shifts(
    rounds: int, factor: float
) -> None:
    # Σ a^k Lap(1) in units of 2Δ/ε = 1, each term shifted by a^k: ε' = Σ a^k.
    weights = factor ** np.arange(rounds)

    def tail_rate(t: float) -> float:
        """The density at t, from partial fractions of the characteristic function.

        That function is Π 1/(1 + a^{2k} s²).
        """
        if factor != 1:
            total = 0.0
            for k, a in enumerate(weights):
                others = np.delete(weights, k)
                total += float(np.prod(a**2 / (a**2 - others**2))) * math.exp(-t / a) / (2 * a)
            return total
        # For T equal weights: variance-gamma, ∝ t^{T − 1/2} K_{T − 1/2}(t).
        from scipy.special import kve

        return float(t ** (rounds - 0.5) * kve(rounds - 0.5, t) * math.exp(-t))

    shift = float(weights.sum())
    ratios = [math.log(tail_rate(t) / tail_rate(t + shift)) for t in (3.0, 30.0, 300.0)]
    assert all(a < b for a, b in pairwise(ratios))
    assert ratios[-1] < shift
    assert ratios[-1] == pytest.approx(shift, rel=0.02)
    assert ratios[0] < 0.9 * shift or factor != 1


def test_a_long_descent_averages_fresh_noise_away() -> None:
    # v ← a v + 2γ R u − γ p, u = 1: μ = ε/√(2γS), S the sum of u².
    rate, raters, rounds = 0.01, 3, 3_000
    a = 1 - 2 * rate * raters
    weights = a ** np.arange(rounds)
    shift, variance = 2 * DELTA * rate * weights.sum(), 2 * NOISE**2 * rate**2 * (weights**2).sum()
    assert shift == pytest.approx(DELTA / raters)
    assert shift / math.sqrt(variance) == pytest.approx(1 / math.sqrt(2 * rate * raters), rel=0.02)
    short = np.ones(8)
    early = 2 * DELTA * short.sum() / math.sqrt(2 * NOISE**2 * short.sum())
    assert early == pytest.approx(math.sqrt(8 / 2))


# Theorem 2.


@pytest.mark.parametrize("friends", [1, 3])
def test_a_friends_message_moves_by_4_in_noise_for_2(friends: int) -> None:
    pair, factors = data.befriended(friends)
    game = MessagesGame("", data.published(social=0.01), pair, items=factors)
    rows = game.defense.prepare(pair.before, pair.public)
    assert rows.similarity.toarray()[friends, 0] == pytest.approx(1.0)
    after = game.defense.prepare(pair.after, pair.public)
    assert after.similarity.toarray()[friends, 0] == rows.similarity.toarray()[friends, 0]
    moved = abs(game._sent(after) - game._sent(rows))
    assert moved == pytest.approx(4.0, rel=1e-6)
    # The sum of all messages has noise Lap(2√K/ε), and each message its share of the variance.
    scale = math.sqrt(float(rows.friends[friends] * game.defense.noise(rows).sent[friends]) / 2)
    assert scale == pytest.approx(2.0)
    truth = game.run(2, 0).truth
    assert truth is not None
    assert truth.value == pytest.approx(2.0, rel=1e-6)


def test_scores_of_messages_are_those_of_their_law() -> None:
    sent = games("privsr-thm2-friends", "published")[0].run(20_000, 5)
    # With Lap(2) and a shift of 4, half of each data set's outputs lie beyond both numbers.
    for scores, end in ((sent.absent, -2.0), (sent.present, 2.0)):
        count = int((scores == end).sum())
        assert stats.binomtest(count, len(scores), 0.5).pvalue > RARE
        assert stats.binomtest(count, len(scores), 0.47).pvalue < RARE
        far = int((scores == -end).sum())
        assert stats.binomtest(far, len(scores), math.exp(-2) / 2).pvalue > RARE
        assert stats.binomtest(far, len(scores), math.exp(-1.7) / 2).pvalue < RARE


@pytest.mark.long
@pytest.mark.parametrize("place", [0, 1])
def test_what_one_message_shows_is_the_delta_of_the_page(place: int) -> None:
    game = games("privsr-thm2-message", "published")[place]
    friends = game.data.before.n_users - 1
    scores, trials = game.run(40_000, 6).present, 40_000
    # δ(ε) = E_P (1 − e^{ε − L})_+, L the log-ratio; μ = 4/√(8h/|F|).
    estimate = float(np.maximum(0, 1 - np.exp(1 - scores)).mean())

    def given(h: float) -> float:
        mu = math.sqrt(2 * friends / h)
        law = stats.norm
        return float(law.cdf(-1 / mu + mu / 2) - math.e * law.cdf(-1 / mu - mu / 2)) * math.exp(-h)

    delta = integrate.quad(given, 0, 50, limit=200)[0]
    reach = stats.norm.isf(RARE / 2) / 2 / math.sqrt(trials)
    assert abs(estimate - delta) < reach + 2.0**-9
    assert abs(estimate - delta) < 0.1 * delta
    assert f"{delta:.3f}" in PAGE


def test_the_game_on_ratings_changes_one_sensitive_rating() -> None:
    ratings = generate(SyntheticParams(n_users=60, n_items=60, seed=4, mean_per_user=30))
    wanted = {"privsr-thm3-submission"}
    ((id_, game),) = real_data.trained_games(ratings, "mine", wanted, 3)
    assert {id_} == wanted
    assert not isinstance(game, Check)
    data_pair = game.data  # type: ignore[attr-defined]
    rows = np.flatnonzero(data_pair.before.value != data_pair.after.value)
    assert len(rows) == 1
    assert data_pair.before.kept_private[rows[0]]
    assert data_pair.before.kept_private.mean() == pytest.approx(0.1, abs=0.01)
    assert game.claimed() == (1.0, 0.0)
    seen = game.run(20, 0)
    assert seen.present.mean() > seen.absent.mean()


def test_every_entry_is_on_the_page() -> None:
    for id_ in ENTRIES:
        assert id_ in PAGE
