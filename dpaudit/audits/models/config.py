"""The tables `[[recommender]]`: the user's own models, and what is claimed of them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, PrivateAttr, model_validator

from dpaudit.audits.deletion.config import Deletions, named
from dpaudit.config.model import Model, Table, as_list
from dpaudit.config.tables import DataConfig
from dpaudit.core import registry
from dpaudit.core.claim import Claim
from dpaudit.core.errors import ConfigError
from dpaudit.core.membership import OBSERVERS, RELEASED, ROWS, WITNESS, Covered, Observer
from dpaudit.recommenders.base import Trainable
from dpaudit.recommenders.command import Command
from dpaudit.recommenders.forgetting import Sharded
from dpaudit.recommenders.networks.settings import SEQUENTIAL
from dpaudit.recommenders.python_class import PythonClass
from dpaudit.recommenders.returned import Returned

# Who sees a model that is served but not published.
SERVED: tuple[Observer, ...] = ("scores", "asked-rows", "own-list", "others-lists")
# What a model has to show to each observer.
SHOWN: Mapping[Observer, str] = {
    "scores": "scores",
    "asked-rows": "scores",
    "own-list": "lists",
    "others-lists": "lists",
    "nearest-items": "factors",
    "factors": "factors",
    "asked-histories": "histories",
    WITNESS: "scores",
}


def check_distinct(table: BaseModel, *names: str) -> None:
    """Refuse lists that contain a value twice.

    Args:
        table: the table.
        names: the keys of its lists.

    Raises:
        ValueError: one does.
    """
    for name in names:
        values = getattr(table, name) or []
        if len(set(values)) < len(values):
            raise ValueError(f"{name} contains a value twice: remove one")


class StatedClaim(Table):
    """The guarantee that the user states for their recommender.

    Attributes:
        epsilon: ε.
        delta: δ.
        adjacency: `rating-add-remove` for one interaction, `user-add-remove` for a user.
        observers: the observers whom the guarantee covers, by default those of the released model:
            `scores`, `asked-rows`, `unfiltered-list`, `others-lists`, `nearest-items`, `factors`
            and `asked-histories`.
            `unfiltered-list` is the user's own list if it leaves out nothing that the user has
            seen; `own-list` is any.
    """

    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    adjacency: Literal["rating-add-remove", "user-add-remove"] = "rating-add-remove"
    observers: Annotated[list[Covered], Field(min_length=1)] = list(RELEASED)

    def claim(self) -> Claim:
        """Return it as a claim."""
        return Claim(
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            observer=self.observers[0],
            public="the numbers of users and items",
            source="stated in the config",
            also=tuple(self.observers[1:]),
        )


class OwnRecommender(Deletions):
    """A recommender of the user's: a library's model, a Python class, or a command.

    A class or a command is code: `dpaudit run` refuses it unless `--allow-code` is given.

    Attributes:
        label: its name in reports; by default the library with its model, the target, or the
            command's program.
        library: the name of a registered adapter (`dpaudit list recommenders`).
        target: `package.module:name` of a Python class; modules in the folder of the config can be
            imported.
        command: a command that trains in its own environment; it runs in the folder of the config.
        returned: the folder of trainings that `dpaudit split` handed out and that were done
            elsewhere; in the folder of the config.
        params: parameters of the adapter (`dpaudit show LIBRARY`), of `target` or of `command`
            (docs/guides/own-models.md).
        save: the folder in which the model of every training is kept, as `training-SEED`, so that
            what ships can be what is audited; in the folder of the config. For `target` and
            `command`.
        claim: the guarantee that is stated for it, if any.
        observers: who observes it, instead of `membership.observers`.
    """

    judging: ClassVar[frozenset[str]] = frozenset({"claim", "observers"})

    label: str = ""
    library: str | None = None
    target: str | None = None
    command: str | None = None
    returned: str | None = None
    params: dict[str, Any] = {}
    save: Annotated[str, Field(min_length=1)] | None = None
    claim: StatedClaim | None = None
    observers: Annotated[list[Observer], Field(min_length=1)] | None = None
    # The folder of the config.
    _folder: Path = PrivateAttr(Path())

    @model_validator(mode="before")
    @classmethod
    def _name(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        params = values.get("params")
        model = params.get("model") if isinstance(params, dict) else None
        command = values.get("command")
        program = command.split()[:1] if isinstance(command, str) else []
        library, target, returned = map(values.get, ("library", "target", "returned"))
        words = (library, model, target, *program, returned)
        label = " ".join(str(word) for word in words if word)
        return {"label": label + named(values), **values}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        kinds = ("library", "target", "command", "returned")
        given = [name for name in kinds if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(
                f"{' and '.join(given) or 'nothing'} given: name one of library, target, command "
                "and returned"
            )
        self.check_apart_from({"returned": self.returned, "save": self.save})
        if self.save is not None and self.runs_code is None:
            raise ValueError(
                f"save = {self.save!r} keeps the models of a target or a command: remove it, or "
                "name one of these"
            )
        check_distinct(self, "observers")
        return self

    @property
    def saves(self) -> Path | None:
        """The folder in which trained models are kept, if any."""
        return None if self.save is None else (self._folder / self.save).absolute()

    @property
    def runs_code(self) -> str | None:
        """The key that names code to run, with its value; None for a library."""
        given = ((name, getattr(self, name)) for name in ("target", "command"))
        return next((f"recommender.{name} = {code!r}" for name, code in given if code), None)

    @property
    def epsilon(self) -> list[float]:
        """The stated ε; infinite without a claim."""
        return [self.claim.epsilon if self.claim else math.inf]

    @property
    def state(self) -> str:
        """What identifies the recommender beyond this table, such as an object's; else empty."""
        return ""

    @property
    def files(self) -> list[Path]:
        """The files that results depend on: the command's script, or what came back."""
        if self.returned is not None:
            folder = self._folder / self.returned
            return sorted(path for path in folder.glob("training-*/*") if path.is_file())
        try:
            words = shlex.split(self.command or "")
        except ValueError:
            return []
        places = (self._folder / word for word in words if "\0" not in word)
        return [place for place in places if place.is_file()]

    def within(self, folder: Path) -> Self:
        """Return the same recommender of a config in another folder."""
        copy = self.model_copy()
        copy._folder = folder
        return copy

    def create(self, place: str) -> Trainable:
        """Create what is trained.

        Raises:
            ConfigError: the library or a parameter is unknown, or a value is out of range.
        """
        trainable: Trainable
        if self.library is not None:
            trainable = registry.create("recommenders", self.library, place, self.params)
        else:
            kind: type[Trainable]
            folder = {"cwd": self._folder}
            if self.target is not None:
                kind, key, what, folder = PythonClass, "target", "a Python class", {}
            elif self.command is not None:
                kind, key, what = Command, "command", "a command"
            else:
                kind, key, what = Returned, "returned", "trainings done elsewhere"
            params = {**folder, **self.params, key: getattr(self, key)}
            trainable = registry.create_instance(kind, place, params, what, (key,))
        return Sharded(trainable, self.shards) if self.shards else trainable

    def check_shows(self, place: str, observers: Iterable[Observer]) -> None:
        """Create what is trained, and refuse observers to whom it is known to show nothing.

        Raises:
            ConfigError: as `create`, or there is such an observer.
        """
        trainable = self.create(place)
        omitted = {*trainable.leaves_out, *([] if trainable.answers_histories else ["histories"])}
        for observer in observers:
            what = SHOWN[observer]
            if what in omitted:
                verb = "answers" if what == "histories" else "publishes"
                reason = f"{verb} no {what}: remove"
                if self.command is not None or self.returned is not None:
                    reason = f"does not show {what}: add {what!r} to its params.shows, or remove"
                raise ConfigError(f"{place}: {self.label} {reason} the observer {observer!r}")

    @property
    def served(self) -> list[Observer]:
        """Return the observers of the served model: those of what `shows` lists, if there is one.

        A command and what was returned have such a list. Each score is a line of their files, so
        whoever asks for rows has to be named. A network of sequences is served to those who send
        histories too.
        """
        if self.command is None and self.returned is None:
            sequences = self.library == "torch" and self.params.get("model") in SEQUENTIAL
            return [*SERVED, "asked-histories"] if sequences and not self.shards else list(SERVED)
        given = self.params.get("shows")
        shown = given if isinstance(given, list) else ["scores", "lists"]
        seen = [one for one in OBSERVERS if SHOWN[one] in shown and one != ROWS]
        return seen or ["scores"]


class RecommendersConfig(DataConfig):
    """A config of models that are trained: the user's own, and defenses of dpaudit.

    Attributes:
        recommender: the user's own recommenders.
        model: trained defenses of dpaudit that are audited beside them.
    """

    # The table of the kind, for messages.
    table: ClassVar[str] = ""
    differing: ClassVar[frozenset[str]] = DataConfig.differing | {"recommender"}

    model: Annotated[list[Model], BeforeValidator(as_list), Field(max_length=500)] = []
    recommender: Annotated[
        list[OwnRecommender], BeforeValidator(as_list), Field(max_length=500)
    ] = []

    @model_validator(mode="after")
    def _trained(self) -> Self:
        """Refuse models that are not trained, or in several ways."""
        for model in self.model:
            if not model.trains:
                raise ValueError(
                    f"{self.table} trains models, and model {model.label!r} ({model.defense}) "
                    "computes predictions on demand: remove it, or audit one such as 'dpsgd-mf'"
                )
            if model.grid:
                raise ValueError(
                    f"{self.table} takes one combination of settings, and model {model.label!r} "
                    "has a grid: set params to the combination to audit"
                )
        return self

    def check_plugins(self) -> None:
        """Refuse unknown recommenders and defenses, by creating each.

        Raises:
            ConfigError: names the place and the remedy; also of an observer to whom it is known to
                show nothing.
        """
        for index, recommender in enumerate(self.recommender):
            recommender.check_shows(f"recommender.{index}", self.observers_of(recommender))
        super().check_plugins()

    def observers_of(self, model: OwnRecommender | Model) -> Sequence[Observer]:
        """Return who observes a model."""
        return ()

    def within(self, folder: Path) -> Self:
        """Return the config as one of a file in this folder, where commands run."""
        placed = [recommender.within(folder) for recommender in self.recommender]
        return self.model_copy(update={"recommender": placed})

    @property
    def audited(self) -> Sequence[Model | OwnRecommender]:
        """Every audited model: the user's own first."""
        return [*self.recommender, *self.model]

    @property
    def labels(self) -> Mapping[str, list[str]]:
        """The labels of recommenders, models and attacks."""
        labels = [recommender.label for recommender in self.recommender]
        return {**({"recommender": labels} if labels else {}), **super().labels}

    @property
    def code(self) -> list[str]:
        """The keys of recommenders that name code to run."""
        return [recommender.runs_code for recommender in self.recommender if recommender.runs_code]

    @property
    def unversioned(self) -> list[str]:
        """The Python classes."""
        targets = [recommender.target for recommender in self.recommender if recommender.target]
        return [f"recommender.target = {target!r}" for target in targets]

    @property
    def files(self) -> list[Path]:
        """The files that the recommenders' results depend on."""
        return [file for recommender in self.recommender for file in recommender.files]

    @property
    def plugins(self) -> set[str]:
        """The modules of its recommenders and defenses."""
        libraries = [recommender.library for recommender in self.recommender if recommender.library]
        named = {registry.load("recommenders", library).__module__ for library in libraries}
        targets = {table.target.partition(":")[0] for table in self.recommender if table.target}
        return super().plugins | named | targets
