"""What the parameters of a plug-in have to refuse, and how a check fails."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from dpaudit.core.plugin import Plugin
from dpaudit.defenses.base import Defense


def require(holds: Any, plugin: type, words: str) -> None:
    """Raise AssertionError with the name of the plug-in, or of another class, unless it holds."""
    if not holds:
        raise AssertionError(f"{getattr(plugin, 'name', plugin.__name__)}: {words}")


def refuses(error: type[Exception], call: Callable[..., Any], *given: Any, **named: Any) -> bool:
    """Return whether a call raises an exception of this type."""
    try:
        call(*given, **named)
    except error:
        return True
    return False


def check_parameters(plugin: type[Plugin]) -> None:
    """Check that each parameter refuses values of other types, and numbers out of a stated range.

    A number states its range by `Field(ge=…, le=…)` in its annotation; the largest number may be
    missing. A number without digits after the point is taken for a float.

    Raises:
        AssertionError: a wrong value is accepted, or refused without the parameter's name.
    """
    required = {"epsilon": 1.0} if issubclass(plugin, Defense) else {}
    hints = get_type_hints(plugin, include_extras=True)
    for field in dataclasses.fields(plugin):  # type: ignore[arg-type]
        name, kinds = field.name, list(kinds_of(hints[field.name]))
        for value in _wrong(plugin, name, kinds):
            try:
                plugin(**{**required, name: value})
            except ValidationError as error:
                require(
                    name in words_of(error), plugin, f"refuses {name} = {value!r} by another name"
                )
            else:
                require(False, plugin, f"accepts {name} = {value!r}")
        if any(kind is float for kind, _, _ in kinds):
            _check_whole(plugin, name, {**required, name: 1})


def words_of(error: ValidationError) -> str:
    """Return where values are wrong, and why, without the values."""
    return "; ".join(f"{wrong['loc']}: {wrong['msg']}" for wrong in error.errors())


def _check_whole(plugin: type[Plugin], name: str, given: dict[str, Any]) -> None:
    """Check that a float parameter takes a whole number, unless 1 is out of its range."""
    try:
        taken = isinstance(getattr(plugin(**given), name), float)
    except ValidationError as error:
        taken = all(wrong["type"] != "float_type" for wrong in error.errors())
    require(taken, plugin, f"takes {name} = 1 for no float")


def kinds_of(
    hint: Any, low: float = -math.inf, high: float = math.inf
) -> Iterator[tuple[Any, ...]]:
    """Yield each type of an annotation, with the range that is stated for it."""
    if get_origin(hint) is Annotated:
        hint, *parts = get_args(hint)
        for part in parts:
            for bound in part.metadata if isinstance(part, FieldInfo) else [part]:
                low = getattr(bound, "ge", getattr(bound, "gt", low))
                high = getattr(bound, "le", getattr(bound, "lt", high))
        yield from kinds_of(hint, low, high)
    elif get_origin(hint) in {Union, UnionType}:
        for kind in get_args(hint):
            yield from kinds_of(kind, low, high)
    elif hint is not NoneType:
        yield hint, low, high


def _below(number: float) -> float:
    return math.nextafter(number, -math.inf)


def _wrong(plugin: type[Plugin], name: str, kinds: list[tuple[Any, ...]]) -> Iterator[Any]:
    """Yield values that a parameter of these types must not have."""
    types = {get_origin(kind) or kind for kind, _, _ in kinds}
    for kind, low, high in kinds:
        if kind not in {int, float}:
            continue
        require(math.isfinite(low), plugin, f"{name} states no least value: use Field(ge=…)")
        ends = (low - 1, high + 1) if kind is int else (_below(low), -_below(-high))
        yield from ("5", "inf", *(end for end in ends if math.isfinite(end)))
        if kind is int:
            yield from (5.0, 5.5, math.inf)
        elif name != "epsilon":
            yield math.inf
    yield from (b"1", {}, math.nan)
    if not types & {int, float}:
        yield -1
    if str not in types:
        yield "nonsense"
    if list not in types:
        yield [1]
    if bool not in types:
        yield True
