from __future__ import annotations

from dpaudit.record.comparison import differences
from dpaudit.record.result import AuditResult


def keys(before: AuditResult, after: AuditResult) -> dict[str, tuple[str, str]]:
    return {
        difference.key: (difference.before, difference.after)
        for difference in differences(before, after)
    }


def test_equal_runs_differ_in_nothing(result: AuditResult) -> None:
    assert keys(result, result) == {}


def test_settings_are_named_by_their_dotted_keys(result: AuditResult) -> None:
    config = {**result.config, "seed": 8, "audit": {"trials": 100}}
    config["model"] = [{**config["model"][0], "epsilon": [0.1, 2.0, 10.0, 20.0]}]
    assert keys(result, result.model_copy(update={"config": config})) == {
        "config.seed": ("7", "8"),
        "config.audit.trials": ("unset", "100"),
        "config.model.0.epsilon.1": ("1.0", "2.0"),
        "config.model.0.epsilon.3": ("unset", "20.0"),
    }


def test_data_claims_version_and_environment_are_compared(result: AuditResult) -> None:
    assert result.data is not None
    claim = result.points[0].claim
    assert claim is not None
    loose = result.points[0].model_copy(update={"claim": claim.model_copy(update={"epsilon": 0.2})})
    other = result.model_copy(
        update={
            "data": result.data.model_copy(update={"digest": "0" * 64}),
            "points": [loose, *result.points[1:]],
            "tool": "0.2.0",
            "environment": {"python": "3.12.0", "numpy": "2.4.6"},
        }
    )
    changes = keys(result, other)
    assert set(changes) == {
        "data.digest",
        "claim.published, ε = 0.1.epsilon",
        "dpaudit",
        "environment.python",
    }
    assert changes["data.digest"] == ("'b4adf500'", f"'{'0' * 39}…")
    assert changes["claim.published, ε = 0.1.epsilon"] == ("0.1", "0.2")


def test_a_run_without_data_differs_in_all_of_them(result: AuditResult) -> None:
    changes = keys(result, result.model_copy(update={"data": None}))
    assert changes["data.users"] == ("600", "unset")
