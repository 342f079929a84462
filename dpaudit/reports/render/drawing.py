"""Charts drawn as SVG pictures by a process of their own.

The library that draws them runs V8, which hangs in a fork of a process that has drawn before, and
ends its process where the address space is limited (`ulimit -v`).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from dpaudit.core.errors import RunError
from dpaudit.core.processes import library_places

_DRAW = """
import json, sys
sys.path[:] = json.loads(sys.argv[2])
import vl_convert
pictures = [vl_convert.vegalite_to_svg(spec, sys.argv[1]) for spec in json.load(sys.stdin)]
json.dump(pictures, sys.stdout)
"""


def svgs(specs: Sequence[dict[str, Any]]) -> list[str]:
    """Draw Vega-Lite specifications as SVG texts, in their order.

    Raises:
        RunError: the process that draws them ends early.
    """
    if not specs:
        return []
    from dpaudit.reports.vega import alt

    version = ".".join(alt.SCHEMA_VERSION.split(".")[:2])
    process = subprocess.run(  # noqa: S603  this Python, and code of ours
        [sys.executable, "-I", "-X", "utf8", "-c", _DRAW, version, json.dumps(library_places())],
        input=json.dumps(specs),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if process.returncode:
        raise RunError(
            f"the charts cannot be drawn: the process that draws them ended with exit code "
            f"{process.returncode}; allow it 1 GiB of memory and any address space ('ulimit -v "
            "unlimited')"
        )
    pictures: list[str] = json.loads(process.stdout)
    return pictures
