"""How often gates pass models whose true rate is known: above the limit, and without a leak.

Each model answers for each target with a level of its own, noise from training to training, and a
leak of the law that is named. An attacker who knows every law has the true rate. What gates do now
stands beside what their rule alone did, without a control.

    python bench/pass_controls.py --models 200
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import click
import numpy as np
from scipy.special import ndtri
from scipy.stats import t as student

from dpaudit.attacks.base import MembershipInference
from dpaudit.auditor.gate import Ruling
from dpaudit.auditor.measure import Context
from dpaudit.auditor.plan import Plan
from dpaudit.audits.membership import decisions
from dpaudit.audits.membership.calibration import Trials, division
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.audits.membership.controls import controlled
from dpaudit.audits.membership.inference import Inference
from dpaudit.audits.membership.planting import PassControl, Reading
from dpaudit.audits.membership.trainings import passes_alone
from dpaudit.execution.executor import INLINE

RATE = 0.01
LAWS = ("normal", "heavy tails", "own spreads", "few")


def model(law: str, rate: float, trainings: int, targets: int, seed: int) -> Trials:
    """Return trainings of a model in which the best attacker has a true-positive rate."""
    rng = np.random.default_rng(seed)
    shape = trainings, targets
    present = rng.random(shape) < 0.5
    held = rng.random(200)
    levels, others = 3 * rng.normal(size=targets), 3 * rng.normal(size=(1, 200))
    noise, width, move = rng.normal(size=shape), np.ones(targets), ndtri(rate) - ndtri(RATE)
    if law == "heavy tails":
        noise = rng.standard_t(4, size=shape)
        move = student.isf(RATE, 4) - student.isf(rate, 4)
    if law == "own spreads":
        width = np.exp(0.7 * rng.normal(size=targets))
    moved = present * move
    if law == "few":
        moved = present & (rng.random(targets) < (rate - RATE) / (1 - RATE))
        moved = 8.0 * moved
    shown = levels + width * (noise + (moved if rate > RATE else 0))
    population = others + rng.normal(size=(trainings, 200)) + 0 * held
    return Trials(shown[:, :, None], population[:, :, None], present)


def config_of(trainings: int, targets: int, limit: float, of: str) -> MembershipConfig:
    """Return the config of a gate."""
    return MembershipConfig.model_validate(
        {
            "data": {"format": "synthetic"},
            "recommender": [{"label": "mine", "library": "most-popular", "observers": ["scores"]}],
            "membership": {"trainings": trainings, "interactions": targets, "rates": [RATE]},
            "gate": [{"metric": "attack.tpr", "max": limit, "of": of, "where": {"at": RATE}}],
        }
    )


def outcome(config: MembershipConfig, trials: Trials, seed: int) -> tuple[bool, bool, Any]:
    """Return whether a gate's rule passes, whether the gate passes, and the number."""
    table = config.membership
    context = Context(config.model_copy(update={"seed": seed}), Plan(config).family, INLINE)
    left = decisions.left_for_next(config, context.family)
    attacks: Mapping[str, MembershipInference] = {
        attack.label: attack.create("attack") for attack in config.inferring
    }
    parts = division(table.trainings, table.calibrating_trainings, seed)
    look = decisions.planned(parts, [], left, 0.05, 0)[-1]
    inference = Inference(
        context,
        cast(Any, SimpleNamespace(others=lambda unit: 100_000)),
        attacks,
        look,
        max(left, 1e-12) / 2,
        trials,
        True,
        "mine",
        cast(Any, SimpleNamespace(epsilon=np.inf, traits={}, claim=None)),
        "interaction",
        "scores",
    )
    gate, curve = config.gate[0], PassControl.learning

    def learning(self: PassControl, trials: Trials, whole: Reading) -> Any:
        return curve(self, trials, whole) if passes_alone(gate, whole.measurement, 0.05) else ()

    # What decides nothing takes most of the time: forecasts, and curves where the rule fails.
    unneeded = {"_more": lambda *_: None, "learning": learning}
    with patch.multiple(PassControl, **unneeded):
        (number,) = [one for one in inference.strongest() if gate.picks(one.fields, ())]
    if not passes_alone(gate, number, 0.05):
        return False, False, number
    return True, controlled(gate, number, Ruling("pass", "")).outcome == "pass", number


@click.command()
@click.option("--models", default=200, help="Models of each law.")
@click.option("--targets", default=4000)
@click.option("--limit", default=0.05)
@click.option("--laws", default=",".join(LAWS))
@click.option("--rates", default="clean,1.1,2,10", help="Multiples of the limit.")
@click.option("--trainings", default="1,2,3,6,24,next")
def main(models: int, targets: int, limit: float, laws: str, rates: str, trainings: str) -> None:
    """Print shares of passes: with a control, and of the rule alone."""
    for law in laws.split(","):
        for times in rates.split(","):
            rate = RATE if times == "clean" else float(times) * limit
            cells = []
            for count in trainings.split(","):
                size, of = (24, "next-training") if count == "next" else (int(count), "this-model")
                config = config_of(size, targets, limit, of)
                passed = np.zeros(2)
                for seed in range(models):
                    trials = model(law, rate, size, targets, seed)
                    passed += outcome(config, trials, seed)[:2]
                cells.append(f"{count}: {passed[1] / models:.3f} ({passed[0] / models:.3f})")
            print(
                f"{law:12} {times:>5} rate {rate:.3f}  GO now (rule alone)  {'  '.join(cells)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
