"""Which settings are searched: lists of values and ranges, as changes of one table of a config."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from typing import Any

from dpaudit.audits.membership.audit import Given
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.audits.models.config import OwnRecommender
from dpaudit.config.load import Option, WrongConfigError, checked
from dpaudit.config.model import Model
from dpaudit.config.tune import Range, Tune
from dpaudit.core.errors import ConfigError
from dpaudit.core.knobs import Knob
from dpaudit.core.streams import generator

Values = Mapping[str, list[Any] | Knob]
# The most draws for one new point of ranges.
_DRAWS = 100


@dataclass(frozen=True)
class Setting:
    """Values of some keys of a model's table.

    Attributes:
        values: the values by key, as after `-s recommender.N.`; empty for those of the config.
    """

    values: Mapping[str, Any]

    @cached_property
    def key(self) -> str:
        """What identifies the setting, the same in every run."""
        return json.dumps(dict(sorted(self.values.items())), sort_keys=True)

    @property
    def words(self) -> str:
        """The values in words, such as `factors 16, iterations 5`."""
        if not self.values:
            return "as it is"
        return ", ".join(f"{key.rpartition('.')[2]} {_said(v)}" for key, v in self.values.items())


def _said(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Tuned:
    """The model of a config that is tuned.

    Attributes:
        config: the config, of this model alone.
        tables: the same as the user states it, without defaults.
        table: the name of the model's table: `recommender` or `model`.
    """

    config: MembershipConfig
    tables: Mapping[str, Any]
    table: str

    @classmethod
    def of(cls, config: MembershipConfig) -> Tuned:
        """Return the model that `[tune]` names, with the gates that judge it.

        Raises:
            ConfigError: it names none, or several; it cannot be trained again; or no gate judges
                it.
        """
        tune = config.tune or Tune()
        labels = [model.label for model in config.audited]
        chosen = [model for model in config.audited if tune.recommender in (None, model.label)]
        if len(chosen) != 1:
            named = "" if tune.recommender is None else f" = {tune.recommender!r}"
            raise ConfigError(
                f"tune.recommender{named} does not say which model is tuned: give one of "
                f"{', '.join(map(repr, labels))}"
            )
        model = chosen[0]
        if isinstance(model, OwnRecommender) and model.returned:
            raise ConfigError(
                f"tune.recommender: {model.label} is trained elsewhere, and 'dpaudit tune' trains "
                "it anew: name it by library, target or command"
            )
        if len(model.epsilon) > 1:
            raise ConfigError(
                f"tune.recommender: {model.label} has {len(model.epsilon)} values of epsilon: "
                "leave one in [[model]], and name others in tune.settings"
            )
        table = "recommender" if isinstance(model, OwnRecommender) else "model"
        gates = [g for g in config.gate if g.where.get("model", model.label) == model.label]
        if not gates:
            raise ConfigError(
                f"no [[gate]] judges {model.label}, so that no setting can pass: add one, such as "
                "metric = 'leak' with max = 0.1"
            )
        alone = {"recommender": [], "model": [], table: [model], "gate": gates, "waiver": []}
        if tune.attacks is not None:
            known = {attack.label: attack for attack in config.inferring}
            unknown = [label for label in tune.attacks if label not in known]
            if unknown:
                raise ConfigError(
                    f"tune.attacks names {unknown[0]!r}, which is no attack here: use one of "
                    f"{', '.join(known)}"
                )
            alone["attack"] = [known[label] for label in tune.attacks]
        if isinstance(model, OwnRecommender) and model.save:
            alone["recommender"] = [model.model_copy(update={"save": None})]
        single = config.model_copy(update={**alone, "card": None})
        tables = single.model_dump(mode="json", exclude_unset=True, exclude={"tune"})
        return cls(single, {k: v for k, v in tables.items() if v not in ([], None)}, table)

    @property
    def model(self) -> OwnRecommender | Model:
        """The table of the model."""
        (model,) = self.config.audited
        return model

    @property
    def tune(self) -> Tune:
        """What is searched."""
        return self.config.tune or Tune()

    def values(self) -> Values:
        """Return the values of each key, proposed by the adapter if the config names none.

        Raises:
            ConfigError: nothing is proposed for this model.
        """
        if self.tune.settings:
            named = self.tune.settings.items()
            return {key: v.knob if isinstance(v, Range) else v for key, v in named}
        knobs: Mapping[str, Knob] = {}
        if isinstance(self.model, OwnRecommender):
            knobs = self.model.create("recommender").knobs
        if not knobs:
            raise ConfigError(
                f"tune.settings is missing, and no settings of {self.model.label} are known: name "
                "some, such as settings = { 'params.settings.factors' = [4, 8, 16] }"
            )
        return {f"params.{key}": knob for key, knob in knobs.items()}

    def current(self, keys: Iterable[str]) -> dict[str, Any]:
        """Return the values of keys that the config states."""
        values = {}
        for key in keys:
            node: Any = self.tables[self.table][0]
            for part in key.split("."):
                node = node.get(part) if isinstance(node, dict) else None
            values[key] = node
        return {key: value for key, value in values.items() if value is not None}

    def possible(self) -> int | None:
        """Return how many settings there are with the unchanged one; None if some have ranges."""
        values = self.values()
        lists = {key: some for key, some in values.items() if not isinstance(some, Knob)}
        if len(lists) < len(values):
            return None
        current = self.current(values)
        named = all(current.get(key) in some for key, some in lists.items())
        return math.prod(map(len, lists.values())) + (not named)

    def stated(self, setting: Setting) -> dict[str, Any]:
        """Return the config as the user states it with a setting.

        Raises:
            ConfigError: a key of the setting leads to no place.
        """
        tables = deepcopy(dict(self.tables))
        for key, value in setting.values.items():
            Option(f"tune.settings {key!r}", f"{self.table}.0.{key}", value).apply(tables)
        return tables

    def with_setting(self, setting: Setting) -> MembershipConfig:
        """Return the config with a setting, checked.

        Raises:
            ConfigError: the model does not have the setting, or refuses a value.
        """
        if not setting.values:
            return self.config
        if isinstance(self.model, Given):
            values = {key.removeprefix("params."): v for key, v in setting.values.items()}
            made = self.model.with_arguments(values)
            return self.config.model_copy(update={self.table: [made]})
        try:
            config = checked(self.stated(setting))
        except WrongConfigError as error:
            raise ConfigError(f"tune.settings with {setting.words}: {error}") from error
        (model,) = config.audited
        if len(model.epsilon) > 1:
            raise ConfigError(
                f"tune.settings with {setting.words}: a setting has one value of epsilon; list "
                "them one by one, such as epsilon = [1, 4]"
            )
        if isinstance(model, OwnRecommender) and isinstance(self.model, OwnRecommender):
            model = self.model.model_copy(update=dict(model))
        return self.config.model_copy(update={self.table: [model]})


def listed(values: Values, most: int, seed: int, current: Mapping[str, Any]) -> list[Setting]:
    """Return the settings to train: the unchanged one, then the others.

    Of more than `most` it is a random choice; ranges are drawn at random.

    Args:
        values: lists and ranges by key.
        most: the most settings.
        seed: decides the choice.
        current: the values of the config, as far as it states them; not listed again.
    """
    unchanged, rng = Setting({}), generator(seed, "tune settings")
    lists = [value for value in values.values() if isinstance(value, list)]
    if len(lists) == len(values):
        every = [dict(zip(values, one, strict=True)) for one in product(*lists)]
        others = [one for one in every if one != current]
        places = list(range(len(others)))
        if len(others) >= most:
            places = sorted(rng.permutation(len(others))[: most - 1].tolist())
        return [unchanged, *(Setting(others[place]) for place in places)]
    return [unchanged, *islice(_drawn(values, rng), most - 1)]


def _drawn(values: Values, rng: Any) -> Iterator[Setting]:
    """Yield different random settings; fewer than asked where a small range has no more."""
    keys: set[str] = set()
    while True:
        for _ in range(_DRAWS):
            setting = Setting(
                {
                    key: value.drawn(rng)
                    if isinstance(value, Knob)
                    else value[rng.integers(len(value))]
                    for key, value in values.items()
                }
            )
            if setting.key not in keys:
                break
        else:
            return
        keys.add(setting.key)
        yield setting
