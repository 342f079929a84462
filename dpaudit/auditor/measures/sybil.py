"""The campaigns of a config: how many accounts, changes or watched lists an attacker needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import PassiveAttack
from dpaudit.attacks.sybil.averaging import Campaign
from dpaudit.auditor.sweep import Sweep
from dpaudit.auditor.sybil.averaging import play_campaign
from dpaudit.auditor.sybil.passive_lists import play_watching
from dpaudit.bounds.frequentist.intervals import proportion
from dpaudit.config import schema as configs
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import ListDefense, OnDemandDefense
from dpaudit.record import result as records


def measure_campaign(
    sweep: Sweep,
    campaign: configs.Campaign,
    family: records.Family,
    *,
    seed: int,
    threads: int,
    advance: Callable[[int], None],
) -> Iterator[records.Measurement]:
    """The accuracy of a campaign with each effort, at every ε of a model.

    Raises:
        ConfigError: the campaign does not fit the model.
        DataError: the data are too few for it.
    """
    attack = campaign.create("campaign")
    for defense in sweep.defenses:
        try:
            correct = _play(defense, sweep.train, attack, campaign, seed, threads, advance)
        except (ConfigError, DataError) as error:
            place = f"campaign {campaign.label!r} against model {sweep.model.label!r}"
            raise type(error)(f"{place}: {error}") from error
        for effort, row in zip(campaign.efforts, correct, strict=True):
            yield records.Measurement(
                metric="campaign.accuracy",
                model=sweep.model.label,
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
