"""What a config may not ask of trained models, found before anything is trained."""

from __future__ import annotations

from dpaudit.config import schema as configs
from dpaudit.core.errors import ConfigError
from dpaudit.defenses.base import SubmittingDefense


def check_reading(config: configs.Config) -> None:
    """Refuse to read submissions where there are none to see, or too few rounds of them.

    Raises:
        ConfigError: with the model and the remedy.
    """
    for attack in config.reading:
        made = attack.create("attack")
        for model in config.model:
            for defense in model.defenses("model"):
                if not isinstance(defense, SubmittingDefense):
                    raise ConfigError(
                        f"[[attack]] {attack.label!r} reads what users submit to a recommender, "
                        f"and those of model {model.label!r} ({defense.name}) submit nothing that "
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
    """Refuse what no model shows, and attacks that do not exist, before anything is trained.

    Raises:
        ConfigError: with the remedy.
    """
    if config.transcript is None:
        return
    for attack in config.watching:
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
                    f"model {model.label!r} has a grid, and [transcript] watches one combination: "
                    "set params to what was chosen"
                )
