"""The config tables of attacks and games, and which of them fit each other and the models.

`DataConfig` and `ModelsConfig` are what the configs of dpaudit's own recommenders share.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from dpaudit.attacks import base as roles
from dpaudit.config.model import Model, Table, as_list
from dpaudit.config.schema import AuditedTable, Config
from dpaudit.core import registry
from dpaudit.core.claim import Claim, covered_observers
from dpaudit.core.errors import ConfigError
from dpaudit.core.releases import Observer
from dpaudit.data.source import DataSource


class WithAttack(Table, ABC):
    """A table that names a registered attack."""

    params: dict[str, Any] = {}

    @property
    @abstractmethod
    def plugin(self) -> str:
        """Return the name of the registered attack."""

    def create(self, place: str) -> Any:
        """Create the attack.

        Raises:
            ConfigError: the attack or a parameter is unknown, or a value is out of range.
        """
        return registry.create("attacks", self.plugin, place, self.params)


def has_role(name: Any, *wanted: type[roles.Attack]) -> bool:
    """Whether `name` is a registered attack with one of these roles."""
    return name in registry.names("attacks") and issubclass(registry.load("attacks", name), wanted)


def attacks_of(*wanted: type[roles.Attack]) -> dict[str, type[roles.Attack]]:
    """Return the registered attacks with one of these roles by name, by rank and name."""
    attacks: dict[str, type[roles.Attack]] = {
        name: attack
        for name, attack in registry.every("attacks").items()
        if issubclass(attack, wanted)
    }
    return dict(sorted(attacks.items(), key=lambda pair: (pair[1].rank, pair[0])))


def named_attacks(*wanted: type[roles.Attack]) -> str:
    """Name the registered attacks with one of these roles, as `'a', 'b' or 'c'`."""
    *most, last = map(repr, attacks_of(*wanted))
    return f"{', '.join(most)} or {last}" if most else last


def tests_submissions(name: Any) -> bool:
    """Whether a registered attack reads the submissions of a federated training."""
    return has_role(name, roles.SubmissionTest)


def recovers(name: Any) -> bool:
    """Whether a registered attack recovers sensitive ratings from a released model."""
    return has_role(name, *roles.RECONSTRUCTIONS)


def reads(name: Any) -> bool:
    """Whether a registered attack recovers sensitive ratings from submissions."""
    return has_role(name, roles.SubmissionReconstruction)


def infers(name: Any) -> bool:
    """Whether a registered attack recovers a hidden rating from predictions or from a list."""
    return has_role(name, roles.Inference, roles.ListInference)


class Attack(WithAttack):
    """One attack on the hidden ratings, on a released model, or on users' submissions.

    Attributes:
        label: its name in reports; by default the attack's name, with the values of its parameters
            if it reads submissions.
        name: the name of a registered attack.
        draw: for attacks on hidden ratings, what each trial draws. `users`: a user, then one of
            their ratings; `ratings`: one of all attacked users' ratings, so that users with many
            ratings are drawn more often.
        params: its parameters, see `dpaudit show ATTACK`.
    """

    label: str = ""
    name: str = "linear-ideal"
    draw: Literal["users", "ratings"] = "users"

    @model_validator(mode="before")
    @classmethod
    def _name(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        name, params = values.get("name", "linear-ideal"), values.get("params", {})
        # An attack on submissions may occur with several parameters, so its label contains them.
        if isinstance(params, dict) and params and tests_submissions(name):
            name = f"{name} ({', '.join(str(value) for value in params.values())})"
        return {"label": name, **values}

    @model_validator(mode="after")
    def _draws(self) -> Self:
        if self.draw == "ratings" and not infers(self.name):
            raise ValueError(
                "draw = 'ratings' applies only to attacks on hidden ratings "
                f"({named_attacks(roles.Inference, roles.ListInference)}), not to {self.name!r}: "
                "remove it"
            )
        return self

    @property
    def plugin(self) -> str:
        """The registered attack."""
        return self.name

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of the run that are recorded beside the parameters."""
        return {"draw": self.draw} if infers(self.name) else {}


def battery(role: type[roles.Attack]) -> list[Attack]:
    """Return the attacks of a config that names none: each of a role in its usual forms."""
    return [
        Attack.model_validate({"name": name, "params": dict(form.parameters), **_label(name, form)})
        for name, attack in attacks_of(role).items()
        for form in attack.usual
    ]


def _label(name: str, form: roles.Form) -> dict[str, str]:
    return {"label": f"{name} {form.words}"} if form.words else {}


class Game(WithAttack):
    """A distinguishing game that certifies a lower bound on ε.

    Attributes:
        pair: the neighbouring data sets: a defense's constructed pair (`dpaudit show DEFENSE`), or
            `data`: one rating changed in the audited data. For a trained defense: `data`, `rating`,
            `user`, or `many`: many ratings, each decided by its own coin in every training.
        observe: one of the defense's observers (`dpaudit show DEFENSE`); by default the first.
        attack: a registered distinguisher; by default the first of `likelihood-ratio`, `item-place`
            and `canary` that reads what the observer sees.
        params: its parameters, see `dpaudit show ATTACK`.
        trials: trials on each data set; with `many`, the number of trainings.
        candidates: with `pair = "data"`, the number of changed ratings that are compared; with
            `many`, the number of ratings decided by coins.
        details: for a pair in the audited data, whether the record contains exact sizes and values
            of the target user instead of broad classes.
    """

    judging: ClassVar[frozenset[str]] = frozenset({"details"})

    pair: str = "support-threshold"
    observe: str | None = None
    attack: str = "likelihood-ratio"
    trials: Annotated[int, Field(ge=4, le=100_000_000)] = 20_000
    candidates: Annotated[int, Field(ge=1, le=1_000_000)] = 200
    details: bool = False

    @model_validator(mode="after")
    def _of_somebody(self) -> Self:
        if self.details and self.pair not in ("data", "rating", "user"):
            raise ValueError(
                f"details applies only to pairs in the audited data, not {self.pair!r}: remove it"
            )
        return self

    @property
    def plugin(self) -> str:
        """The registered attack."""
        return self.attack

    @property
    def label(self) -> str:
        """Return the pair, with the observer if it was chosen."""
        learns = has_role(self.attack, roles.LearnedDistinguisher)
        # `values` is the default observer of untrained models and is not shown.
        unsaid = self.observe is None or (self.observe == "values" and not learns)
        return self.pair if unsaid else f"{self.pair} ({self.observe})"

    @property
    def trainings(self) -> int:
        """Return the number of trainings of a trained model, at each ε."""
        return self.trials if self.pair == "many" else 2 * self.trials


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


def with_attack(given: Any, models: Sequence[Model]) -> Any:
    """Add a default attack to a `[[game]]` that names none; it reads what the observer sees."""
    if not isinstance(given, dict) or "attack" in given or not models:
        return given
    observers = models[0].observers()
    observe = given.get("observe") or next(iter(observers), None)
    if not isinstance(observe, str) or observe not in observers:
        return given
    return {"attack": _usual(observers[observe]), **given}


def _usual(observer: Observer[Any]) -> str:
    """Return the default attack on an observer: the first that reads what it sees."""
    attacks = list(attacks_of(*roles.GAME_ROLES))
    return next((name for name in attacks if _reads(name, observer)), attacks[0])


def _reads(attack: str, observer: Observer[Any]) -> bool:
    part: type[roles.Reads] = registry.load("attacks", attack)
    return part.can_read(observer.shows)


def observer_of(game: Game, label: str, observers: Mapping[str, Observer[Any]]) -> str:
    """Return the observer of a game on a model: the named one, else the first its attack reads.

    Raises:
        ConfigError: the model has no such observer, or the attack does not read what it sees.
    """
    place = f"[[game]] {game.label!r}"
    readable = [name for name, observer in observers.items() if _reads(game.attack, observer)]
    if game.observe is None and readable:
        return readable[0]
    if game.observe is None:
        raise ConfigError(
            f"{place}: attack {game.attack!r} reads nothing that observers of model {label!r} "
            f"see: use one such as {_usual(next(iter(observers.values())))!r}"
        )
    if game.observe not in observers:
        raise ConfigError(
            f"{place}: observe = {game.observe!r} is not an observer of model {label!r}"
            f"{registry.suggestion(game.observe, observers)}"
        )
    if game.observe not in readable:
        raise ConfigError(
            f"{place}: attack {game.attack!r} does not read what observer {game.observe!r} of "
            f"model {label!r} sees: use one such as {_usual(observers[game.observe])!r}"
        )
    return game.observe


def check_covered(game: Game, label: str, claim: Claim | None, observe: str) -> None:
    """Refuse a game whose observer a model's claim does not cover.

    Raises:
        ConfigError: names the game, the model and the remedy.
    """
    if claim and observe not in covered_observers(claim):
        raise ConfigError(
            f"[[game]] {game.label!r}: model {label!r} claims nothing for observer {observe!r}, "
            f"only for {claim.observer!r}: use observe = {claim.observer!r}"
        )


def check_games(models: Sequence[Model], games: Sequence[Game]) -> None:
    """Refuse games for which a model has no observer; unknown attacks are refused elsewhere.

    Raises:
        ValueError: names the game and the remedy.
    """
    known = [game for game in games if has_role(game.attack, *roles.GAME_ROLES)]
    for model in models if known else ():
        observers = model.observers()
        for game in known if observers else ():
            try:
                observer_of(game, model.label, observers)
            except ConfigError as error:
                raise ValueError(str(error)) from error


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
