"""The config of a federated training: `[transcript]`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, Field, model_validator

from dpaudit.attacks import base as roles
from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.config.model import Table, increasing
from dpaudit.config.tables import Attack, battery
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError


class Transcript(Table):
    """Attacks on what the server of a federated training sees, and when they are evaluated.

    Attributes:
        rounds: the numbers of rounds after which attacks are evaluated, increasing; by default
            about six, up to the last.
        trials: trainings of each model at each ε.
        users: the number of observed users, chosen at random; all if there are fewer.
    """

    rounds: Annotated[
        list[Annotated[int, Field(ge=1, le=100_000)]],
        Field(max_length=100),
        AfterValidator(increasing),
    ] = []
    trials: Annotated[int, Field(ge=1, le=10_000)] = 4
    users: Annotated[int, Field(ge=2, le=100_000_000)] = 200

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


class FederatedConfig(TrainedConfig):
    """A config of a federated training whose server observes.

    Attributes:
        transcript: the attacks on what the server sees.
    """

    title: ClassVar[str] = "what the server of a federated training sees"
    marks: ClassVar[frozenset[str]] = frozenset({"transcript"})
    untrained: ClassVar[str] = (
        "[transcript] needs users who submit to a server, such as in 'fake-gradients', and no "
        "model here is trained: remove it"
    )
    accepted: ClassVar[tuple[type[roles.Attack], ...]] = (
        *TrainedConfig.accepted,
        roles.SubmissionTest,
    )

    transcript: Transcript

    @model_validator(mode="after")
    def _submits(self) -> Self:
        """Refuse models without users who submit."""
        for model in self.model:
            if not model.submits:
                raise ValueError(
                    f"[transcript] needs users who submit to a server, and model {model.label!r} "
                    f"({model.defense}) has none: remove it, or audit 'fake-gradients'"
                )
        return self

    @property
    def plugins(self) -> set[str]:
        """The modules of its defenses and attacks, those of the default battery too."""
        tests = {registry.load("attacks", test.plugin).__module__ for test in self.submission_tests}
        return super().plugins | tests

    @property
    def submission_tests(self) -> list[Attack]:
        """Return the attacks on submissions: the named ones, else the default battery."""
        recoveries = [*self.recovering, *self.reading]
        named = [attack for attack in self.attack if attack not in recoveries]
        return named or battery(roles.SubmissionTest)

    @property
    def judged_tests(self) -> list[Attack]:
        """Return those whose AUC gates judge: baselines by name, or if there is nothing else."""
        named = {gate.where.get("attack") for gate in self.gate}
        judged = [
            test
            for test in self.submission_tests
            if test.label in named or not test.create("attack").baseline
        ]
        return judged or self.submission_tests

    def check_transcript(self) -> None:
        """Refuse a `[transcript]` that does not fit a model, and unknown attacks.

        Raises:
            ConfigError: names the remedy.
        """
        for attack in self.submission_tests:
            attack.create("attack")
        for model in self.model:
            for defense in model.defenses("model"):
                self.transcript.steps(defense.rounds)
                if defense.variant != "nonprivate" and defense.density == 0:
                    raise ConfigError(
                        f"model {model.label!r} has params.density = 0, so nobody submits a fake "
                        "that [transcript] could tell from real ones: raise it, or remove "
                        "[transcript]"
                    )
                if model.grid:
                    raise ConfigError(
                        f"model {model.label!r} has a grid, but [transcript] observes one "
                        "combination: set params to the combination to observe"
                    )
