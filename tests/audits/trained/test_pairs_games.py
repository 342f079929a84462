"""Games on trained models: scores are likelihood ratios, and certify no more than the true ε."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from executors import on_threads  # type: ignore[import-not-found]
from numpy.typing import NDArray
from scipy import stats

from dpaudit.attacks.distinguishing import LikelihoodRatio
from dpaudit.attacks.membership.inference import Canary
from dpaudit.auditor.games import CERTAIN, GameScores
from dpaudit.audits.trained.pairs import DataPair, target_pair, trained_game
from dpaudit.bounds.frequentist.labels import label_epsilon
from dpaudit.core.claim import Adjacency
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.releases import Observer, TargetUser
from dpaudit.core.streams import Streams
from dpaudit.data.neighbors import RatingReplaced, apply
from dpaudit.data.ratings import Ratings, Scale, from_profiles
from dpaudit.defenses.base import TrainedDefense
from dpaudit.defenses.factorization.sampled import SampledFactors
from dpaudit.defenses.factorization.sgd import SgdFactors
from dpaudit.defenses.neighborhood.sgd import SgdSimilarity
from dpaudit.defenses.neighborhood.similarity import Neighborhood
from dpaudit.defenses.observers import release_observers
from dpaudit.kernels import exact_noise

STARS = Scale()
FINE = LikelihoodRatio(grid=2.0**-20)
# Beyond this a standard normal number lies with probability 5e-7 on either side.
FAR = 4.9


def drawn(seed: int = 0, n_users: int = 6, n_items: int = 5) -> Ratings:
    source = np.random.default_rng(seed)
    rated = source.random((n_users, n_items)) < 0.7
    rated[:, :2] = True
    user, item = np.nonzero(rated)
    value = source.integers(1, 6, len(user)).astype(np.float32)
    return Ratings.build(user, item, value, n_users, n_items, STARS)


def steps(
    defense: Any, adjacency: Adjacency, trials: int, attack: LikelihoodRatio = FINE, **options: Any
) -> GameScores:
    pair, _ = target_pair(drawn(), adjacency, max(defense.least_ratings(), 1))
    return trained_game(defense, pair, attack, "iterates").run(trials=trials, seed=3, **options)


def away(ratios: NDArray[np.float64]) -> float:
    """How many standard errors the mean of likelihood ratios lies from 1."""
    return float((ratios.mean() - 1) / (ratios.std() / math.sqrt(len(ratios))))


def assert_likelihood_ratios(scores: GameScores, wrong: float) -> None:
    """E e^L = 1 in D and E e^−L = 1 in D', which no multiple of L keeps: rate 1e-6 for each.

    Only the log-likelihood ratio, or a coarser version of it, keeps both for every event as well:
    the sums over the lower and the upper half of the scores are each other's probabilities.
    """
    for here, there in ((scores.absent, scores.present), (-scores.present, -scores.absent)):
        assert np.isfinite(here).all()
        assert abs(away(np.exp(here))) < FAR
        assert away(np.exp(wrong * here)) > FAR
        # P(L in E) in the other trial is the mean over this one of e^L on E.
        event = 0.2 * there.std()
        weights = np.exp(here) * (here > event)
        error = math.sqrt((weights.var() + (there > event).var()) / len(here))
        assert abs(weights.mean() - (there > event).mean()) < FAR * error


@pytest.mark.long
@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("bound", [0.5, 0.8, 2.0, 1000.0])
def test_noised_errors_are_scored_by_their_likelihood_ratio(epochs: int, bound: float) -> None:
    defense = SgdFactors(2.0, dimensions=2, epochs=epochs, error_bound=bound)
    scores = steps(defense, "rating-replace", 6000)
    both = np.concatenate([scores.absent, scores.present])
    # The claim holds for every output: its ε bounds L itself.
    assert abs(both).max() <= 2 + FINE.grid
    assert abs(both).max() > {0.5: 0.9, 0.8: 1.2, 2.0: 1.8, 1000.0: 1.99}[bound]
    assert_likelihood_ratios(scores, 1.5)
    coarse = steps(defense, "rating-replace", 500, LikelihoodRatio())
    assert abs(coarse.absent - scores.absent[:500]).max() <= 2.0**-9 + 2.0**-20


@pytest.mark.long
@pytest.mark.parametrize("bound", [0.5, 0.7, 1.4])
def test_clamped_errors_are_atoms_of_the_ratio_of_their_tails(bound: float) -> None:
    # First row of the first epoch, factors and biases 0: errors −1.5 in D and 2.5 in D' exactly.
    ratings = from_profiles([[(0, 1.0)], [(0, 4.0)]], 1, STARS)
    after = apply(ratings, RatingReplaced(0, 0, 5.0))
    pair = DataPair(ratings, after, ratings, "one rating")
    defense = SgdFactors(2.0, dimensions=1, epochs=1, error_bound=bound, spread=0.0)
    n = 12_000
    scores = trained_game(defense, pair, FINE, "iterates").run(trials=n, seed=3)
    laws = [stats.laplace(exact, 2.0) for exact in (-1.5, 2.5)]
    tails = [(law.logsf(bound), law.logcdf(-bound)) for law in laws]
    for trial, ratios in enumerate((scores.absent, scores.present)):
        for side in (0, 1):
            atom = abs(ratios - (tails[1][side] - tails[0][side])) < 1e-6
            # Binomial quantiles: rate 1e-6 over the four.
            p = math.exp(tails[trial][side])
            low, high = (stats.binom(n, p).ppf(q) for q in (1.25e-7, 1 - 1.25e-7))
            assert low <= atom.sum() <= high
            assert not low <= stats.binom(n, p + 0.03).mean() <= high


@pytest.mark.long
def test_a_wrong_scale_of_the_noise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    # The training's noise is a fifth smaller than the law that its steps are scored by.
    train = SgdFactors.descend

    def quieter(self: SgdFactors, *arguments: Any) -> None:
        train(replace(self, epsilon=1.25 * self.epsilon), *arguments)

    monkeypatch.setattr(SgdFactors, "descend", quieter)
    scores = steps(SgdFactors(2.0, dimensions=2, epochs=1, error_bound=1e3), "rating-replace", 6000)
    assert max(abs(away(np.exp(x))) for x in (scores.absent, -scores.present)) > FAR


@pytest.mark.long
@pytest.mark.parametrize("adjacency", ["user-add-remove", "user-replace"])
@pytest.mark.parametrize("epochs", [1, 4])
def test_rounds_are_scored_by_their_likelihood_ratio(adjacency: Any, epochs: int) -> None:
    defense = SgdFactors(
        3.0, "corrected", dimensions=2, epochs=epochs, adjacency=adjacency, delta=1e-2
    )
    scores = steps(defense, adjacency, 6000)
    assert_likelihood_ratios(scores, 1.8)
    # L is N(±μ²/2, μ²) given what was shown before, its μ at most that of the clip.
    sensitivity = (2 if adjacency == "user-replace" else 1) * defense.clip_norm
    most = epochs * (sensitivity / defense.noise_deviation(drawn().n_items)) ** 2
    assert 0.1 * most < scores.present.mean() - scores.absent.mean() < 1.05 * most


@pytest.mark.long
def test_a_sampled_user_shows_nothing_in_rounds_without_her(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # With so little noise a round reveals whether the user participates: with probability q in D.
    monkeypatch.setattr(
        "dpaudit.defenses.factorization.sgd_training.noise_multiplier", lambda *_, **__: 1e-2
    )
    defense = SgdFactors(1.0, "corrected", dimensions=2, epochs=1, sampling_rate=0.2)
    scores = steps(defense, "user-add-remove", 3000)
    assert scores.present.min() > 0
    count = int((scores.absent < 0).sum())
    # Binomial quantiles, rate 1e-6.
    low, high = (stats.binom(3000, 0.2).ppf(q) for q in (5e-7, 1 - 5e-7))
    assert low <= count <= high < 0.3 * 3000


@pytest.mark.long
def test_steps_of_similarities_are_scored_by_their_likelihood_ratio() -> None:
    published = SgdSimilarity(4.0, steps=2, more_than=1, weight=10)
    assert_likelihood_ratios(steps(published, "rating-replace", 3000), 1.8)
    corrected = SgdSimilarity(12.0, "corrected", steps=2, more_than=1)
    scores = steps(corrected, "user-replace", 3000)
    assert abs(np.concatenate([scores.absent, scores.present])).max() <= 12 + 1e-3
    assert_likelihood_ratios(scores, 1.8)


@pytest.mark.long
@pytest.mark.parametrize("epochs", [1, 3])
def test_the_claim_of_noised_errors_is_certified_almost_whole(epochs: int) -> None:
    # The rating changes over the whole scale and no error is clipped. One epoch then shows all of
    # ε; over several the sum of errors varies, and extreme events are rare.
    ratings = from_profiles([[(0, 1.0), (1, 3.0)], [(0, 4.0), (1, 2.0)]], 2, STARS)
    pair = DataPair(ratings, apply(ratings, RatingReplaced(0, 0, 5.0)), ratings, "one rating")
    defense = SgdFactors(1.0, dimensions=1, epochs=epochs, error_bound=1e3)
    scores = trained_game(defense, pair, LikelihoodRatio(), "iterates").run(trials=12_000, seed=1)
    estimate, _ = label_epsilon(scores.absent, scores.present, alpha=1e-6)
    assert (0.85 if epochs == 1 else 0.6) < estimate.lower <= 1
    # With half the noise the claim is certified to be false.
    half = trained_game(replace(defense, epsilon=2.0), pair, LikelihoodRatio(), "iterates")
    weak = half.run(trials=12_000, seed=1)
    assert label_epsilon(weak.absent, weak.present, alpha=1e-6)[0].lower > 1.2


@pytest.mark.cases(
    "defense",
    [
        SgdFactors(math.inf, "nonprivate", dimensions=2, epochs=3),
        SgdSimilarity(math.inf, "nonprivate", steps=3, more_than=1),
        SgdSimilarity(math.inf, "nonprivate", steps=6, more_than=1, neighbors=1, learning_rate=1.0),
    ],
    ids=["factors", "similarities", "one neighbour"],
)
def test_steps_without_noise_are_certain(defense: Any) -> None:
    certain = 0
    for seed in range(12):
        pair, _ = target_pair(drawn(seed, 20, 12), "rating-replace", 1)
        scores = trained_game(defense, pair, FINE, "iterates").run(trials=20, seed=3)
        certain += bool((scores.absent == -CERTAIN).all() and (scores.present == CERTAIN).all())
    assert certain == 12


def test_steps_that_rounding_lets_contradict_have_a_score() -> None:
    # A single neighbour's gradient is a rounding error, which may favour either data set.
    defense = SgdSimilarity(
        math.inf, "nonprivate", steps=6, more_than=1, neighbors=1, learning_rate=1.0
    )
    for seed in range(40):
        pair, _ = target_pair(drawn(seed), "rating-replace", 1)
        scores = trained_game(defense, pair, FINE, "iterates").run(trials=2, seed=3)
        assert np.isfinite(np.concatenate([scores.absent, scores.present])).all()


def test_a_pair_that_the_steps_cannot_be_compared_on_is_refused() -> None:
    with pytest.raises(ConfigError, match="about a rating's value"):
        steps(SgdFactors(1.0, dimensions=2, epochs=1), "rating-add-remove", 4)


@pytest.mark.cases(
    ("defense", "adjacency"),
    [
        (SgdFactors(1.0, dimensions=2, epochs=2), "rating-replace"),
        (SgdFactors(1.0, "corrected", dimensions=2, epochs=2), "user-add-remove"),
        (SgdSimilarity(1.0, steps=2, more_than=1), "rating-replace"),
    ],
    ids=["errors", "rounds", "similarities"],
)
def test_a_trial_is_the_same_on_any_threads_and_whatever_their_number(
    defense: Any, adjacency: Adjacency
) -> None:
    whole = steps(defense, adjacency, 50)
    for trials, threads in ((50, 2), (17, 1), (5, 2)):
        part = steps(defense, adjacency, trials, executor=on_threads(threads))
        np.testing.assert_array_equal(part.absent, whole.absent[:trials])
        np.testing.assert_array_equal(part.present, whole.present[:trials])


# What is released.


def release(
    defense: Any,
    change: tuple[DataPair, TargetUser],
    observe: Any = "public",
    trials: int = 1000,
    **options: Any,
) -> GameScores:
    pair, target = change
    game = trained_game(defense, pair, Canary(calibration=200), observe, target)
    return game.run(trials=trials, seed=5, **options)


def certified(scores: GameScores, alpha: float = 1e-6) -> float:
    return label_epsilon(scores.absent, scores.present, alpha=alpha)[0].lower


def excluded() -> tuple[DataPair, TargetUser]:
    """A user who has too few ratings to be learned from, and whose rating of item 0 changes."""
    others = drawn(0, 8, 6)
    profiles = [
        list(zip(p.items.tolist(), p.values.tolist(), strict=True))
        for p in (others.profile(user) for user in range(8))
    ]
    ratings = from_profiles([*profiles, [(0, 1.0)]], 6, STARS)
    after = apply(ratings, RatingReplaced(8, 0, 5.0))
    pair = DataPair(ratings, after, ratings, "a rating that nothing is learned from")
    return pair, TargetUser(0, ratings.profile(8), after.profile(8))


def test_a_change_that_nothing_is_learned_from_certifies_nothing() -> None:
    # Rate 1e-6 over the two observers.
    for observe in ("public", "values"):
        scores = release(SgdSimilarity(5.0, steps=2, more_than=1), excluded(), observe)
        assert certified(scores, 5e-7) == 0
        assert abs(scores.absent.mean() - scores.present.mean()) < 0.5


@pytest.mark.long
def test_models_that_the_change_moves_far_are_told_apart() -> None:
    ratings = drawn(1, 5, 4)
    change = target_pair(ratings, "user-replace", 1)
    weak: list[Any] = [
        SgdFactors(
            math.inf, "nonprivate", dimensions=2, epochs=60, learning_rate=0.05, spread=0.01
        ),
        SgdSimilarity(2000.0, steps=10, more_than=1),
    ]
    for defense in weak:
        for observe in ("public", "values"):
            assert certified(release(defense, change, observe, 600)) > 3
    # With much noise they are not, and the claim holds.
    strong = SgdSimilarity(0.5, "corrected", steps=2, more_than=1)
    assert certified(release(strong, change)) <= 0.5


@pytest.mark.long
def test_models_that_nothing_is_drawn_for_are_certain() -> None:
    change = target_pair(drawn(1, 5, 4), "user-replace", 1)
    for defense, observe in (
        (Neighborhood(), "values"),
        (SgdSimilarity(math.inf, "nonprivate", steps=3, more_than=1), "public"),
    ):
        scores = release(defense, change, observe, 200)
        assert scores.absent.max() < -100 < 100 < scores.present.min()
    assert "public" not in Neighborhood().observers()


@pytest.mark.long
@pytest.mark.parametrize("observe", ["public", "values", "list"])
@pytest.mark.parametrize(
    "defense",
    [
        SgdFactors(1.0, dimensions=2, epochs=2),
        SampledFactors(1.0, "corrected", dimensions=2, epochs=2, cap=10),
        SgdSimilarity(1.0, steps=2, more_than=1),
    ],
    ids=["factors", "sampled", "similarities"],
)
def test_a_release_is_scored_alike_on_any_threads(defense: Any, observe: str) -> None:
    change = target_pair(drawn(2, 6, 12), "user-replace", 1)
    whole = release(defense, change, observe, 50)
    for trials, threads in ((50, 2), (17, 1)):
        part = release(defense, change, observe, trials, executor=on_threads(threads))
        np.testing.assert_array_equal(part.absent, whole.absent[:trials])
        np.testing.assert_array_equal(part.present, whole.present[:trials])


def test_the_trials_that_certify_are_not_those_that_were_fitted() -> None:
    """The attack sees trials of its own: their features differ from all that are scored."""
    seen: list[NDArray[np.float64]] = []

    class Passive(Canary):
        def features(self, release: Any, knowledge: TargetUser) -> NDArray[np.float64]:
            seen.append(super().features(release, knowledge))
            return seen[-1]

    change = target_pair(drawn(), "user-replace", 1)
    defense = SgdFactors(1.0, dimensions=2, epochs=2)
    game = trained_game(defense, change[0], Passive(calibration=32), "public", change[1])
    game.run(trials=32, seed=5)
    numbers = np.concatenate(seen)
    assert numbers.shape == (4 * 32, 2)
    assert len(np.unique(numbers[:, 0])) == 4 * 32


# Lists.


class Shown:
    """Models that predict the same of every user: `(W, M)`."""

    def __init__(self, predictions: NDArray[np.float64]) -> None:
        self.predictions = predictions

    def predict(self, users: NDArray[np.int32], items: NDArray[np.int32]) -> NDArray[np.float32]:
        assert (users == 1).all()
        return self.predictions[:, items].astype(np.float32)


class Noised(TrainedDefense[float]):
    """A recommender with predictions of a law of its own: item 3 is `leak` better if r_00 = 5.

    The noise is from the double-exponential law of scale 1/2: the pair's ε is 2 · leak.
    """

    def __init__(self, leak: float) -> None:
        self.leak = leak

    def claim(self) -> None:
        return

    def observers(self) -> Mapping[str, Observer[float]]:
        return release_observers(self, None)

    def prepare(self, ratings: Ratings, public: Ratings | None = None) -> float:
        return self.leak * float(ratings.profile(0).values[0] == 5)

    def train(self, prepared: float, streams: Streams) -> Shown:
        draws = np.empty((len(streams), 5))
        exact_noise.laplace(draws, streams.trials, 0, streams.key)
        return Shown((draws / 2 + prepared * (np.arange(5) == 3)).astype(np.float32))


# User 1 has rated item 0, so their lists hold items 1 to 4.
OBSERVED = from_profiles([[(0, 1.0), (1, 2.0)], [(0, 4.0)]], 5, STARS)


def listed(defense: Any, trials: int = 4000, top_k: int = 2, ratings: Ratings = OBSERVED) -> Any:
    after = apply(ratings, RatingReplaced(0, 0, 5.0))
    pair = DataPair(ratings, after, ratings, "one rating")
    target = TargetUser(1, ratings.profile(0), after.profile(0))
    attack = Canary(calibration=200, top_k=top_k)
    return trained_game(defense, pair, attack, "list", target).run(trials=trials, seed=5)


@pytest.mark.cases("top_k", [1, 2, 4, 10])
def test_what_a_list_leaks_is_found(top_k: int) -> None:
    # With top_k above three the list always holds all four items, and only the order leaks.
    assert certified(listed(Noised(3.0), top_k=top_k)) > 1.5
    # A smaller leak is not certified above its ε, and no leak certifies nothing. Rate 1e-6.
    assert certified(listed(Noised(0.4), top_k=top_k)) <= 0.8
    assert certified(listed(Noised(0.0), top_k=top_k)) == 0


def test_a_list_without_noise_is_certain() -> None:
    class Fixed(Noised):
        def train(self, prepared: float, streams: Streams) -> Shown:
            return Shown(np.tile(prepared * (np.arange(5.0) == 3), (len(streams), 1)))

    scores = listed(Fixed(1.0), 40)
    assert (scores.absent < -1).all()
    assert (scores.present > 1).all()
    constant = listed(Fixed(0.0), 40)
    np.testing.assert_array_equal(constant.absent, constant.present)


def test_a_list_has_the_best_items_that_she_has_not_rated() -> None:
    seen: list[NDArray[np.int32]] = []

    class Passive(Canary):
        def features(self, release: Any, knowledge: TargetUser) -> Any:
            seen.append(release.items)
            return super().features(release, knowledge)

    class Known(Noised):
        def train(self, prepared: float, streams: Streams) -> Shown:
            return Shown(np.array([[9.0, 2.0, 3.0, 3.0, 2.5]] * len(streams)))

    after = apply(OBSERVED, RatingReplaced(0, 0, 5.0))
    pair = DataPair(OBSERVED, after, OBSERVED, "one rating")
    target = TargetUser(1, OBSERVED.profile(0), OBSERVED.profile(0))
    for top_k, wanted in ((1, [2]), (3, [2, 3, 4]), (10, [2, 3, 4, 1])):
        seen.clear()
        attack = Passive(calibration=16, top_k=top_k)
        trained_game(Known(0.0), pair, attack, "list", target).run(trials=16, seed=5)
        assert {tuple(row) for block in seen for row in block.tolist()} == {tuple(wanted)}


def test_one_data_set_is_no_pair() -> None:
    with pytest.raises(DataError, match="the same data set"):
        DataPair(OBSERVED, OBSERVED, OBSERVED, "the same")


@pytest.mark.long
def test_lists_of_a_model_that_leaks_are_told_apart() -> None:
    ratings = drawn(2, 30, 40)
    change = target_pair(ratings, "user-replace", 1)
    defense = SgdFactors(20.0, dimensions=2, epochs=5, learning_rate=0.02)
    assert certified(release(defense, change, "list", 600)) > 1
    strong = SampledFactors(0.5, "corrected", dimensions=2, epochs=2, cap=40)
    assert certified(release(strong, change, "list", 600)) <= 0.25


def test_an_observer_who_is_shown_the_same_whatever_happens_is_refused() -> None:
    full = from_profiles([[(0, 1.0)], [(i, 3.0) for i in range(4)]], 5, STARS)
    with pytest.raises(ConfigError, match=r"only 1: use observe = 'values'"):
        listed(Noised(1.0), 4, ratings=full)
