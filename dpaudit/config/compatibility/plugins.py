"""Whether every plug-in exists, takes its parameters, and stands in the table of its role."""

from __future__ import annotations

from collections.abc import Sequence

from dpaudit.attacks import base as roles
from dpaudit.config.membership import OwnRecommender
from dpaudit.config.model import Model
from dpaudit.config.tables import Attack, Game, Sybil
from dpaudit.core.errors import ConfigError
from dpaudit.core.registry import suggestion


def check_plugins(
    models: Sequence[Model],
    attacks: Sequence[Attack],
    games: Sequence[Game],
    sybil_attacks: Sequence[Sybil],
    *,
    transcript: bool,
) -> None:
    """Refuse unknown defenses and attacks, wrong parameters, and plug-ins in a wrong table.

    Args:
        models: `[[model]]`.
        attacks: `[[attack]]`.
        games: `[[game]]`.
        sybil_attacks: `[[sybil]]`.
        transcript: whether the config has a `[transcript]`.

    Raises:
        ConfigError: names the place and the remedy.
    """
    _check_defenses(models, games)
    trains = any(model.trains for model in models)
    recovering = (*roles.RECONSTRUCTIONS, roles.SubmissionReconstruction)
    asked: tuple[type[roles.Attack], ...] = (roles.Inference, roles.ListInference)
    if trains:
        asked = (*recovering, roles.SubmissionTest) if transcript else recovering
    named: Sequence[tuple[str, Sequence[Attack | Game], tuple[type[roles.Attack], ...]]] = (
        ("attack", attacks, asked),
        ("game", games, roles.GAME_ROLES if trains else (roles.Distinguisher,)),
    )
    for table, entries, wanted in named:
        for index, entry in enumerate(entries):
            place = f"{table}.{index}"
            if not isinstance(entry.create(place), wanted):
                raise ConfigError(
                    f"{place}: {entry.plugin!r} cannot be used in [[{table}]]: [[attack]] takes "
                    "attacks that recover ratings, such as 'linear-ideal' or, for trained models, "
                    "'reconstruction', and with [transcript] tests of submissions, such as "
                    "'zero-mean'; [[game]] takes distinguishers, such as 'likelihood-ratio'"
                )
    _check_sybils(sybil_attacks)


def check_members(models: Sequence[Model | OwnRecommender], attacks: Sequence[Attack]) -> None:
    """Refuse unknown recommenders, defenses and attacks of a membership audit, by creating each.

    Args:
        models: the audited models.
        attacks: the attacks.

    Raises:
        ConfigError: names the place and the remedy.
    """
    own = [model for model in models if isinstance(model, OwnRecommender)]
    for index, recommender in enumerate(own):
        recommender.create(f"recommender.{index}")
    _check_defenses([model for model in models if isinstance(model, Model)], ())
    for index, attack in enumerate(attacks):
        attack.create(f"attack.{index}")


def _check_defenses(models: Sequence[Model], games: Sequence[Game]) -> None:
    for index, model in enumerate(models):
        if model.grid and not model.trains:
            raise ConfigError(
                f"model.{index}.grid applies only to trained models: remove it, or give "
                "several [[model]] tables"
            )
        for epsilon in model.epsilon:  # every combination is checked
            model.combinations(f"model.{index}", epsilon)
        for defense in model.defenses(f"model.{index}"):
            for game in () if model.trains else games:
                pairs = [*defense.pairs(), "data"]
                if game.pair not in pairs:
                    raise ConfigError(
                        f"model.{index} ({model.defense}) has no pair {game.pair!r}"
                        f"{suggestion(game.pair, pairs)}"
                    )


def _check_sybils(sybil_attacks: Sequence[Sybil]) -> None:
    for index, sybil in enumerate(sybil_attacks):
        made = sybil.create(f"sybil.{index}")
        if not isinstance(made, roles.SybilAttack | roles.PassiveAttack):
            raise ConfigError(
                f"sybil.{index}.attack = {sybil.attack!r} makes no accounts and "
                "observes no public lists: use 'sybil' or 'passive-lists'"
            )
