from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from dpaudit.auditor import gate as gates
from dpaudit.auditor.games import Bar
from dpaudit.auditor.gate import Trainings, bars, identifier, rule
from dpaudit.auditor.measure import MetricKey
from dpaudit.audits.membership.trainings import JudgedTrainings
from dpaudit.config.gate import Gate
from dpaudit.core.errors import ConfigError
from dpaudit.core.estimate import Estimate
from dpaudit.record.metrics import entry
from dpaudit.record.result import (
    STRONGEST,
    AuditResult,
    ClaimRecord,
    Family,
    FindingRecord,
    GateRecord,
    Measurement,
    PointRecord,
    worst,
)
from dpaudit.record.values import Census, Control

POINTS = [
    PointRecord(
        model="m",
        epsilon=epsilon,
        sensitivity=0.4,
        noise_scale=0.4 / epsilon,
        claim=ClaimRecord(
            epsilon=epsilon,
            delta=0,
            adjacency="rating-add-remove",
            observer="values",
            public="",
            source="",
        ),
    )
    for epsilon in (1.0, 2.0)
]


def judge(
    gate: Gate,
    points: list[PointRecord],
    measurements: list[Measurement],
    findings: Sequence[FindingRecord] = (),
    trainings: Trainings | None = None,
    kind: str = "",
) -> GateRecord:
    parts: dict[str, Any] = {
        "points": points,
        "measurements": measurements,
        "findings": list(findings),
        "family": Family.of(0.95, 1),
        "kind": kind,
    }
    result = AuditResult.model_construct(**parts)
    return gates.judge(gate, result, trainings or Trainings())


def measurement_of(lower: float, upper: float, epsilon: float = 1.0, **other: Any) -> Measurement:
    estimate = Estimate(
        value=(lower + upper) / 2 if upper < 2 else lower,
        lower=lower,
        upper=upper,
        confidence=0.95,
        alpha=0.05,
        n=other.pop("n", 1000),
        method=other.pop("method", "test"),
        kind=other.pop("kind", "frequentist"),
    )
    metric = other.pop("metric", "attack.accuracy")
    for name in entry(metric).required:
        other.setdefault(name, 1 if name in {"effort", "step"} else "one")
    return Measurement(metric=metric, model="m", epsilon=epsilon, estimate=estimate, **other)


@pytest.mark.cases(
    ("lower", "upper", "outcome"),
    [
        (0.36, 0.40, "fail"),
        (0.35, 0.40, "inconclusive"),
        (0.30, 0.36, "inconclusive"),
        (0.30, 0.35, "pass"),
    ],
)
def test_max_is_on_the_bounds(lower: float, upper: float, outcome: str) -> None:
    gate = Gate(metric="attack.accuracy", max=0.35)
    assert judge(gate, POINTS, [measurement_of(lower, upper)]).outcome == outcome


@pytest.mark.parametrize(
    ("gate", "decides"),
    [
        (Gate(metric="attack.accuracy", max=0.35), "upper"),
        (Gate(metric="attack.accuracy", min=0.30), "lower"),
    ],
)
def test_nan_never_passes(gate: Gate, decides: str) -> None:
    measured = measurement_of(0.3, 0.35)
    assert judge(gate, POINTS, [measured]).outcome == "pass"
    # An Estimate refuses NaN, so only an unchecked copy can hold it.
    estimate = measured.estimate.model_copy(update={decides: math.nan})
    broken = measured.model_copy(update={"estimate": estimate})
    assert judge(gate, POINTS, [broken]).outcome != "pass"


@pytest.mark.parametrize("field", ["lower", "theory"])
def test_nan_never_passes_a_gate_on_epsilon(field: str) -> None:
    gate = Gate(metric="epsilon", max="claim", detectable=2)
    control = Control(mutant="m", factor=1.5, epsilon=1.5, certified=1.2, found=True)
    measured = measurement_of(
        0.5, math.inf, metric="epsilon", pair="p", attack="a", control=control
    )
    assert judge(gate, POINTS, [measured]).outcome == "pass"
    nan = measured.estimate.model_copy(update={"lower": math.nan, "value": math.nan})
    name = "estimate" if field == "lower" else "theory"
    broken = measured.model_copy(update={name: nan})
    assert judge(gate, POINTS, [broken]).outcome != "pass"


@pytest.mark.cases(
    ("lower", "upper", "outcome"),
    [
        (0.10, 0.34, "fail"),
        (0.34, 0.40, "inconclusive"),
        (0.30, 0.35, "inconclusive"),
        (0.35, 0.40, "pass"),
    ],
)
def test_min_is_on_the_bounds(lower: float, upper: float, outcome: str) -> None:
    gate = Gate(metric="utility.overlap", min=0.35)
    measured = [measurement_of(lower, upper, metric="utility.overlap")]
    assert judge(gate, POINTS, measured).outcome == outcome


def test_the_worst_point_decides_and_where_picks() -> None:
    measured = [measurement_of(0.1, 0.2, 1.0), measurement_of(0.5, 0.6, 2.0)]
    every = judge(Gate(metric="attack.accuracy", max=0.35), POINTS, measured)
    assert every.outcome == "fail"
    assert "ε = 2" in every.reason
    one = Gate(metric="attack.accuracy", max=0.35, where={"epsilon": 1.0})
    assert judge(one, POINTS, measured).outcome == "pass"


@pytest.mark.cases(
    ("gate", "ends", "decides"),
    [
        # Of what breaks the limit, of what may, and of what keeps it, the number furthest beyond.
        ({"max": 0.35}, [(0.1, 0.2), (0.4, 0.5), (0.5, 0.6), (0.3, 0.9)], 2),
        ({"max": 0.35}, [(0.1, 0.2), (0.3, 0.4), (0.3, 0.9)], 2),
        ({"max": 0.35}, [(0.1, 0.2), (0.2, 0.3), (0.1, 0.3)], 1),
        ({"min": 0.35}, [(0.1, 0.2), (0.0, 0.1), (0.3, 0.9)], 1),
        ({"min": 0.35}, [(0.8, 0.9), (0.3, 0.9), (0.3, 0.4)], 2),
        ({"min": 0.35}, [(0.8, 0.9), (0.4, 0.5)], 1),
    ],
)
def test_the_number_furthest_beyond_the_threshold_decides(
    gate: dict[str, Any], ends: list[tuple[float, float]], decides: int
) -> None:
    numbers = [
        measurement_of(*one, metric="utility.ndcg" if "min" in gate else "attack.accuracy")
        for one in ends
    ]
    if "max" in gate:
        numbers = [one.model_copy(update={"attack": str(at)}) for at, one in enumerate(numbers)]
        points = POINTS
    else:
        points = [POINTS[0].model_copy(update={"model": str(at)}) for at in range(len(numbers))]
        numbers = [one.model_copy(update={"model": str(at)}) for at, one in enumerate(numbers)]
    metric = numbers[0].metric
    for order in (numbers, numbers[::-1]):
        judged = judge(Gate.model_validate({"metric": metric, **gate}), points, order)
        first = judged.numbers[0]
        assert first.place == numbers[decides].place
        assert first.outcome == judged.outcome
        assert judged.reason.startswith(first.place)
        assert {one.place for one in judged.numbers} == {one.place for one in numbers}


def test_bounds_on_epsilon_are_compared_in_multiples_of_their_claims() -> None:
    gate = Gate(metric="epsilon", max="claim", detectable=1.5)
    numbers = [measurement_of(low, math.inf, at, metric="epsilon", pair="p")
               for low, at in ((1.9, 1.0), (2.1, 2.0))]  # fmt: skip
    assert judge(gate, POINTS, numbers).numbers[0].epsilon == 1.0


def test_a_point_without_its_number_decides_before_what_was_measured() -> None:
    gate = Gate(metric="attack.accuracy", max=0.35)
    lost = FindingRecord(
        model="m", about="diverged", text="No model.", remedy="Clip it.", undecided=True,
        epsilon=2.0,
    )  # fmt: skip
    judged = judge(gate, POINTS, [measurement_of(0.3, 0.4)], [lost])
    assert [one.place for one in judged.numbers] == ["", measurement_of(0.3, 0.4).place]
    assert (judged.remedy, judged.outcome) == ("Clip it", "inconclusive")


def trainings_of(observer: str, values: list[float]) -> Measurement:
    census = Census.known(values)
    return measurement_of(
        0.0, 1.0, metric="attack.advantage", attack=STRONGEST, unit="user", observer=observer
    ).model_copy(update={"census": census, "estimate": census.estimate})


@pytest.mark.cases(
    ("others", "worst", "total", "outcome"),
    [
        # All pass with 19 judged trainings; each fails by itself once it is certified.
        ([0.0] * 8, [0.05] * 8, 23, "inconclusive"),
        ([0.0] * 12, [0.05, 0.05, 0.3] * 4, None, "inconclusive"),
        # A larger mean that no training's number breaks decides less than one that some break.
        ([0.09] * 19, [*[0.0] * 16, 0.2, 0.2, 0.2], None, "inconclusive"),
    ],
)
def test_of_trainings_the_number_that_most_of_them_break_decides(
    others: list[float], worst: list[float], total: int | None, outcome: str
) -> None:
    gate = Gate(metric="attack.advantage", max=0.1)
    numbers = [trainings_of("scores", others), trainings_of("factors", worst)]
    for order in (numbers, numbers[::-1]):
        coming = JudgedTrainings.of([(gate, order)], 0.05, judged=len(worst))
        judged = judge(gate, POINTS, order, (), coming, kind="membership")
        assert judged.outcome == outcome
        assert judged.numbers[0].place.endswith("user (factors)")
        assert total in (None, judged.trainings)
        # Either a number of trainings decides it, or something else does, and one of them is said.
        assert (judged.trainings is None) == bool(judged.remedy)
        assert judged.remedy in judged.reason
        assert "use more" not in judged.reason or judged.trainings is None


@pytest.mark.cases("of", [None, "next-training", "this-model"])
def test_single_trainings_that_nothing_judges_are_not_judged_by_their_mean(of: Any) -> None:
    number = measurement_of(0.0, 0.05, metric="attack.advantage", attack=STRONGEST)
    number = number.model_copy(update={"census": Census.known([0.0, 0.9, 0.0])})
    about = number.model_copy(update={"statement": of if of == "this-model" else None})
    judged = judge(Gate(metric="attack.advantage", max=0.1, of=of), POINTS, [about])
    assert judged.outcome == "inconclusive"
    average = Gate(metric="attack.advantage", max=0.1, of="average")
    mean = number.model_copy(update={"statement": "average"})
    assert judge(average, POINTS, [mean]).outcome != judged.outcome


def test_only_frequentist_numbers_gate() -> None:
    gate = Gate(metric="attack.accuracy", max=0.35)
    assumed = measurement_of(0.1, 0.2, kind="assumes-gdp")
    assert judge(gate, POINTS, [assumed]).outcome == "inconclusive"


def control(factor: float, certified: float, claimed: float = 1.0) -> Control:
    return Control(
        mutant=f"noise for ε = {factor * claimed:g}",
        factor=factor,
        epsilon=factor * claimed,
        certified=certified,
        found=certified > claimed,
    )


def test_epsilon_passes_only_where_a_mutant_was_found() -> None:
    gate = Gate(metric="epsilon", max="claim", detectable=1.5)

    def judged(lower: float, *controls: Control, epsilon: float = 1.0) -> GateRecord:
        measured = measurement_of(
            lower, math.inf, epsilon, metric="epsilon", tried=controls, pair="here"
        )
        return judge(gate, POINTS, [measured])

    assert judged(1.01).outcome == "fail"
    passed = judged(0.9, control(1.5, 1.4))
    assert passed.outcome == "pass"
    # The reason names the pair and what was measured.
    assert "here: certified ε at least 0.900, not above 1" in passed.reason
    assert "finds noise for ε = 1.5 (certified ε at least 1.400)" in passed.reason
    # Without a measured control there is no pass, however many trials there are.
    assert judged(0.9).outcome == "inconclusive"
    # The mutant with noise for 4 times the claim is certified as only 0.81: the pair shows little.
    weak = judged(0.0, control(4.0, 0.81))
    assert weak.outcome == "inconclusive"
    assert "also misses noise for ε = 4 (certified ε at least 0.810)" in weak.reason
    # Only a violation larger than required was found.
    large = judged(0.9, control(1.5, 0.99), control(2.0, 1.9))
    assert large.outcome == "inconclusive"
    assert "cannot find 1.5; " in large.reason
    assert "finds noise for ε = 2 (certified ε at least 1.900)" in large.reason
    assert judged(1.9, control(1.5, 2.8, 2.0), epsilon=2.0).outcome == "pass"
    assert judged(1.9, control(1.5, 1.95, 2.0), epsilon=2.0).outcome == "inconclusive"


def test_one_pair_with_power_is_enough() -> None:
    gate = Gate(metric="epsilon", max="claim", detectable=1.5)

    def outcome(*certified: float) -> str:
        measured = [
            measurement_of(
                0.1, math.inf, metric="epsilon", pair=f"{i}", control=control(1.5, bound)
            )
            for i, bound in enumerate(certified)
        ]
        return judge(gate, POINTS, measured).outcome

    assert outcome(1.2) == "pass"
    assert outcome(0.2) == "inconclusive"
    # Another pair that shows little does not change the outcome.
    assert outcome(1.2, 0.2) == "pass"


def test_the_mutants_that_gates_ask_for() -> None:
    where = MetricKey("epsilon", "m", 1.0, attack="likelihood-ratio", pair="here")
    gates = [
        Gate(metric="epsilon", max=3.0, detectable=2),
        Gate(metric="epsilon", max="claim", detectable=1.5, where={"epsilon": 1.0}),
        Gate(metric="epsilon", max="claim", detectable=1.2, where={"pair": "there"}),
        Gate(metric="attack.accuracy", max=0.1),
    ]
    assert bars(gates, where, 1.0) == (Bar(1.0, 1.5), Bar(3.0, 2.0))
    assert bars(gates, where, None) == (Bar(3.0, 2.0),)


def test_an_epsilon_above_the_limit_by_law_is_no_pass() -> None:
    """An ε by the law of a pair is not certified: it can neither fail nor pass a gate."""
    gate = Gate(metric="epsilon", max="claim", detectable=1.5)

    def outcome(*pairs: tuple[float, float]) -> str:
        measured = [
            measurement_of(
                lower,
                float("inf"),
                metric="epsilon",
                control=control(1.5, 1.4),
                pair=f"{i}",
                theory=Estimate.exact(law, "law"),
            )
            for i, (lower, law) in enumerate(pairs)
        ]
        return judge(gate, POINTS, measured).outcome

    assert outcome((0.9, 1.0)) == outcome((0.9, 1.0 + 1e-9)) == "pass"
    assert outcome((0.9, 1.1)) == "inconclusive"
    assert outcome((0.9, 1.1), (0.9, 1.0)) == "inconclusive"
    assert outcome((0.9, 1.1), (1.05, 1.0)) == "fail"


def test_a_gate_that_picks_nothing_is_an_error() -> None:
    gate = Gate(metric="attack.accuracy", max=0.5, where={"model": "typo"})
    with pytest.raises(ConfigError, match="correct its where"):
        judge(gate, POINTS, [measurement_of(0.1, 0.2)])
    with pytest.raises(ConfigError, match="run a config"):
        judge(Gate(metric="leak", max=0.5), POINTS, [measurement_of(0.1, 0.2)])


def test_ids_of_gates_depend_on_what_they_pick_and_not_on_its_order() -> None:
    def name(**where: Any) -> str:
        gate = {"metric": "attack.accuracy", "max": 0.5, "where": where}
        return identifier(Gate.model_validate(gate))

    assert name() == "gate/attack.accuracy/max"
    assert name(model="a", epsilon=1) == name(epsilon=1.0, model="a")
    assert name(model="a", epsilon=1) == "gate/attack.accuracy/max/epsilon=1/model=a"
    assert name(model="a") != name(attack="a")
    assert name(epsilon=0.12345678) != name(epsilon=0.12345679)
    assert name(epsilon=0.1) == "gate/attack.accuracy/max/epsilon=0.1"


def test_an_interval_by_itself_says_how_it_becomes_joint() -> None:
    scatter = measurement_of(0.9, 0.95, metric="utility.rmse", kind="assumes-law")
    judged = judge(Gate(metric="utility.rmse", max=1.0), POINTS, [scatter])
    assert judged.outcome == "inconclusive"
    assert "kind assumes-law cannot gate: run a config" in judged.reason


def test_a_kind_that_no_gate_makes_joint_has_another_remedy() -> None:
    judged = judge(
        Gate(metric="attack.accuracy", max=0.35), POINTS, [measurement_of(0, 1, kind="assumes-gdp")]
    )
    assert judged.reason.endswith("kind assumes-gdp cannot gate: gate another metric")


def test_a_pass_says_on_which_side_of_the_limit_the_interval_lies() -> None:
    measured = [measurement_of(0.3, 0.35)]
    most = judge(Gate(metric="attack.accuracy", max=0.35), POINTS, measured)
    assert "32 of 100 (30 to 35) does not exceed 35. " in most.reason
    least = judge(Gate(metric="attack.accuracy", min=0.3), POINTS, measured)
    assert "32 of 100 (30 to 35) is not below 30. " in least.reason
    # What attacks find little of may be a weak attack's; what recommends well is not.
    assert most.reason.endswith(most.strength)
    assert most.strength
    useful = [measurement_of(0.3, 0.35, metric="utility.ndcg")]
    assert not judge(Gate(metric="utility.ndcg", min=0.3), POINTS, useful).strength


@pytest.mark.cases(
    ("metric", "limit", "number"),
    [("leak", "0.2", "0.35 (0.3 to 0.4)"), ("attack.advantage", "20", "35 of 100 (30 to 40)")],
)
def test_a_pass_on_a_leak_is_about_the_attacks_that_were_run(
    metric: str, limit: str, number: str
) -> None:
    gate = Gate.model_validate({"metric": metric, "max": 0.2})
    low, high = (
        measurement_of(*ends, metric=metric, pair="here") for ends in ((0.0, 0.1), (0.3, 0.4))
    )
    passed = judge(gate, POINTS, [low])
    assert passed.outcome == "pass"
    assert f"does not exceed {limit} " in passed.reason
    failed = judge(gate, POINTS, [low, high.model_copy(update={"epsilon": 2.0})])
    assert failed.outcome == "fail"
    assert f"one, here: {number} lies above {limit}" in failed.reason


@pytest.mark.cases(
    ("kind", "metric", "more", "changes"),
    [
        ("on_demand", "utility.rmse", "audit.trials", {}),
        ("trained", "utility.rmse", "train.trials", {}),
        ("membership", "utility.rmse", "membership.trainings", {}),
        ("trained", "attack.accuracy", "train.trials", {}),
        ("on_demand", "attack.accuracy", "audit.trials", {}),
        ("trained", "reconstruction.rmse", "train.trials", {"basis": "released model"}),
        (
            "trained",
            "transcript.kl",
            "transcript.trials",
            {"attack": None, "step": 3, "part": "whole"},
        ),
        ("trained", "game.kl", "game.trials", {"pair": "here", "estimator": "one threshold"}),
        ("on_demand", "sybil.accuracy", "sybil.trials", {}),
        ("trained", "attack.auc", "transcript.trials", {}),
        ("trained", "leak", "game.trials", {"pair": "here"}),
        ("membership", "leak", "membership.trainings", {"unit": "user", "observer": "scores"}),
        ("mechanism", "attack.advantage", "audit.trials", {"pair": "here"}),
        ("of-no-room", "utility.rmse", "trials", {}),
    ],
)
def test_what_narrows_an_interval_is_named(
    kind: str, metric: str, more: str, changes: dict[str, Any]
) -> None:
    gate = Gate.model_validate({"metric": metric, "max": 0.5})
    changes = {"attack": STRONGEST, **changes} if metric == "leak" else changes
    measured = [measurement_of(0.4, 0.6, metric=metric, **changes)]
    judged = judge(gate, POINTS, measured, kind=kind)
    assert judged.outcome == "inconclusive"
    assert judged.reason.endswith(f": use more {more}")


def test_a_number_as_the_threshold_of_epsilon_has_its_own_power() -> None:
    """The mutant for a limit has the noise of a multiple of that limit, whatever is claimed."""
    tried = (control(1.5, 1.4), control(4.5, 4.0))
    measured = [measurement_of(0.9, float("inf"), metric="epsilon", tried=tried)]
    for limit, factor, outcome in (
        (3.0, 1.5, "pass"),
        (3.0, 1.4, "inconclusive"),
        (4.2, 2.0, "inconclusive"),
        (0.5, 1.5, "fail"),
    ):
        gate = Gate(metric="epsilon", max=limit, detectable=factor)
        assert judge(gate, POINTS, measured).outcome == outcome


def test_nothing_claimed_is_inconclusive() -> None:
    gate = Gate(metric="epsilon", max="claim", detectable=1.5)
    silent = [POINTS[0].model_copy(update={"claim": None})]
    measured = [measurement_of(0.9, float("inf"), metric="epsilon", shift=1.0)]
    assert judge(gate, silent, measured).outcome == "inconclusive"


def test_fail_outranks_inconclusive_outranks_pass() -> None:
    assert worst(["pass", "inconclusive", "fail"]) == "fail"
    assert worst(["pass", "inconclusive"]) == "inconclusive"
    assert worst([]) == "pass"


# Membership games: each target and observer is a question of its own.


def game(
    lower: float, value: float | None = None, *, unit: str = "interaction", **other: Any
) -> Measurement:
    observer = other.pop("observer", "scores")
    other.setdefault("tried", (control(1.5, 1.4),))
    measurement = measurement_of(
        lower,
        math.inf,
        metric="epsilon",
        attack=other.pop("attack", STRONGEST),
        pair=f"{unit} ({observer})",
        unit=unit,
        observer=observer,
        **other,
    )
    if value is None:
        return measurement
    return measurement.model_copy(update={"estimate": measurement.estimate.changed(value=value)})


ONE = Gate(metric="epsilon", max=1.0, detectable=1.5)


def test_a_membership_game_passes_by_a_planted_leak() -> None:
    passed = judge(ONE, POINTS, [game(0.4)])
    assert passed.outcome == "pass"
    assert judge(ONE, POINTS, [game(1.1)]).outcome == "fail"
    silent = judge(ONE, POINTS, [game(0.4, tried=())], kind="membership")
    assert silent.outcome == "inconclusive"
    assert "use more membership.trainings or targets" in silent.reason


@pytest.mark.cases(
    "other",
    [
        game(0.2, tried=(), unit="user"),
        game(0.2, tried=(control(1.5, 0.3),), unit="user"),
        game(0.2, 3.0, unit="user"),
        game(0.2, 3.0, observer="own-list"),
        game(0.2, math.inf, observer="own-list"),
    ],
)
def test_one_membership_game_does_not_pass_for_another(other: Measurement) -> None:
    assert judge(ONE, POINTS, [game(0.4)]).outcome == "pass"
    for both in ([game(0.4), other], [other, game(0.4)]):
        judged = judge(ONE, POINTS, both)
        assert judged.outcome == "inconclusive"
        assert other.pair is not None
        assert other.pair in judged.reason


def test_right_guesses_above_the_limit_are_no_pass_and_no_failure() -> None:
    doubtful = judge(ONE, POINTS, [game(0.4, 1.2)])
    assert doubtful.outcome == "inconclusive"
    assert "the right guesses suggest ε = 1.2, above 1" in doubtful.reason
    assert judge(ONE, POINTS, [game(0.4, 1.0)]).outcome == "pass"
    nan = game(0.4)
    estimate = nan.estimate.model_copy(update={"value": math.nan})
    broken = nan.model_copy(update={"estimate": estimate})
    assert judge(ONE, POINTS, [broken]).outcome == "inconclusive"


def test_one_failing_membership_game_fails() -> None:
    assert judge(ONE, POINTS, [game(0.4), game(1.01, unit="user")]).outcome == "fail"


def test_where_picks_games_by_target_and_observer() -> None:
    games = [game(0.4), game(1.01, unit="user"), game(0.2, tried=(), observer="own-list")]
    cases: tuple[tuple[dict[str, float | str], str], ...] = (
        ({"unit": "interaction", "observer": "scores"}, "pass"),
        ({"unit": "user"}, "fail"),
        ({"observer": "own-list"}, "inconclusive"),
    )
    for where, outcome in cases:
        gate = Gate(metric="epsilon", max=1.0, detectable=1.5, where=where)
        assert judge(gate, POINTS, games).outcome == outcome


def test_a_claim_is_judged_only_by_games_that_it_covers() -> None:
    stated = ClaimRecord(
        epsilon=1.0, delta=0, adjacency="rating-add-remove", observer="scores", public="",
        source="", also=("factors",),
    )  # fmt: skip
    points = [POINTS[0].model_copy(update={"claim": stated})]
    gate = Gate(metric="epsilon", max="claim", detectable=1.5)
    assert judge(gate, points, [game(0.4)]).outcome == "pass"
    assert judge(gate, points, [game(1.1)]).outcome == "fail"
    for other in (game(5.0, unit="user"), game(5.0, observer="own-list")):
        judged = judge(gate, points, [other])
        assert judged.outcome == "inconclusive"
        assert "only rating-add-remove, observer scores, factors: " in judged.reason
        assert "or pick in where" in judged.reason
        both = judge(gate, points, [game(0.4), other])
        assert both.outcome == "pass"
        assert both.reason.endswith(f"leaves out: {other.pair}")
        assert judge(gate, points, [game(1.1), other]).outcome == "fail"
        # A number is a limit for whatever is picked.
        assert judge(ONE, points, [game(0.4), other]).outcome == "fail"


@pytest.mark.cases(
    ("lower", "upper", "outcome"),
    [
        (0.01, 0.03, "inconclusive"),
        (0.3, 0.45, "inconclusive"),
        (0.45, 0.55, "pass"),
        (0.7, 0.8, "fail"),
    ],
)
def test_an_attack_that_is_always_wrong_is_no_pass(
    lower: float, upper: float, outcome: str
) -> None:
    area = measurement_of(lower, upper, metric="attack.auc", attack=STRONGEST)
    judged = judge(Gate(metric="attack.auc", max=0.6), POINTS, [area])
    assert judged.outcome == outcome
    assert ("reverse attack may have " in judged.reason) == (outcome == "inconclusive")


@pytest.mark.cases(
    ("lower", "upper", "outcome"),
    [
        (-1.0, -0.9, "inconclusive"),
        (-0.2, 0.05, "inconclusive"),
        (-0.1, 0.1, "pass"),
        (0.05, 0.2, "inconclusive"),
        (0.2, 0.3, "fail"),
    ],
)
def test_an_advantage_of_the_reverse_attack_counts(
    lower: float, upper: float, outcome: str
) -> None:
    advantage = measurement_of(lower, upper, metric="attack.advantage", attack=STRONGEST)
    judged = judge(Gate(metric="attack.advantage", max=0.1), POINTS, [advantage])
    assert judged.outcome == outcome
    assert ("the reverse attack may have" in judged.reason) == (lower < -0.1)
    at_least = judge(Gate(metric="attack.advantage", min=0.01), POINTS, [advantage])
    assert "reverse" not in at_least.reason


def test_single_attacks_are_not_judged() -> None:
    gate = Gate(metric="attack.auc", max=0.6)

    def area(upper: float, attack: str, kind: str = "frequentist") -> Measurement:
        return measurement_of(0.5, upper, metric="attack.auc", attack=attack, unit="user",
                     observer="scores", kind=kind)  # fmt: skip

    assert judge(gate, POINTS, [area(0.55, STRONGEST), area(0.9, "lira")]).outcome == "pass"
    assert judge(gate, POINTS, [area(0.9, STRONGEST)]).outcome == "inconclusive"
    wide = judge(gate, POINTS, [area(0.9, STRONGEST)], kind="membership")
    assert "membership.trainings" in wide.reason
    with pytest.raises(ConfigError, match="picks no measured point"):
        judge(gate, POINTS, [area(0.55, "lira")])
    by_law = judge(gate, POINTS, [area(0.55, STRONGEST, "assumes-law")])
    assert by_law.outcome == "inconclusive"


def test_a_gate_on_epsilon_says_in_words_what_its_game_has_to_find() -> None:
    gate = Gate(metric="epsilon", max="claim", detectable=1.5, where={"epsilon": 1.0})
    said = "epsilon <= claim at epsilon 1, by a game that finds a leak of 1.5 times that"
    assert rule(gate) == said
    assert rule(Gate(metric="utility.rmse", max=1.5)) == "utility.rmse <= 1.5"


def test_a_false_positive_rate_picks_a_true_positive_rate() -> None:
    def rate(at: float, upper: float) -> Measurement:
        return measurement_of(0.0, upper, metric="attack.tpr", attack=STRONGEST, unit="user",
                     observer="scores", at=at)  # fmt: skip

    both = [rate(0.01, 0.05), rate(0.1, 0.4)]
    one = judge(Gate(metric="attack.tpr", max=0.1, where={"at": 0.01}), POINTS, both)
    assert one.outcome == "pass"
    assert one.rule == "attack.tpr <= 0.1 at false positives 0.01"
    every = judge(Gate(metric="attack.tpr", max=0.1), POINTS, both)
    assert every.outcome == "inconclusive"
    assert "user (scores), 0.1 false positives" in every.reason


def test_an_advantage_may_be_negative() -> None:
    low = measurement_of(-0.4, -0.1, metric="attack.advantage", attack=STRONGEST, unit="user",
                observer="scores")  # fmt: skip
    assert judge(Gate(metric="attack.advantage", max=0.4), POINTS, [low]).outcome == "pass"
    assert judge(Gate(metric="attack.advantage", max=-0.5), POINTS, [low]).outcome == "fail"


@pytest.mark.cases(
    ("metric", "observer", "of", "outcome"),
    [
        ("attack.tpr", "scores", None, "inconclusive"),
        ("attack.tpr", "scores", "scores", "inconclusive"),
        ("attack.tpr", "own-list", "scores", "pass"),
        # Utility is everybody's, and the leak is of all observers.
        ("utility.ndcg", None, "scores", "inconclusive"),
        ("leak", "own-list", "scores", "inconclusive"),
    ],
)
def test_a_number_that_a_finding_leaves_open_does_not_pass(
    metric: Any, observer: str | None, of: str | None, outcome: str
) -> None:
    seen: dict[str, Any] = {}
    if observer:
        seen = {"observer": observer, "unit": "interaction", "attack": "strongest"}
    if metric == "attack.tpr":
        seen["at"] = 0.01
    measured = measurement_of(0.1, 0.2, metric=metric, **seen)
    finding = FindingRecord(
        model="m", about="missing", text="Much is missing.", remedy="Do this.", undecided=True,
        observer=of,
    )  # fmt: skip
    judged = judge(Gate(metric=metric, max=0.3), POINTS, [measured], [finding])
    assert judged.outcome == outcome
    assert ("Much is missing. Do this" in judged.reason) == (outcome == "inconclusive")
    # What is certified stays so, and a finding that leaves nothing open changes nothing.
    assert judge(Gate(metric=metric, max=0.05), POINTS, [measured], [finding]).outcome == "fail"
    closed = finding.model_copy(update={"undecided": False})
    assert judge(Gate(metric=metric, max=0.3), POINTS, [measured], [closed]).outcome == "pass"
    # Where coins are told without a model, nothing that is certified of them counts.
    blind = finding.model_copy(update={"about": "blind", "text": "Coins are told."})
    void = judge(Gate(metric=metric, max=0.05), POINTS, [measured], [finding, blind])
    assert void.outcome == ("inconclusive" if outcome == "inconclusive" else "fail")
    assert ("Coins are told" in void.reason) == (outcome == "inconclusive")
