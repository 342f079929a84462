"""Files: read up to a limit, written whole or not at all, alone or as a set."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dpaudit.core.errors import ConfigError


def read_text(path: Path, most: int) -> str:
    """Read a file of at most so many characters.

    Raises:
        ConfigError: it has more, or is a pipe or a device, which may keep its reader waiting; but
            for those that the shell makes of a command.
        OSError, UnicodeDecodeError: it cannot be read as UTF-8 text.
    """
    if not stat.S_ISREG(path.stat().st_mode) and path.parent != Path("/dev/fd"):
        raise ConfigError(f"{path} is a folder, a pipe or a device: give a file")
    with path.open(encoding="utf-8") as file:
        text = file.read(most + 1)
    if len(text) > most:
        raise ConfigError(f"{path} has more than {most} characters: give a smaller file")
    return text


def nested(value: Any, depth: int) -> bool:
    """Whether tables and lists of a parsed file are nested deeper than this."""
    if not isinstance(value, dict | list):
        return False
    inside = value.values() if isinstance(value, dict) else value
    return depth == 0 or any(nested(part, depth - 1) for part in inside)


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all; its folders are made if need be.

    Raises:
        ConfigError: it cannot be written, or is a symbolic link; what stood there before still
            does.
    """
    write_set({path: text})


def write_set(texts: Mapping[Path, str]) -> None:
    """Write files that belong together, so that old and new ones never stand side by side.

    All are written beside their places first: a full disk changes nothing. Then what is made from
    the first file is taken away, the first takes its place, and the others theirs: whenever the
    process is killed, each file that stands there belongs to the first.

    Args:
        texts: the files, first the one that the others are made from.

    Raises:
        ConfigError: one cannot be written, or is a symbolic link.
    """
    drafts: dict[Path, Path] = {}
    place = Path()
    try:
        for place, text in texts.items():
            _refuse_link(place)
            place.parent.mkdir(parents=True, exist_ok=True)
            if _replaceable(place):
                drafts[place] = _draft(place, text)
        for place in [*drafts][1:]:
            place.unlink(missing_ok=True)
        for place, text in texts.items():
            if place in drafts:
                drafts[place].replace(place)
            else:  # a pipe or a terminal cannot be replaced
                place.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise ConfigError(
            f"{place} cannot be written ({error.strerror}): name another place"
        ) from error
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)


def own_folder(name: str) -> Path:
    """The folder `dpaudit-out/NAME` below the current one, where nothing else is asked for.

    Raises:
        ConfigError: one of the two is a symbolic link, which a checkout may hold.
    """
    folder = Path("dpaudit-out") / name
    for place in (folder.parent, folder):
        if place.is_symlink():
            raise ConfigError(f"{place} is a symbolic link: remove it, or name a folder with -o")
    return folder


def check_writable(paths: Iterable[Path]) -> None:
    """Refuse places that cannot be written, before any work is done for them.

    Raises:
        ConfigError: a file stands where a folder must be made, a folder admits no new file, or a
            place is a symbolic link.
    """
    for path in paths:
        if path == Path("-"):
            continue
        _refuse_link(path)
        folder = next(parent for parent in path.resolve().parents if parent.exists())
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK) or path.is_dir():
            raise ConfigError(f"{path} cannot be written below {folder}: name another place")


def _refuse_link(path: Path) -> None:
    """Refuse a link to a file, which another user may have laid; one to a pipe is the shell's."""
    if path.is_symlink() and _replaceable(path):
        raise ConfigError(
            f"{path} is a symbolic link, which is not followed: remove it, or name the file itself"
        )


def _replaceable(path: Path) -> bool:
    """Whether a file can take this place: neither a pipe nor a terminal is there."""
    return path.is_dir() or path.is_file() or not path.exists()


def _draft(place: Path, text: str) -> Path:
    """Write beside the place, to a new file of a name that nobody can foresee."""
    draft = place.with_name(f".{place.name}.{secrets.token_hex(8)}.draft")
    try:
        with draft.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return draft
