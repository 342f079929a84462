"""Whether every plug-in exists, takes its parameters, and stands in the table of its role."""

from __future__ import annotations

from collections.abc import Sequence

from dpaudit.attacks import base as roles
from dpaudit.config.model import Model
from dpaudit.config.tables import Attack, Game, named_attacks
from dpaudit.core.errors import ConfigError


def check_defenses(models: Sequence[Model]) -> None:
    """Refuse unknown defenses, and parameters that these do not take.

    Raises:
        ConfigError: names the place and the remedy.
    """
    for index, model in enumerate(models):
        if model.grid and not model.trains:
            raise ConfigError(
                f"model.{index}.grid applies only to trained models: remove it, or give "
                "several [[model]] tables"
            )
        for epsilon in model.epsilon:  # every combination is checked
            model.combinations(f"model.{index}", epsilon)


def check_attacks(
    table: str, entries: Sequence[Attack | Game], wanted: tuple[type[roles.Attack], ...]
) -> None:
    """Refuse unknown attacks, wrong parameters, and attacks of other roles.

    Args:
        table: the name of their table.
        entries: the tables.
        wanted: the roles of attacks that the table takes.

    Raises:
        ConfigError: names the place and the remedy.
    """
    for index, entry in enumerate(entries):
        place = f"{table}.{index}"
        if not isinstance(entry.create(place), wanted):
            raise ConfigError(
                f"{place}: {entry.plugin!r} cannot be used in [[{table}]] of this audit: use "
                f"{named_attacks(*wanted)}"
            )


def check_budgets(given: bool, file: bool, models: Sequence[Model]) -> None:
    """Refuse budgets of users that no model uses, and models that lack them.

    Args:
        given: whether there is `[data.budgets]`.
        file: whether the ratings are read from a file.
        models: `[[model]]`.

    Raises:
        ValueError: names the table or the model, and the remedy.
    """
    users = [
        model.label
        for model in models
        if True in (model.params.get("budgets"), *model.grid.get("budgets", ()))
    ]
    if given and not users:
        raise ValueError(
            "[data.budgets] is used by no model: set params.budgets = true of 'dpps-mf', or "
            "remove it"
        )
    if users and file and not given:
        raise ValueError(
            f"params.budgets = true of model {users[0]!r} needs the budget of each user: set "
            "data.budgets, or remove it"
        )
