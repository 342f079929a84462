"""What a trained model leaves to be kept: a folder that is there whole, or not at all."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, runtime_checkable

from dpaudit.core.errors import ConfigError, RunError
from dpaudit.core.messages import place

# The bytes of a file that are read at once.
_AT_ONCE = 2**20


@runtime_checkable
class Saves(Protocol):
    """A trained model that can be kept."""

    def save(self, path: str) -> None:
        """Write the model to a file or a folder of this path, which does not exist yet."""
        ...


@contextmanager
def saved(folder: Path) -> Iterator[Path]:
    """Yield an empty folder, which replaces `folder` at the end; after an error it is removed.

    Raises:
        ConfigError: it cannot be written.
        RunError: nothing was written.
    """
    draft = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder.parent))
        yield draft
        if not any(draft.iterdir()):
            raise RunError("it wrote nothing to keep: let it write the trained model")
        draft.chmod(0o755)
        if folder.exists():
            shutil.rmtree(folder)
        draft.replace(folder)
    except OSError as error:
        raise ConfigError(
            f"recommender.save: {place(folder)} cannot be written ({error}): name another folder, "
            "or correct what writes the model"
        ) from error
    finally:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)


def digest_of_folder(folder: Path) -> str:
    """Return a SHA-256 digest of the names and the contents of all files in a folder.

    Raises:
        RunError: there is no such folder, or a file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        if not folder.is_dir():
            raise RunError(
                f"{place(folder)} of a judged training is missing: give recommender.save another "
                "folder, so that all are trained anew"
            )
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            name = path.relative_to(folder).as_posix().encode()
            digest.update(b"%d:%b%d:" % (len(name), name, path.stat().st_size))
            with path.open("rb") as file:
                while piece := file.read(_AT_ONCE):
                    digest.update(piece)
    except OSError as error:
        raise RunError(f"{place(folder)} cannot be read ({error.strerror})") from error
    return digest.hexdigest()
