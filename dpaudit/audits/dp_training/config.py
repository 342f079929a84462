"""The config of an audit of a training by DP-SGD: `[dp-training]`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import BeforeValidator, Field, PrivateAttr, create_model, model_validator

from dpaudit.config.gate import Gate
from dpaudit.config.model import Model, Table, as_list
from dpaudit.config.schema import Claimed
from dpaudit.config.tables import Attack, DataConfig
from dpaudit.core.foreign import import_object

# The gate of a config without one: the run stops at any fault.
_GATE = Gate(metric="dp-training.faults", max=0)


class DPTraining(Table):
    """A training by DP-SGD, as it is run.

    It runs code: `dpaudit run` refuses it unless `--allow-code` is given.

    Attributes:
        target: `package.module:function`, called as `function(interactions, seed, watch)`; modules
            in the folder of the config can be imported.
        label: its name in reports; by default the target.
        epsilon: the ε that you state for it.
        delta: the δ that belongs to it.
        unit: what the ε is stated for: one `interaction`, or all of a `user`.
        far: the number of data sets that differ in all rows, on which the training is run with the
            recorded noised sums in place.
        number_is_public: whether the number of interactions is public, so that a divisor or a
            number of steps may depend on it.
    """

    target: str
    label: str = ""
    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    delta: Annotated[float, Field(gt=0, lt=1)]
    unit: Literal["interaction", "user"] = "interaction"
    far: Annotated[int, Field(ge=1, le=100)] = 4
    number_is_public: bool = False
    # A function that a program passes.
    _given: Callable[..., Any] | None = PrivateAttr(None)

    @model_validator(mode="before")
    @classmethod
    def _name(cls, values: Any) -> Any:
        return {"label": values.get("target", ""), **values} if isinstance(values, dict) else values

    def training(self) -> Callable[..., Any]:
        """Return the function that trains.

        Raises:
            ConfigError: it cannot be imported.
        """
        return self._given or import_object(self.target, "dp-training.target")

    def given(self, train: Callable[..., Any]) -> DPTraining:
        """Return the table with a function in place of the target's."""
        copy = self.model_copy()
        copy._given = train
        return copy


class _Tables(DataConfig):
    """A config of a training by DP-SGD.

    Attributes:
        model: none: the training brings its own.
        attack: none: the training is audited by its steps.
    """

    title: ClassVar[str] = "a training by DP-SGD, step by step"
    marks: ClassVar[frozenset[str]] = frozenset({"dp-training"})
    differing: ClassVar[frozenset[str]] = frozenset({"dp-training"})
    processes: ClassVar[bool] = True

    model: Annotated[list[Model], BeforeValidator(as_list), Field(max_length=0)] = []
    attack: Annotated[list[Attack], BeforeValidator(as_list), Field(max_length=0)] = []
    gate: Annotated[list[Gate], BeforeValidator(as_list), Field(max_length=500)] = [_GATE]

    @property
    def training(self) -> DPTraining:
        """The training."""
        return cast(DPTraining, getattr(self, "dp-training"))

    @property
    def audited(self) -> Sequence[Claimed]:
        """The training with its stated ε."""
        return [Claimed(self.training.label, [self.training.epsilon])]

    @property
    def code(self) -> list[str]:
        """The function that trains."""
        return [f"dp-training.target = {self.training.target!r}"]

    @property
    def unversioned(self) -> list[str]:
        """The function that trains."""
        return self.code

    @property
    def plugins(self) -> set[str]:
        """The module of the function."""
        return {self.training.target.partition(":")[0]}


# The table's name is no name of a Python attribute.
DPTrainingConfig = create_model(
    "DPTrainingConfig",
    __base__=_Tables,
    __module__=__name__,
    __doc__=_Tables.__doc__,
    **cast(Any, {"dp-training": (DPTraining, ...)}),
)
