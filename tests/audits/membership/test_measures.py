"""Membership audits from config to record: what is measured, planned, certified and gated."""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from membership_cases import Copying, Hostile, Ignorant, Publishing, Stale, small_ratings  # type: ignore[import-not-found]
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpaudit.attacks.base import MembershipInference
from dpaudit.attacks.membership.inference import GlobalThreshold
from dpaudit.auditor.measure import Context
from dpaudit.auditor.plan import Plan, RunFolder
from dpaudit.auditor.run import cost_of, merge, run_audit, run_shard
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.measures import MemberModels, MembershipInferences
from dpaudit.audits.models.subject import MemberModel, MemberPoint
from dpaudit.config.tables import battery
from dpaudit.core.claim import Claim
from dpaudit.core.errors import ConfigError
from dpaudit.core.membership import OBSERVERS
from dpaudit.data.interactions import Interactions
from dpaudit.execution.executor import Executor
from dpaudit.execution.tasks import Progress, Shard
from dpaudit.execution.workers import Workers
from dpaudit.recommenders.base import Answer, Query, Trainable
from dpaudit.recommenders.command import Command
from dpaudit.recommenders.forgetting import Forgetting
from dpaudit.recommenders.libraries import Surprise
from dpaudit.recommenders.most_popular import MostPopular
from dpaudit.recommenders.python_class import GivenModel
from dpaudit.record.result import STRONGEST, AuditResult, FindingRecord, Measurement
from dpaudit.record.storage import contradiction

BATTERY = battery(MembershipInference)

SYNTHETIC = {"n_users": 60, "n_items": 30, "mean_per_user": 15, "minimum_per_user": 5}
TABLE: dict[str, Any] = {
    "units": ["interaction", "user"],
    "observers": ["scores", "own-list"],
    "trainings": 8,
    "interactions": 60,
    "users": 24,
    "held_out": 40,
    "k": 4,
    "observed_users": 10,
    "rates": [0.5, 0.2],
}
BASE: dict[str, Any] = {
    "seed": 5,
    "data": {"synthetic": SYNTHETIC},
    "membership": TABLE,
    "recommender": {"library": "most-popular"},
}


def config(**changes: Any) -> MembershipConfig:
    return MembershipConfig.model_validate(BASE | changes)


def of(parts: Sequence[Any], metric: str, **where: Any) -> list[Measurement]:
    return [
        part
        for part in parts
        if isinstance(part, Measurement)
        and part.metric == metric
        and all(getattr(part, key) == value for key, value in where.items())
    ]


def numbers(record: AuditResult) -> str:
    return json.dumps(record.model_dump(mode="json", exclude={"timing"}))


@pytest.fixture(scope="module")
def result() -> AuditResult:
    return run_audit(config())


def test_every_planned_number_is_measured_once(result: AuditResult) -> None:
    planned = [key for key in Plan(config()).keys if key.census or key.counted]
    for key in planned:
        if key.metric.startswith("utility") or key.metric == "leak":
            continue
        where = {"attack": key.attack, "observer": key.observer, "unit": key.unit, "at": key.at}
        (number,) = of(result.measurements, key.metric, pair=key.pair, **where)
        assert (number.model, number.epsilon) == (key.model, key.epsilon)
        assert (number.census is not None) == key.census
    # Two units and two observers have a bound on ε; no gate asks for an average.
    assert result.family.size == sum(key.counted for key in planned) == 4
    # AUC and advantage; two rates of 60 interactions, one of 24 users; leak and eight utilities.
    assert sum(key.census for key in planned) == 2 * (2 + 2) + 2 * (2 + 1) + 9


@pytest.mark.cases(
    ("of_", "size"), [(None, 5), ("next-training", 5), ("this-model", 8), ("average", 8)]
)
def test_only_what_gates_judge_takes_a_share_of_the_error(of_: str | None, size: int) -> None:
    gate = {"metric": "attack.auc", "max": 0.9, **({"of": of_} if of_ else {})}
    assert Plan(config(gate=[gate])).family.size == size


def test_numbers_of_trainings_have_their_range_and_bounds_hold_jointly(result: AuditResult) -> None:
    for number in result.measurements:
        estimate = number.estimate
        if number.metric == "epsilon":
            assert estimate.alpha == pytest.approx(result.family.alpha)
            assert estimate.kind == "frequentist"
        elif number.attack == STRONGEST:
            assert number.census is not None
            assert estimate == number.census.estimate
            assert (estimate.kind, estimate.n) == ("range", 6)
            assert number.event in {attack.label for attack in BATTERY}
        assert estimate.lower <= estimate.value <= estimate.upper


def test_the_leak_is_the_largest_advantage_of_the_strongest_attack(result: AuditResult) -> None:
    (leak,) = of(result.measurements, "leak")
    advantages = of(result.measurements, "attack.advantage", attack=STRONGEST)
    assert len(advantages) == 4
    censuses = [measurement.census for measurement in advantages if measurement.census]
    assert leak.census is not None
    for training, value in enumerate(leak.census.values):
        assert value == max(0, *(abs(census.values[training]) for census in censuses))
        assert leak.census.upper[training] >= max(census.upper[training] for census in censuses)
        assert leak.census.lower[training] >= max(census.lower[training] for census in censuses)
    assert leak.census.alpha == pytest.approx(sum(census.alpha for census in censuses))
    assert leak.estimate == leak.census.estimate


def test_the_record_is_consistent_and_survives_json(result: AuditResult) -> None:
    assert contradiction(result) is None
    text = result.model_dump_json()
    assert AuditResult.model_validate_json(text).model_dump_json() == text
    assert result.data is not None
    assert result.data.attacked == 84


def test_the_strongest_has_at_least_the_number_of_the_attack_that_it_names(
    result: AuditResult,
) -> None:
    for metric in ("attack.auc", "attack.advantage", "attack.tpr"):
        for joint in of(result.measurements, metric, attack=STRONGEST):
            where = {"observer": joint.observer, "unit": joint.unit, "at": joint.at}
            (measurement,) = of(result.measurements, metric, attack=joint.event, **where)
            assert measurement.estimate.value <= joint.estimate.value
            assert measurement.estimate.lower <= joint.estimate.lower
            assert measurement.estimate.n == joint.estimate.n == 6
            # The curve has no other interval at a rate of the table.
            assert not of(result.measurements, "membership.roc", **where) or joint.at is None


@pytest.mark.long
def test_the_same_seed_gives_the_same_record_on_any_workers(result: AuditResult) -> None:
    assert numbers(run_audit(config(), workers=Workers(2))) == numbers(result)
    assert numbers(run_audit(config(seed=6))) != numbers(result)


def test_merged_shards_give_the_record_of_the_run(tmp_path: Path, result: AuditResult) -> None:
    """Every shard runs its trainings, whoever runs the probes."""
    for index in (1, 2):
        run_shard(Plan(config(), RunFolder(tmp_path)), Shard(index, 2))
    assert numbers(merge([tmp_path], tmp_path)) == numbers(result)


def test_the_cost_counts_every_training() -> None:
    table = TABLE | {"trainings": 5000}
    (stage,) = cost_of(Plan(config(membership=table)), Progress(), 4.0).stages
    assert (stage.stage, stage.trials) == ("most-popular: trainings", 5000 + 2)


@pytest.mark.long
def test_more_trainings_use_the_finished_ones(tmp_path: Path) -> None:
    few = config()
    more = config(membership=TABLE | {"trainings": 12})
    run_audit(few, folder=RunFolder(tmp_path))
    assert numbers(run_audit(more, folder=RunFolder(tmp_path))) == numbers(run_audit(more))


MADE = {"library": "most-popular"}
CLAIM = {"epsilon": 1.0, "observers": ["scores"]}
TRAINED = 8 + 4  # those of the game, and four of the probes


GATE = {"metric": "attack.auc", "max": 0.9}
JUDGED: dict[str, dict[str, Any]] = {
    "a claim": {"recommender": {**MADE, "claim": CLAIM}},
    "another claim": {"recommender": {**MADE, "claim": {**CLAIM, "epsilon": 2.0}}},
    "observers of the claim": {
        "recommender": {**MADE, "claim": {**CLAIM, "observers": ["own-list"]}}
    },
    "a gate": {"gate": [GATE]},
    "another threshold": {"gate": [{**GATE, "max": 0.8}]},
    "a gate on utility": {"gate": [{"metric": "utility.ndcg", "min": 0.01}]},
    "confidence": {"audit": {"confidence": 0.9, "fail_on_false_claim": False}},
    "a report": {"card": {"owner": "nobody"}},
    "an observer": {"membership": {**TABLE, "observers": ["scores", "own-list", "others-lists"]}},
    "fewer observers": {"membership": {**TABLE, "observers": ["others-lists"]}},
    "observers of the model": {"recommender": {**MADE, "observers": ["others-lists"]}},
    "rates": {"membership": {**TABLE, "rates": [0.4]}},
    "delta": {"membership": {**TABLE, "delta": 1e-3}},
    "attacks": {"attack": [{"name": "lira"}]},
}


@pytest.mark.long
def test_what_only_judges_trains_nothing_again(tmp_path: Path, fits: list[int]) -> None:
    place = RunFolder(tmp_path)
    run_audit(config(), folder=place)
    assert len(fits) == TRAINED
    for what, changes in JUDGED.items():
        record = run_audit(config(**changes), folder=place)
        assert len(fits) == TRAINED, what
        if what in {"another claim", "fewer observers"}:
            assert numbers(record) == numbers(run_audit(config(**changes))), what
            del fits[TRAINED:]


@pytest.mark.long
@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 6},
        {"data": {"synthetic": {**SYNTHETIC, "n_items": 31}}},
        {"membership": {**TABLE, "interactions": 61}},
        {"membership": {**TABLE, "users": 25}},
        {"membership": {**TABLE, "held_out": 41}},
        {"membership": {**TABLE, "k": 5}},
        {"membership": {**TABLE, "units": ["interaction"]}},
    ],
)
def test_what_decides_a_training_trains_again(
    tmp_path: Path, fits: list[int], changes: dict[str, Any]
) -> None:
    run_audit(config(), folder=RunFolder(tmp_path))
    run_audit(config(**changes), folder=RunFolder(tmp_path, force=True))
    assert len(fits) == 2 * TRAINED


@pytest.mark.long
def test_other_parameters_train_again_and_factors_are_asked_only_if_need_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits: list[int] = []
    fit = Surprise.fit

    def counted(self: Surprise, interactions: csr_array, seed: int) -> Any:
        fits.append(seed)
        return fit(self, interactions, seed)

    monkeypatch.setattr(Surprise, "fit", counted)
    recommender = {"library": "surprise", "params": {"model": "SVD", "settings": {"n_epochs": 1}}}
    for count, changes in (
        (1, {}),
        (2, {"membership": {**TABLE, "observers": ["factors"]}}),
        (2, {"membership": {**TABLE, "observers": ["scores", "factors"]}}),
        (2, {}),
        (
            3,
            {
                "recommender": {
                    **recommender,
                    "params": {"model": "SVD", "settings": {"n_epochs": 2}},
                }
            },
        ),
    ):
        run_audit(config(**{"recommender": recommender, **changes}), folder=RunFolder(tmp_path))
        assert len(fits) == count * TRAINED


@pytest.mark.long
def test_a_defense_is_recorded_with_its_claim_at_every_epsilon() -> None:
    defense = {
        "defense": "dpsgd-mf", "variant": "corrected", "epsilon": [1, 4],
        "params": {"dimensions": 2, "epochs": 2, "adjacency": "user-replace"},
    }  # fmt: skip
    observers = ["scores", "others-lists", "factors"]
    table = TABLE | {"units": ["interaction"], "observers": observers}
    values = {**BASE, "membership": table, "model": defense}
    del values["recommender"]
    checked = MembershipConfig.model_validate(values)
    record = run_audit(checked)
    assert contradiction(record) is None
    assert [(point.epsilon, point.claim is not None) for point in record.points] == [
        (1.0, True), (4.0, True),
    ]  # fmt: skip
    (model,) = record.models
    assert (model.defense, model.variant, model.top_k) == ("dpsgd-mf", "corrected", 4)
    games = of(record.measurements, "epsilon")
    # A claim about the released model is about others' lists; nobody publishes factors here.
    assert {(game.observer, bool(game.controls)) for game in games} == {
        ("scores", False), ("others-lists", True),
    }  # fmt: skip
    assert record.family.size == 2 * 2  # bounds on ε
    assert len(of(record.measurements, "utility.rmse")) == 2


def test_fake_users_are_audited_in_defenses_and_recommenders() -> None:
    table = TABLE | {"draw": "fake-users", "units": ["user"], "observers": ["own-list"]}
    params = {"dimensions": 2, "epochs": 2}
    model = {"defense": "dpsgd-mf", "variant": "corrected", "params": params}
    record = run_audit(config(membership=table, model=model))
    assert contradiction(record) is None
    assert {game.model for game in of(record.measurements, "epsilon")} == {
        "most-popular", "dpsgd-mf corrected",
    }  # fmt: skip
    # Their histories are equally long, so there is no group of active ones.
    groups = {measurement.group for measurement in of(record.measurements, "membership.group")}
    assert groups == {"users with few interactions"}


# Gates on utility, and on the leak.


RATED: dict[str, Any] = {
    "membership": TABLE | {"trainings": 40, "units": ["interaction"], "observers": ["scores"]},
    "recommender": {"library": "surprise"},
}


@pytest.mark.long
def test_gated_utilities_are_joint_and_the_others_stand_by_themselves() -> None:
    gates = [
        {"metric": "utility.ndcg", "min": 0.01},
        {"metric": "utility.precision", "max": 0.9},
        {"metric": "utility.rmse", "max": 2.5},
        {"metric": "utility.mae", "max": 0.2},
        {"metric": "leak", "max": 0.9},
        {"metric": "attack.auc", "min": 0.1},
        {"metric": "attack.tpr", "where": {"at": 0.5}, "min": 0.1},
        {"metric": "attack.advantage", "where": {"observer": "scores"}, "max": 0.9},
    ]
    record = run_audit(config(**RATED, gate=gates))
    assert contradiction(record) is None
    outcomes = [gate.outcome for gate in record.gates]
    assert outcomes[:4] == ["pass", "pass", "pass", "fail"]
    # Attacks whose curve still rises decide nothing.
    assert outcomes[5:7] == ["pass", "pass"]
    assert "fail" not in outcomes[4:]
    without = run_audit(config(**RATED))
    # All gates about the next training share one part of the error.
    assert record.family.size == without.family.size + 1
    for metric in ("ndcg", "precision", "rmse", "mae", "recall"):
        (gated,), (alone,) = (
            of(run.measurements, f"utility.{metric}") for run in (record, without)
        )
        assert gated.estimate == alone.estimate
        assert (gated.estimate.kind, gated.estimate.n) == ("range", 32)
    averaged = run_audit(config(**RATED, gate=[{**gate, "of": "average"} for gate in gates]))
    assert averaged.family.size == without.family.size + 7  # leak is one of the advantages
    for metric in ("ndcg", "precision", "rmse", "mae", "recall"):
        statement = None if metric == "recall" else "average"
        (joint,) = of(averaged.measurements, f"utility.{metric}", statement=statement)
        assert joint.estimate.n == (32 if metric == "recall" else 40)
        assert joint.estimate.kind == ("range" if metric == "recall" else "frequentist")


@pytest.mark.cases(
    ("metric", "changes", "words"),
    [
        (
            "utility.rmse",
            {},
            r"gate\.0\.metric = 'utility\.rmse' needs predicted ratings, which most",
        ),
        (
            "utility.mae",
            {"where": {"model": "most-popular"}, "recommender": ["most-popular", "surprise"]},
            "needs predicted ratings, which most-popular does not show",
        ),
        (
            "utility.mae",
            {"recommender": ["most-popular", "surprise"]},
            "needs predicted ratings, which most-popular does not show: correct its where",
        ),
    ],
)
def test_a_gate_on_a_utility_that_a_model_does_not_have_is_refused(
    metric: str, changes: dict[str, Any], words: str
) -> None:
    names = changes.pop("recommender", ["most-popular"])
    gate = {"metric": metric, "max": 0.9, **changes}
    with pytest.raises(ConfigError, match=words):
        run_audit(config(recommender=[{"library": name} for name in names], gate=[gate]))


@pytest.mark.parametrize("names", [["NMF"], ["NMF", "SVD"]])
def test_a_utility_that_is_undefined_in_a_training_is_no_pass(
    monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    def answer(self: Surprise, interactions: Interactions, seed: int, query: Query) -> Answer:
        answer: Answer = Ignorant(rated=True).answer(interactions, seed, query)
        if self.model == "NMF":
            # It knows the first pair only, which is not held out.
            answer.scores[1:] = np.nan
        return answer

    monkeypatch.setattr(Surprise, "answer", answer)
    recommenders = [
        {"library": "surprise", "label": name, "params": {"model": name}} for name in names
    ]
    gate = {"metric": "utility.rmse", "max": 3.9}
    record = run_audit(
        config(membership=RATED["membership"], recommender=recommenders, gate=[gate])
    )
    assert contradiction(record) is None
    assert len(of(record.measurements, "utility.rmse")) == len(names) - 1
    [judged] = record.gates
    assert judged.outcome == "inconclusive"
    assert judged.reason.startswith("NMF, ε = inf: utility.rmse is undefined")


@pytest.mark.long
def test_a_leak_that_is_certain_fails_and_one_of_ignorance_is_not_found() -> None:
    for trainable, low, high in ((Copying(), 0.5, 1.0), (Ignorant(), 0.0, 0.5)):
        parts = found_of(trainable, trainings=64, units=["interaction"], observers=["scores"])
        (leak,) = of(parts, "leak")
        assert low <= leak.estimate.lower <= leak.estimate.upper <= high


# Models whose leak is known, through the measure itself.


def found_of(
    trainable: Trainable,
    *,
    claim: Claim | None = None,
    gate: Sequence[dict[str, Any]] = (),
    attack: Sequence[dict[str, Any]] = (),
    recommender: Sequence[dict[str, Any]] = (BASE["recommender"],),
    **changes: Any,
) -> list[Any]:
    tables = {
        "membership": TABLE | changes,
        "gate": list(gate),
        "attack": list(attack),
        "recommender": list(recommender),
    }
    values = {**BASE, **tables}
    checked = MembershipConfig.model_validate(values)
    ratings = small_ratings()
    subject = MemberModels.of(
        Context(checked, Plan(checked, ratings=ratings).family, Executor()), ratings
    )
    epsilon = claim.epsilon if claim else math.inf
    model = MemberModel(
        checked.recommender[0],
        [MemberPoint(epsilon, trainable, claim)],
        checked.recommender[0].observers or subject.table.observers or [],
        ratings.scale,
        4,
    )
    return list(MembershipInferences(subject).run(model))


def design_of(**changes: Any) -> Design:
    """Return the targets of these audits."""
    return Design.of(small_ratings(), config(membership=TABLE | changes).membership, BASE["seed"])


def findings(parts: Sequence[Any]) -> set[str]:
    """What the findings are about."""
    return {part.about for part in parts if isinstance(part, FindingRecord)}


def test_a_rate_of_the_config_that_is_not_measured_is_a_finding() -> None:
    parts = found_of(Ignorant(), units=["interaction", "user"], rates=[0.5, 0.2, 0.01])
    said = [part.text for part in parts if isinstance(part, FindingRecord)]
    assert said == [
        "TPR at 1 % FPR needs 263 targets of unit 'interaction', 60 were given.",
        "TPR at 20 % FPR needs 30 targets of unit 'user', 24 were given.",
        "TPR at 1 % FPR needs 263 targets of unit 'user', 24 were given.",
    ]
    assert findings(found_of(Ignorant(), units=["interaction"])) == set()


def test_nothing_is_found_of_a_model_that_ignores_its_data() -> None:
    parts = found_of(Ignorant())
    assert findings(parts) == {"rate"}
    for game in of(parts, "epsilon"):
        assert game.estimate.lower == 0
    for area in of(parts, "attack.auc", attack=STRONGEST):
        # The largest of three attacks, none of which finds anything.
        assert area.estimate.lower < 0.55


@pytest.mark.cases(
    ("model", "observers"),
    [
        (Stale("seed"), {None}),
        (Stale("entropy"), {None}),
        (Stale("seed", fresh=True), {"own-list"}),
    ],
)
def test_an_old_model_with_fresh_noise_decides_nothing(model: Any, observers: set[Any]) -> None:
    parts = found_of(model, units=["interaction"])
    repeats = [x for x in parts if isinstance(x, FindingRecord) and x.about == "repeated"]
    assert {repeat.observer for repeat in repeats} - {"others-lists"} == observers
    assert all(repeat.undecided and "quite other data" in repeat.text for repeat in repeats)


def test_a_model_that_keeps_the_last_training_tells_its_coins() -> None:
    last = [np.zeros(1)]

    def keep(answer: Answer, interactions: csr_array, query: Query) -> None:
        had = (interactions.toarray() > 0).astype(np.float32)
        answer.scores[:] = (had + last[0])[query.users, query.items]
        last[0] = had if had.any() else last[0]

    parts = found_of(
        Ignorant(change=keep), units=["interaction"], observers=["scores"], interactions=200
    )
    [blind] = [x for x in parts if isinstance(x, FindingRecord) and x.about == "blind"]
    assert blind.undecided
    assert "sees of training" in blind.text
    told = {m.attack: m.estimate for m in of(parts, "membership.blind")}
    assert told["another training"].lower > 0.5
    assert told["item popularity"].lower < 0.5 < told["item popularity"].upper


FACTORS: dict[str, Any] = {"units": ["interaction"], "interactions": 200, "k": 5, "trainings": 4}


def test_what_is_reconstructed_from_factors_is_compared_with_what_was_not_trained_on() -> None:
    parts = found_of(Publishing(), observers=["factors"], **FACTORS)
    rows = {(m.attack, m.group): m for m in of(parts, "membership.reconstructed")}
    assert len(rows) == 9
    assert {(m.unit, m.observer) for m in rows.values()} == {("interaction", "factors")}
    values = {place: m.estimate.value for place, m in rows.items()}
    for way, first, second in (
        ("item factors", "present targets", "absent targets"),
        ("user factors", "present targets", "absent targets"),
        ("holders", "named", "guessed"),
    ):
        assert values[way, None] == pytest.approx(values[way, first] - values[way, second])
        assert values[way, None] > 0.05
    assert rows["item factors", None].estimate.kind == "range"
    assert values["holders", "guessed"] == pytest.approx(
        1 / len(np.unique(small_ratings().user[design_of(**FACTORS).rows]))
    )


@pytest.mark.cases(
    ("named", "changes", "ways"),
    [
        (False, {"observers": ["factors"]}, {"item factors"}),
        (True, {"observers": ["nearest-items"]}, set()),
        (True, {"observers": ["scores"]}, set()),
        (True, {"observers": ["factors"], "units": ["user"]}, set()),
    ],
)
def test_what_is_not_published_reconstructs_nothing(
    named: bool, changes: dict[str, Any], ways: set[str]
) -> None:
    parts = found_of(Publishing(named=named), **FACTORS | changes)
    assert {m.attack for m in of(parts, "membership.reconstructed")} == ways


def test_other_coins_than_the_own_are_at_chance_for_every_attack() -> None:
    parts = found_of(Copying(), trainings=16, units=["interaction"], observers=["scores"])
    [foreign] = of(parts, "membership.blind", attack="attack on another training")
    assert foreign.estimate.lower < 0.5 < foreign.estimate.upper
    assert foreign.observer == "scores"
    # With one calibrating training targets choose the attack.
    alone = found_of(Copying(), trainings=2, units=["interaction"], observers=["scores"])
    assert not of(alone, "membership.blind", attack="attack on another training")


def test_a_protocol_of_popular_lists_for_others_tells_members_of_a_model_that_learned_nothing() -> (
    None
):
    """Zhang et al. 2021 (arXiv:2109.08045): members get personal lists, others the popular one."""
    design, model = design_of(units=["user"], observed_users=30), Ignorant()
    answer = model.answer(design.data(0), design.training_seed(0), design.query)
    history = design.knowledge.history
    popular = np.bincount(history.indices, minlength=history.shape[1])
    members = np.arange(len(design.listed)) % 2 == 0
    lists = np.where(members[:, None], answer.lists, np.argsort(-popular)[: design.k])
    scores = -popular[lists].mean(1)
    assert scores[members].min() > scores[~members].max()
    # Coins and one model for all: the same model tells nobody.
    parts = found_of(model, trainings=24, units=["user"], observers=["own-list"], rates=[0.5])
    [area] = of(parts, "attack.auc", attack=STRONGEST)
    assert 0.4 < area.estimate.value < 0.6
    [listed] = of(parts, "membership.blind", attack="list popularity")
    assert listed.estimate.lower < 0.5 < listed.estimate.upper
    assert "explained" not in findings(parts)


def test_lists_that_are_popular_for_absent_users_explain_what_is_found() -> None:
    def serve(answer: Answer, interactions: csr_array, query: Query) -> None:
        popular = np.bincount(interactions.indices, minlength=interactions.shape[1])
        gone = np.diff(interactions.indptr)[query.listed] == 0
        answer.lists[gone] = np.argsort(-popular)[: query.k]

    parts = found_of(
        Ignorant(change=serve), trainings=24, units=["user"], observers=["own-list"], rates=[0.5]
    )
    [explained] = [x for x in parts if isinstance(x, FindingRecord) and x.about == "explained"]
    assert not explained.undecided
    [area] = of(parts, "attack.auc", attack=STRONGEST)
    [listed] = of(parts, "membership.blind", attack="list popularity")
    assert area.estimate.value > 0.9
    assert listed.estimate.value > 0.9


def test_scores_that_are_missing_where_a_user_is_present_are_read() -> None:
    """A user's score is a mean of many, which shows none that is missing."""

    def hide(answer: Answer, interactions: csr_array, query: Query) -> None:
        there = np.diff(interactions.indptr)[query.users] > 0
        answer.scores[there & (query.users % 2 == 0) & (query.items < 10)] = np.nan

    parts = found_of(
        Ignorant(change=hide), trainings=64, units=["user"], observers=["scores"], rates=[0.5]
    )
    (game,) = of(parts, "epsilon")
    assert game.estimate.lower > 1


def test_everything_is_found_of_a_model_that_shows_its_data() -> None:
    parts = found_of(Copying(), trainings=16, units=["interaction"], observers=["scores"])
    (area,) = of(parts, "attack.auc", attack=STRONGEST)
    (rate, other) = of(parts, "attack.tpr", attack=STRONGEST)
    assert area.estimate.value == rate.estimate.value == other.estimate.value == 1
    (advantage,) = of(parts, "attack.advantage", attack=STRONGEST)
    # Another absent target is above the largest of N with probability 1/(N + 1).
    assert advantage.estimate.value > 0.9
    (game,) = of(parts, "epsilon")
    assert game.estimate.lower > 2
    assert game.pair == "interaction (scores)"
    (half,) = of(parts, "membership.exposed", at=0.5)
    # At 20 % false positives at most, of whom none needs to be told from a present target.
    assert 0.77 < half.estimate.value <= 1


def test_a_witness_of_a_deletion_tells_it_and_is_in_no_leak() -> None:
    table: dict[str, Any] = {"library": "most-popular", "forget": "own"}
    seen = ["scores", "before-and-after"]
    targets = design_of(observers=["scores"]).targets
    parts = found_of(Forgetting(Copying(), "retrain", targets), recommender=[table], observers=seen)
    for unit in ("interaction", "user"):
        gains = of(parts, "attack.advantage", attack=STRONGEST, unit=unit)
        assert {gain.observer: gain.estimate.value for gain in gains} == {
            "scores": pytest.approx(0, abs=0.3), "before-and-after": pytest.approx(1, abs=0.2)
        }  # fmt: skip
    (leak,) = of(parts, "leak")
    assert leak.observer == "scores"
    assert leak.estimate.value < 0.3
    bounds = {(b.unit, b.observer): b.estimate.lower for b in of(parts, "epsilon")}
    assert all((bound > 0) == (observer == seen[1]) for (_, observer), bound in bounds.items())
    # Whose whole history is deleted may get no answer.
    assert not {"repeated", "blind", "missing"} & findings(parts)


@pytest.mark.long
def test_a_command_that_ignores_what_it_is_to_forget_is_found() -> None:
    script = Path(__file__).parents[2] / "support" / "own_command.py"
    seen: dict[str, Any] = {"units": ["interaction"], "observers": ["scores"]}
    targets = design_of(**seen).targets
    areas = {}
    for way in ("forgets", "works"):
        words = shlex.join([sys.executable, "-S", str(script), way, "{task}"])
        parts = found_of(Forgetting(Command(words, timeout=20), "own", targets, 2), **seen)
        [area] = of(parts, "attack.auc", attack=STRONGEST)
        areas[way] = area.estimate.value
    assert areas["forgets"] == pytest.approx(0.5, abs=0.1)
    assert areas["works"] > 0.7


def test_errors_that_add_up_show_in_the_last_requests() -> None:
    class Tires:
        """It forgets well in its first requests alone."""

        def fit(self, interactions: csr_array, seed: int) -> Tires:
            self.known, self.requests = interactions.toarray() > 0, 0
            return self

        def forget(self, interactions: NDArray[np.int32], seed: int) -> Tires:
            self.requests += 1
            self.known[tuple(interactions.T)] = self.requests > 8
            return self

        def scores(self, users: NDArray[np.int32], items: NDArray[np.int32]) -> Any:
            return self.known[users, items].astype(np.float32)

    seen: dict[str, Any] = {"units": ["interaction"], "observers": ["scores"]}
    targets = design_of(**seen).targets
    parts = found_of(Forgetting(GivenModel(Tires), "own", targets, 10), **seen)
    groups = {group.group: group.estimate.value for group in of(parts, "membership.group")}
    assert groups["first tenth deleted"] < 0.05 < groups["last tenth deleted"]


def test_an_error_above_1_has_both_ends() -> None:
    (error,) = of(found_of(Ignorant(rated=True)), "utility.rmse")
    assert 1 < error.estimate.lower < error.estimate.value < error.estimate.upper
    assert not of(found_of(Ignorant()), "utility.rmse")


def claimed(epsilon: float, observer: str = "scores", **changes: Any) -> Claim:
    values: dict[str, Any] = {"delta": 0.0, "adjacency": "rating-add-remove", **changes}
    return Claim(epsilon=epsilon, observer=observer, public="", source="", **values)


def controls(parts: Sequence[Any]) -> dict[str | None, list[float]]:
    return {
        game.pair: [control.epsilon for control in game.controls] for game in of(parts, "epsilon")
    }


def test_a_claim_is_tried_only_where_it_is_about_the_target_and_the_observer() -> None:
    parts = found_of(Ignorant(), claim=claimed(1.0), trainings=16)
    tried = controls(parts)
    assert tried["interaction (scores)"]
    assert tried["interaction (scores)"][0] == 1.25
    for other in ("interaction (own-list)", "user (scores)", "user (own-list)"):
        assert not tried[other]


@pytest.mark.long
def test_half_of_the_noise_is_stated_to_survive_only_by_the_power_on_its_own_law() -> None:
    """Gaussian noise for ε = 4.38 at δ = 1e-5, and of half its size, for ε = 10."""

    def verdict(sigma: float) -> tuple[float, Any]:
        class Noised:
            def fit(self, interactions: csr_array, seed: int) -> Noised:
                x = (interactions.toarray() != 0).astype(float)
                self.shown = x + np.random.default_rng(seed).normal(0, sigma, x.shape)
                return self

            def scores(self, users: NDArray[np.int32], items: NDArray[np.int32]) -> Any:
                return self.shown[users, items]

        parts = found_of(
            GivenModel(Noised), claim=claimed(4.38, delta=1e-5), trainings=24, interactions=300,
            units=["interaction"], observers=["scores"],
        )  # fmt: skip
        (game,) = of(parts, "epsilon")
        assert game.control
        return game.estimate.lower, game.control

    for sigma in (0.5, 1.0):
        lower, control = verdict(sigma)
        assert lower < 4.38
        assert (control.noise, control.delta) == ("Gaussian", 1e-5)
        assert not control.found or control.factor >= 3
        # Randomised response of 1.25 times the claim is found in three of four runs here.


def test_planted_leaks_stop_at_the_first_that_is_found() -> None:
    (game,) = of(
        found_of(Ignorant(), claim=claimed(1.0), trainings=64, units=["interaction"],
                 observers=["scores"]),
        "epsilon",
    )  # fmt: skip
    assert [control.found for control in game.controls[:-1]] == [False] * (len(game.controls) - 1)
    last = game.controls[-1]
    assert last.found
    assert last.certified > 1
    assert last.factor == last.epsilon


def test_a_blind_attack_has_no_power(monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(self: Any, seen: Any, reference: Any, present: Any) -> Any:
        return np.zeros(seen.fit.shape)

    monkeypatch.setattr(GlobalThreshold, "score", blind)
    parts = found_of(
        Ignorant(), claim=claimed(1.0), trainings=64, units=["interaction"], observers=["scores"],
        attack=[{"name": "global-threshold"}],
    )  # fmt: skip
    (game,) = of(parts, "epsilon")
    assert game.controls
    assert not any(control.found for control in game.controls)


def test_a_gate_without_claim_plants_multiples_of_its_limit() -> None:
    gate = {"metric": "epsilon", "max": 0.5, "detectable": 3, "where": {"unit": "interaction"}}
    tried = controls(found_of(Ignorant(), gate=[gate]))
    assert tried["interaction (scores)"] == tried["interaction (own-list)"] == [1.5]
    assert not tried["user (scores)"]


@pytest.mark.parametrize("limit", [0, 45.0])
def test_a_limit_that_no_planted_leak_can_break_has_no_control(limit: float) -> None:
    gate = {"metric": "epsilon", "max": limit, "detectable": 2}
    assert not any(controls(found_of(Ignorant(), gate=[gate])).values())


def test_a_broken_claim_needs_no_control() -> None:
    parts = found_of(
        Copying(), claim=claimed(0.5), trainings=16, units=["interaction"], observers=["scores"]
    )
    assert controls(parts) == {"interaction (scores)": []}


def test_delta_is_that_of_the_claim_and_else_of_the_table() -> None:
    def bound(claim: Claim | None, delta: float) -> float:
        (game,) = of(
            found_of(Copying(), claim=claim, delta=delta, trainings=16, units=["interaction"],
                     observers=["scores"]),
            "epsilon",
        )  # fmt: skip
        return game.estimate.lower

    pure, loose = bound(None, 0.0), bound(None, 0.05)
    assert loose < pure
    assert bound(claimed(1.0), 0.05) == pure
    assert bound(claimed(1.0, delta=0.05), 0.0) == loose


@pytest.mark.cases("trainable", [Ignorant(), Ignorant(constant=True), Copying()])
def test_the_smallest_game_of_every_observer_is_measured(trainable: Trainable) -> None:
    changes: dict[str, Any] = {
        "trainings": 8, "interactions": 20, "users": 20, "held_out": 20, "observed_users": 1,
        "k": 1, "observers": ["scores", "own-list", "others-lists"], "rates": [0.5],
    }  # fmt: skip
    parts = found_of(trainable, **changes)
    assert len(of(parts, "epsilon")) == 6
    assert np.isfinite([game.estimate.lower for game in of(parts, "epsilon")]).all()


@pytest.mark.long
@pytest.mark.parametrize("kind", range(18))
def test_hostile_models_are_measured_without_a_warning(kind: int) -> None:
    parts = found_of(
        Hostile(kind), trainings=8 + kind % 5, interactions=20, users=20, held_out=20,
        observed_users=1 + kind, k=1 + kind % 12, observers=list(OBSERVERS),
    )  # fmt: skip
    bounds = [game.estimate.lower for game in of(parts, "epsilon")]
    assert len(bounds) == 2 * len(OBSERVERS)
    assert np.isfinite(bounds).all()


# Gates of a whole run of a model that ignores its data.


@pytest.fixture
def ignorant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MostPopular, "answer", lambda self, *asked: Ignorant().answer(*asked))


def judged(*gates: dict[str, Any], **changes: Any) -> list[tuple[str, str]]:
    record = run_audit(config(gate=list(gates), **changes))
    return [(gate.outcome, gate.reason) for gate in record.gates]


@pytest.mark.usefixtures("ignorant")
def test_a_gate_on_epsilon_passes_where_a_planted_leak_is_found() -> None:
    table = TABLE | {"trainings": 64, "units": ["interaction"], "observers": ["scores"]}
    gate = {"metric": "epsilon", "max": 1.0, "detectable": 2}
    ((outcome, reason),) = judged(gate, membership=table | {"delta": 0.0})
    assert outcome == "pass"
    assert "finds a leak of ε = 2 planted by Laplace" in reason
    ((outcome, reason),) = judged(gate, membership=table)
    assert outcome == "inconclusive"
    assert "misses a leak of ε = 2 planted by Gaussian" in reason


@pytest.mark.usefixtures("ignorant")
def test_a_gate_on_epsilon_is_open_where_numbers_are_too_few_to_find_one() -> None:
    gate = {"metric": "epsilon", "max": 1.0, "detectable": 1.01}
    ((outcome, reason),) = judged(gate)
    assert outcome == "inconclusive"
    assert "use more membership.trainings or targets" in reason


@pytest.mark.usefixtures("ignorant")
def test_a_gate_at_zero_is_no_crash() -> None:
    gate = {"metric": "epsilon", "max": 0, "detectable": 2}
    ((outcome, _),) = judged(gate)
    assert outcome == "inconclusive"


@pytest.mark.usefixtures("ignorant")
def test_a_gate_on_the_claim_judges_what_the_claim_is_about() -> None:
    stated = {"library": "most-popular", "claim": {"epsilon": 1.0, "observers": ["own-list"]}}
    gate = {"metric": "epsilon", "max": "claim", "detectable": 4}
    ((outcome, reason),) = judged(gate, recommender=stated)
    assert outcome == "pass"
    assert reason.startswith("most-popular, ε = 1, strongest, interaction (own-list): certified")
    left = "interaction (scores), user (scores), user (own-list)"
    assert f"this gate leaves out: {left}" in reason
    ((outcome, reason),) = judged(gate | {"where": {"observer": "scores"}}, recommender=stated)
    assert outcome == "inconclusive"
    assert "only rating-add-remove, observer own-list" in reason
