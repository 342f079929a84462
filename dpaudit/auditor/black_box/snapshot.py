"""A mechanism as it is before its first call, in a form from which fresh processes make it again.

What a process must not share with another is made anew there: generators of random numbers get new
states, and caches of functions are empty. What can be imported is imported, so that its module is
run again; the rest is copied.
"""

from __future__ import annotations

import copyreg
import functools
import importlib
import inspect
import io
import random
import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

import cloudpickle
import numpy as np

from dpaudit.core.errors import said

_CACHED = type(functools.lru_cache(maxsize=None)(len))
_NOTHING = (
    types.ModuleType,
    types.BuiltinFunctionType,
    types.GetSetDescriptorType,
    property,
    classmethod,
    staticmethod,
)
_PLAIN = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)


@dataclass(frozen=True)
class Snapshot:
    """A mechanism before its first call.

    Attributes:
        work: the pickled mechanism; empty if it cannot be sent to a process.
        obstacle: why it cannot be sent.
        remembers: whether copies hold values that were computed when the mechanism was made, such
            as the attributes of an object. If these include its noise, no copy draws it again.
    """

    work: bytes
    obstacle: str
    remembers: bool

    @classmethod
    def of(cls, mechanism: Any) -> Self:
        """Take the snapshot of a mechanism."""
        home = sys.modules.get(_home(mechanism))
        foreign = home is not None and home.__name__ != "__main__" and not _can_be_imported(home)
        try:
            if foreign:
                cloudpickle.register_pickle_by_value(home)
            stream = io.BytesIO()
            pickler = _Pickler(stream)
            pickler.dump(mechanism)
        except Exception as error:  # whatever the mechanism holds
            return cls(b"", said(error), True)
        finally:
            if foreign:
                cloudpickle.unregister_pickle_by_value(home)
        return cls(stream.getvalue(), "", _remembers(mechanism, pickler.place, set()))


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    """Pickles what is importable by its name, and what makes noise as something new."""

    @functools.cached_property
    def _places(self) -> dict[int, tuple[str, str]]:
        """The module and the name of each object that a module holds, by its identity."""
        return {
            id(value): (module.__name__, name)
            for module in [*sys.modules.values()]
            if isinstance(module, types.ModuleType) and module.__name__ != "__main__"
            for name, value in [*vars(module).items()]
            if not isinstance(value, _PLAIN) and type(value).__module__ != "builtins"
        }

    def place(self, value: Any) -> tuple[str, str] | None:
        """Return the module and the name from which a fresh process can import an object."""
        found = self._places.get(id(value))
        return found if found and _can_be_imported(sys.modules.get(found[0])) else None

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, _PLAIN):
            return super().reducer_override(value)
        place = self.place(value)
        if place is not None:
            return _imported, place
        anew = _anew(value)
        return super().reducer_override(value) if anew is None else anew


def _anew(value: Any) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
    """Return what makes a new object in place of one whose state is noise or a memory."""
    if isinstance(value, np.random.Generator):
        return _generator, (type(value.bit_generator),)
    if isinstance(value, np.random.BitGenerator):
        return _bits, (type(value),)
    if isinstance(value, np.random.RandomState):
        return _random_state, ()
    if isinstance(value, random.Random):
        return _python_generator, (type(value),)
    if isinstance(value, _CACHED):
        return _with_empty_cache, (value.__wrapped__, value.cache_parameters())
    return None


def _imported(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


# A process's own generator has been seeded from the stream of its call: see `ambient`.
def _bits(kind: Any) -> np.random.BitGenerator:
    return kind(np.random.randint(2**32, size=4, dtype=np.uint32))  # noqa: NPY002


def _generator(kind: Any) -> np.random.Generator:
    return np.random.Generator(_bits(kind))


def _random_state() -> np.random.RandomState:
    return np.random.RandomState(np.random.randint(2**32, size=4, dtype=np.uint32))  # noqa: NPY002


def _python_generator(kind: type[random.Random]) -> random.Random:
    made = kind()
    made.seed(random.getrandbits(64))
    return made


def _with_empty_cache(function: Any, parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _home(mechanism: Any) -> str:
    """Return the name of the module in which a mechanism or its class is defined."""
    return str(getattr(mechanism, "__module__", None) or type(mechanism).__module__)


def _can_be_imported(module: types.ModuleType | None) -> bool:
    """Whether a fresh process finds a module by its name, where this process has it from."""
    if module is None or module.__name__ == "__main__":
        return False
    origin = getattr(getattr(module, "__spec__", None), "origin", None)
    if origin in ("built-in", "frozen"):
        return True
    parent, path = sys.modules.get(module.__name__.rpartition(".")[0]), None
    if "." in module.__name__:
        if not _can_be_imported(parent):
            return False
        path = getattr(parent, "__path__", None)
    try:
        # Not importlib.util.find_spec, which returns the spec of what is already imported.
        finders = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
        specs = (find(module.__name__, path) for find in finders if find is not None)
        spec = next((spec for spec in specs if spec is not None), None)
    except (ImportError, ValueError, AttributeError):
        return False
    return spec is not None and spec.origin == origin


def _remembers(value: Any, place: Callable[[Any], Any], seen: set[int]) -> bool:
    """Whether a copy of a value holds what was computed when the value was made."""
    if id(value) in seen:
        return False
    seen.add(id(value))
    parts = _held(value, place)
    return parts is None or any(_remembers(part, place, seen) for part in parts)


def _held(value: Any, place: Callable[[Any], Any]) -> Iterable[Any] | None:  # noqa: PLR0911  one kind each
    """Return what a copy of a value holds; None if it is a value of its own, such as a number."""
    if isinstance(value, types.MethodType):
        return (value.__self__,)
    if isinstance(value, type | types.FunctionType):
        top = "<locals>" not in value.__qualname__
        imported = top and _can_be_imported(sys.modules.get(value.__module__))
        return () if imported else _of_type(value) if isinstance(value, type) else _of_code(value)
    if isinstance(value, _CACHED):
        return () if place(value) else (value.__wrapped__,)
    if value is None or isinstance(value, _NOTHING) or place(value) or _anew(value):
        return ()
    if type(value) in (list, tuple, dict):
        return [*value.items()] if isinstance(value, dict) else list(value)
    try:
        made, arguments, state, *items = value.__reduce_ex__(2)
    except Exception:  # no copy of it can be made, or only one that holds more than a state
        return None
    plain = made is getattr(copyreg, "__newobj__") and arguments == (type(value),)  # noqa: B009
    if not plain or any(items) or not isinstance(state, dict | None):
        return None
    return [*(state or {}).values(), type(value)]


def _of_type(kind: type) -> list[Any]:
    """Return what a copy of a class holds: its attributes, methods and bases."""
    own = [part for name, part in vars(kind).items() if not name.startswith("__") or callable(part)]
    return [*own, *kind.__bases__]


def _of_code(function: types.FunctionType) -> list[Any]:
    """Return what a copy of a function holds: what it refers to, and its defaults."""
    known = inspect.getclosurevars(function)
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return [*known.nonlocals.values(), *known.globals.values(), *defaults]
