"""The Sybil attacks of a config: how many accounts, changes or observed lists an attacker needs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import PassiveAttack, SybilAttack
from dpaudit.auditor.measure import Measure, MetricKey, points
from dpaudit.audits.on_demand.model import OnDemandModel
from dpaudit.audits.sybil.averaging import run_sybil
from dpaudit.audits.sybil.config import Sybil, SybilConfig
from dpaudit.audits.sybil.passive_lists import run_passive
from dpaudit.audits.sybil.subject import AttackedModels
from dpaudit.bounds.frequentist.intervals import proportion
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import ListDefense, OnDemandDefense
from dpaudit.execution.executor import Executor
from dpaudit.record import result as records


class SybilAttacks(Measure[SybilConfig, OnDemandModel]):
    """`sybil.accuracy`: how often an attacker succeeds with each effort, at every ε."""

    def __init__(self, subject: AttackedModels) -> None:
        """Keep the context."""
        self.context = subject.context

    @classmethod
    def plan(cls, config: SybilConfig) -> Iterator[MetricKey]:
        """Yield one number per Sybil attack, effort and point."""
        for model, epsilon in points(config):
            for sybil in config.sybil:
                yield from _keys(model, epsilon, sybil)

    def run(self, model: OnDemandModel) -> Iterator[records.Measurement]:
        """Run each Sybil attack on the model at every ε.

        Raises:
            ConfigError: a Sybil attack does not fit the model.
            DataError: there are too few data for it.
        """
        for sybil in self.context.config.sybil:
            stage = f"{model.label}: Sybil attack {sybil.label}"
            attack = sybil.create("sybil")
            for defense in model.defenses:
                efforts = partial(self._efforts, stage, model, defense, sybil, attack)
                yield from self.context.unit(stage, efforts)

    def _efforts(
        self,
        stage: str,
        model: OnDemandModel,
        defense: OnDemandDefense,
        sybil: Sybil,
        attack: Any,
    ) -> Iterator[records.Measurement]:
        context, family = self.context, self.context.family
        try:
            correct = _run(
                defense,
                model.train,
                attack,
                sybil,
                context.seed,
                context.tasks(stage, model.model, sybil, of=[defense]),
            )
        except (ConfigError, DataError) as error:
            case = f"Sybil attack {sybil.label!r} against model {model.label!r}"
            raise type(error)(f"{case}: {error}") from error
        for key, row in zip(_keys(model.label, defense.epsilon, sybil), correct, strict=True):
            share = proportion(int(row.sum()), len(row), family.alpha, family.confidence)
            yield key.measured(share)


def _keys(model: str, epsilon: float, sybil: Sybil) -> Iterator[MetricKey]:
    for effort in sybil.efforts:
        yield MetricKey("sybil.accuracy", model, epsilon, attack=sybil.label, effort=effort)


def _run(
    defense: OnDemandDefense,
    ratings: Ratings,
    attack: SybilAttack | PassiveAttack,
    sybil: Sybil,
    seed: int,
    executor: Executor,
) -> NDArray[np.bool_]:
    """Run the attack; whether it succeeds with each effort in each trial `(E, T)`."""
    if isinstance(attack, PassiveAttack):
        return run_passive(
            defense,
            ratings,
            attack,
            auxiliary=sybil.efforts,
            background=sybil.background,
            trials=sybil.trials,
            seed=seed,
            executor=executor,
        ).correct
    return run_sybil(
        defense,
        ratings,
        _reading(attack, defense),
        efforts=sybil.efforts,
        trials=sybil.trials,
        seed=seed,
        executor=executor,
    ).correct


def _reading(attack: SybilAttack, defense: OnDemandDefense) -> SybilAttack:
    """Return the attack; on unordered lists it reads only an item's membership."""
    unordered = isinstance(defense, ListDefense) and not defense.is_ordered()
    return attack.on_sets() if unordered else attack
