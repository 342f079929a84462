"""The settings with which a user names the arguments of a library's constructor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

from dpaudit.core.errors import ConfigError
from dpaudit.core.messages import show
from dpaudit.core.registry import suggestion

# Arguments of documentations that an audit decides, for every training alike.
_SEEDS = frozenset({"random_state", "seed", "random_seed"})
_CPU = "dpaudit trains on the CPU"
_THREADS = "dpaudit trains on one thread, as several would make the numbers vary"
_QUIET = "dpaudit trains quietly"
# Why such a value changes nothing, and the value that says what an audit does anyway.
_DECIDED: Mapping[str, tuple[str, object]] = {
    **dict.fromkeys(("use_gpu", "use_cuda", "gpu", "cuda"), (_CPU, False)),
    "device": (_CPU, "cpu"),
    **dict.fromkeys(("num_threads", "n_threads", "n_jobs", "num_workers"), (_THREADS, 1)),
    **dict.fromkeys(("verbose", "show_progress", "progress"), (_QUIET, False)),
}


def usable(
    name: str, settings: Mapping[str, Any], factory: Callable[..., Any] | None, *others: str
) -> dict[str, Any]:
    """Return the settings that a library's constructor takes.

    An argument of another of its classes or methods that asks for what an audit does anyway, such
    as `use_gpu = false`, is left out, and so is a seed: every training has one of its own.

    Args:
        name: the adapter's name and its model, for the error.
        settings: the user's settings.
        factory: the constructor; None if it refuses names that it does not know.
        others: what a user may set besides its arguments.

    Raises:
        ConfigError: a setting is not known, or asks for what no audit does.
    """
    known = {*signature(factory).parameters, *others} if factory else {*others}
    chosen = {}
    for key, value in settings.items():
        if key in known:
            chosen[key] = value
        elif key in _DECIDED:
            why, anyway = _DECIDED[key]
            if value != anyway:
                raise ConfigError(
                    f"recommender.params.settings.{key} = {show(value)} of {name}: {why}: remove "
                    f"{key}"
                )
        elif key in _SEEDS:
            continue
        elif factory is None:
            chosen[key] = value
        else:
            near = suggestion(key, known - {"kwargs", *_SEEDS})
            raise ConfigError(
                f"recommender.params.settings.{key}: {name} refuses its settings (there is no "
                f"{key!r}{near}): correct params.settings"
            )
    return chosen
