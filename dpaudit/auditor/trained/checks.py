"""Checks of a config for trained models, made before anything is trained."""

from __future__ import annotations

from dpaudit.config import schema as configs
from dpaudit.core.errors import ConfigError
from dpaudit.defenses.base import SubmittingDefense


def check_reading(config: configs.Config) -> None:
    """Refuse attacks on submissions if a model has no visible submissions, or too few rounds.

    Raises:
        ConfigError: an attack does not fit; names the model and the remedy.
    """
    for attack in config.reading:
        made = attack.create("attack")
        for model in config.model:
            for defense in model.defenses("model"):
                if not isinstance(defense, SubmittingDefense):
                    raise ConfigError(
                        f"[[attack]] {attack.label!r} reads what users submit to a recommender, "
                        f"but users of model {model.label!r} ({defense.name}) submit nothing that "
                        "it reads: remove it, or audit 'privsr'"
                    )
                try:
                    defense.check_submissions()
                    made.check_rounds(defense.rounds)
                except ConfigError as error:
                    raise ConfigError(
                        f"[[attack]] {attack.label!r} on model {model.label!r}: {error}"
                    ) from error


def check_transcript(config: configs.Config) -> None:
    """Refuse a `[transcript]` that does not fit a model, and unknown attacks.

    Raises:
        ConfigError: names the remedy.
    """
    if config.transcript is None:
        return
    for attack in config.submission_tests:
        attack.create("attack")
    for model in config.model:
        for defense in model.defenses("model"):
            config.transcript.steps(defense.rounds)
            if defense.variant != "nonprivate" and defense.density == 0:
                raise ConfigError(
                    f"model {model.label!r} has params.density = 0, so nobody submits a fake that "
                    "[transcript] could tell from real ones: raise it, or remove [transcript]"
                )
            if model.grid:
                raise ConfigError(
                    f"model {model.label!r} has a grid, but [transcript] observes one combination: "
                    "set params to the combination to observe"
                )
