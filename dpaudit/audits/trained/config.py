"""The config of an audit of trained recommenders: `[train]`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from dpaudit.attacks import base as roles
from dpaudit.config import tables
from dpaudit.config.model import Model, Table
from dpaudit.config.tables import Attack, Game, ModelsConfig, has_role
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError
from dpaudit.core.releases import ItemFactors
from dpaudit.data.source import DataSource
from dpaudit.defenses.base import SubmittingDefense

# The pairs of trained models, each in a sentence.
PAIRS = {
    "data": "in the audited data, a change that the claim covers; without a claim, of one rating",
    "rating": "one rating of a user moves to the far end of the scale, or is removed",
    "user": "all ratings of one user move to the far end of the scale, or are removed",
    "many": "ratings of many users; a coin sets each to one or the other end of the scale",
}


class Train(Table):
    """The training data and the evaluation of trained models.

    Attributes:
        folds: the number of cross-validation folds.
        files: published test files instead of folds, one per fold.
        evaluate_folds: the number of folds that are evaluated; by default all.
        cap: the most ratings kept of each user, chosen at random; by default all.
        more_than: only users with more ratings than this are kept; applied before the cap.
        trials: trainings of each model on each fold.
        against: the label of the model that the errors of the others are compared with, fold by
            fold, at the same ε or at its only one.
        top_k: the length of the lists of ranking models, whose hits are counted.
    """

    judging: ClassVar[frozenset[str]] = frozenset({"against"})

    folds: Annotated[int, Field(ge=2, le=100)] = 5
    files: list[str] = []
    evaluate_folds: Annotated[int, Field(ge=2, le=100)] | None = None
    cap: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    more_than: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    trials: Annotated[int, Field(ge=1, le=10_000)] = 16
    against: str | None = None
    top_k: Annotated[int, Field(ge=1, le=10_000)] = 5


class TrainedConfig(ModelsConfig):
    """A config of trained recommenders.

    Attributes:
        train: the training data and the evaluation.
    """

    title: ClassVar[str] = "trained recommenders"
    # What is wrong if no model is trained.
    untrained: ClassVar[str] = "no model is trained: add a [[model]] with one such as 'dpsgd-mf'"
    # The roles of the attacks that it takes.
    accepted: ClassVar[tuple[type[roles.Attack], ...]] = (
        *roles.RECONSTRUCTIONS,
        roles.SubmissionReconstruction,
    )

    train: Train | None = None

    @classmethod
    def takes(cls, defenses: Sequence[Any]) -> bool:
        """Whether one of the defenses is trained."""
        return any(Model.model_construct(defense=name).trains for name in defenses)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Refuse tables and attacks that do not fit the models."""
        trained = next((model for model in self.model if model.trains), None)
        if trained is None:
            raise ValueError(self.untrained)
        if other := next((model for model in self.model if not model.trains), None):
            raise ValueError(
                f"model {trained.label!r} is trained and model {other.label!r} is not: audit "
                "them in two configs"
            )
        _check_lists(self.model, self.attack)
        _check_factors(self.model, self.attack)
        for attack in self.attack:
            self._check_role(attack, trained)
        for game in self.game:
            _check_game(game)
        against, labels = self.training.against, [model.label for model in self.model]
        if against is not None and against not in labels:
            raise ValueError(
                f"train.against = {against!r} is not a label{registry.suggestion(against, labels)}"
            )
        if self.training.files and self.data.least_raters > 1:
            raise ValueError(
                "train.files contain ratings of items that data.least_raters = "
                f"{self.data.least_raters} leaves out: remove one of them"
            )
        return self

    def _check_role(self, attack: Attack, trained: Model) -> None:
        if attack.name not in registry.names("attacks") or has_role(attack.name, *self.accepted):
            return
        if tables.tests_submissions(attack.name):
            raise ValueError(
                f"[[attack]] {attack.label!r} reads what users submit in each round: add "
                "[transcript], or remove it"
            )
        other = roles.RatingReconstruction if trained.ranks else roles.ListReconstruction
        fitting = (role for role in self.accepted if role is not other)
        raise ValueError(
            f"[[attack]] {attack.label!r} reads nothing that model {trained.label!r} "
            f"({trained.defense}) shows: remove it, or use {tables.named_attacks(*fitting)}"
        )

    def check_plugins(self) -> None:
        """Refuse unknown plug-ins, wrong parameters, and attacks of other roles.

        Raises:
            ConfigError: names the place and the remedy.
        """
        super().check_plugins()
        for index, attack in enumerate(self.attack):
            attack.create(f"attack.{index}")
        tables.check_attacks("game", self.game, roles.GAME_ROLES)

    def recorded(self) -> Self:
        """Return the config with `[train]` in full."""
        return self.model_copy(update={"train": self.training})

    @property
    def training(self) -> Train:
        """Return the `[train]` table, or its defaults."""
        return self.train or Train()

    @property
    def files(self) -> list[Path]:
        """The published test files."""
        named = (DataSource(format="movielens-100k", path=file) for file in self.training.files)
        return [source.file() for source in named]

    @property
    def recovering(self) -> list[Attack]:
        """Return the attacks that recover sensitive ratings from a released model."""
        return [attack for attack in self.attack if tables.recovers(attack.name)]

    @property
    def reading(self) -> list[Attack]:
        """Return the attacks that recover sensitive ratings from submissions."""
        return [attack for attack in self.attack if tables.reads(attack.name)]


def _check_lists(models: Sequence[Model], attacks: Sequence[Attack]) -> None:
    """Refuse to mix models that rank with others, and attacks that do not read their releases.

    Raises:
        ValueError: names the table and the remedy.
    """
    ranking = next((model for model in models if model.ranks), None)
    predicting = next((model for model in models if not model.ranks), None)
    if ranking and predicting:
        raise ValueError(
            f"model {ranking.label!r} ranks and model {predicting.label!r} predicts ratings: "
            "audit them in two configs"
        )
    known = registry.names("attacks")
    for attack in attacks:
        lists = has_role(attack.name, roles.ListReconstruction)
        if ranking and attack.name in known and not lists:
            raise ValueError(
                f"[[attack]] {attack.label!r} recovers ratings, and model {ranking.label!r} "
                f"ranks: use {tables.named_attacks(roles.ListReconstruction)}"
            )
        if predicting and lists:
            raise ValueError(
                f"[[attack]] {attack.label!r} recovers what models rank high, and model "
                f"{predicting.label!r} predicts ratings: use "
                f"{tables.named_attacks(roles.RatingReconstruction)}"
            )


def _check_factors(models: Sequence[Model], attacks: Sequence[Attack]) -> None:
    """Refuse attacks that read a released factorisation if a model releases none.

    Raises:
        ValueError: names the attack, the model and the remedy.
    """
    for attack in attacks:
        if not (tables.recovers(attack.name) or tables.reads(attack.name)):
            continue
        for model in models:
            observers = model.observers()
            public = observers.get("public")
            if observers and (public is None or not issubclass(public.shows[0], ItemFactors)):
                raise ValueError(
                    f"[[attack]] {attack.label!r} reads a released factorisation, and model "
                    f"{model.label!r} ({model.defense}) releases none: remove it, or audit one "
                    "such as 'dpsgd-mf'"
                )


def _check_game(game: Game) -> None:
    if game.pair not in PAIRS:
        raise ValueError(
            f"[[game]] pair = {game.pair!r} is not a pair of trained models: use "
            f"{', '.join(repr(pair) for pair in PAIRS)}"
        )
    if game.pair == "many" and game.observe not in {None, "iterates"}:
        raise ValueError(
            f"[[game]] {game.label!r}: the pair 'many' needs an observer of the training steps: "
            "use observe = 'iterates'"
        )


def check_reading(attacks: Sequence[Attack], models: Sequence[Model]) -> None:
    """Refuse attacks on submissions if a model has no visible submissions, or too few rounds.

    Raises:
        ConfigError: an attack does not fit; names the model and the remedy.
    """
    for attack in attacks:
        reader = attack.create("attack")
        for model in models:
            for defense in model.defenses("model"):
                if not isinstance(defense, SubmittingDefense):
                    raise ConfigError(
                        f"[[attack]] {attack.label!r} reads what users submit to a recommender, "
                        f"but users of model {model.label!r} ({defense.name}) submit nothing that "
                        "it reads: remove it, or audit 'privsr'"
                    )
                try:
                    defense.check_submissions()
                    reader.check_rounds(defense.rounds)
                except ConfigError as error:
                    raise ConfigError(
                        f"[[attack]] {attack.label!r} on model {model.label!r}: {error}"
                    ) from error
