"""Audits of what each observer of a social training sees, from config to record and reports."""

from __future__ import annotations

import io
import math
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from rich.console import Console

from dpaudit.attacks.reconstruction import FromSubmissions
from dpaudit.auditor.run import run_audit
from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.audits.trained.pairs import PairSearch
from dpaudit.audits.trained.subject import guess_means
from dpaudit.core.errors import ConfigError
from dpaudit.core.streams import Streams
from dpaudit.data.folds import random_folds
from dpaudit.data.ratings import Friends, Scale, from_profiles
from dpaudit.data.readers.load import load
from dpaudit.data.source import DataSource
from dpaudit.defenses.social.privsr import PrivSR
from dpaudit.defenses.social.ranking import PrivSRRanking
from dpaudit.execution.tasks import Progress
from dpaudit.execution.workers import Workers
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports.render import console, markdown

SYNTHETIC = {
    "n_users": 25, "n_items": 12, "mean_per_user": 8, "minimum_per_user": 5, "mean_friends": 1,
}  # fmt: skip
DATA: dict[str, Any] = {"synthetic": SYNTHETIC, "sensitive": {"share": 0.3, "seed": 1}}
SMALL: dict[str, Any] = {
    "dimensions": 3,
    "rounds": 6,
    "learning_rate": 0.02,
    "decay": 0.5,
    "offset": 3.0,
}
TRAIN = {"folds": 2, "trials": 2}


def model(label: str, **changes: Any) -> dict[str, Any]:
    params = SMALL | changes.pop("params", {})
    return {"label": label, "defense": "privsr", "epsilon": 1.0, "params": params} | changes


def run(models: Any, threads: int = 1, **given: Any) -> AuditResult:
    config = {"seed": 3, "data": DATA, "train": TRAIN, "model": models} | given
    return run_audit(TrainedConfig.model_validate(config), workers=Workers(threads))


def game(observe: str, trials: int = 20) -> dict[str, Any]:
    few = {"params": {"calibration": 32}} if observe in {"public", "values"} else {}
    return {"pair": "data", "observe": observe, "trials": trials, **few}


def of(result: AuditResult, metric: str, **where: Any) -> list[Measurement]:
    return [
        measurement
        for measurement in result.measurements
        if measurement.metric == metric
        and all(getattr(measurement, k) == v for k, v in where.items())
    ]


# Games.


@pytest.mark.long
@pytest.mark.parametrize("variant", ["published", "corrected"])
def test_every_observer_of_a_model_can_be_run(variant: str) -> None:
    table = model("own", variant=variant, epsilon=5.0, params={"social": 0.0})
    result = run([table], game=[game(name) for name in ("iterates", "public")])
    friends = run([table | {"params": SMALL}], game=[game("recommender"), game("friend")])
    for record in (result, friends):
        for measurement in of(record, "epsilon"):
            assert measurement.estimate.kind == "frequentist"
            observer = str(measurement.pair).removeprefix("data (").removesuffix(")")
            [said] = [pair.summary for pair in record.pairs if pair.pair == measurement.pair]
            assert f"observer {observer})" in said
            steps = observer != "public"
            assert measurement.observer == (observer if steps else None)
            assert (measurement.theory is not None) == steps
            if measurement.theory and variant == "corrected":
                # What is certified stays below the law's, and that below the claim.
                assert measurement.estimate.lower <= measurement.theory.value <= 5.0
            elif measurement.theory:
                # At δ = 0 neither normal noise nor several rounds keep any ε.
                assert math.isinf(measurement.theory.value)
    claims = [point.claim for point in friends.points]
    assert all(claim and claim.also == ("friend",) for claim in claims)
    for text in (markdown.render(result), markdown.render(friends)):
        assert "certified ε" in text


@pytest.mark.long
def test_one_round_of_v_has_an_epsilon_by_its_laplace_law() -> None:
    params = {"rounds": 1, "social": 0.0, "start": "constant", "spread": 0.5, "dimensions": 1}
    one = model("one", params=params | {"noise_kind": "equal"})
    result = run([one], game=[game("iterates", 800)])
    [measurement] = of(result, "epsilon")
    # At most half of ε: u is 0.5, and a rating moves at most over the whole scale.
    assert measurement.theory is not None
    assert 0.3 < measurement.theory.value <= 0.5 + 1e-6
    assert 0 < measurement.estimate.lower <= measurement.theory.value
    assert measurement.control is not None
    assert measurement.control.found
    assert measurement.control.certified > 1.0


@pytest.mark.long
def test_what_v_alone_shows_is_found_by_the_canary() -> None:
    # With little noise the final V reveals a whole user, with much noise it does not.
    params = {"social": 0.0, "rounds": 30, "learning_rate": 0.03, "clip_norm": 20.0}
    models = [
        model(f"e{epsilon:g}", variant="corrected", epsilon=epsilon, params=params)
        for epsilon in (1.0, 1e6)
    ]
    result = run(models, game=[game("public", 60)])
    much, little = (measurement.estimate.lower for measurement in of(result, "epsilon"))
    assert much <= 1.0
    assert little > 1.5


@pytest.mark.long
def test_a_friend_tells_what_the_published_form_says_it_hides() -> None:
    # Noise for ε = 10 on each message of a training; the friend knows each message's noise scale.
    models = [model("weak", epsilon=10.0, params={"rounds": 20, "learning_rate": 0.07})]
    result = run(models, game=[game("friend", 60)])
    [measurement] = of(result, "epsilon")
    assert measurement.estimate.lower > 0
    [kl] = of(result, "game.kl", detail="mean log-ratio")
    assert kl.estimate.lower > 0


@pytest.mark.cases(
    ("changes", "observe", "words"),
    [
        ({"params": {"social": 0.0}}, "friend", "not an observer of model"),
        ({"params": {"rounds": 1}}, "friend", "not an observer of model"),
        ({"variant": "nonprivate", "epsilon": [math.inf]}, "friend", "has none"),
        ({}, "iterates", r"set params\.social = 0"),
        ({"defense": "fake-gradients", "params": {}}, "friend", "not an observer of model"),
        ({"defense": "fake-gradients", "params": {}}, "iterates", "not an observer of model"),
    ],
)
def test_observers_who_see_nothing_of_a_known_law_are_refused(
    changes: dict[str, Any], observe: str, words: str
) -> None:
    table = model("own", **changes)
    if table["defense"] == "fake-gradients":
        table["params"] = {"dimensions": 3, "rounds": 3}
    with pytest.raises((ConfigError, ValidationError), match=words):
        run([table], game=[game(observe)])


@pytest.mark.long
def test_games_give_the_same_numbers_on_any_number_of_threads() -> None:
    given: dict[str, Any] = {"game": [game("friend", 8)]}
    one, many = (run([model("own")], threads, **given) for threads in (1, 3))
    assert one.model_dump(exclude={"timing"}) == many.model_dump(exclude={"timing"})


# What a recommender reads off submissions.

READ = [
    {"name": "submissions", "label": label, "params": {"users": users, **params}}
    for label, users, params in (("h", 12, {}), ("scale", 5, {"knows": "scale"}))
]
MODELS = [
    model("exact", variant="nonprivate", epsilon=[math.inf]),
    model("PrivSR", epsilon=[20.0, 100.0]),
]


@pytest.fixture(scope="module")
def read() -> AuditResult:
    return run(MODELS, attack=READ)


@pytest.mark.long
def test_errors_are_those_of_the_followed_users(read: AuditResult) -> None:
    ratings = load(DataSource.model_validate(DATA))
    part, errors = PrivSR(100.0, **SMALL), []
    for number, fold in enumerate(random_folds(ratings, 2, 3)):
        train = fold.train
        rng = np.random.default_rng(np.random.SeedSequence([3, *b"followed users"]))
        chosen = rng.permutation(np.unique(train.user[train.kept_private]))
        observed, followed = (np.isin(np.arange(25), chosen[:count]) for count in (12, 5))
        mine = followed[train.user] & train.kept_private
        shared, truth = train.only(~train.kept_private), train.value[mine]
        for trial in Streams.first(3, f"submissions/{number}", 2).blocks(1):
            seen, models = part.submissions(part.prepare(train), trial, observed)
            release = models.public(np.arange(12, dtype=np.int32))
            submissions = seen.of_users(np.flatnonzero(followed).astype(np.int32))
            model_, read_ = FromSubmissions(knows="scale").read(submissions, release, shared)
            means = guess_means(shared, train.item[mine])
            errors.append([math.sqrt(((x - truth) ** 2).mean()) for x in (read_, model_, means)])
    submitted, released, means = np.mean(errors, axis=0)
    for states, value in (
        ("submissions", submitted),
        ("released model", released),
        ("item means", means),
        ("better than item means", means - submitted),
        ("better than released model", released - submitted),
    ):
        [measurement] = of(read, "submissions.rmse", attack="scale", epsilon=100.0, detail=states)
        assert measurement.estimate.value == pytest.approx(value, abs=1e-9)
        assert measurement.estimate.kind == "assumes-law"
        assert measurement.model == "PrivSR"


def test_without_noise_all_is_read_and_with_much_no_more_than_the_model_gives(
    read: AuditResult,
) -> None:
    errors = {
        (measurement.epsilon, measurement.detail): measurement.estimate.value
        for measurement in of(read, "submissions.rmse", attack="h")
    }
    assert errors[math.inf, "submissions"] < 0.05
    assert errors[math.inf, "released model"] > 0.5
    assert errors[100.0, "submissions"] < 0.8 * errors[100.0, "released model"]


@pytest.mark.long
def test_reading_gives_the_same_numbers_on_any_number_of_threads(read: AuditResult) -> None:
    other = run(MODELS, 3, attack=READ)
    assert other.model_dump(exclude={"timing"}) == read.model_dump(exclude={"timing"})


def test_reports_show_what_was_read(read: AuditResult) -> None:
    shown = io.StringIO()
    console.show(read, Console(file=shown, width=200))
    for text in (markdown.render(read), shown.getvalue()):
        assert "recovered by h" in text
        assert "from submissions" in text
        assert "better than the model" in text
    assert "in every round" in markdown.render(read)
    assert "a model that never saw them" not in markdown.render(read)


def test_where_no_single_submission_is_seen_the_attack_is_refused() -> None:
    secure = model("sums", variant="corrected", params={"summation": "secure"})
    with pytest.raises(
        ConfigError, match=r"'h' .*'sums': params\.summation = 'secure'.*set 'local'"
    ):
        run([secure], attack=READ)
    other = {"label": "other", "defense": "dpsgd-mf", "params": {"dimensions": 2}}
    with pytest.raises(ConfigError, match=r"'h' .*audit 'privsr'"):
        run([other], attack=READ)


RANKING: dict[str, Any] = {
    "dimensions": 2, "rounds": 1, "triples": "all", "spread": 0.7, "start": "constant",
}  # fmt: skip


@pytest.mark.long
def test_games_of_the_ranking_form_are_of_purchases_that_friends_made_too() -> None:
    ranked = {"label": "ranked", "defense": "privsr-ranking", "epsilon": 0.5, "params": RANKING}
    whole = ranked | {"label": "whole users", "variant": "corrected", "epsilon": 2.0}
    data = DATA | {"binarize": 3, "synthetic": SYNTHETIC | {"mean_friends": 4, "n_items": 60}}
    games = [game("recommender", 60), game("iterates", 60)]
    result = run([ranked, whole], data=data, train={"folds": 2}, game=games)
    for measurement in of(result, "epsilon", model="ranked"):
        assert measurement.theory is not None
        # A purchase moves every item that its buyer lacks: more than ε, by the law and as measured.
        assert measurement.theory.value > 2.0
        assert measurement.estimate.lower > 0.5
    for measurement in of(result, "epsilon", model="whole users"):
        assert measurement.theory is not None
        assert measurement.estimate.lower <= measurement.theory.value <= 2.0
    [said] = {pair.summary.partition(" (")[0] for pair in result.pairs if pair.model == "ranked"}
    assert said.endswith("which is sensitive, disappears")


def test_a_purchase_in_doubt_is_of_who_has_others() -> None:
    # If a friend made all purchases of an item's buyers too, any purchase of the others is chosen.
    held = [[(0, 1)], [(0, 1), (1, 1)], [(2, 1), (3, 1), (4, 1)], [(5, 1), (6, 1)]]
    links = Friends.build(np.array([0, 2]), np.array([1, 3]), 4)
    ratings = replace(from_profiles(held, 7, Scale(1, 1, 1)), friends=links)
    part = PrivSRRanking(epsilon=1.0)
    assert part.informative(ratings).all()
    more = replace(from_profiles([held[0] + [(3, 1)], *held[1:]], 7, Scale(1, 1, 1)), friends=links)
    assert np.flatnonzero(part.informative(more)).tolist() == [0]


@pytest.mark.parametrize(("variant", "pair"), [("nonprivate", "data"), ("corrected", "rating")])
def test_a_purchase_in_doubt_disappears_whatever_is_claimed(variant: str, pair: str) -> None:
    one = {
        "label": "one", "defense": "privsr-ranking", "variant": variant, "params": RANKING,
        "epsilon": math.inf if variant == "nonprivate" else 2.0,
    }  # fmt: skip
    data = DATA | {"binarize": 3, "synthetic": SYNTHETIC | {"n_items": 60}}
    result = run([one], data=data, game=game("public", 20) | {"pair": pair})
    assert "rating-add-remove" in result.pairs[0].summary


@pytest.mark.parametrize("social", [[0.1, 0.0], [0.0, 0.1], [0.1, 0.2]])
def test_of_a_grid_one_combination_with_a_pair_is_enough(social: list[float]) -> None:
    one = model("one", grid={"social": social})
    config = TrainedConfig.model_validate(
        {"seed": 3, "data": DATA, "train": TRAIN, "model": [one], "game": [game("iterates")]}
    )
    none = pytest.raises(ConfigError, match=r"set params\.social = 0")
    with nullcontext() if 0.0 in social else none:
        PairSearch(load(config.data)).check(config.model[0], config.game)


@pytest.mark.cases(
    ("observe", "params", "words"),
    [
        ("iterates", {}, r"V alone: set params\.social = 0"),
        ("recommender", {"summation": "secure"}, r"V alone: set params\.social = 0"),
        ("recommender", {}, r"none of the 25 users .*have friends.*params\.social = 0"),
    ],
)
def test_games_without_a_pair_are_refused_before_anything_is_trained(
    observe: str, params: dict[str, Any], words: str
) -> None:
    trained: list[int] = []

    class Told(Progress):
        def start(self, total: int) -> None:
            trained.append(total)

    data = DATA | {"synthetic": SYNTHETIC | {"mean_friends": 12}}
    one = model("one", variant="corrected", params=params)
    config = TrainedConfig.model_validate(
        {"seed": 3, "data": data, "train": TRAIN, "model": [one], "game": [game(observe)]}
    )
    with pytest.raises(ConfigError, match=rf"\[\[game\]\] .*{observe}.*'one': .*{words}"):
        run_audit(config, workers=Workers(1), progress=Told())
    assert not trained
