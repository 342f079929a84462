"""The campaigns of a config: how many accounts, changes or watched lists an attacker needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import PassiveAttack
from dpaudit.attacks.sybil.averaging import Campaign
from dpaudit.auditor.measures.base import Measure, MetricKey, points
from dpaudit.auditor.subjects.on_demand import OnDemandModels
from dpaudit.auditor.sweep import Sweep
from dpaudit.auditor.sybil.averaging import play_campaign
from dpaudit.auditor.sybil.passive_lists import play_watching
from dpaudit.bounds.frequentist.intervals import proportion
from dpaudit.config import schema as configs
from dpaudit.config.schema import Config
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import ListDefense, OnDemandDefense
from dpaudit.record import result as records


class Campaigns(Measure[Sweep]):
    """`campaign.accuracy`: how often an attacker succeeds with each effort, at every ε."""

    def __init__(self, subject: OnDemandModels) -> None:
        """Take what the measures share."""
        self.context = subject.context

    @classmethod
    def plan(cls, config: Config) -> Iterator[MetricKey]:
        """One number for each campaign and effort."""
        for model, epsilon in points(config):
            for each in config.campaign:
                for effort in each.efforts:
                    yield MetricKey(
                        "campaign.accuracy", model, epsilon, attack=each.label, effort=effort
                    )

    def run(self, model: Sweep) -> Iterator[records.Measurement]:
        """Attack the model.

        Raises:
            ConfigError: a campaign does not fit the model.
            DataError: the data are too few for it.
        """
        for campaign in self.context.config.campaign:
            self.context.progress.stage(f"{model.label}: campaign {campaign.label}")
            attack = campaign.create("campaign")
            for defense in model.defenses:
                yield from self._efforts(model, defense, campaign, attack)

    def _efforts(
        self, model: Sweep, defense: OnDemandDefense, campaign: configs.Campaign, attack: Any
    ) -> Iterator[records.Measurement]:
        context, family = self.context, self.context.family
        try:
            correct = _play(
                defense,
                model.train,
                attack,
                campaign,
                context.seed,
                context.threads,
                context.progress.advance,
            )
        except (ConfigError, DataError) as error:
            place = f"campaign {campaign.label!r} against model {model.label!r}"
            raise type(error)(f"{place}: {error}") from error
        for effort, row in zip(campaign.efforts, correct, strict=True):
            yield records.Measurement(
                metric="campaign.accuracy",
                model=model.label,
                epsilon=defense.epsilon,
                attack=campaign.label,
                effort=effort,
                estimate=proportion(int(row.sum()), len(row), family.alpha, family.confidence),
            )


def _play(
    defense: OnDemandDefense,
    ratings: Ratings,
    attack: Campaign | PassiveAttack,
    campaign: configs.Campaign,
    seed: int,
    threads: int,
    advance: Callable[[int], None],
) -> NDArray[np.bool_]:
    """Whether the attack succeeds with each effort in each trial `(E, T)`."""
    if isinstance(attack, PassiveAttack):
        return play_watching(
            defense,
            ratings,
            attack,
            auxiliary=campaign.efforts,
            background=campaign.background,
            trials=campaign.trials,
            seed=seed,
            threads=threads,
            advance=advance,
        ).correct
    return play_campaign(
        defense,
        ratings,
        _reading(attack, defense),
        efforts=campaign.efforts,
        trials=campaign.trials,
        seed=seed,
        threads=threads,
        advance=advance,
    ).correct


def _reading(attack: Campaign, defense: OnDemandDefense) -> Campaign:
    """The attack, which reads off a set no more than what is in it."""
    unordered = isinstance(defense, ListDefense) and not defense.is_ordered()
    return replace(attack, reads="membership") if unordered else attack
