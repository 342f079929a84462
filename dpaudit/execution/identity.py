"""What results depend on besides the config: code and libraries, by digest."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path

from dpaudit.core.provenance import environment

# The parts of an identity that only the last digits of results depend on.
MACHINE = {"machine", "blas", "instructions"}


def identity_of(modules: Iterable[str] = ()) -> dict[str, str]:
    """Return the digest of the code, and the versions and the machine type of `environment`.

    Args:
        modules: names of modules, such as those of plug-ins; of those outside this package, all
            source files of the distribution or folder that they are in belong to the code. None is
            imported.
    """
    state = hashlib.blake2b(_package().encode(), digest_size=16)
    names = {name.partition(".")[0] for name in modules} - {"dpaudit", "builtins"}
    for name in sorted(names):
        state.update(_sources(name).encode())
    return {"code": state.hexdigest(), **environment()}


@functools.cache
def _package() -> str:
    """Digest of this package's source files, and of what these read as TOML."""
    files = Path(__file__).parents[1].rglob("*")
    return _digest(path for path in files if path.suffix in {".py", ".toml"})


def _sources(name: str) -> str:
    """Digest of the source files of a package, or of a module and those beside it."""
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None and name.isidentifier() and name not in sys.modules:
        spec = importlib.util.find_spec(name)
        file = spec.origin if spec else None
    if file is None:
        return name
    path = Path(file)
    return _digest(
        path.parent.rglob("*.py") if path.stem == "__init__" else path.parent.glob("*.py")
    )


def _digest(paths: Iterable[Path]) -> str:
    state = hashlib.blake2b(digest_size=16)
    for path in sorted(paths):
        state.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return state.hexdigest()
