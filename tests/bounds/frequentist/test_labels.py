"""The label test: its arithmetic, what its choice may see, its error rate and its power."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import brentq
from wald import claims_too_much  # type: ignore[import-not-found]

from dpaudit.bounds.frequentist import labels
from dpaudit.bounds.frequentist.intervals import best_split, clopper_pearson_epsilon
from dpaudit.bounds.frequentist.labels import (
    LabelTest,
    Side,
    Tally,
    _ends,
    guessed_epsilon,
    label_epsilon,
    most_certified,
)
from dpaudit.bounds.gdp import gaussian_epsilon
from dpaudit.bounds.outcomes import Counts
from dpaudit.core.errors import InputError

Scores = NDArray[np.float64]
Labels = NDArray[np.bool_]
Law = Callable[[np.random.Generator, Labels], Scores]


def audited(scores: Scores, present: Labels, seed: int, log_odds: bool = False) -> LabelTest:
    return label_epsilon(
        scores[~present], scores[present], coin_flipped=True, log_odds=log_odds, seed=seed
    )[1]


# The arithmetic.


def counted(hits: int, size: int, trials: int) -> LabelTest:
    return LabelTest(1.0, None, True, hits, size, trials, pilot=7)


def judged(event: LabelTest, scores: Scores) -> tuple[Labels, Labels]:
    """Which trials the event holds, and for which of all D' is guessed."""
    high = scores >= (math.inf if event.high is None else event.high)
    low = scores <= (-math.inf if event.low is None else event.low)
    assert not (high & low).any()
    return high | low, high == event.present_high


@pytest.mark.cases(
    ("hits", "size", "trials", "delta", "alpha"),
    [
        (45, 50, 200, 0.0, 0.05),
        (50, 50, 200, 0.0, 0.05),
        (700, 900, 1900, 0.0, 0.001),
        (45, 50, 200, 1e-5, 0.05),
        (45, 50, 200, 1e-3, 0.05),
        (45, 50, 200, 0.05, 0.05),
        (700, 900, 1900, 0.1, 0.2),
    ],
)
def test_epsilon_by_binomial_tails(
    hits: int, size: int, trials: int, delta: float, alpha: float
) -> None:
    def beyond(r: int) -> float:
        """P(more than r revealed labels)."""
        return float(1 - stats.binom.cdf(r, trials, delta))

    revealed = 0
    while beyond(revealed) > alpha / 5:
        revealed += 1
    level = alpha - beyond(revealed)

    def excess(epsilon: float) -> float:
        share = 1 / (1 + math.exp(-epsilon))
        return float(stats.binom.sf(hits - revealed - 1, size - revealed, share)) - level

    expected = brentq(excess, 0, 30, xtol=1e-12)
    assert 0 < expected < 10
    assert counted(hits, size, trials).epsilon(delta, alpha) == pytest.approx(expected, abs=1e-9)
    # The mirror image counts for the other trial, and its bound is the same.
    mirror = replace(counted(hits, size, trials), high=None, low=1.0, present_high=False)
    assert mirror.epsilon(delta, alpha) == counted(hits, size, trials).epsilon(delta, alpha)


def test_epsilon_of_nothing_is_zero() -> None:
    assert counted(0, 10, 40).epsilon(0.0, 0.05) == 0
    assert counted(5, 10, 40).epsilon(0.0, 0.05) == 0  # as many as chance
    assert counted(4, 4, 40).epsilon(0.0, 0.05) == 0  # 2^-4 is not rare
    assert counted(5, 5, 40).epsilon(0.0, 0.05) > 0  # 2^-5 is
    assert counted(9, 10, 40).epsilon(0.5, 0.05) == 0  # more may be revealed than were seen
    assert counted(30, 40, 40).epsilon(0.0, 0.05) == 0  # no trial outside: coins alone
    assert counted(30, 40, 41).epsilon(0.0, 0.05) > 0
    assert replace(counted(30, 40, 40), low=0.0).epsilon(0.0, 0.05) > 0  # all are guessed


def test_separated_scores_by_hand() -> None:
    """All s labels right: the limit is α^(1/s); the point estimate is infinite."""
    estimate, event = label_epsilon(np.zeros(40), np.ones(60), coin_flipped=True)
    assert (event.hits, estimate.value, estimate.upper) == (event.size, math.inf, math.inf)
    share = 0.05 ** (1 / event.size)
    assert estimate.lower == pytest.approx(math.log(share / (1 - share)))
    assert (event.trials, estimate.kind, estimate.confidence) == (95, "frequentist", 0.95)
    assert str(event) == (
        "score >= 1, likelier in D' than in D; score <= 0, likelier in D than in D'"
    )
    assert event.size == event.trials
    # Fixed sizes cost a fiftieth of α and the trials that the flips leave out.
    fixed, event = label_epsilon(np.zeros(40), np.ones(60), confidence=0.9)
    share = 0.049 ** (1 / event.size)
    assert fixed.lower == pytest.approx(math.log(share / (1 - share)))
    assert 40 < event.trials < 80
    assert (fixed.alpha, fixed.confidence) == (0.05, 0.9)


@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_no_outcomes_certify_more_than_the_most(delta: float) -> None:
    most = most_certified(400, delta=delta, alpha=0.01)
    for seed in range(5):
        absent, present = np.zeros(200), np.ones(200)
        estimate, _ = label_epsilon(absent, present, delta=delta, alpha=0.01, seed=seed)
        assert most - 0.3 < estimate.lower < most
    # All of n right guesses refute θ at level α where θⁿ = α.
    share = 0.01 ** (1 / 400)
    assert most_certified(400, delta=0, alpha=0.01) == pytest.approx(math.log(share / (1 - share)))


@pytest.mark.parametrize("value", [0.0, -3.5])
def test_constant_scores_certify_nothing(value: float) -> None:
    for absent, present in ((1, 1), (3, 9), (60, 40), (80, 20)):
        for flipped in (True, False)[absent == 80 :]:  # 80 and 20 are refused as fair coins
            scores = np.full(absent, value), np.full(present, value)
            assert label_epsilon(*scores, coin_flipped=flipped)[0].lower == 0


def test_coin_flips_out_of_fixed_sizes() -> None:
    """They ask for too many with probability at most α, and one trial more would break that."""
    rng = np.random.default_rng(0)
    for absent, present in ((1, 1), (2, 40), (500, 400)):
        sizes = [
            tuple(len(s) for s in labels._flip(np.zeros(absent), np.ones(present), 0.001, rng))
            for _ in range(20)
        ]
        trials = max(sum(pair) for pair in sizes)

        def short(m: int, a: int = absent, p: int = present) -> float:
            return float(stats.binom.sf(a, m, 0.5) + stats.binom.sf(p, m, 0.5))

        assert short(trials) <= 0.001 < short(trials + 1)
        assert all(a <= absent and p <= present for a, p in sizes)
        assert len(set(sizes)) > 1
    kept, _ = labels._flip(np.arange(500.0), np.arange(400.0), 0.001, rng)
    assert len(np.unique(kept)) == len(kept)


# What the choice may see.


class Curious(Side):
    """A broken rule: the event is the best one of all by the labels to be certified."""

    def choose(self) -> int:
        return int(self._certified(self.hits.cumsum().astype(float), self.size.cumsum()).argmax())


def pilots(patch: pytest.MonkeyPatch, kind: type[Side]) -> list[Labels]:
    """The pilots of the tests to come, from the largest score downwards."""
    seen: list[Labels] = []

    class Spy(Tally):
        def __init__(
            self, scores: Scores, present: Labels, pilot: Labels, log_odds: bool = False
        ) -> None:
            super().__init__(scores, present, pilot, log_odds)
            seen.append(pilot)

    patch.setattr(labels, "Tally", Spy)
    patch.setattr(labels, "Side", kind)
    return seen


def unseen(event: LabelTest) -> LabelTest:
    """The event without its labels."""
    return replace(event, hits=0, rates=(0.0, 0.0))


def moved(patch: pytest.MonkeyPatch, kind: type[Side], inside: bool, log_odds: bool = False) -> int:
    """How often the event moves when labels that are not of the pilot are drawn anew.

    Those inside the event are, or those outside.
    """
    rng = np.random.default_rng(1)
    patch.setattr(labels, "_digest", lambda *_: b"")  # the pilot's places, whatever the labels
    patch.setattr(
        "dpaudit.bounds.outcomes.check_coins", lambda *_: None
    )  # changed labels are no coins
    seen, moves = pilots(patch, kind), 0
    for run in range(30):
        present = rng.random(300) < 0.5
        scores = rng.normal(size=300) + (0, 1, -2)[run % 3] * present
        event = audited(scores, present, run, log_odds)
        pilot = np.zeros(300, bool)
        pilot[np.argsort(-scores)[seen[-1]]] = True
        assert pilot.sum() == 300 - event.trials > 0
        beyond, guess = judged(event, scores)
        assert (beyond & ~pilot).sum() == event.size
        assert (beyond & ~pilot & (present == guess)).sum() == event.hits
        free = ~pilot & (beyond == inside)
        for relabelled in (~present, rng.random(300) < 0.5, rng.random(300) < 0.9):
            changed = np.where(free, relabelled, present)
            again = audited(scores, changed, run, log_odds)
            assert (seen[-1] == seen[0]).all() or run > 0  # no label moves the pilot
            if not inside or kind is Curious:
                moves += unseen(again) != unseen(event)
                continue
            hits = (beyond & ~pilot & (changed == guess)).sum()
            assert unseen(again) == unseen(event)
            assert again.hits == hits
    return moves


@pytest.mark.long
@pytest.mark.parametrize("log_odds", [False, True])
def test_no_label_inside_the_event_moves_it(
    monkeypatch: pytest.MonkeyPatch, log_odds: bool
) -> None:
    assert moved(monkeypatch, Side, inside=True, log_odds=log_odds) == 0


@pytest.mark.long
def test_labels_outside_do_and_a_broken_rule_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        assert moved(patch, Side, inside=False) > 30
    with monkeypatch.context() as patch:
        assert moved(patch, Curious, inside=True) > 30


@pytest.mark.long
def test_a_weak_signal_is_chosen_by_the_scores_that_estimate_it() -> None:
    """Twenty coins of shares 0.504 and 0.496: by ranks alone a tail's slope is mostly luck."""
    certified: dict[bool, list[float]] = {False: [], True: []}
    for seed in range(8):
        rng = np.random.default_rng(seed)
        present = rng.random(400_000) < 0.5
        heads = rng.binomial(20, np.where(present, 0.504, 0.496))
        scores = 0.016 * (heads - 10) + rng.normal(0, 1e-6, len(heads))
        for log_odds, bounds in certified.items():
            bounds.append(audited(scores, present, seed, log_odds).epsilon(0.0, 0.05))
    assert np.mean(certified[True]) > 1.1 * np.mean(certified[False])
    assert min(certified[True]) > 2 * min(certified[False])


@pytest.mark.cases("kind", ["constant", "reversed", "huge"])
def test_scores_that_are_no_log_odds_do_no_harm_but_to_power(kind: str) -> None:
    rng = np.random.default_rng(3)
    present = rng.random(2000) < 0.5
    score = rng.normal(present, 1)
    scores = {"constant": np.zeros(2000), "reversed": -score, "huge": 1e150 * score}[kind]
    assert 0 <= audited(scores, present, 1, log_odds=True).epsilon(0.0, 0.05) < 3


def test_equal_scores_stay_together() -> None:
    rng = np.random.default_rng(2)
    for run in range(60):
        present = rng.random(19) < 0.5  # too few for a pilot: every trial is counted
        scores = np.floor((2 + run % 4) * rng.random(19) + present)
        event = audited(scores, present, run)
        beyond, guess = judged(event, scores)
        assert (event.size, event.trials) == (beyond.sum(), 19)
        assert event.hits == (present == guess)[beyond].sum()
        end = scores <= event.low if event.high is None else scores >= event.high
        rates = 2 * (end & ~present).sum() / 19, 2 * (end & present).sum() / 19
        assert event.rates == pytest.approx(rates)


def test_ends_of_bins() -> None:
    for size in (1, 2, 8, 9, 40, 5000):
        ends = _ends(-np.arange(size, dtype=float))
        assert ends[-1] == size
        assert (np.diff(ends) > 0).all()
        assert ends[0] == min(8, size)
    assert _ends(np.zeros(50)).tolist() == [50]
    assert _ends(-np.repeat(np.arange(3.0), (10, 5, 5))).tolist() == [10, 15, 20]
    # The difference of these two overflows.
    assert _ends(np.repeat((1.7e308, -1.7e308), 10)).tolist() == [10, 20]


# Invariances.


def classes(seed: int, n: int, shift: float) -> tuple[Scores, Scores]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=n), rng.normal(shift, 1, n)


@pytest.mark.parametrize("flipped", [True, False])
def test_only_the_order_of_the_scores_counts(flipped: bool) -> None:
    absent, present = classes(3, 400, 1.0)
    estimate, event = label_epsilon(absent, present, delta=1e-5, coin_flipped=flipped, seed=7)
    assert estimate.lower > 0.5
    assert label_epsilon(absent, present, delta=1e-5, coin_flipped=flipped, seed=7) == (
        estimate,
        event,
    )
    stretched, same = label_epsilon(
        np.exp(absent), np.exp(present), delta=1e-5, coin_flipped=flipped, seed=7
    )
    assert stretched == estimate
    high, low = (None if end is None else float(np.exp(end)) for end in (event.high, event.low))
    assert same == replace(event, high=high, low=low)
    assert label_epsilon(absent, present, delta=1e-5, coin_flipped=flipped, seed=8)[1] != event


def test_order_inside_a_class_does_not_count() -> None:
    rng = np.random.default_rng(4)
    for round_ in (np.asarray, np.round):
        absent, present = (round_(scores) for scores in classes(5, 300, 1.0))
        first = label_epsilon(absent, present, coin_flipped=True, seed=0)
        assert first == label_epsilon(
            rng.permutation(absent), rng.permutation(present), coin_flipped=True, seed=0
        )


@pytest.mark.parametrize("flipped", [True, False])
def test_every_direction_is_found(flipped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(5):
        absent, present = classes(seed, 400, 1.5)
        for larger_present in (True, False):
            pair = (absent, present) if larger_present else (present, absent)
            for sign in (1, -1):
                scores = [sign * sample for sample in pair]
                estimate, event = label_epsilon(*scores, coin_flipped=flipped, seed=0)
                assert estimate.lower > 1
                assert event.present_high == (larger_present == (sign > 0))
    # Swapped trials have the same event, counted for the other trial.
    monkeypatch.setattr(labels, "_digest", lambda *_: b"")
    absent, present = classes(1, 400, 1.5)
    event, mirror = (
        label_epsilon(*pair, coin_flipped=True, seed=0)[1]
        for pair in ((absent, present), (present, absent))
    )
    assert unseen(mirror) == unseen(replace(event, present_high=not event.present_high))
    assert mirror.hits == event.hits
    assert mirror.rates == event.rates[::-1]


# The error rate.


def response(epsilon: float, delta: float, hidden: bool = False) -> Law:
    """(ε, δ)-randomised response, the worst law; revealed labels have scores of their own."""
    right = 1 / (1 + math.exp(-epsilon))

    def law(rng: np.random.Generator, present: Labels) -> Scores:
        signal = np.where(rng.random(len(present)) < right, present, ~present).astype(float)
        shown = rng.random(len(present)) < delta
        return np.where(shown, present if hidden else 3.0 * present - 1, signal)

    return law


def null(rng: np.random.Generator, present: Labels) -> Scores:
    return rng.random(len(present))


def coarse_null(rng: np.random.Generator, present: Labels) -> Scores:
    return np.floor(2 * rng.random(len(present)))


def laplace(rng: np.random.Generator, present: Labels) -> Scores:
    """The log-ratio of the Laplace mechanism with ε = 1, with its atoms."""
    return np.clip(2 * (present + rng.laplace(size=len(present))) - 1, -1.0, 1.0)


def gaussian(rng: np.random.Generator, present: Labels) -> Scores:
    return rng.normal(size=len(present)) + present


def bounds(law: Law, delta: float, flipped: bool, size: int, seed: int = -1) -> Iterator[float]:
    """The bounds of independent audits at α = 0.05, about `size` trials a class, without end."""
    rng = np.random.default_rng(11)
    for run in count():
        coins = rng.random(2 * size) < 0.5
        present = coins if flipped else np.repeat((False, True), size)
        scores = law(rng, present)
        estimate, _ = label_epsilon(
            scores[~present],
            scores[present],
            delta=delta,
            coin_flipped=flipped,
            seed=run if seed < 0 else seed,
        )
        yield estimate.lower


def above(epsilon: float, bounds: Iterator[float]) -> bool:
    """Whether more than 5 % of the bounds exceed ε, by Wald's test: wrong at a rate of 1e-6."""
    return bool(claims_too_much((lower > epsilon + 1e-9 for lower in bounds), 1e-6))


@pytest.mark.long
@pytest.mark.parametrize(
    ("law", "epsilon", "delta", "flipped", "size", "weaker"),
    [
        (null, 0.0, 0.0, True, 22, -1.0),
        (response(1.0, 0.0), 1.0, 0.0, True, 200, 0.9),
        (response(1.0, 0.02), 1.0, 0.02, False, 200, 0.7),
        (response(0.5, 0.1, hidden=True), 0.5, 0.1, False, 400, 0.0),
        (laplace, 1.0, 0.0, False, 60, 0.4),
        (gaussian, gaussian_epsilon(1.0, 0.002), 0.002, True, 22, 0.0),
    ],
    ids=["null", "response", "response-0.02", "response-0.1", "laplace", "gaussian"],
)
def test_false_claims_are_as_rare_as_stated(
    law: Law, epsilon: float, delta: float, flipped: bool, size: int, weaker: float
) -> None:
    assert not above(epsilon, bounds(law, delta, flipped, size))
    assert above(weaker, bounds(law, delta, flipped, size))  # a smaller ε would be caught


def test_false_claims_at_one_seed() -> None:
    """The seed alone would draw the same coins in all audits of fixed sizes, here far from even.

    Of 400 audits 152 would then be false.
    """
    assert not above(0, bounds(coarse_null, 0.0, False, 50, seed=5))


@pytest.mark.long
def test_a_choice_that_sees_the_labels_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "Side", Curious)
    assert above(0, bounds(null, 0.0, True, 22))


def test_unpaid_revealed_labels_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "revealed_labels", lambda *_: (0, 0.0))
    assert above(0.5, bounds(response(0.5, 0.1), 0.1, True, 100))


# Power.


@pytest.mark.long
@pytest.mark.parametrize(("shift", "figure"), [(0.5, 0.49), (1.0, 1.44), (2.0, 3.26)])
def test_as_strong_as_a_threshold_known_in_advance(shift: float, figure: float) -> None:
    """Gaussian scores, n = 1000 a class, δ = 1e-5."""
    # What the best threshold, direction and split certify at the expected counts.
    n, known = 1000, 0.0
    for at in np.linspace(0, 3, 61):
        tpr, fpr = stats.norm.sf(at - shift), stats.norm.sf(at)
        tp, fp = round(n * tpr), round(n * fpr)
        split = best_split(tpr, fpr, n, n, delta=1e-5)
        counts = Counts(tp, fp, n - tp, n - fp)
        known = max(known, clopper_pearson_epsilon(counts, delta=1e-5, split=split).lower)
    assert known == pytest.approx(figure, rel=0.03)
    runs, certified = 60, []
    for run in range(runs):
        pair = classes(1000 + run, n, shift)
        certified.append(label_epsilon(*pair, delta=1e-5, seed=run)[0].lower)
    # The median is the figure less 3 % or more: so many runs at least reach it, at a rate of 1e-6.
    # Bounds of half that size would be noticed.
    least = stats.binom.ppf(1e-6 / 3, runs, 0.5)
    assert (np.array(certified) >= 0.97 * figure).sum() >= least
    assert (0.5 * np.array(certified) >= 0.97 * figure).sum() < least
    assert np.median(certified) >= 0.97 * figure


# Bad input.


@pytest.mark.cases(
    ("absent", "present", "options", "message"),
    [
        ([0.0, math.nan], [1.0], {}, r"absent\[1\] = nan"),
        ([0.0], [1.0, 2.0, math.inf], {}, r"present\[2\] = inf"),
        ([], [1.0], {}, "absent are empty"),
        ([0.0], [], {}, "present are empty"),
        ([[0.0]], [1.0], {}, "absent have shape"),
        ([0.0], [1.0], {"delta": 1.0}, "delta = 1.0"),
        ([0.0], [1.0], {"delta": -1e-9}, "delta = -1e-09"),
        ([0.0], [1.0], {"delta": math.nan}, "delta = nan"),
        ([0.0], [1.0], {"alpha": 0.0}, "alpha = 0.0"),
        ([0.0], [1.0], {"alpha": 1.0}, "alpha = 1.0"),
    ],
)
@pytest.mark.cases("flipped", [True, False])
def test_bad_input(
    absent: list[float],
    present: list[float],
    options: dict[str, float],
    message: str,
    flipped: bool,
) -> None:
    with pytest.raises(InputError, match=message):
        label_epsilon(np.array(absent), np.array(present), coin_flipped=flipped, **options)  # type: ignore[arg-type]


def test_one_trial_each() -> None:
    for flipped in (True, False):
        for delta in (0.0, 0.3):
            estimate, event = label_epsilon(
                np.zeros(1), np.ones(1), delta=delta, coin_flipped=flipped
            )
            assert (estimate.lower, event.trials) == (0, 2 if flipped else 1)


def test_fixed_guesses_are_one_binomial_test() -> None:
    """The Clopper-Pearson limit on 28 right guesses of 30, whatever the other trials are."""
    present = np.arange(400) % 2 == 0
    guesses = np.zeros(400, np.int64)
    guesses[:30] = np.where(present[:30], 1, -1)
    guesses[[0, 1]] *= -1
    bound, event = guessed_epsilon(guesses, present, delta=0.0, alpha=0.05)
    share = stats.beta.ppf(0.05, 28, 3)
    assert bound.lower == pytest.approx(np.log(share / (1 - share)))
    assert (event.hits, event.size, event.trials) == (28, 30, 400)
    assert event.rates == pytest.approx((1 / 200, 14 / 200))
    low, one = guessed_epsilon(np.minimum(guesses, 0), present, delta=0.0, alpha=0.05)
    assert (one.high, one.low, one.hits, one.size) == (None, -1.0, 14, 15)
    assert one.rates == pytest.approx((14 / 200, 1 / 200))
    assert low.lower < bound.lower
    nothing, _ = guessed_epsilon(np.zeros(400, np.int64), present, delta=0.0, alpha=0.05)
    every, _ = guessed_epsilon(np.ones(400, np.int64), present, delta=0.0, alpha=0.05)
    assert nothing.lower == every.lower == 0
