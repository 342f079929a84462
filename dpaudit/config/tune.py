"""The config table `[tune]`: which settings of a model to search, and by how many trainings."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from dpaudit.config.model import TABLE, Table
from dpaudit.core.knobs import Knob

_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_TIME = re.compile(rf"(\d+(?:\.\d+)?) ?({'|'.join(_UNITS)})")


class Range(Table):
    """The range of a setting.

    Attributes:
        low: the least value, `from` in the config.
        high: the largest value, `to` in the config.
        log: whether factors count, and not differences.
    """

    model_config = ConfigDict(**TABLE, populate_by_name=True, serialize_by_alias=True)

    low: int | Annotated[float, Field(allow_inf_nan=False)] = Field(alias="from")
    high: int | Annotated[float, Field(allow_inf_nan=False)] = Field(alias="to")
    log: bool = False

    @model_validator(mode="after")
    def _holds_values(self) -> Self:
        if self.low >= self.high:
            raise ValueError(
                f"from = {self.low:g} is not below to = {self.high:g}, so that the range is empty: "
                "exchange them, or list values"
            )
        if self.log and self.low <= 0:
            raise ValueError(f"log = true takes from above 0, and it is {self.low:g}: raise it")
        return self

    @property
    def knob(self) -> Knob:
        """The range."""
        return Knob(self.low, self.high, self.log)


def _seconds(value: Any) -> float:
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if isinstance(value, float) and value > 0:
        return value  # as a record has it
    if not match or not float(match[1]):
        raise ValueError(f"{value!r} is no time: give one such as '30 min' or '2 h'")
    return float(match[1]) * _UNITS[match[2]]


class Tune(Table):
    """What `dpaudit tune` searches.

    Attributes:
        recommender: the label of the `[[recommender]]` or `[[model]]`, where there are several.
        settings: lists of values, or ranges `{from = 4, to = 64, log = true}`, by the key of the
            setting as after `-s recommender.N.`; by default those that the library's adapter
            proposes. The settings of the config itself are always among them.
        utility: what to keep, a metric `utility.…`.
        trainings: the number of trainings of all settings together.
        time: a time such as `2 h` instead, which becomes a number of trainings before the first
            one whose result is read.
        attacks: the labels of the attacks that take part, if not all.
    """

    recommender: str | None = None
    settings: dict[str, Annotated[list[Any], Field(min_length=1, max_length=1000)] | Range] = {}
    utility: str = "utility.ndcg"
    trainings: Annotated[int, Field(ge=1, le=100_000)] = 200
    time: Annotated[float, BeforeValidator(_seconds)] | None = None
    attacks: Annotated[list[str], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _one_budget(self) -> Self:
        if self.time is not None and "trainings" in self.model_fields_set:
            raise ValueError("time and trainings both say how much to train: remove one")
        return self
