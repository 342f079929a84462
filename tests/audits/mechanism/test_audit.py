"""Black-box audits of mechanisms from their outputs.

Where a test's outcome is random it states its false-failure rate, at most 1e-6: certificates of a
single audit have the confidence 1 − 1e-6 there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from plain_mechanisms import laplace, many_laplace, many_normal, responses  # type: ignore[import-not-found]
from scipy.stats import beta, binom

import dpaudit
from dpaudit.attacks.black_box.learned import LearnedScore
from dpaudit.audits.mechanism.audit import BlackBoxAudit, audit, audit_pairs
from dpaudit.bounds.frequentist.labels import label_epsilon
from dpaudit.core.errors import InputError, RunError

SURE = 1 - 1e-6
Rng = np.random.Generator


def itself(outputs: Any) -> Any:
    return outputs


def law(chances: Mapping[int, tuple[float, ...]], outputs: tuple[Any, ...]) -> Callable[..., Any]:
    """A mechanism with these outputs, and their probabilities for data sets 0 and 1."""
    return lambda data, rng: outputs[rng.choice(len(outputs), p=chances[data])]


# ε = ln 6 by the second output.
CHANCES = {0: (0.5, 0.1, 0.4), 1: (0.1, 0.6, 0.3)}
OUTPUTS: dict[str, tuple[Any, ...]] = {
    "words": ("red", "green", "blue"),
    "bytes": (b"red", b"green", b"blue"),
    "numbers": (1, 2.5, True),
    "arrays": tuple(np.full((2, 2), i) for i in range(3)),
    "lists of varying length": ([1.0], [1.0, 1.0], [1.0, 1.0, 1.0]),
    "arrays of varying length": tuple(np.ones(n) for n in (1, 2, 0)),
    "lists of words": (["a"], ["a", "b"], ["b", "c", "a"]),
    "numbers and a word": (1, "no answer", 2),
    "numbers and none": (1, None, 2),
    "tuples": ((1, "a"), (2, "a"), (1, "b")),
}


@pytest.mark.usefixtures("unrepeated")
@pytest.mark.long
@pytest.mark.parametrize("kind", OUTPUTS)
def test_every_kind_of_output_is_read(kind: str) -> None:
    result = audit(law(CHANCES, OUTPUTS[kind]), 0, 1, trials=1600, confidence=SURE, seed=1)
    # Failing to distinguish them is as unlikely; ln 6 = 1.79.
    assert 0.3 < result.epsilon.lower <= math.log(6)
    assert result.score.startswith("learned (")
    same = audit(
        law({0: CHANCES[0], 1: CHANCES[0]}, OUTPUTS[kind]), 0, 1, trials=400, confidence=SURE
    )
    assert same.epsilon.lower == 0


@pytest.mark.usefixtures("unrepeated")
@pytest.mark.long
def test_laplace_in_single_and_in_batched_calls() -> None:
    """ε = 1: the bound at confidence 1 − 1e-6 is below it, and not far below."""
    for trials, result in (
        (6000, audit(laplace, 0.0, 1.0, trials=6000, confidence=SURE, seed=1)),
        (
            20_000,
            audit(many_laplace, 0.0, 1.0, trials=20_000, confidence=SURE, batched=True, seed=1),
        ),
    ):
        assert 0.4 < result.epsilon.lower <= 1
        assert result.epsilon.kind == "frequentist"
        assert result.epsilon.confidence == SURE
        assert (result.pair, result.delta) == (0, 0.0)
        # Half of the trials train the score; the others certify.
        assert result.epsilon.n == trials // 2
    assert dpaudit.audit is audit
    assert dpaudit.audit_pairs is audit_pairs


@pytest.mark.usefixtures("unrepeated")
@pytest.mark.long
def test_delta_is_what_the_bound_is_at() -> None:
    """Laplace noise, ε = 1: at δ it is (ε', δ)-DP with ε' = 1 + 2 ln(1 − δ)."""

    def result(delta: float) -> BlackBoxAudit:
        return audit(
            many_laplace,
            0.0,
            1.0,
            trials=20_000,
            delta=delta,
            confidence=SURE,
            batched=True,
            seed=1,
        )

    assert result(0.02).delta == 0.02
    assert 0 < result(0.02).epsilon.lower <= 1 + 2 * math.log(1 - 0.02)
    assert result(0.02).epsilon.lower < result(0.0).epsilon.lower


@pytest.mark.long
def test_randomised_response_is_exact() -> None:
    """The label test's equation on guesses that are right with probability e/(1 + e)."""
    alpha = 0.01
    result = audit(
        responses, 0, 1, trials=40_000, confidence=1 - alpha, score=itself, batched=True, seed=2
    )
    event, right = result.event, math.e / (1 + math.e)
    assert result.score == "itself"
    # As every call has its own coin, no share of α is spent on fixed sample sizes.
    share = beta.ppf(alpha, event.hits, event.size - event.hits + 1)
    assert result.epsilon.lower == pytest.approx(math.log(share / (1 - share)), rel=1e-9)
    # False-failure rate 1e-6; the wrong law of odds 2 to 1 would be seen.
    low, high = binom.ppf((5e-7, 1 - 5e-7), event.size, right)
    assert low <= event.hits <= high
    assert not low <= event.size * 2 / 3 <= high
    # At either end of the scores, on D and D'.
    assert sorted(event.rates) == pytest.approx([1 - right, right], abs=0.03)


@pytest.mark.usefixtures("unrepeated")
@pytest.mark.long
def test_certificates_exceed_the_truth_no_more_often_than_stated() -> None:
    """300 audits of randomised response at 90 %. False-failure rate 1e-6.

    An ε that is a quarter too large would be noticed.
    """
    bounds = np.array(
        [
            audit(
                responses, 0, 1, trials=400, confidence=0.9, score=itself, batched=True, seed=seed
            ).epsilon.lower
            for seed in range(300)
        ]
    )
    limit = binom.isf(1e-6, len(bounds), 0.1)
    assert (bounds > 1).sum() <= limit < (bounds * 4 / 3 > 1).sum()


@pytest.mark.usefixtures("unrepeated")
@pytest.mark.long
def test_a_learned_score_is_certified_on_outputs_that_it_has_not_seen() -> None:
    """24 audits of one law at 80 %: false-failure rate 1e-6.

    Certified on the outputs that trained it, as many audits would make false claims.
    """
    runs, fresh, seen = 24, 0, 0
    for seed in range(runs):
        result = audit(many_normal, 0, 1, trials=400, confidence=0.8, batched=True, seed=seed)
        fresh += result.epsilon.lower > 0
        outputs = np.random.default_rng([seed, 7]).normal(size=(2, 100, 16))
        score = LearnedScore.fit(outputs[0], outputs[1], seed).score
        bound, _ = label_epsilon(score(outputs[0]), score(outputs[1]), alpha=0.2, seed=seed)
        seen += bound.lower > 0
    limit = binom.isf(1e-6, runs, 0.2)
    assert fresh <= limit < seen


@pytest.mark.usefixtures("unrepeated")
@pytest.mark.long
def test_a_seed_decides_everything() -> None:
    def result(seed: int, batched: bool) -> BlackBoxAudit:
        mechanism = many_laplace if batched else laplace
        return audit(mechanism, 0.0, 1.0, trials=400, seed=seed, batched=batched)

    state = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    for batched in (False, True):
        assert result(3, batched) == result(3, batched)
        assert result(3, batched) != result(4, batched)
        # The largest seed that a config allows, which is above scikit-learn's limit.
        assert result(2**64 - 1, batched) != result(2**32 - 1, batched)
    assert (np.random.get_state()[1] == state).all()  # type: ignore[index]  # noqa: NPY002


@pytest.mark.usefixtures("unrepeated")
@pytest.mark.parametrize("batched", [False, True])
def test_more_trials_extend_the_same_sequence(batched: bool) -> None:
    def drawn(trials: int, seed: int) -> list[Any]:
        seen = []

        def score(outputs: Any) -> Any:
            seen.append(np.array(outputs))
            return outputs

        audit(
            many_laplace if batched else laplace,
            0.0,
            1.0,
            trials=trials,
            score=score,
            batched=batched,
            seed=seed,
        )
        return seen

    (few,), (more,) = drawn(300, 1), drawn(9000, 1)
    # Outputs of both data sets, in the order of the calls.
    assert (len(few), len(more)) == (300, 9000)
    assert (more[:300] == few).all()
    assert len(np.unique(more)) == 9000
    assert not set(few) & set(drawn(300, 2)[0])


@pytest.mark.usefixtures("unrepeated")
@pytest.mark.long
def test_the_telling_pair_is_found_among_useless_ones() -> None:
    pairs = [(0.0, 1e-9)] * 9
    pairs[3], pairs[6] = (0.0, 0.4), (0.0, 1.5)
    options: dict[str, Any] = {"trials": 4000, "confidence": SURE, "batched": True, "seed": 0}
    given = audit_pairs(many_laplace, pairs, search=400, score=itself, **options)
    learned = audit_pairs(many_laplace, pairs[5:8], search=400, **options)
    assert (given.pair, learned.pair) == (6, 1)
    # More than the ε of the weaker pair.
    for result in (given, learned):
        assert 0.4 < result.epsilon.lower <= 1.5
    # The remaining pair is audited as if it were the only one.
    alone = audit(many_laplace, 0.0, 1.5, score=itself, **options)
    assert given.epsilon == alone.epsilon

    def silent(data: float, rng: np.random.Generator, n: int) -> NDArray[np.float64]:
        return np.zeros(n)

    assert audit_pairs(silent, [(0.0, 1.0)] * 5, trials=200, search=200, batched=True).pair == 0


@pytest.mark.long
def test_the_search_sees_no_output_of_the_certificate() -> None:
    """Otherwise the choice of the pair would invalidate the confidence."""
    noises: list[float] = []

    def mechanism(data: float, rng: Rng) -> float:
        noises.append(rng.laplace())
        return data + noises[-1]

    audit_pairs(mechanism, [(0.0, 1.0)] * 4 + [(0.0, 3.0)], trials=300, search=200, score=itself)
    # Five pairs with 200 outputs, three with as many again, two with 300 more; then one with 300.
    assert len(noises) == (5 + 3) * 200 + 2 * 300 + 300
    assert len(set(noises)) == len(noises)


def test_a_given_score_reads_any_output() -> None:
    def mechanism(data: int, rng: Rng) -> dict[str, Any]:
        return {"answer": data + rng.laplace(), "parts": [1, [2, 3]]}

    result = audit(
        mechanism, 0, 4, trials=400, score=lambda outputs: [output["answer"] for output in outputs]
    )
    assert result.epsilon.lower > 0.5
    assert result.score == "<lambda>"


def returning(*values: Any) -> Callable[..., Any]:
    return lambda data, rng, *n: values[rng.integers(len(values))]


def test_outputs_in_which_nothing_can_be_read_are_refused() -> None:
    with pytest.raises(InputError, match="objects of type object"):
        audit(returning(object()), 0, 1, trials=200)


@pytest.mark.cases(
    ("answer", "words"),
    [
        (lambda n: 3.0, "returned float where an array of 1 outputs"),
        (lambda n: None, "returned NoneType"),
        (lambda n: {"a": 1}, "returned dict"),
        (lambda n: np.zeros(n - 1), "returned ndarray where"),
        (lambda n: np.zeros((2, n)), "first axis must be n"),
    ],
)
def test_batches_that_are_none_are_refused(answer: Callable[[int], Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        audit(lambda data, rng, n: answer(n), 0, 1, trials=200, batched=True)


@pytest.mark.long
def test_batches_of_words_are_read() -> None:
    def words(data: int, rng: Rng, n: int) -> Any:
        return rng.choice(["a", "bbb"], n, p=[0.5 + 0.4 * data, 0.5 - 0.4 * data])

    result = audit(words, 0, 1, trials=4000, confidence=SURE, batched=True, seed=0)
    assert 0.5 < result.epsilon.lower <= math.log(5)


@pytest.mark.cases(
    ("score", "words"),
    [
        (lambda outputs: np.repeat(outputs, 2), "score returned 400 numbers for 200 outputs"),
        (lambda outputs: outputs[:7], "score returned 7 numbers"),
        (lambda outputs: 1.0, "give one score per trial"),
        (lambda outputs: outputs[:, None], "give one score per trial"),
        (lambda outputs: outputs * np.nan, "nan is not a finite number"),
        (lambda outputs: ["a"] * len(outputs), "not numbers"),
    ],
)
def test_scores_that_are_none_are_refused(score: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        audit(laplace, 0.0, 1.0, trials=200, score=score)


@pytest.mark.cases(
    ("changes", "words"),
    [
        ({"trials": 199}, "trials = 199"),
        ({"trials": 2e4}, "trials = 20000.0"),
        ({"trials": True}, "trials = True"),
        ({"search": 10}, "search = 10"),
        ({"seed": -1}, "seed = -1"),
        ({"seed": 0.5}, "seed = 0.5"),
        ({"confidence": 1}, "confidence = 1"),
        ({"confidence": 0}, "confidence = 0"),
        ({"confidence": math.nan}, "confidence = nan"),
        ({"delta": 1}, "delta = 1"),
        ({"delta": -1e-9}, "delta = -1e-09"),
        ({"delta": math.nan}, "delta = nan"),
        ({"score": "learnt"}, "score = 'learnt'"),
        ({"pairs": []}, "at least one pair"),
        ({"pairs": np.zeros((0, 2))}, "at least one pair"),
        ({"pairs": [0.0, 1.0]}, r"pairs\[0\] is not a tuple"),
        ({"pairs": [(0.0, 1.0), (0.0, 1.0, 2.0)]}, r"pairs\[1\] is not a tuple"),
        ({"pairs": np.zeros((2, 2))}, r"pairs\[0\] is not a tuple"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_runs(
    changes: dict[str, Any], words: str
) -> None:
    def mechanism(data: float, rng: Rng) -> float:
        raise AssertionError

    with pytest.raises(InputError, match=words) as caught:
        audit_pairs(mechanism, **{"pairs": [(0.0, 1.0)], "trials": 400, **changes})
    assert "\n" not in str(caught.value)


@pytest.mark.cases("score", ["learned", lambda outputs: [0.0] * len(outputs)])
@pytest.mark.cases(
    "odd",
    [
        math.nan,
        [math.nan],
        np.array([math.nan, 1.0]),
        10**400,
        [10**400, 1.0],
        np.longdouble("1e4000"),
        range(10**18),
        1j,
    ],
)
def test_odd_outputs_are_outputs(odd: Any, score: Any) -> None:
    def returns(data: float, rng: Rng) -> Any:
        return odd if rng.random() < 0.5 else 1.0

    result = audit(returns, 0, 1, trials=1000, confidence=SURE, score=score)
    assert result.epsilon.lower == 0


class Mute:
    """An output that no library can read."""

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        raise RuntimeError


def test_an_object_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(InputError, match="returned objects of type Mute"):
        audit(lambda data, rng: Mute(), 0, 1, trials=400)


@pytest.mark.cases("given", [10**400, 1j, math.nan])
def test_scores_that_are_no_finite_numbers_are_refused(given: Any) -> None:
    with pytest.raises(InputError, match="scores"):
        audit(laplace, 0, 1, trials=400, score=lambda outputs: [given] * len(outputs))


@pytest.mark.cases("error", [SystemExit, GeneratorExit, StopIteration, ZeroDivisionError])
def test_a_mechanism_that_never_answers_is_an_error(error: type[BaseException]) -> None:
    def fails(data: float, rng: Rng) -> float:
        raise error("now")

    with pytest.raises(RunError, match=f"the mechanism raised {error.__name__}: now"):
        audit(fails, 0, 1, trials=400)


@pytest.mark.long
@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
@pytest.mark.parametrize("score", ["learned", itself])
def test_an_exception_on_one_data_set_is_an_output(error: type[BaseException], score: Any) -> None:
    """Half of the calls on D', and none on D: ε is infinite."""

    def raising(data: int, rng: Rng) -> float:
        if data and rng.random() < 0.5:
            raise error("no answer")
        return round(rng.laplace(), 6)

    result = audit(raising, 0, 1, trials=1000, confidence=SURE, score=score, seed=1)
    assert result.epsilon.lower > 1.5
    assert result.raised is not None
    assert "0.000% of those on D, " in result.raised
    assert f" {error.__name__}: no answer" in result.raised


@pytest.mark.long
@pytest.mark.parametrize("score", ["learned", itself])
def test_exceptions_on_both_data_sets_accuse_nobody(score: Any) -> None:
    def raising(data: int, rng: Rng) -> float:
        if rng.random() < 0.3:
            raise ValueError(f"no answer to {rng.integers(3)}")
        return round(data + rng.laplace(), 9)

    result = audit(
        raising, 0, 1, trials=2000, confidence=SURE, score=score, claim=3.0, detectable=3
    )
    assert result.epsilon.lower <= 1
    assert result.control is not None
    assert result.raised is not None


@pytest.mark.long
def test_the_message_of_an_exception_is_read_without_addresses() -> None:
    """The message tells the data set; an object's address differs between them by chance only."""
    places = {0: object(), 1: object()}

    def naming(data: int, rng: Rng) -> float:
        if rng.random() < 0.5:
            raise ValueError(f"cannot read {places[data]!r}" + (f" {data}" if leak else ""))
        return 0.0

    leak = False
    assert audit(naming, 0, 1, trials=400, confidence=SURE, seed=1).epsilon.lower == 0
    leak = True
    assert audit(naming, 0, 1, trials=400, confidence=SURE, seed=1).epsilon.lower > 1


@pytest.mark.long
def test_a_known_law_gives_the_likelihood_form_beside_the_certified_bound() -> None:
    def noisy(data: float, rng: np.random.Generator, n: int) -> NDArray[np.float64]:
        return data + rng.laplace(size=n)

    def ratio(outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.round(np.abs(outputs) - np.abs(outputs - 1), 6)

    def wrong(outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        return 2 * ratio(outputs)

    def result(log_ratio: Callable[..., Any]) -> BlackBoxAudit:
        return audit(noisy, 0.0, 1.0, trials=4000, log_ratio=log_ratio, batched=True, seed=0)

    right, twice = result(ratio), result(wrong)
    assert right.likelihood is not None
    assert twice.likelihood is not None
    # Half the outputs of D' have the largest ratio: that none has is a chance of 2^-2000.
    assert right.likelihood.lower == pytest.approx(1, abs=1e-5)
    assert right.likelihood.kind == "assumes-law"
    assert 0.7 < right.epsilon.lower <= right.likelihood.lower
    # With a wrong law the likelihood bound is wrong; the certified bound still holds.
    assert twice.likelihood.lower > 1.9
    assert twice.epsilon.lower == right.epsilon.lower
    with pytest.raises(InputError, match="both score and log_ratio"):
        audit(noisy, 0.0, 1.0, score=ratio, log_ratio=ratio, batched=True)
    assert audit(noisy, 0.0, 1.0, score=ratio, trials=400, batched=True).likelihood is None
