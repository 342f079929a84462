"""A mechanism as it is before its first call, and the values that it keeps and may be its noise.

Fresh processes make a mechanism again from its snapshot. What a process must not share with another
is made anew there: generators of random numbers get new states, and caches of functions are empty.
What can be imported is imported, so that its module is run again; the rest is copied.

A copy of a mechanism holds what was computed when it was made: attributes of an object, variables
of a closure, default arguments, globals of a script. If its noise is among these, no copy draws it
again, and what calls certify holds for this noise only. Its value does not tell noise from a
setting. A kept value counts as a setting where

- the constructor gives it again, in all of 20 calls with the arguments that the object keeps, or
- a person may have written it: a word, or a number of few digits. A mechanism whose outputs are
  constant has its noise nowhere else, so this does not count there.

Every other value may be noise.
"""

from __future__ import annotations

import copyreg
import functools
import importlib
import inspect
import io
import math
import numbers
import pickle
import random
import sys
import types
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from operator import attrgetter
from typing import Any, BinaryIO, NamedTuple, Self

import cloudpickle
import numpy as np

from dpaudit.core.errors import said

_CACHED = type(functools.lru_cache(maxsize=None)(len))
_PLAIN = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)
_REMADE = 20
# The digits of a number that a person writes, the size of such an integer and such a denominator.
_DIGITS, _COUNT, _DENOMINATOR = 2, 10**6, 100
_NOTHING = (types.ModuleType, types.BuiltinFunctionType, types.GetSetDescriptorType)
_LEAVES = (numbers.Number, str, bytes, bytearray, np.generic)


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
        foreign = home is not None and home.__name__ != "__main__" and not _can_be_imported(home)
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
        return location if location and _can_be_imported(sys.modules.get(location[0])) else None


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    """The pickler of `Pickling`."""

    def __init__(self, stream: BinaryIO, pickling: Pickling) -> None:
        super().__init__(stream)
        self._pickling = pickling

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, _PLAIN):
            return super().reducer_override(value)
        location = self._pickling.place(value)
        if location is not None:
            return _imported, location
        anew = _made_anew(value)
        return super().reducer_override(value) if anew is None else anew


def _made_anew(value: Any) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
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


# A process's own generator has been seeded from the stream of its call: see `one_call`.
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


class _Held(NamedTuple):
    """A value that another value holds, and its name there."""

    name: str
    value: Any


def may_be_noise(work: bytes, rng: Any, *, constant: bool) -> list[str]:
    """Return the names of the values of a mechanism that may be its noise, each once.

    It loads the mechanism and calls the constructors of the objects that this holds, so it is
    called as a mechanism in a fresh process.

    Args:
        work: the mechanism before its first call, pickled by `Snapshot`.
        rng: not used; the constructors have the generators of the process.
        constant: whether the mechanism's outputs on each data set are constant.
    """
    mechanism = _Held("the mechanism", pickle.loads(work))  # noqa: S301  pickled by us
    return list(dict.fromkeys(_Search(Pickling(), constant).suspects(mechanism)))


class _Search:
    """A search for values that may be noise.

    Args:
        pickling: what pickles values, to compare them.
        constant: see `may_be_noise`.
    """

    def __init__(self, pickling: Pickling, constant: bool) -> None:
        self._pickling, self._constant = pickling, constant
        self._seen: dict[int, Any] = {}  # holds the values, so that no other has their identity

    def suspects(self, holder: _Held) -> Iterator[str]:
        """Yield the names of the values in a part that may be noise."""
        name, value = holder
        if value is None or id(value) in self._seen or self._is_new(value):
            return
        self._seen[id(value)] = value
        if isinstance(value, _LEAVES) or (
            isinstance(value, np.ndarray) and not value.dtype.hasobject
        ):
            if self._constant or not _may_be_written(value):
                yield name
            return
        try:
            attributes = _attributes(value) if _has_only_attributes(value) else None
            parts = list(_parts(holder)) if attributes is None else []
        except Exception:  # it cannot be copied, or not read
            yield name
            return
        if attributes is not None:
            parts = [_Held(name, type(value))]
            parts += yield from self._of_object(value, attributes)
        for held in parts:
            yield from self.suspects(held)

    def _is_new(self, value: Any) -> bool:
        """Whether a fresh process makes a value again, or it holds nothing."""
        if isinstance(value, type | types.FunctionType):
            return _is_imported(value)
        if isinstance(value, _NOTHING) or self._pickling.place(value):
            return True
        return not isinstance(value, _CACHED) and _made_anew(value) is not None

    def _of_object(
        self, value: Any, attributes: dict[str, Any]
    ) -> Generator[str, None, list[_Held]]:
        """Yield the names of attributes that the constructor draws; return what decides others."""
        needed, optional = _arguments(value)
        parts: list[_Held] = []
        calls = [] if needed is None else [needed]
        if calls and optional:
            calls.append({**calls[0], **optional})
        for arguments in calls:
            copies = self._remade(type(value), arguments)
            if not copies or not attributes:
                continue
            for name in set(attributes).intersection(*copies):
                values = {copy[name] for copy in copies}
                if len(values) > 1:
                    yield name
                if len(values) > 1 or values == {self._pickling.dumps(attributes[name])}:
                    del attributes[name]
            parts += [_Held(*item) for item in arguments.items()]
        return parts + [_Held(*item) for item in attributes.items()]

    def _remade(self, kind: type, arguments: dict[str, Any]) -> list[dict[str, bytes]]:
        """Return the pickled attributes of new objects; nothing if they cannot be made."""
        try:
            work = self._pickling.dumps(arguments)
            copies = [kind(**pickle.loads(work)) for _ in range(_REMADE)]  # noqa: S301  of ours
            return [
                {name: self._pickling.dumps(value) for name, value in _attributes(copy).items()}
                for copy in copies
            ]
        except Exception:  # whatever a constructor raises where arguments are not its own
            return []


def _may_be_written(value: Any) -> bool:  # noqa: PLR0911  one kind each
    """Whether a person may have written a value."""
    if isinstance(value, np.ndarray):
        return all(_may_be_written(entry) for entry in np.unique(value))
    if isinstance(value, bytes | bytearray | np.void):
        return False
    if isinstance(value, str | bool | np.bool_ | np.datetime64 | np.timedelta64):
        return True
    if isinstance(value, numbers.Complex) and not isinstance(value, numbers.Real):
        return _may_be_written(value.real) and _may_be_written(value.imag)
    if not math.isfinite(value):
        return True
    # Without `normalize`, which rounds to the precision that code of others may set.
    digits = "".join(map(str, Decimal(str(value)).as_tuple().digits)).rstrip("0")
    if isinstance(value, numbers.Integral):
        return len(digits) <= _DIGITS or abs(int(value)) < _COUNT
    near = Fraction(float(value)).limit_denominator(_DENOMINATOR)
    return len(digits) <= _DIGITS or type(value)(float(near)) == value


def _is_imported(value: type | types.FunctionType) -> bool:
    """Whether a fresh process imports a class or a function by its name."""
    module = sys.modules.get(value.__module__)
    if not _can_be_imported(module):
        return False
    try:
        return attrgetter(value.__qualname__)(module) is value
    except AttributeError:
        return False


def _has_only_attributes(value: Any) -> bool:
    """Whether a copy of a value is made as an object with the same attributes."""
    if isinstance(
        value, type | types.FunctionType | types.MethodType | functools.partial | _CACHED
    ):
        return False
    reduced = value.__reduce_ex__(2)
    if isinstance(reduced, str):
        return False
    constructor, arguments, state, *items = [*reduced, None, None][:5]
    plain = constructor is getattr(copyreg, "__newobj__") and arguments == (type(value),)  # noqa: B009
    return plain and not any(items) and (state is None or bool(_attributes(value)))


def _attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an object, those in slots too."""
    slots = copyreg._slotnames(type(value))  # type: ignore[attr-defined]
    in_slots = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return {**getattr(value, "__dict__", {}), **in_slots}


def _arguments(value: Any) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return the arguments of an object's constructor that its attributes tell.

    Returns:
        Those without a default, or None if one is not known, and those with one.
    """
    try:
        parameters = inspect.signature(type(value)).parameters.values()
    except (TypeError, ValueError):  # it is not written in Python
        return None, {}
    needed: dict[str, Any] | None = {}
    optional: dict[str, Any] = {}
    attributes = _attributes(value)
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        known = [name for name in (parameter.name, f"_{parameter.name}") if name in attributes]
        if parameter.default is not parameter.empty:
            if known:
                optional[parameter.name] = attributes[known[0]]
        elif known and needed is not None:
            needed[parameter.name] = attributes[known[0]]
        else:
            needed = None
    return needed, optional


def _parts(holder: _Held) -> Iterable[_Held]:  # noqa: PLR0911  one kind each
    """Return what a copy of a value holds."""
    name, value = holder
    if isinstance(value, types.MethodType):
        return [_Held(name, value.__self__)]
    if isinstance(value, classmethod | staticmethod):
        return [_Held(name, value.__func__)]
    if isinstance(value, property):
        return [_Held(name, value.fget), _Held(name, value.fset)]
    if isinstance(value, _CACHED):
        return [_Held(name, value.__wrapped__)]
    if isinstance(value, type):
        return _of_type(value)
    if isinstance(value, types.FunctionType):
        return _of_code(value)
    if isinstance(value, functools.partial):
        known = [_Held(name, argument) for argument in (value.func, *value.args)]
        return [*known, *(_Held(*item) for item in value.keywords.items())]
    if isinstance(value, np.ndarray | list | tuple | set | frozenset):
        elements = value.ravel() if isinstance(value, np.ndarray) else value
        return [_Held(name, element) for element in elements]
    if type(value) is dict:
        entries = [_Held(key if isinstance(key, str) else name, value[key]) for key in value]
        return [*entries, *(_Held(name, key) for key in value)]
    reduced = value.__reduce_ex__(2)
    if isinstance(reduced, str):  # the name of something in a module
        return []
    _, arguments, state, items, pairs = [*reduced, None, None, None][:5]
    return [
        _Held(name, element) for element in (*arguments, state, [*(items or ())], [*(pairs or ())])
    ]


def _of_type(kind: type) -> list[_Held]:
    """Return what a copy of a class holds: its attributes, methods and bases."""
    members = [
        _Held(name, value)
        for name, value in vars(kind).items()
        if not name.startswith(("__", "_abc_")) or callable(value)
    ]
    return [*members, *(_Held(base.__name__, base) for base in kind.__bases__)]


def _of_code(function: types.FunctionType) -> list[_Held]:
    """Return what a copy of a function holds: what it refers to, its defaults and attributes."""
    code, names = function.__code__, _names(function.__code__)
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    closed = {name: cell.cell_contents for name, cell in cells if cell != types.CellType()}
    known = {name: function.__globals__[name] for name in names if name in function.__globals__}
    arguments = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    last = zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True)
    given = {**dict(last), **(function.__kwdefaults__ or {}), **vars(function)}
    return [_Held(*item) for item in {**known, **closed, **given}.items()]


def _names(code: types.CodeType) -> set[str]:
    """Return the names that a function, and functions in it, read."""
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))
