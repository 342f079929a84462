"""The tables of a config that are played: attacks, games, campaigns, convergence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, field_validator, model_validator

from dpaudit.attacks import base as roles
from dpaudit.config.model import TABLE
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError


class _Table(BaseModel):
    model_config = TABLE


class _Played(_Table, ABC):
    """A table that names a registered attack."""

    params: dict[str, Any] = {}

    @property
    @abstractmethod
    def part(self) -> str:
        """The registered attack."""

    def create(self, place: str) -> Any:
        """The attack.

        Raises:
            ConfigError: it, or a parameter, is unknown or out of range.
        """
        return registry.create("attacks", self.part, place, self.params)


def has_role(name: Any, *wanted: type[roles.Attack]) -> bool:
    """Whether a name is that of a registered attack with one of these roles."""
    return name in registry.names("attacks") and issubclass(registry.load("attacks", name), wanted)


def watches(name: Any) -> bool:
    """Whether a registered attack reads the submissions of a federated training."""
    return has_role(name, roles.SubmissionTest)


def recovers(name: Any) -> bool:
    """Whether a registered attack recovers sensitive ratings from a released model."""
    return has_role(name, *roles.RECONSTRUCTIONS)


def reads(name: Any) -> bool:
    """Whether a registered attack recovers sensitive ratings from what users submit."""
    return has_role(name, roles.SubmissionReconstruction)


def infers(name: Any) -> bool:
    """Whether a registered attack recovers a hidden rating from predictions."""
    return has_role(name, roles.Inference)


class Attack(_Played):
    """One attack on the hidden ratings, on a released model, or on users' submissions.

    Attributes:
        label: its name in reports; the attack's name unless given, of submissions with the
            parameters' values.
        name: a registered attack.
        draw: of attacks on hidden ratings: what is drawn for each trial. `users`: a user, and a
            rating of theirs; `ratings`: one of all attacked users' ratings, of which those with
            many have more.
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
        # The same attack on submissions comes in several forms: each is called by its parameters.
        if isinstance(params, dict) and params and watches(name):
            name = f"{name} ({', '.join(str(value) for value in params.values())})"
        return {"label": name, **values}

    @model_validator(mode="after")
    def _draws(self) -> Self:
        if self.draw == "ratings" and not infers(self.name):
            raise ValueError(
                "draw = 'ratings' is of attacks on hidden ratings such as 'linear-ideal', which "
                f"{self.name!r} is not: remove it"
            )
        return self

    @property
    def part(self) -> str:
        """The registered attack."""
        return self.name

    @property
    def played(self) -> dict[str, Any]:
        """How it is played, as it stands beside its parameters."""
        return {"draw": self.draw} if infers(self.name) else {}


class Game(_Played):
    """A distinguishing game that certifies a lower bound on ε.

    Attributes:
        pair: the neighbouring data sets: a defense's constructed pair (`dpaudit show DEFENSE`), or
            `data`: one rating changed in the audited data; of a defense that is trained `data`,
            `rating`, `user`, or `many`: many ratings, each decided by a coin of its own in every
            training.
        observe: one of the defense's observers (`dpaudit show DEFENSE`); the first unless given.
        attack: a registered attack that tells data sets apart; unless given the first that reads
            what the observer sees of `likelihood-ratio`, `item-place` and `canary`.
        params: its parameters, see `dpaudit show ATTACK`.
        trials: worlds of either data set; with `many`, trainings.
        candidates: with `pair = "data"`, how many changed ratings are compared; with `many`, how
            many are in doubt.
        details: of a pair in the audited data: whether the record tells the exact sizes and values
            of the one user who is in doubt, and not only in broad classes.
    """

    pair: str = "crossing"
    observe: str | None = None
    attack: str = "likelihood-ratio"
    trials: Annotated[int, Field(ge=4, le=100_000_000)] = 20_000
    candidates: Annotated[int, Field(ge=1, le=1_000_000)] = 200
    details: bool = False

    @model_validator(mode="after")
    def _of_somebody(self) -> Self:
        if self.details and self.pair not in ("data", "rating", "user"):
            raise ValueError(
                f"details is of pairs in the audited data, which {self.pair!r} is not: remove it"
            )
        return self

    @property
    def part(self) -> str:
        """The registered attack."""
        return self.attack

    @property
    def label(self) -> str:
        """The pair, and what is seen of it where that was chosen."""
        learns = has_role(self.attack, roles.LearnedDistinguisher)
        # Values are what models show that are not trained; that goes without saying.
        unsaid = self.observe is None or (self.observe == "values" and not learns)
        return self.pair if unsaid else f"{self.pair} ({self.observe})"

    @property
    def trainings(self) -> int:
        """How many trainings it takes of a model that is trained, at each ε."""
        return self.trials if self.pair == "many" else 2 * self.trials


class Campaign(_Played):
    """An attacker who makes accounts, changes his own entries, or watches public lists.

    Attributes:
        label: its name in reports; its category and what it sees unless given.
        attack: `campaign`, or `list-watcher` for the passive attacker.
        params: its parameters, see `dpaudit show ATTACK`.
        efforts: the numbers of accounts, changes or watched lists to try, increasing; accounts
            that are planted before training count.
        trials: hidden ratings that are attacked, at each ε.
        background: of `list-watcher`: other users who rate something at the same time.
    """

    label: str = ""
    attack: str = "campaign"
    efforts: Annotated[
        list[Annotated[int, Field(ge=1, le=1_000_000)]], Field(min_length=1, max_length=100)
    ] = [1, 3, 10, 30, 100, 300]
    trials: Annotated[int, Field(ge=2, le=1_000_000)] = 200
    background: Annotated[int, Field(ge=1, le=1_000_000)] = 50

    @model_validator(mode="before")
    @classmethod
    def _name(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        params = values.get("params", {})
        attack = values.get("attack", "campaign")
        label = "passive" if has_role(attack, roles.PassiveAttack) else attack
        if attack == "campaign" and isinstance(params, dict):
            label = f"{params.get('category', 'dynamic')}, {params.get('observe', 'values')}"
        return {"label": label, **values}

    @model_validator(mode="after")
    def _increasing(self) -> Self:
        if sorted(set(self.efforts)) != self.efforts:
            raise ValueError("efforts do not increase: sort them and remove what is there twice")
        return self

    @property
    def part(self) -> str:
        """The registered attack."""
        return self.attack

    @property
    def is_passive(self) -> bool:
        """Whether its attacker makes no accounts."""
        return has_role(self.attack, roles.PassiveAttack)

    @property
    def played(self) -> dict[str, Any]:
        """How much is played, as it stands beside the attack's parameters."""
        watched = {"background": self.background} if self.is_passive else {}
        return {"efforts": self.efforts, "trials": self.trials, **watched}


class Train(_Table):
    """How models that are trained are tested, and what they learn from.

    Attributes:
        folds: into how many parts the ratings are divided; each is once the test.
        files: published test files instead, one a fold.
        play: so many of the folds are played; all unless given.
        cap: at most so many ratings of each user are kept, a random choice; all unless given.
        more_than: users with more ratings than this are kept, before the cap.
        worlds: trainings of each model on each fold.
        against: the label of the model whose errors the others' are compared with, fold by fold, at
            the same ε or at its only one.
        top_k: the length of the lists of models that rank, whose hits are counted.
    """

    folds: Annotated[int, Field(ge=2, le=100)] = 5
    files: list[str] = []
    play: Annotated[int, Field(ge=2, le=100)] | None = None
    cap: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    more_than: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    worlds: Annotated[int, Field(ge=1, le=10_000)] = 16
    against: str | None = None
    top_k: Annotated[int, Field(ge=1, le=10_000)] = 5


class Transcript(_Table):
    """What the server of a federated training sees, and when attackers are asked about it.

    Attributes:
        rounds: after how many rounds, increasing; about six up to the last unless given.
        worlds: trainings of each model at each ε.
        users: so many users, a random choice, are watched, or all where there are no more.
    """

    rounds: Annotated[list[Annotated[int, Field(ge=1, le=100_000)]], Field(max_length=100)] = []
    worlds: Annotated[int, Field(ge=1, le=10_000)] = 4
    users: Annotated[int, Field(ge=2, le=100_000_000)] = 200

    @field_validator("rounds")
    @classmethod
    def _increasing(cls, rounds: list[int]) -> list[int]:
        if sorted(set(rounds)) != rounds:
            raise ValueError("rounds do not increase: sort them and remove what is there twice")
        return rounds

    def steps(self, last: int) -> list[int]:
        """After how many rounds of a training of `last`; the last is among them.

        Raises:
            ConfigError: a number is beyond the last.
        """
        if self.rounds and self.rounds[-1] > last:
            raise ConfigError(
                f"transcript.rounds ends at {self.rounds[-1]}, and a model has params.rounds = "
                f"{last}: lower one or raise the other"
            )
        # 400, 200, 100, 50, 25, 12 of 400.
        return sorted({*(self.rounds or [last >> k for k in range(6) if last >> k]), last})


class Convergence(_Table):
    """How far the chain of a published defense is from the law that it is to sample.

    Attributes:
        steps: the numbers of steps after which they are compared, increasing.
        users: over how many attacked users the mean is taken; all where there are no more.
    """

    steps: Annotated[
        list[Annotated[int, Field(ge=0, le=10_000_000)]], Field(min_length=1, max_length=1000)
    ] = [0, 10, 30, 100, 300, 1000, 3000]
    users: Annotated[int, Field(ge=1, le=1_000_000)] = 100

    @field_validator("steps")
    @classmethod
    def _increasing(cls, steps: list[int]) -> list[int]:
        if sorted(set(steps)) != steps:
            raise ValueError("steps do not increase: sort them and remove what is there twice")
        return steps
