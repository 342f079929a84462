"""The leak meter: which numbers it shows, and the limits of gates."""

from __future__ import annotations

from typing import Any

from dpaudit.record import bases
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports.sections import meter
from tests.support.records import Make, accuracy, estimate, numbers_of


def gated(result: AuditResult, *gates: dict[str, Any]) -> AuditResult:
    """The record with these gates in its config, all judged alike."""
    config = {**result.config, "gate": list(gates)}
    return result.model_copy(update={"config": config, "gates": result.gates * len(gates)})


def test_of_a_sweep_the_epsilon_at_which_an_attacker_finds_most_is_shown(make: Make) -> None:
    rows = meter.rows(make())
    assert [row.attacker for row in rows] == ["one prediction, ε = 10", "second, ε = 10"]
    assert rows[0].value > rows[1].value
    assert rows[0].guess == 1 / 5
    assert [row.limit for row in rows] == [None, None]


def test_a_gate_picks_the_row_and_sets_its_limit(make: Make) -> None:
    where = {"epsilon": 1.0, "attack": "second"}
    gates = [{"metric": "attack.accuracy", "max": limit, "where": where} for limit in (0.5, 0.4)]
    rows = meter.rows(gated(make(), *gates))
    assert [(row.attacker, row.limit) for row in rows] == [
        # Without a limit, at the ε of the gates.
        ("one prediction, ε = 1", None),
        ("second, ε = 1", 0.4),
    ]


def test_of_one_epsilon_it_is_not_named(make: Make) -> None:
    first, _ = meter.rows(make(epsilons=(1.0,)))
    assert first.attacker == "one prediction"


def test_a_gate_on_a_metric_that_is_not_installed_limits_nothing(make: Make) -> None:
    result = gated(make(), {"metric": "other.metric", "max": 1.0})
    [(gate, record)] = meter.gates(result)
    assert gate is None
    assert record == result.gates[0]
    assert {row.limit for row in meter.rows(result)} == {None}


def test_of_many_rows_limits_come_first_then_the_surest_of_each_model(make: Make) -> None:
    base = make(epsilons=(1.0,))
    finds = [("a", one, 0.9) for one in "12345678"] + [("b", "1", 0.4), ("b", "2", 0.3)]
    measurements = [
        accuracy(value, value, value).model_copy(update={"model": model, "attack": attack})
        for model, attack, value in finds
    ]
    gate = {"metric": "attack.accuracy", "max": 0.35, "where": {"model": "b", "attack": "2"}}
    many = gated(base.model_copy(update={"measurements": measurements}), gate)
    models = [row.measurement.model for row in meter.rows(many)]
    assert models == ["b", "a", "b", *"aaaaaaa"]


def test_without_attacks_there_is_no_row(make: Make) -> None:
    assert meter.rows(make(attacks=False)) == []


def test_a_gate_shows_the_number_of_its_own_basis(make: Make) -> None:
    """Numbers of other bases have the same place."""
    base = make(epsilons=(1.0,))
    errors = [
        Measurement(
            metric="reconstruction.rmse", model="published", epsilon=1.0, attack="a", basis=basis,
            estimate=estimate(value, value, value),
        )
        for basis, value in ((bases.RELEASED, 1.06), (bases.BEYOND_MEANS, -0.06))
    ]  # fmt: skip
    table = {"metric": "reconstruction.rmse", "max": 0.2, "where": {"basis": bases.RELEASED}}
    for order in (errors, errors[::-1]):
        result = base.model_copy(update={"measurements": order})
        gate = base.gates[0].model_copy(update={"numbers": numbers_of(result, table, "fail")})
        judged = gated(result.model_copy(update={"gates": [gate]}), table)
        [(number, _)] = [meter.numbers(*pair, judged)[0] for pair in meter.gates(judged)]
        assert number is not None
        assert number.estimate.value == 1.06
