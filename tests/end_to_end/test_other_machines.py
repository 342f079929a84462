"""Records of audits under another kernel of numpy's and scipy's linear algebra."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest
from threadpoolctl import threadpool_info

# Without and with fused multiply-adds: builds for several processors have both.
KERNELS = ("Prescott", "Haswell")
RUN = """
import json, sys
import scipy.linalg
from threadpoolctl import threadpool_info
from dpaudit.config.schema import Config
from dpaudit.auditor.run import run_audit

kernels = {x.get("architecture") for x in threadpool_info() if x["user_api"] == "blas"}
records = [
    run_audit(Config.model_validate(config)).model_dump(exclude={"timing", "environment"})
    for config in json.load(sys.stdin)
]
print(json.dumps([sorted(map(str, kernels)), records]))
"""
SYNTHETIC = {
    "n_users": 25, "n_items": 16, "mean_per_user": 8, "minimum_per_user": 5, "mean_friends": 1,
}  # fmt: skip
DATA: dict[str, Any] = {"synthetic": SYNTHETIC, "sensitive": {"share": 0.3, "seed": 1}}
BASE: dict[str, Any] = {"seed": 3, "data": DATA, "train": {"folds": 2, "trials": 1}}
SOCIAL = {"dimensions": 5, "rounds": 8, "learning_rate": 0.02, "decay": 0.5, "offset": 3.0}
RANKING = {"dimensions": 5, "rounds": 8, "learning_rate": 0.02, "decay": 0.1}
FEDERATED = {"dimensions": 8, "rounds": 15, "offset": 3.0, "fakes": "two-valued"}


def audit(defense: str, params: dict[str, Any], **given: Any) -> dict[str, Any]:
    return BASE | {"model": {"defense": defense, "epsilon": 20, "params": params}} | given


AUDITS = {
    "fake-gradients": audit(
        "fake-gradients",
        FEDERATED,
        attack=[
            {"name": "zero-mean", "params": {"statistic": "hotelling"}},
            {"name": "zero-mean", "params": {"statistic": "sign"}},
            {"name": "two-sample"},
        ],
        transcript={"trials": 2, "rounds": [10]},
        gate=[{"metric": "attack.auc", "max": 0.999}],
    ),
    "privsr": audit("privsr", SOCIAL, attack={"name": "reconstruction"}),
    "privsr, submissions": audit(
        "privsr", SOCIAL, attack={"name": "submissions", "params": {"users": 3}}
    ),
    "privsr, game": audit(
        "privsr", SOCIAL, game={"pair": "data", "observe": "recommender", "trials": 40}
    ),
    "privsr-ranking": audit(
        "privsr-ranking",
        RANKING,
        data=DATA | {"binarize": 3},
        attack={"name": "ranking-reconstruction"},
    ),
    "dpps-mf": audit("dpps-mf", {"dimensions": 5, "epochs": 4, "accept": "any", "decay": 0.5}),
}


def run(kernel: str) -> list[Any]:
    found = subprocess.run(
        [sys.executable, "-c", RUN],
        input=json.dumps(list(AUDITS.values())),
        env=os.environ | {"OPENBLAS_CORETYPE": kernel},
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode == -signal.SIGILL:
        pytest.skip(f"this machine cannot run the kernel {kernel}")
    assert found.returncode == 0, found.stderr
    kernels, records = json.loads(found.stdout)
    return [kernels, *records]


@pytest.mark.long
def test_records_do_not_depend_on_the_kernels_of_linear_algebra() -> None:
    if not any(each["internal_api"] == "openblas" for each in threadpool_info()):
        pytest.skip("numpy's linear algebra is not OpenBLAS, whose kernel can be chosen")
    (one, *first), (other, *second) = (run(kernel) for kernel in KERNELS)
    if one == other:
        pytest.skip(f"this OpenBLAS or this machine has one kernel only: {one}")
    for name, left, right in zip(AUDITS, first, second, strict=True):
        assert left == right, name
