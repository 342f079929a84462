"""What the configs of dpaudit's own recommenders share: data, models, attacks and games."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from dpaudit.config.model import Model, as_list
from dpaudit.config.schema import AuditedTable, Config
from dpaudit.config.tables import Attack, Game, check_games, with_attack
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError
from dpaudit.data.source import DataSource


class DataConfig(Config):
    """A config of models that learn from data.

    Attributes:
        data: the data.
        model: the audited defenses of dpaudit.
        attack: the attacks.
    """

    title: ClassVar[str] = "recommenders"

    data: DataSource = DataSource()
    model: Annotated[list[Model], BeforeValidator(as_list), Field(max_length=500)] = [Model()]
    attack: Annotated[list[Attack], BeforeValidator(as_list), Field(max_length=100)] = []

    @model_validator(mode="after")
    def _budgets(self) -> Self:
        """Refuse budgets of users that no model uses, and models that lack them."""
        users = [
            model.label
            for model in self.model
            if True in (model.params.get("budgets"), *model.grid.get("budgets", ()))
        ]
        given = self.data.budgets is not None
        if given and not users:
            raise ValueError(
                "[data.budgets] is used by no model: set params.budgets = true of 'dpps-mf', or "
                "remove it"
            )
        if users and self.data.path is not None and not given:
            raise ValueError(
                f"params.budgets = true of model {users[0]!r} needs the budget of each user: set "
                "data.budgets, or remove it"
            )
        return self

    @property
    def source(self) -> DataSource:
        """The data."""
        return self.data

    @property
    def audited(self) -> Sequence[AuditedTable]:
        """The models."""
        return self.model

    @property
    def labels(self) -> Mapping[str, list[str]]:
        """The labels of models and attacks."""
        return {
            "model": [model.label for model in self.model],
            "attack": [attack.label for attack in self.attack],
        }

    @property
    def numbers_per_point(self) -> int:
        """The numbers that are measured at each ε, at most."""
        return len(self.attack) + 2

    @property
    def plugins(self) -> set[str]:
        """The modules of its defenses and attacks."""
        named = [registry.load("defenses", model.defense) for model in self.model]
        named += [registry.load("attacks", attack.plugin) for attack in self.attack]
        return {plugin.__module__ for plugin in named}

    def check_plugins(self) -> None:
        """Refuse unknown defenses, and parameters that these do not take.

        Raises:
            ConfigError: names the place and the remedy.
        """
        for index, model in enumerate(self.model):
            if model.grid and not model.trains:
                raise ConfigError(
                    f"model.{index}.grid applies only to trained models: remove it, or give "
                    "several [[model]] tables"
                )
            for epsilon in model.epsilon:  # every combination is checked
                model.combinations(f"model.{index}", epsilon)

    def check_named(self) -> None:
        """Refuse a config that does not say what is audited: defaults are nobody's data and model.

        Raises:
            ConfigError: it names no data, or data of the user's and nothing that learns from them.
        """
        if not self.data.model_fields_set & {"format", "synthetic"}:
            raise ConfigError(
                "data.format is missing, so no data are named: write [data] with the format and "
                "path of your ratings (or format = 'synthetic' for generated ones), and [[model]] "
                "or [[recommender]]; 'dpaudit init --data FILE' writes them"
            )
        named = self.model_fields_set & {"model", *self.marks}
        if self.data.format != "synthetic" and not named:
            raise ConfigError(
                "no model is named, so nothing of yours would be audited: add a [[recommender]] of "
                "your own or a [[model]] with the defense that is audited, see 'dpaudit list "
                "defenses'"
            )


class ModelsConfig(DataConfig):
    """A config of dpaudit's own defenses, which games compare on two data sets.

    Attributes:
        game: the games.
    """

    title: ClassVar[str] = "dpaudit's own recommenders"

    game: Annotated[list[Game], BeforeValidator(as_list), Field(max_length=100)] = []

    @field_validator("game", mode="before")
    @classmethod
    def _by_model(cls, games: Any, info: ValidationInfo) -> Any:
        """Fill in missing attacks with one that reads what the observer sees of the models."""
        return [with_attack(game, info.data.get("model", [])) for game in as_list(games)]

    @model_validator(mode="after")
    def _games(self) -> Self:
        check_games(self.model, self.game)
        return self

    @property
    def labels(self) -> Mapping[str, list[str]]:
        """The labels of models, attacks and games."""
        return {**super().labels, "game": [game.label for game in self.game]}

    @property
    def numbers_per_point(self) -> int:
        """The numbers that are measured at each ε, at most."""
        return super().numbers_per_point + len(self.game)

    @property
    def plugins(self) -> set[str]:
        """The modules of its defenses and attacks."""
        games = {registry.load("attacks", game.plugin).__module__ for game in self.game}
        return super().plugins | games
