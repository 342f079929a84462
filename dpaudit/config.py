"""The audit's config: TOML, checked field by field; unknown keys are errors."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from dpaudit import registry
from dpaudit.data.source import DataSource
from dpaudit.errors import ConfigError
from dpaudit.registry import suggestion

FILES = ("dpaudit.toml", "pyproject.toml")

Share = Annotated[float, Field(gt=0, lt=1)]
Epsilon = Annotated[float, Field(gt=0)]


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Split(_Table):
    """Which users are attacked.

    Attributes:
        test_share: share of the users who are attacked; the similarity is built from the others.
    """

    test_share: Share = 0.2


class Model(_Table):
    """One recommender under audit.

    Attributes:
        label: its name in reports; the defense and variant unless given.
        defense: a registered defense.
        variant: `nonprivate`, `published` or `corrected`.
        epsilon: the values of ε to audit.
        params: hyper-parameters of the defense, see `dpaudit show DEFENSE`.
    """

    label: str = ""
    defense: str = "slope-one"
    variant: Literal["nonprivate", "published", "corrected"] = "published"
    epsilon: Annotated[list[Epsilon], BeforeValidator(_as_list), Field(min_length=1)] = [1.0]
    params: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _name(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        values = dict(values)
        if values.get("variant") == "nonprivate":
            values.setdefault("epsilon", [math.inf])
        parts = (values.get("defense", "slope-one"), values.get("variant", "published"))
        values.setdefault("label", " ".join(str(part) for part in parts))
        return values

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if len(set(self.epsilon)) < len(self.epsilon):
            raise ValueError("epsilon holds a value twice: remove one")
        return self


class Attack(_Table):
    """One attack on the hidden ratings.

    Attributes:
        label: its name in reports; the attack's name unless given.
        name: a registered attack.
        params: its parameters, see `dpaudit show ATTACK`.
    """

    label: str = ""
    name: str = "linear-ideal"
    params: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _name(cls, values: Any) -> Any:
        if isinstance(values, dict):
            values = {"label": values.get("name", "linear-ideal"), **values}
        return values


class Audit(_Table):
    """How much is played and how sure the numbers are.

    Attributes:
        trials: trials of each attack and of each utility, at each ε.
        confidence: simultaneous confidence of all intervals of the run.
    """

    trials: Annotated[int, Field(ge=2)] = 20_000
    confidence: Share = 0.95


class Game(_Table):
    """A distinguishing game that certifies a lower bound on ε.

    Attributes:
        pair: the neighbouring data sets: a defense's constructed pair (`dpaudit show DEFENSE`), or
            `data`: one rating added to the audited data.
        trials: worlds of either data set; half choose the test, half certify.
        candidates: with `pair = "data"`, how many added ratings are compared.
    """

    pair: str = "crossing"
    trials: Annotated[int, Field(ge=4)] = 20_000
    candidates: Annotated[int, Field(ge=1)] = 200


class Gate(_Table):
    """A threshold on a bound.

    Attributes:
        metric: `attack.accuracy`, `utility.overlap`, `utility.rmse` or `epsilon`.
        where: which points of the sweep; each key picks, together they narrow.
        max: fails when the lower bound lies above, passes when the upper does not; of `epsilon`
            also `"claim"`.
        min: fails when the upper bound lies below, passes when the lower does not.
        detectable: a gate on `epsilon` passes only if the game would have certified, with 95 %
            power, a true ε of this many times `max`.
    """

    metric: Literal["attack.accuracy", "utility.overlap", "utility.rmse", "epsilon"]
    where: dict[Literal["epsilon", "model", "attack", "pair"], float | str] = {}
    max: float | Literal["claim"] | None = None
    min: float | None = None
    detectable: Annotated[float, Field(gt=1)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.max is None) == (self.min is None):
            raise ValueError("give exactly one of max and min")
        if self.metric == "epsilon" and (self.min is not None or self.detectable is None):
            raise ValueError(
                "a gate on epsilon needs max and detectable: a lower bound below the threshold "
                "says nothing unless the audit could have found more"
            )
        if self.metric != "epsilon" and (self.max == "claim" or self.detectable is not None):
            raise ValueError("max = 'claim' and detectable belong to metric 'epsilon'")
        return self


class Config(_Table):
    """A whole audit."""

    seed: Annotated[int, Field(ge=0, lt=2**64)] = 0
    data: DataSource = DataSource()
    split: Split = Split()
    model: Annotated[list[Model], BeforeValidator(_as_list), Field(min_length=1)] = [Model()]
    attack: Annotated[list[Attack], BeforeValidator(_as_list)] = []
    audit: Audit = Audit()
    game: Annotated[list[Game], BeforeValidator(_as_list)] = []
    gate: Annotated[list[Gate], BeforeValidator(_as_list)] = []

    @model_validator(mode="after")
    def _labels(self) -> Self:
        for name, labels in (
            ("model", [model.label for model in self.model]),
            ("attack", [attack.label for attack in self.attack]),
            ("game", [game.pair for game in self.game]),
        ):
            twice = {label for label in labels if labels.count(label) > 1}
            if twice:
                key = "pair" if name == "game" else "label"
                raise ValueError(f"two [[{name}]] have the {key} {twice.pop()!r}: rename one")
        return self


class _Policy(_Table):
    gate: Annotated[list[Gate], BeforeValidator(_as_list), Field(min_length=1)]


def find(folder: Path) -> Path:
    """The config file of a folder: `dpaudit.toml`, or `pyproject.toml` with `[tool.dpaudit]`.

    Raises:
        ConfigError: there is neither.
    """
    for name in FILES:
        path = folder / name
        if path.is_file() and (name != "pyproject.toml" or "dpaudit" in _tools(path)):
            return path
    raise ConfigError(
        f"{folder} holds neither dpaudit.toml nor a pyproject.toml with [tool.dpaudit]: "
        "name a config or make one with 'dpaudit init'"
    )


def load(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Read and check a config.

    Args:
        path: a TOML file; of `pyproject.toml` the table `[tool.dpaudit]`.
        overrides: `KEY=VALUE` with dotted keys and TOML values, e.g. `audit.trials=1000` or
            `model.0.epsilon=[1, 2]`; they replace what the file says.

    Raises:
        ConfigError: with the file, the place in it, the value and the remedy.
    """
    text = _read(path)
    values = _parse(path, text)
    if path.name == "pyproject.toml":
        values = _tools(path).get("dpaudit", {})
    for override in overrides:
        _set(values, override)
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_problem(path, text, error)) from error
    _check_parts(path, config)
    return config


def load_policy(path: Path) -> list[Gate]:
    """Read the `[[gate]]` tables of a policy file; nothing else may stand in it.

    Raises:
        ConfigError: with the file, the place in it, the value and the remedy.
    """
    text = _read(path)
    try:
        return _Policy.model_validate(_parse(path, text)).gate
    except ValidationError as error:
        raise ConfigError(_problem(path, text, error)) from error


def _check_parts(path: Path, config: Config) -> None:
    """Refuse unknown defenses, attacks, parameters and gates before anything runs."""
    for index, model in enumerate(config.model):
        place = f"{path}: model.{index}"
        for epsilon in model.epsilon:
            defense = registry.create(
                "defenses",
                model.defense,
                place,
                **model.params,
                epsilon=epsilon,
                variant=model.variant,
            )
        for game in config.game:
            pairs = [*defense.worst_cases(), "data"]
            if game.pair not in pairs:
                raise ConfigError(
                    f"{path}: {model.defense} has no pair {game.pair!r}"
                    f"{suggestion(game.pair, pairs)}"
                )
    for index, attack in enumerate(config.attack):
        part = registry.create("attacks", attack.name, f"{path}: attack.{index}", **attack.params)
        if not hasattr(part, "infer"):
            raise ConfigError(
                f"{path}: attack.{index}.name = {attack.name!r} tells worlds apart and recovers no "
                "rating: it is played by [[game]]; use 'linear-ideal' here"
            )
    for index, gate in enumerate(config.gate):
        _check_gate(f"{path}: gate.{index}", gate, config)


def _check_gate(place: str, gate: Gate, config: Config) -> None:
    needs = {"attack.accuracy": ("attack", config.attack), "epsilon": ("game", config.game)}
    table, present = needs.get(gate.metric, ("model", config.model))
    if not present:
        raise ConfigError(f"{place}.metric = {gate.metric!r} is not measured: add [[{table}]]")
    known: Mapping[str, Sequence[float | str]] = {
        "epsilon": sorted({epsilon for model in config.model for epsilon in model.epsilon}),
        "model": [model.label for model in config.model],
        "attack": [attack.label for attack in config.attack],
        "pair": [game.pair for game in config.game],
    }
    for key, value in gate.where.items():
        if value not in known[key]:
            choices = ", ".join(f"{choice}" for choice in known[key])
            raise ConfigError(f"{place}.where.{key} = {value!r} is not audited; there is {choices}")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist: name a config or run 'dpaudit init'") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as UTF-8 text: {error}") from error


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def _tools(path: Path) -> dict[str, Any]:
    tools: dict[str, Any] = _parse(path, _read(path)).get("tool", {})
    return tools


def _set(values: dict[str, Any], override: str) -> None:
    """Put one `KEY=VALUE` into the parsed config."""
    key, equals, value = override.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"the option --set {override!r} is not KEY=VALUE: e.g. audit.trials=1000")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value  # a bare word is text: data.path=u.data
    node: Any = values
    *parents, last = key.strip().split(".")
    try:
        for parent in parents:
            node = node[int(parent)] if isinstance(node, list) else node.setdefault(parent, {})
        # A table given once may stand without its index: model.epsilon for model.0.epsilon.
        if isinstance(node, list) and len(node) == 1 and not last.isdigit():
            node = node[0]
        node[int(last) if isinstance(node, list) else last] = parsed
    except (IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(
            f"the option --set {override!r} names no place in the config: of several [[model]] "
            "give the number, e.g. model.0.epsilon"
        ) from error


def _problem(path: Path, text: str, error: ValidationError) -> str:
    problem = error.errors()[0]
    loc = problem["loc"]
    known: Sequence[str] = ()
    if problem["type"] == "extra_forbidden":
        known = _fields(loc[:-1])
    message = registry.first_problem(error, "", known).removeprefix(".")
    line = _line(text, [str(part) for part in loc if isinstance(part, str)])
    return f"{path}{f', line {line}' if line else ''}: {message}"


def _fields(loc: Sequence[int | str]) -> Sequence[str]:
    """The keys that the table at this place may have."""
    table: Any = Config
    for part in loc:
        if isinstance(part, int):
            continue
        annotation = table.model_fields[part].annotation if hasattr(table, "model_fields") else None
        table = next(
            (
                kind
                for kind in (annotation, *getattr(annotation, "__args__", ()))
                if isinstance(kind, type) and issubclass(kind, BaseModel)
            ),
            None,
        )
    return list(table.model_fields) if table else ()


def _line(text: str, keys: Sequence[str]) -> int | None:
    """The line of the first key of this name below its table's header, None if not found."""
    if not keys:
        return None
    lines, start = text.splitlines(), 0
    header = re.compile(rf"\s*\[\[?\s*(tool\.dpaudit\.)?{re.escape('.'.join(keys[:-1]))}\s*\]")
    if len(keys) > 1:
        start = next((i for i, line in enumerate(lines) if header.match(line)), 0)
    key = re.compile(rf"(^|[{{,\s])\"?{re.escape(keys[-1])}\"?\s*=")
    return next((i + 1 for i, line in enumerate(lines) if i >= start and key.search(line)), None)
