"""Options that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.types import FloatParamType

from dpaudit.core.errors import ConfigError, DpauditError
from dpaudit.core.foreign import foreign
from dpaudit.core.rounding import plain_number

if TYPE_CHECKING:
    from dpaudit.config.schema import Config
    from dpaudit.execution.workers import Workers

F = TypeVar("F", bound=Callable[..., Any])


class _Plain(click.ParamType[Any]):
    """A number that is not written as Python alone reads it, such as `1_0`."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the number, or fail."""
        if isinstance(value, str):
            try:
                plain_number(value)
            except ValueError:
                self.fail(f"{value!r} is not a number.", param, ctx)
        return super().convert(value, param, ctx)


class NumberType(_Plain, FloatParamType):
    """A number."""


class WholeRange(_Plain, click.IntRange):
    """A range of integers."""


class NumberRange(_Plain, click.FloatRange):
    """A range of numbers that NaN, which compares with nothing, does not pass."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the number, or fail."""
        number = super().convert(value, param, ctx)
        if number != number:  # noqa: PLR0124  NaN
            self.fail(f"{value} is no number.", param, ctx)
        return number


class PathType(click.Path):
    """A path; an empty one, as of a variable that is not set, would be the current folder."""

    def __init__(self, **options: Any) -> None:
        """Take the options of `click.Path`."""
        super().__init__(path_type=Path, **options)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the path, or fail."""
        if not str(value):
            self.fail("it is empty: name a path, or leave it out.", param, ctx)
        return super().convert(value, param, ctx)


def _parsed_workers(value: Any) -> Any:
    from dpaudit.execution.workers import Workers

    return Workers.parse(value) if isinstance(value, str) else value


def _workers(default: str | None, said: str) -> Callable[[F], F]:
    return click.option(
        "--workers",
        metavar="N|processes:N|dask[:N|:ADDRESS]",
        type=_parsed_workers,
        default=default,
        help="Where tasks run: on N threads, N processes, N Dask workers of this machine, or a "
        f"Dask cluster, as dask:tcp://HOST:8786. Results do not depend on it.  [default: {said}]",
    )


def workers_of(config: Config, given: Workers | None) -> Workers:
    """Return where the tasks of a config run: as `--workers` says, or as they need."""
    from dpaudit.execution.workers import Workers

    return given or Workers.all_cores("processes" if config.processes else "threads")


force = click.option(
    "--force",
    is_flag=True,
    help="Replace another run that the folder holds (other config, seed or data); finished tasks "
    "that fit are used.",
)

allow_code = click.option(
    "--allow-code", is_flag=True, help="Run code that the config names, such as your own model's."
)


def import_from(folder: Path, code: Sequence[str]) -> None:
    """Let modules beside a config be imported until the command ends.

    What is installed goes first, so that a `types.py` there hides no module that dpaudit needs.

    Args:
        folder: the folder of the config.
        code: the keys of the config that name code, as `Config.code`.

    Raises:
        ConfigError: a key names a module that stands there and is installed too.
    """
    beside = str(folder.resolve())
    for module, key in _modules(code).items():
        outer = module.partition(".")[0]
        here, installed = _file(outer, [beside]), _file(outer, sys.path)
        if here and installed and os.path.realpath(here) != os.path.realpath(installed):
            raise ConfigError(
                f"{key}: {here} stands beside the config, and Python finds {installed} before it: "
                "rename the former, or install its package with 'python -m pip install -e'"
            )

    def leave() -> None:
        with suppress(ValueError):  # the user's code may have left it
            sys.path.remove(beside)

    sys.path.append(beside)
    click.get_current_context().call_on_close(leave)


def import_now(code: Sequence[str]) -> None:
    """Import modules that a config names in this thread, the main one: it alone may set signals.

    What cannot be imported is told by what needs it.
    """
    for module in _modules(code):
        with suppress(DpauditError), foreign(ConfigError):
            import_module(module)


def _modules(code: Sequence[str]) -> dict[str, str]:
    """Return the modules that keys of a config name, each with its key and value."""
    modules = {key.partition(".target = '")[2].partition(":")[0]: key for key in code}
    return {module: key for module, key in modules.items() if module}


def _file(module: str, places: Sequence[str]) -> str | None:
    """Return the file of a module that is found in these folders, if any."""
    spec = PathFinder.find_spec(module, places)
    return spec.origin if spec else None


def defaulted(
    name: str, kind: click.ParamType[Any], default: Any, words: str, **more: Any
) -> Callable[[F], F]:
    """Return an option whose default its help shows."""
    return click.option(name, type=kind, default=default, show_default=True, help=words, **more)


def style(*styles: str) -> Callable[[F], F]:
    """Return the option that names the form of what is printed: text, or one of these."""
    choice = click.Choice(["text", *styles])
    return click.option("--format", "style", type=choice, default="text", show_default=True)


def overrides(replaced: str) -> Callable[[F], F]:
    """Return the option that replaces values of a config."""
    return click.option(
        "-s",
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help=f"Replace a value of {replaced}, e.g. -s audit.trials=1000.",
    )


def waivers(replaced: str) -> Callable[[F], F]:
    """Return the option that names a file of waivers."""
    return click.option(
        "--waivers",
        type=PathType(dir_okay=False),
        help=f"A TOML file with [[waiver]] tables to use instead of those {replaced}.",
    )


# What a config names decides the default of a run.
workers = _workers(
    None, "one thread per core; for [defense] and [dp-training] one process per core"
)
# For code that holds Python's global lock.
processes = _workers("processes", "one process per core")
