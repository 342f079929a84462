"""What would not fit the memory is refused before it is allocated, in one sentence."""

from __future__ import annotations

import gc
import re
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpaudit.core.errors import ConfigError
from dpaudit.core.memory import VARIABLE
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.defenses.factorization.sampled import SampledFactors
from dpaudit.defenses.factorization.sgd import SgdFactors
from dpaudit.defenses.federated.fake_gradients import FakeGradients
from dpaudit.defenses.item_item.similarities import Cosine, SlopeOne
from dpaudit.defenses.neighborhood.sampled import SampledSimilarity
from dpaudit.defenses.neighborhood.sgd import SgdSimilarity
from dpaudit.defenses.neighborhood.similarity import Neighborhood
from dpaudit.defenses.social.privsr import PrivSR
from dpaudit.defenses.social.ranking import PrivSRRanking
from dpaudit.defenses.top_k.defense import TopK

N, M = 300, 1500
SENTENCE = re.compile(
    r"would take (?P<bytes>[\d.]+) (?P<unit>kB|MB|GB) of memory, which grows with (?P<growth>.+), "
    r"and the limit is (?P<limit>[\d.]+ \w+) \(DPAUDIT_MEMORY\): (?P<remedy>.+), or set "
    r"DPAUDIT_MEMORY higher$"
)
UNITS = {"kB": 1e3, "MB": 1e6, "GB": 1e9}
TRIALS = Streams.first(0, "memory", 16)
ONE = Streams.first(0, "memory", 1)


def drawn(purchases: bool = False) -> Ratings:
    """Ratings of a hundred items by each user, a fifth of them sensitive."""
    source = np.random.default_rng(1)
    item = np.concatenate([source.permutation(M)[:100] for _ in range(N)])
    count = len(item)
    value = np.ones(count) if purchases else source.integers(1, 6, count).astype(np.float32)
    return Ratings.build(
        np.repeat(np.arange(N), 100),
        item,
        value,
        N,
        M,
        Scale(1, 1, 1) if purchases else Scale(),
        sensitive=source.random(count) < 0.2,
    )


RATED, BOUGHT = drawn(), drawn(purchases=True)
EVERYBODY = np.ones(N, np.bool_)
ITEMS = np.arange(M, dtype=np.int32)


def trained(defense: Any, ratings: Ratings, streams: Streams = TRIALS) -> Callable[[], Any]:
    return lambda: defense.train(defense.prepare(ratings), streams)


def submitted(defense: Any, ratings: Ratings) -> Callable[[], Any]:
    return lambda: defense.submissions(defense.prepare(ratings), ONE, EVERYBODY)


def observed(defense: Any) -> Callable[[], Any]:
    def observe() -> Any:
        prepared = defense.prepare(RATED)
        return next(iter(defense.observe(prepared, prepared, prepared, TRIALS)))

    return observe


def batches(defense: Any) -> Callable[[], Any]:
    return lambda: defense.batches(defense.prepare(RATED), TRIALS)


def known() -> Any:
    defense = SlopeOne(epsilon=1)
    model, profile = defense.prepare(RATED), RATED.profile(0)
    return defense.side_information(model, profile, profile.items)


def joint() -> Any:
    defense = TopK(epsilon=1, variant="corrected", mechanism="joint", top_k=500)
    exact = defense.exact(defense.prepare(RATED), RATED.profile(0))
    return defense.release_list(exact, ONE)


PNBM: dict[str, Any] = {"epsilon": 1.0, "more_than": 5}
CASES: dict[str, tuple[Callable[[], Any], str, str, str]] = {
    # What is refused, what it grows with, its remedy, and a limit that all before it keeps.
    "slope-one": (
        lambda: SlopeOne(epsilon=1, variant="corrected").prepare(RATED),
        "pairs of items that have one .*half the square of the number of items",
        "least_raters",
        "100 kB",
    ),
    "cosine": (
        lambda: Cosine(epsilon=1).prepare(BOUGHT),
        "half the square of the number of items",
        "least_raters",
        "100 kB",
    ),
    "top-k": (
        lambda: TopK(epsilon=1, min_co_ratings=2).prepare(RATED),
        "more than 2 common raters",
        "least_raters",
        "100 kB",
    ),
    "a set's law": (joint, "length of the list", "top_k", "5 MB"),
    "side information": (known, "hidden ratings .* times items", "trials", "19 MB"),
    "neighborhood": (
        lambda: Neighborhood().prepare(RATED),
        "the square of the number of items",
        "least_raters",
        "8 MB",
    ),
    "cosine start": (
        lambda: SgdSimilarity(1.0, "nonprivate", initial="cosine").prepare(RATED),
        "the square of the number of items",
        "least_raters",
        "8 MB",
    ),
    "dpsgd-mf": (
        trained(SgdFactors(epsilon=1), RATED),
        "number of users and items",
        "params.dimensions",
        "1 MB",
    ),
    "dpsgd-mf, large": (
        trained(SgdFactors(epsilon=1, dimensions=256), RATED),
        "number of users and items",
        "params.dimensions",
        "30 MB",
    ),
    "dpps-mf": (
        trained(SampledFactors(epsilon=1), RATED),
        "number of users and items",
        "params.dimensions",
        "1 MB",
    ),
    "dpps-mf, large": (
        trained(SampledFactors(epsilon=1, dimensions=256), RATED),
        "number of users and items",
        "params.dimensions",
        "30 MB",
    ),
    "dpsgd-pnbm batches": (
        batches(SgdSimilarity(**PNBM, sampling_rate=0.5, steps=1000)),
        "params.steps .* number of ratings",
        "sampling_rate",
        "50 MB",
    ),
    "dpps-pnbm batches": (
        batches(SampledSimilarity(**PNBM, sampling_rate=0.5, steps=1000)),
        "params.steps .* number of ratings",
        "sampling_rate",
        "50 MB",
    ),
    "dpsgd-pnbm observed": (
        observed(SgdSimilarity(**PNBM, steps=1000)),
        "params.steps .* number of items",
        "params.steps",
        "50 MB",
    ),
    "dpps-pnbm published": (
        lambda: trained(SampledSimilarity(**PNBM), RATED)().public(ITEMS),
        "trials times these items times all items",
        "train.cap",
        "200 MB",
    ),
    "dpps-pnbm predictions": (
        lambda: trained(SampledSimilarity(**PNBM), RATED)().predict(RATED.user, RATED.item),
        "number of trials .* predicted ratings",
        "train.folds",
        "1 MB",
    ),
    "fake-gradients": (
        lambda: FakeGradients(epsilon=1).prepare(RATED),
        "number of ratings over 1 - params.density",
        "density",
        "1 MB",
    ),
    "fake-gradients, single": (
        lambda: FakeGradients(epsilon=1, dimensions=128).transcript(
            FakeGradients(epsilon=1).prepare(RATED), ONE, None
        ),
        "candidates of the users whose submissions are observed",
        "batch_size",
        "15 MB",
    ),
    "privsr": (
        trained(PrivSR(epsilon=1, social=0), RATED, ONE),
        "number of users and items",
        "params.dimensions",
        "500 kB",
    ),
    "privsr submissions": (
        submitted(PrivSR(epsilon=1, social=0), RATED),
        "params.rounds .* number of their ratings",
        "params.users",
        "5 MB",
    ),
    "privsr-ranking": (
        trained(PrivSRRanking(epsilon=1, social=False), BOUGHT, ONE),
        "number of users and items",
        "params.dimensions",
        "500 kB",
    ),
    "privsr-ranking triples": (
        trained(PrivSRRanking(epsilon=1, social=False, triples=10_000), BOUGHT, ONE),
        "number of users .* params.triples",
        "params.triples",
        "40 MB",
    ),
}


@pytest.mark.cases("name", CASES)
def test_a_refusal_comes_before_the_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run, growth, remedy, limit = CASES[name]
    monkeypatch.setenv(VARIABLE, limit)
    with pytest.raises(ConfigError):
        run()  # compiles kernels, which takes memory too
    gc.collect()
    tracemalloc.start()
    try:
        with pytest.raises(ConfigError) as refused:
            run()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    said = SENTENCE.search(str(refused.value))
    assert said is not None, refused.value
    assert re.search(growth, said["growth"]), said["growth"]
    assert remedy in said["remedy"]
    # What prepares the refused part is small beside it.
    assert peak < 0.5 * float(said["bytes"]) * UNITS[said["unit"]] + 3e6


@pytest.mark.parametrize(
    ("defense", "ratings"),
    [(SlopeOne(epsilon=1, min_co_ratings=3), RATED), (Cosine(epsilon=1), BOUGHT)],
    ids=["slope-one", "cosine"],
)
def test_similarities_that_fit_are_not_refused_for_those_that_might_exist(
    defense: Any, ratings: Ratings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "inf")
    free = defense.prepare(ratings).similarity
    bytes_ = 24 * len(free.column) // 2
    possible = 24 * M * (M - 1) // 2
    assert bytes_ < possible
    monkeypatch.setenv(VARIABLE, str(bytes_))
    for mine, theirs in zip(defense.prepare(ratings).similarity, free, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    monkeypatch.setenv(VARIABLE, str(bytes_ - 1))
    with pytest.raises(ConfigError, match="similarities"):
        defense.prepare(ratings)
