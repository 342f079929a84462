"""A mechanism as it is before its first call, in a form from which fresh processes make it again.

What a process must not share with another is made anew there: generators of random numbers get new
states, and caches of functions are empty. What can be imported is imported, so that its module is
run again; the rest is copied.
"""

from __future__ import annotations

import functools
import importlib
import io
import random
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO, Self

import cloudpickle
import numpy as np

from dpaudit.core.errors import said

CACHED = type(functools.lru_cache(maxsize=None)(len))
_PLAIN = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)


@dataclass(frozen=True)
class Snapshot:
    """A mechanism before its first call.

    Attributes:
        work: the pickled mechanism; empty if it cannot be sent to a process.
        obstacle: why it cannot be sent.
    """

    work: bytes
    obstacle: str

    @classmethod
    def of(cls, mechanism: Any) -> Self:
        """Take the snapshot of a mechanism."""
        home = sys.modules.get(_home(mechanism))
        foreign = home is not None and home.__name__ != "__main__" and not can_be_imported(home)
        try:
            if foreign:
                cloudpickle.register_pickle_by_value(home)
            return cls(Pickling().dumps(mechanism), "")
        except Exception as error:  # whatever the mechanism holds
            return cls(b"", said(error))
        finally:
            if foreign:
                cloudpickle.unregister_pickle_by_value(home)


class Pickling:
    """Pickles what is importable by its name, and what makes noise as something new."""

    def dumps(self, value: Any) -> bytes:
        """Pickle a value; raises whatever it raises."""
        stream = io.BytesIO()
        _Pickler(stream, self).dump(value)
        return stream.getvalue()

    @functools.cached_property
    def _places(self) -> dict[int, tuple[str, str]]:
        """The module and the name of each object that a module holds, by its identity.

        Of several modules, that of its class: others may import it, and much else.
        """
        places: dict[int, tuple[str, str]] = {}
        for module in [*sys.modules.values()]:
            if not isinstance(module, types.ModuleType) or module.__name__ == "__main__":
                continue
            for name, value in [*vars(module).items()]:
                # Not isinstance, which asks the value for its class: some that are deprecated warn.
                kind = type(value)
                home = kind.__module__
                if issubclass(kind, _PLAIN) or home == "builtins":
                    continue
                if module.__name__ == home or places.get(id(value), ("", ""))[0] != home:
                    places[id(value)] = module.__name__, name
        return places

    def place(self, value: Any) -> tuple[str, str] | None:
        """Return the module and the name from which a fresh process can import an object."""
        location = self._places.get(id(value))
        return location if location and can_be_imported(sys.modules.get(location[0])) else None


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    """The pickler of `Pickling`."""

    def __init__(self, stream: BinaryIO, pickling: Pickling) -> None:
        super().__init__(stream)
        self._pickling = pickling

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, _PLAIN):
            return super().reducer_override(value)
        place = self._pickling.place(value)
        if place is not None:
            return _imported, place
        anew = made_anew(value)
        return super().reducer_override(value) if anew is None else anew


def made_anew(value: Any) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
    """Return what makes a new object in place of one whose state is noise or a memory."""
    if isinstance(value, np.random.Generator):
        return _generator, (type(value.bit_generator),)
    if isinstance(value, np.random.BitGenerator):
        return _bits, (type(value),)
    if isinstance(value, np.random.RandomState):
        return _random_state, ()
    if isinstance(value, random.Random):
        return _python_generator, (type(value),)
    if isinstance(value, CACHED):
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
    generator = kind()
    generator.seed(random.getrandbits(64))
    return generator


def _with_empty_cache(function: Any, parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _home(mechanism: Any) -> str:
    """Return the name of the module in which a mechanism or its class is defined."""
    return str(getattr(mechanism, "__module__", None) or type(mechanism).__module__)


def can_be_imported(module: types.ModuleType | None) -> bool:
    """Whether a fresh process finds a module by its name, where this process has it from."""
    if module is None or module.__name__ == "__main__":
        return False
    origin = getattr(getattr(module, "__spec__", None), "origin", None)
    if origin in ("built-in", "frozen"):
        return True
    parent, path = sys.modules.get(module.__name__.rpartition(".")[0]), None
    if "." in module.__name__:
        if not can_be_imported(parent):
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
