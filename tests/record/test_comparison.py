"""A run is compared with its baseline by intervals and verdicts, never by points."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from dpaudit.core.errors import ConfigError
from dpaudit.record.comparison import NumberChange, change, compare
from dpaudit.record.result import AuditResult, Family, GateRecord, Measurement, Waiver, judged
from tests.support.records import control, estimate, make_result
from tests.support.records import judged as with_verdicts

INF = math.inf
ENDS = st.floats(allow_nan=False)


def record(*numbers: Measurement, **changes: Any) -> AuditResult:
    """A record of one model at ε = 1 with these numbers."""
    base = make_result(epsilons=(1.0,), gate=False)
    return with_verdicts(base.model_copy(update={"measurements": list(numbers), **changes}))


def number(low: float, high: float, metric: str = "attack.accuracy", **more: Any) -> Any:
    fields: dict[str, Any] = {"attack.accuracy": {"attack": "one"}}.get(metric, {})
    changes = {name: more.pop(name) for name in ("value", "kind", "alpha") if name in more}
    value = changes.pop("value", low)
    bare = estimate(value, low, high, **changes)
    return Measurement(
        metric=metric, model="published", epsilon=1.0, estimate=bare, **fields | more
    )


def game(lower: float, *, found: bool = True, factor: float = 1.25) -> Measurement:
    return Measurement(
        metric="epsilon",
        model="published",
        epsilon=1.0,
        attack="likelihood-ratio",
        pair="tight",
        estimate=estimate(lower, lower, INF),
        control=control(1.0).model_copy(update={"found": found, "factor": factor}),
    )


def one(before: Measurement, after: Measurement) -> NumberChange:
    [difference] = compare(record(before), record(after)).numbers
    return difference


@pytest.mark.cases(
    ("metric", "before", "after", "judgement"),
    [
        ("attack.accuracy", (0.1, 0.2), (0.3, 0.4), "worse"),
        ("attack.accuracy", (0.3, 0.4), (0.1, 0.2), "better"),
        ("attack.accuracy", (0.1, 0.3), (0.2, 0.4), "cannot tell"),
        # Ends that touch leave it open.
        ("attack.accuracy", (0.1, 0.2), (0.2, 0.4), "cannot tell"),
        ("attack.accuracy", (0.1, 0.9), (0.3, 0.4), "cannot tell"),
        ("utility.overlap", (0.3, 0.4), (0.1, 0.2), "worse"),
        ("utility.overlap", (0.1, 0.2), (0.3, 0.4), "better"),
        ("utility.rmse", (0.8, 0.9), (1.0, 1.1), "worse"),
        ("utility.rmse", (0.8, INF), (1.0, 1.1), "cannot tell"),
        ("utility.rmse", (0.8, INF), (0.1, 0.2), "better"),
        ("utility.rmse", (0.8, 0.9), (1.0, INF), "worse"),
    ],
)
def test_only_disjoint_intervals_certify_a_change(
    metric: str, before: tuple[float, float], after: tuple[float, float], judgement: str
) -> None:
    assert one(number(*before, metric), number(*after, metric)).judgement == judgement


@pytest.mark.cases(("old", "new"), [(0.2, 0.4), (0.4, 0.2), (0.0, 1.0), (1.0, 0.0)])
@pytest.mark.cases("metric", ["attack.accuracy", "utility.overlap"])
def test_no_comparison_is_by_points(metric: str, old: float, new: float) -> None:
    """The same intervals have the same judgement, whatever their points."""
    judgement = one(number(0.2, 0.4, metric, value=old), number(0.2, 0.4, metric, value=new))
    assert (judgement.judgement, judgement.lower, judgement.upper) == ("cannot tell", -0.2, 0.2)
    judgement = one(number(0.5, 0.6, metric, value=old), number(0.2, 0.4, metric, value=new))
    assert judgement.judgement == ("better" if metric == "attack.accuracy" else "worse")


@settings(deadline=None, derandomize=True)
@given(ENDS, ENDS, ENDS, ENDS)
def test_a_change_has_an_interval_whatever_the_ends(a: float, b: float, c: float, d: float) -> None:
    before, after = (estimate(low, low, high) for low, high in (sorted((a, b)), sorted((c, d))))
    lower, upper = change(before, after)
    assert lower <= upper
    assert (lower > 0) == (after.lower > before.upper)
    assert (upper < 0) == (after.upper < before.lower)


def test_the_intervals_of_both_runs_hold_together() -> None:
    """A difference is certified with the confidence of both runs, also if theirs differ."""
    sure = Family(confidence=0.99, size=10, alpha=0.001)
    before, after = record(number(0.1, 0.2), family=sure), record(number(0.3, 0.4))
    assert compare(before, after).confidence == 0.94
    assert compare(after, after).confidence == 0.9
    half = Family(confidence=0.5, size=1, alpha=0.5)
    with pytest.raises(ConfigError, match="leaves none for both together"):
        compare(record(family=half), record(family=half))


def test_a_change_that_is_not_there_is_seldom_certified() -> None:
    """Two intervals of 80 % about one share leave it out together in at most 40 % of the runs."""
    hits = np.random.default_rng(0).binomial(100, 0.3, (2, 2000))
    low, high = proportion_confint(hits, 100, alpha=0.2, method="beta")
    ends = zip(low[0], high[0], low[1], high[1], strict=True)
    changes = [change(estimate(a, a, b), estimate(c, c, d)) for a, b, c, d in ends]
    certified = np.mean([lower > 0 or upper < 0 for lower, upper in changes])
    assert 0 < certified < 0.4


def test_a_rising_lower_bound_tells_nothing_of_the_true_epsilon() -> None:
    judgement = one(game(0.2), game(0.9))
    assert (judgement.judgement, judgement.reason) == (
        "cannot tell",
        "the baseline has only a lower bound",
    )
    assert (judgement.lower, judgement.upper) == (-INF, INF)
    assert compare(record(game(0.2)), record(game(0.9))).outcome == "pass"


@pytest.mark.cases(
    ("before", "after", "move", "outcome"),
    [
        (game(0.5), game(1.5), "newly false", "fail"),
        (game(0.5, found=False), game(1.5), "newly false", "fail"),
        (game(1.5), game(1.6), "same", "pass"),
        (game(1.5), game(0.5), "changed", "pass"),
        (game(0.5, found=False), game(0.5), "changed", "pass"),
        (game(0.5), game(0.6), "same", "pass"),
        (game(0.5), game(0.5, found=False), "no longer tested", "inconclusive"),
        (game(1.5), game(0.5, found=False), "no longer tested", "inconclusive"),
    ],
)
def test_verdicts_are_compared_by_themselves(
    before: Measurement, after: Measurement, move: str, outcome: str
) -> None:
    compared = compare(record(before), record(after))
    assert [claim.move for claim in compared.claims] == [move]
    assert compared.outcome == outcome
    assert [number.judgement for number in compared.numbers] == ["cannot tell"]


def test_less_power_is_a_change() -> None:
    compared = compare(record(game(0.5)), record(game(0.5, factor=4.0)))
    assert [claim.move for claim in compared.claims] == ["changed"]


@pytest.mark.cases(("name", "value"), [("epsilon", 0.5), ("delta", 1e-6), ("adjacency", "other")])
def test_verdicts_on_other_claims_are_not_comparable(name: str, value: Any) -> None:
    before = record(game(0.5))
    claim = before.points[0].claim
    assert claim is not None
    other = claim.model_copy(update={name: value})
    points = [before.points[0].model_copy(update={"claim": other})]
    compared = compare(before, record(game(0.9), points=points))
    [change] = compared.claims
    assert (change.move, compared.outcome) == ("not comparable", "inconclusive")
    assert f"claim.{name} " in change.reason


def test_a_claim_that_more_trials_find_to_be_false_is_not_newly_false() -> None:
    """The run stops by itself, unless its config accepts false claims; it is not worse."""
    table = {"pair": "tight", "observe": None, "trials": 100, "attack": "likelihood-ratio"}
    records = [
        record(game(bound), config={"seed": 7, "game": [table | {"trials": trials}]})
        for bound, trials in ((0.5, 100), (1.5, 10_000))
    ]
    compared = compare(*records)
    assert [claim.move for claim in compared.claims] == ["not comparable"]
    assert compared.claims[0].reason == "game.tight.0.trials 100 → 10000"
    assert compared.outcome == "inconclusive"
    other = [{**table, "pair": "support-threshold"}]
    same = record(game(1.5), config={"seed": 7, "game": [table, *other]})
    assert [claim.move for claim in compare(records[0], same).claims] == ["newly false"]


@pytest.mark.cases(
    ("changes", "key"),
    [
        ({"kind": "trained"}, "kind 'on_demand' → 'trained'"),
        ({"kind": "of a package that is not installed"}, "kind 'on_demand' → "),
        ({"tool": "0.2.0"}, "dpaudit '0.1.0' → '0.2.0'"),
        ({"config": {"seed": 8}}, "seed 7 → 8"),
        ({"config": {}}, "seed 7 → unset"),
        ({"config": {"seed": 7, "split": {"test_share": 0.5}}}, "split.test_share unset → 0.5"),
        ({"attacks": {"one": {"name": "other"}}}, "attack.one.name unset → 'other'"),
    ],
)
def test_a_number_is_compared_only_with_one_that_is_about_the_same(
    changes: dict[str, Any], key: str
) -> None:
    before = record(number(0.1, 0.2), config={"seed": 7}, attacks={})
    compared = compare(before, record(number(0.3, 0.4), **{"config": {"seed": 7}, **changes}))
    [change] = compared.numbers
    assert (change.judgement, compared.outcome) == ("not comparable", "inconclusive")
    assert change.reason.startswith(key)
    assert (change.lower, change.upper) == (-INF, INF)


@pytest.mark.cases(
    "config",
    [
        {"model": [{"label": "published", "params": {"x": 1}}]},
        {"audit": {"trials": 5, "confidence": 0.9}},
        {"gate": [{"metric": "leak"}], "card": {"title": "x"}, "waiver": []},
        {"game": [{"pair": "other", "trials": 5}]},
        {"convergence": {"users": 3}, "data": {"path": "elsewhere"}},
    ],
)
def test_what_a_number_is_not_about_keeps_none_apart(config: dict[str, Any]) -> None:
    before = record(number(0.1, 0.2), config={"seed": 7})
    after = record(number(0.3, 0.4), config={"seed": 7, **config})
    assert [one.judgement for one in compare(before, after).numbers] == ["worse"]


def test_other_data_are_shown_beside() -> None:
    before = record(number(0.1, 0.2))
    assert before.data is not None
    data = before.data.model_copy(update={"digest": "0"})
    compared = compare(before, record(number(0.3, 0.4), data=data))
    [change] = compared.numbers
    assert (change.judgement, change.before.value, change.after.value) == (
        "not comparable", 0.1, 0.3,
    )  # fmt: skip
    assert compared.reason.startswith("Not comparable: data.digest 'b4adf500' → '0'.")


def test_lists_of_another_length_are_other_lists() -> None:
    before = record(number(0.3, 0.4, "utility.overlap"), number(0.5, 0.6, "utility.rmse"))
    models = [before.models[0].model_copy(update={"top_k": 5})]
    after = record(
        number(0.1, 0.2, "utility.overlap"), number(0.7, 0.8, "utility.rmse"), models=models
    )
    assert [one.judgement for one in compare(before, after).numbers] == ["not comparable", "worse"]


def test_a_waiver_accepts_a_newly_broken_claim_and_nothing_else() -> None:
    day = date(2027, 1, 31)
    waiver = Waiver(id="claim/published/1", owner="o", statement="s", expires=day)
    waivers = judged([waiver], {"claim/published/1"}, day)
    before = record(game(0.5), number(0.1, 0.2))
    broken = record(game(1.5), number(0.1, 0.2), waivers=waivers)
    compared = compare(before, broken)
    assert [claim.waived for claim in compared.claims] == [True]
    assert compared.outcome == "pass"
    worse = record(game(1.5), number(0.3, 0.4), waivers=waivers)
    assert compare(before, worse).outcome == "fail"


def test_an_estimate_that_rests_on_an_assumption_decides_nothing() -> None:
    for kinds in (("frequentist", "assumes-law"), ("exact", "frequentist")):
        before, after = (
            number(*ends, kind=kind)
            for ends, kind in zip(((0.1, 0.2), (0.3, 0.4)), kinds, strict=True)
        )
        judgement = one(before, after)
        assert judgement.judgement == "cannot tell"
        assert "is of kind" in judgement.reason
    both = compare(record(number(0.1, 0.2, kind="exact")), record(number(0.3, 0.4, kind="exact")))
    assert (both.numbers, both.uncompared) == ([], {"attack.accuracy": 1})


@pytest.mark.cases(
    ("metric", "basis", "judgement"),
    [
        ("reconstruction.rmse", "released model", "better"),
        ("reconstruction.rmse", "leak", "worse"),
        ("reconstruction.recall", "released model", "worse"),
        ("submissions.mae", "better than item means", "worse"),
    ],
)
def test_errors_and_gains_of_attackers_grow_in_opposite_directions(
    metric: str, basis: str, judgement: str
) -> None:
    before, after = (
        number(*ends, metric, attack="one", basis=basis) for ends in ((0.1, 0.2), (0.3, 0.4))
    )
    assert one(before, after).judgement == judgement


def test_numbers_that_may_not_gate_are_counted() -> None:
    one = number(0.1, 0.2, "transcript.rmse", step=3)
    compared = compare(record(number(0.1, 0.2), one), record(number(0.1, 0.2)))
    assert compared.uncompared == {"transcript.rmse": 1}
    assert not compared.missing


def test_what_the_baseline_has_and_the_run_lacks_is_named() -> None:
    before = make_result(gate=False)
    fewer = make_result(epsilons=(0.1, 1.0), gate=False)
    compared = compare(before, fewer)
    assert (compared.missing, compared.added) == (["ε = 10 of 'published'"], [])
    assert compared.outcome == "inconclusive"
    assert "ε = 10 of 'published'" in compared.reason
    assert compare(fewer, before).added == compared.missing
    assert compare(fewer, before).outcome == "pass"
    other = compare(before, make_result(label="other", gate=False))
    assert (other.missing, other.added) == (["model 'published'"], ["model 'other'"])
    unattacked = compare(before, make_result(attacks=False, gate=False))
    assert len(unattacked.missing) == 6
    assert unattacked.missing[0] == "attack.accuracy of published, ε = 0.1, one prediction"
    assert "and 3 more. " in unattacked.reason


def test_runs_without_anything_to_compare_are_inconclusive() -> None:
    compared = compare(record(), record())
    assert compared.outcome == "inconclusive"
    assert compared.reason.startswith("The runs share no ")


def test_gates_are_shown_and_decide_nothing_here() -> None:
    def gated(outcome: Any) -> AuditResult:
        gates = [GateRecord(id="gate/a/max", rule="", outcome=outcome, reason="")]
        return record(game(0.5), gates=gates)

    compared = compare(gated("pass"), gated("fail"))
    assert [(gate.id, gate.before, gate.after) for gate in compared.gates] == [
        ("gate/a/max", "pass", "fail")
    ]
    assert compared.outcome == "pass"
    assert compare(gated("fail"), gated("fail")).gates == []


def test_a_run_is_no_worse_than_itself(hard: AuditResult) -> None:
    compared = compare(hard, hard)
    assert compared.outcome in ("pass", "inconclusive")
    assert not compared.missing
    assert not compared.differences
    assert {number.judgement for number in compared.numbers} <= {"cannot tell"}
    assert {claim.move for claim in compared.claims} <= {"same"}


@pytest.mark.cases(("before", "after"), [(1, 2), ("entropy", "entropy")])
def test_runs_of_different_seeds_show_no_change(before: int | str, after: int | str) -> None:
    first, second = (
        record(number(*ends), config={"seed": seed})
        for ends, seed in (((0.1, 0.2), before), ((0.3, 0.4), after))
    )
    compared = compare(first, second)
    [change] = compared.numbers
    assert change.judgement == "not comparable"
    assert change.reason.startswith("seed ")
    assert compared.outcome == "inconclusive"
