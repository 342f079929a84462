"""Options that several commands share."""

from __future__ import annotations

import os
from typing import Any

import click


class _WorkersType(click.ParamType[Any]):
    name = "workers"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        from dpaudit.execution.workers import Workers

        return Workers.parse(value) if isinstance(value, str) else value


workers_option = click.option(
    "--workers",
    metavar="N|processes:N|dask[:N|:ADDRESS]",
    type=_WorkersType(),
    default=lambda: str(os.cpu_count() or 1),
    help="Where tasks run: on N threads, N processes, N Dask workers of this machine, or a Dask "
    "cluster, as dask:tcp://HOST:8786. Results do not depend on it.  [default: a thread a core]",
)
