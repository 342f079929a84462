"""Gates on errors of ratings where the data are purchases."""

from __future__ import annotations

from typing import Any

import pytest

from dpaudit.auditor.run import run_audit
from dpaudit.config.compatibility.gates import RATED, check_rated
from dpaudit.config.schema import Config
from dpaudit.core.errors import ConfigError
from dpaudit.data.ratings import Scale
from dpaudit.record.metrics import METRICS


def test_purchases_have_no_error_to_judge() -> None:
    with pytest.raises(ConfigError, match=r"gate\.1\.metric = 'utility\.mae' needs ratings"):
        check_rated(["leak", "utility.mae"], Scale(1, 1, 1))
    check_rated(["leak", "utility.overlap"], Scale(1, 1, 1))
    check_rated(list(RATED), Scale(1, 5, 1))
    assert {METRICS[name].unit for name in RATED} == {"rating"}


@pytest.mark.parametrize(
    "tables",
    [
        {"recommender": [{"library": "most-popular"}]},
        {"recommender": [{"library": "surprise"}]},
        {"model": [{"defense": "neighborhood", "variant": "nonprivate"}]},
    ],
    ids=["no ratings", "ratings", "trained"],
)
def test_such_a_gate_is_refused_before_anything_is_trained(tables: dict[str, Any]) -> None:
    values = {
        "data": {"synthetic": {"n_users": 200, "n_items": 60}, "binarize": 3},
        "gate": [{"metric": "utility.rmse", "max": 1}],
        **tables,
    }
    with pytest.raises(ConfigError, match="all ratings of these data are 1"):
        run_audit(Config.model_validate(values))
