"""The config tables of what is run: attacks, games, Sybil attacks, training, convergence."""

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


class _WithAttack(_Table, ABC):
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


class Attack(_WithAttack):
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
                "draw = 'ratings' applies only to attacks on hidden ratings such as "
                f"'linear-ideal', not to {self.name!r}: remove it"
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


class Game(_WithAttack):
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


class Sybil(_WithAttack):
    """An attacker who creates accounts, changes their own entries, or observes public lists.

    Attributes:
        label: its name in reports; by default its category and what it observes.
        attack: `sybil`, or `passive-lists` for the passive attacker.
        params: its parameters, see `dpaudit show ATTACK`.
        efforts: the numbers of accounts, changes or observed lists to try, increasing; accounts
            created before training count.
        trials: the number of attacked hidden ratings, at each ε.
        background: for `passive-lists`, the number of other users who rate at the same time.
    """

    label: str = ""
    attack: str = "sybil"
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
        attack = values.get("attack", "sybil")
        label = "passive" if has_role(attack, roles.PassiveAttack) else attack
        if attack == "sybil" and isinstance(params, dict):
            label = f"{params.get('category', 'dynamic')}, {params.get('observe', 'values')}"
        return {"label": label, **values}

    @model_validator(mode="after")
    def _increasing(self) -> Self:
        if sorted(set(self.efforts)) != self.efforts:
            raise ValueError("efforts do not increase: sort them and remove duplicates")
        return self

    @property
    def plugin(self) -> str:
        """The registered attack."""
        return self.attack

    @property
    def is_passive(self) -> bool:
        """Whether the attacker creates no accounts."""
        return has_role(self.attack, roles.PassiveAttack)

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of the run that are recorded beside the parameters."""
        observed = {"background": self.background} if self.is_passive else {}
        return {"efforts": self.efforts, "trials": self.trials, **observed}


class Train(_Table):
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

    folds: Annotated[int, Field(ge=2, le=100)] = 5
    files: list[str] = []
    evaluate_folds: Annotated[int, Field(ge=2, le=100)] | None = None
    cap: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    more_than: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    trials: Annotated[int, Field(ge=1, le=10_000)] = 16
    against: str | None = None
    top_k: Annotated[int, Field(ge=1, le=10_000)] = 5


class Transcript(_Table):
    """Attacks on what the server of a federated training sees, and when they are evaluated.

    Attributes:
        rounds: the numbers of rounds after which attacks are evaluated, increasing; by default
            about six, up to the last.
        trials: trainings of each model at each ε.
        users: the number of observed users, chosen at random; all if there are fewer.
    """

    rounds: Annotated[list[Annotated[int, Field(ge=1, le=100_000)]], Field(max_length=100)] = []
    trials: Annotated[int, Field(ge=1, le=10_000)] = 4
    users: Annotated[int, Field(ge=2, le=100_000_000)] = 200

    @field_validator("rounds")
    @classmethod
    def _increasing(cls, rounds: list[int]) -> list[int]:
        if sorted(set(rounds)) != rounds:
            raise ValueError("rounds do not increase: sort them and remove duplicates")
        return rounds

    def steps(self, last: int) -> list[int]:
        """Return the rounds at which a training of `last` rounds is evaluated, `last` included.

        Raises:
            ConfigError: a round is beyond the last.
        """
        if self.rounds and self.rounds[-1] > last:
            raise ConfigError(
                f"transcript.rounds ends at {self.rounds[-1]}, and a model has params.rounds = "
                f"{last}: lower one or raise the other"
            )
        # For last = 400: 400, 200, 100, 50, 25, 12.
        return sorted({*(self.rounds or [last >> k for k in range(6) if last >> k]), last})


class Convergence(_Table):
    """The divergence of a published defense's Markov chain from the law that it should sample.

    Attributes:
        steps: the numbers of steps after which they are compared, increasing. What the chain has
            explored by the last of them is compared by itself, too, at most ten states.
        users: the number of attacked users in the mean; all if there are fewer.
    """

    steps: Annotated[
        list[Annotated[int, Field(ge=0, le=10_000_000)]], Field(min_length=1, max_length=1000)
    ] = [0, 10, 30, 100, 300, 1000, 3000]
    users: Annotated[int, Field(ge=1, le=1_000_000)] = 100

    @field_validator("steps")
    @classmethod
    def _increasing(cls, steps: list[int]) -> list[int]:
        if sorted(set(steps)) != steps:
            raise ValueError("steps do not increase: sort them and remove duplicates")
        return steps
