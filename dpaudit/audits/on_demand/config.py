"""The config of an audit of recommenders that serve on demand: `[split]`, `[convergence]`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from dpaudit.attacks import base as roles
from dpaudit.config.model import Model, Table, as_list, increasing
from dpaudit.config.tables import Attack, Game, ModelsConfig, check_attacks, has_role, named_attacks
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError

Share = Annotated[float, Field(gt=0, lt=1)]


class Split(Table):
    """Which users are attacked.

    Attributes:
        test_share: share of the users who are attacked; the similarity is built from the others.
    """

    test_share: Share = 0.2


class Convergence(Table):
    """The divergence of a published defense's Markov chain from the law that it should sample.

    Attributes:
        steps: the numbers of steps after which they are compared, increasing. What the chain has
            explored by the last of them is compared by itself, too, at most ten states.
        users: the number of attacked users in the mean; all if there are fewer.
    """

    steps: Annotated[
        list[Annotated[int, Field(ge=0, le=10_000_000)]],
        Field(min_length=1, max_length=1000),
        AfterValidator(increasing),
    ] = [0, 10, 30, 100, 300, 1000, 3000]
    users: Annotated[int, Field(ge=1, le=1_000_000)] = 100


class OnDemandConfig(ModelsConfig):
    """A config of recommenders that serve on demand.

    Attributes:
        split: which users are attacked.
        convergence: the divergence of a published chain.
    """

    title: ClassVar[str] = "recommenders that serve on demand"
    # No number of a chain may gate.
    differing: ClassVar[frozenset[str]] = ModelsConfig.differing | {"convergence"}

    split: Split = Split()
    convergence: Convergence | None = None

    @classmethod
    def takes(cls, defenses: Sequence[Any]) -> bool:
        """Whether none of the defenses is trained."""
        return not any(Model.model_construct(defense=name).trains for name in defenses)

    @field_validator("attack", mode="before")
    @classmethod
    def _by_release(cls, attacks: Any, info: ValidationInfo) -> Any:
        """Fill in missing names with that of an attack on lists, if no model shows more."""
        models, tables = info.data.get("model", []), as_list(attacks)
        if not models or not all(model.shows_lists for model in models):
            return tables
        return [
            {"name": "list-ideal", **table} if isinstance(table, dict) else table
            for table in tables
        ]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Refuse what needs predictions of a model that shows only lists, and the reverse."""
        for model in self.model:
            if model.shows_lists:
                _check_lists(model, self.attack, self.game)
                continue
            for attack in self.attack:
                if has_role(attack.name, roles.ListInference):
                    raise ValueError(
                        f"[[attack]] {attack.label!r} reads lists without values, and model "
                        f"{model.label!r} ({model.defense}) shows predictions: use "
                        f"{named_attacks(roles.Inference)} in a config of its own"
                    )
        if self.convergence and not any(model.walks_chain for model in self.model):
            raise ValueError(
                "[convergence] applies only to the Markov chain of a published defense: add a "
                "[[model]] with defense = 'top-k', or remove it"
            )
        return self

    def check_plugins(self) -> None:
        """Refuse unknown plug-ins, wrong parameters, and attacks of other roles.

        Raises:
            ConfigError: names the place and the remedy.
        """
        super().check_plugins()
        for index, model in enumerate(self.model):
            for defense in model.defenses(f"model.{index}"):
                pairs = [*defense.pairs(), "data"]
                for number, game in enumerate(self.game):
                    if game.pair not in pairs:
                        raise ConfigError(
                            f"game.{number}.pair = {game.pair!r} is none of model {model.label!r} "
                            f"({model.defense}){registry.suggestion(game.pair, pairs)}"
                        )
        check_attacks("attack", self.attack, (roles.Inference, roles.ListInference))
        check_attacks("game", self.game, (roles.Distinguisher,))


def _check_lists(model: Model, attacks: Sequence[Attack], games: Sequence[Game]) -> None:
    """Refuse parts that need predictions of a model that shows only lists."""
    reason = only_lists(model)
    for attack in attacks:
        if not has_role(attack.name, roles.ListInference):
            raise ValueError(
                f"{reason}, which [[attack]] {attack.label!r} needs: audit it by "
                f"{named_attacks(roles.ListInference)}, or by [[game]], in a config of its own"
            )
    for game in games:
        if game.pair == "data":
            raise ValueError(
                f"{reason}, so the pair 'data' cannot be searched for: name a constructed pair of "
                f"'dpaudit show {model.defense}' instead"
            )


def only_lists(model: Model) -> str:
    """Say that a model shows no predictions."""
    return f"model {model.label!r} ({model.defense}) shows lists and no predictions"
