"""All published guarantees with their verdicts.

The file of a paper, `park_acharya_2011.toml`, has a `[[claim]]` for each entry, with the fields of
`PublishedClaim`. What an entry needs of code is named: the table

    { is = "own_replaced", outputs = 5 }

is what the function or class of that name in the paper's modules returns for these arguments, which
are tested against its annotations. A text where the annotation allows none is the name of a part
itself. Each experiment of `published` and `corrected` is such a table; its `weak` says why its data
sets leak too little. A `[part.NAME]` is a value that several tables of the file name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from functools import cache, partial
from importlib import resources
from inspect import isclass, isfunction, signature
from types import ModuleType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from dpaudit.attacks import distinguishing
from dpaudit.bounds import accounting
from dpaudit.claims import games, liu_wang_smola_2015, luo_2020, meng_2018, park_acharya_2011
from dpaudit.claims.record import Check, PublishedClaim
from dpaudit.claims.wang_tang_2017 import data as wang_tang_2017
from dpaudit.claims.wang_tang_2017 import games as wang_tang_games
from dpaudit.core.errors import ConfigError
from dpaudit.core.estimate import Estimate
from dpaudit.core.registry import suggestion

# The title of each paper, the name of its file, and the modules that have its parts, by the first
# part of its entries' ids.
_PAPERS: dict[str, tuple[str, str, tuple[ModuleType, ...]]] = {
    "pa11": ("Park & Acharya 2011", "park_acharya_2011", (park_acharya_2011,)),
    "wt17": ("Wang & Tang 2017", "wang_tang_2017", (wang_tang_2017, wang_tang_games)),
    "lws15": ("Liu, Wang & Smola 2015", "liu_wang_smola_2015", (liu_wang_smola_2015,)),
    "berlioz15": ("Berlioz et al. 2015", "berlioz_2015", (liu_wang_smola_2015,)),
    "mironov12": ("Mironov 2012", "mironov_2012", (distinguishing, accounting)),
    "fg": ("Luo et al. 2020", "luo_2020", (luo_2020,)),
    "privsr": ("Meng et al. 2018", "meng_2018", (meng_2018,)),
}
PAPERS = {key: title for key, (title, _, _) in _PAPERS.items()}


@cache
def catalogue() -> tuple[PublishedClaim, ...]:
    """Return all entries, those of a paper together; the files are read once."""
    entries: list[PublishedClaim] = []
    for _, name, modules in _PAPERS.values():
        file = resources.files("dpaudit.claims").joinpath(f"{name}.toml")
        entries += read(file.read_text(encoding="utf-8"), modules)
    return tuple(entries)


def paper(entry: PublishedClaim) -> str:
    """Return the key of the entry's paper in `PAPERS`."""
    return entry.id.partition("-")[0]


def chosen(ids: Iterable[str]) -> list[PublishedClaim]:
    """Return the entries that `ids` name; all if `ids` is empty.

    An entry's id names that entry alone; another word names those whose ids start with it.

    Raises:
        ConfigError: an id matches no entry.
    """
    known = [entry.id for entry in catalogue()]
    named: set[str] = set()
    for word in (wanted := list(ids)):
        # The first dash-separated parts of ids: `pa11`, but not `pa`.
        matching = {word} if word in known else {one for one in known if one.startswith(f"{word}-")}
        if not matching:
            raise ConfigError(f"there is no claim {word!r}{suggestion(word, [*PAPERS, *known])}")
        named |= matching
    return [entry for entry in catalogue() if not wanted or entry.id in named]


def read(text: str, modules: Iterable[ModuleType]) -> list[PublishedClaim]:
    """Return the entries of a paper's file.

    Args:
        text: the file, TOML.
        modules: whose functions and classes its tables name, beside those of `games`.

    Raises:
        ValueError: a table is wrong; with the entry's id and the field.
    """
    tables = tomllib.loads(text)
    known: dict[str, Any] = {"check": check, "exact": Estimate.exact}
    for module in (games, *modules):
        for name, part in vars(module).items():
            if _is_part(name, part) and known.setdefault(name, part) is not part:
                raise ValueError(f"{module.__name__}.{name} is another part than that of this name")
    for name, table in tables.get("part", {}).items():
        known[name] = _made(table, known, f"part.{name}")
    return [_entry(table, known) for table in tables["claim"]]


def _is_part(name: str, part: Any) -> bool:
    ours = getattr(part, "__module__", "").startswith("dpaudit.")
    return ours and (isclass(part) or isfunction(part)) and not name.startswith("_")


def check(label: str, statement: Callable[..., str | None], **arguments: Any) -> Check:
    """Return the check of a statement, which takes a seed and these arguments.

    Raises:
        ValueError: the statement has no such argument.
    """
    counterexample = partial(statement, **arguments) if arguments else statement
    signature(counterexample).bind(0)
    return Check(label, counterexample)


def _entry(table: dict[str, Any], known: dict[str, Any]) -> PublishedClaim:
    name, weak = table.get("id", "a claim without id"), {}
    experiments: dict[str, list[Any]] = {}
    for role in ("published", "corrected"):
        experiments[role] = []
        for place, one in enumerate(table.get(role, [])):
            why = one.pop("weak", "")
            experiments[role].append(_made(one, known, f"{name}: {role}.{place}"))
            if why:
                weak[experiments[role][-1].label] = why
    try:
        return TypeAdapter(PublishedClaim).validate_python({**table, **experiments, "weak": weak})
    except ValidationError as error:
        raise ValueError(f"{name}: {_first(error)}") from None


def _made(table: dict[str, Any], known: dict[str, Any], where: str) -> Any:
    """Return what the part that a table names returns for the table's other values."""
    part = _named(table.pop("is", None), known, f"{where}.is")
    hints = get_type_hints(part)
    arguments = {
        key: _argument(value, hints.get(key, Any), known, f"{where}.{key}")
        for key, value in table.items()
    }
    try:
        return part(**arguments)
    except ValidationError as error:
        raise ValueError(f"{where}.{_first(error)}") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from error


def _argument(value: Any, hint: Any, known: dict[str, Any], where: str) -> Any:
    if isinstance(value, dict):
        return _made(value, known, where)
    if isinstance(value, str) and not _allows_text(hint):
        return _named(value, known, where)
    try:
        # Not the annotation alone: a configuration is for what has none of its own.
        adapter = TypeAdapter(tuple[hint], config=ConfigDict(arbitrary_types_allowed=True))
        return adapter.validate_python((value,))[0]
    except ValidationError as error:
        raise ValueError(f"{where}: {_first(error).partition(': ')[2]}") from None


def _allows_text(hint: Any) -> bool:
    origin = get_origin(hint)
    if hint in (str, Any) or origin is Literal:
        return True
    return origin is not Callable and any(map(_allows_text, get_args(hint)))


def _named(name: Any, known: dict[str, Any], where: str) -> Any:
    if name not in known:
        raise ValueError(f"{where}: there is no part {name!r}{suggestion(str(name), known)}")
    return known[name]


def _first(error: ValidationError) -> str:
    """Return the field of the first mistake, and what is wrong with it."""
    mistake = error.errors()[0]
    return f"{'.'.join(map(str, mistake['loc']))}: {mistake['msg']}"
