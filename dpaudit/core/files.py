"""Read files up to a size limit; write them atomically, alone or as a set."""

from __future__ import annotations

import codecs
import os
import secrets
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dpaudit.core.errors import ConfigError
from dpaudit.core.messages import place


def read_text(path: Path, most: int) -> str:
    """Read a file of at most `most` characters.

    Raises:
        ConfigError: it has more, is not UTF-8 text, or is a folder, a pipe or a device, which could
            block; pipes that the shell makes of a command (`/dev/fd`) are read.
        OSError: it cannot be read.
    """
    check_readable(path)
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(most + 1)
    except UnicodeDecodeError as error:
        marked = error.object.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        wide = marked or b"\0" in error.object
        raise _not_utf8(path, "UTF-16" if wide else "ISO-8859-1") from error
    if "\0" in text:  # as in UTF-16 without a mark
        raise _not_utf8(path, "UTF-16")
    if len(text) > most:
        raise ConfigError(f"{place(path)} has more than {most} characters: give a smaller file")
    return text


def check_readable(path: Path) -> None:
    """Refuse what could block.

    Raises:
        ConfigError: it is a folder, a pipe or a device; pipes that the shell makes of a command
            (`/dev/fd`) are read.
        OSError: there is no such file.
    """
    if not stat.S_ISREG(path.stat().st_mode) and path.parent != Path("/dev/fd"):
        raise ConfigError(f"{place(path)} is a folder, a pipe or a device: give a file")


def _not_utf8(path: Path, encoding: str) -> ConfigError:
    return ConfigError(
        f"{place(path)} is not UTF-8 text but looks like {encoding} (or is no text at all): save "
        f"it as UTF-8, as by 'iconv -f {encoding} -t UTF-8'"
    )


def nested(value: Any, depth: int) -> bool:
    """Whether tables and lists of a parsed file are nested deeper than `depth`."""
    if not isinstance(value, dict | list):
        return False
    inside = value.values() if isinstance(value, dict) else value
    return depth == 0 or any(nested(part, depth - 1) for part in inside)


def unwritable(value: Any) -> str | None:
    """Return a text in tables and lists, a key too, that UTF-8 cannot write; None if there is none.

    Bytes of a command line that are no UTF-8 become such text.
    """
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value
        return None
    if not isinstance(value, dict | list):
        return None
    parts = [*value, *value.values()] if isinstance(value, dict) else value
    return next((text for part in parts if (text := unwritable(part)) is not None), None)


def write_text(path: Path, text: str) -> None:
    """Write a file atomically; create its folders if they are missing.

    Raises:
        ConfigError: it cannot be written, or is a symbolic link; an existing file stays unchanged.
    """
    write_set({path: text})


def write_set(texts: Mapping[Path, str]) -> None:
    """Write files that belong together, so that old and new ones are never mixed.

    All are first written to drafts beside their paths, so a full disk changes nothing. Then the old
    files made from the first are deleted, the first is replaced, and then the others. Whenever the
    process is killed, every file that exists belongs to the first file as it is then.

    Args:
        texts: the text of each path; the first is the file that the others are made from.

    Raises:
        ConfigError: a file cannot be written, or is a symbolic link.
    """
    drafts: dict[Path, Path] = {}
    path = Path()
    try:
        for path, text in texts.items():
            _refuse_link(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            if _replaceable(path):
                drafts[path] = _draft(path, text)
        for path in [*drafts][1:]:
            path.unlink(missing_ok=True)
        for path, text in texts.items():
            if path in drafts:
                drafts[path].replace(path)
            else:  # a pipe or a terminal cannot be replaced
                path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise ConfigError(
            f"{place(path)} cannot be written ({error.strerror}): name another place"
        ) from error
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)


def own_folder(name: str) -> Path:
    """Return the default output folder, `dpaudit-out/NAME` below the current one; absolute.

    Raises:
        ConfigError: one of the two folders is a symbolic link, which a checkout may contain.
    """
    folder = Path("dpaudit-out") / name
    for path in (folder.parent, folder):
        if path.is_symlink():
            raise ConfigError(f"{path} is a symbolic link: remove it, or name a folder with -o")
    return folder.absolute()


def check_writable(paths: Iterable[Path]) -> None:
    """Refuse paths that cannot be written, before any work is done.

    Raises:
        ConfigError: a file stands where a folder is needed, a folder is not writable, or a path is
            a symbolic link.
    """
    for path in paths:
        if path == Path("-"):
            continue
        _refuse_link(path)
        folder = next(parent for parent in path.resolve().parents if parent.exists())
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK) or path.is_dir():
            raise ConfigError(
                f"{place(path)} cannot be written below {place(folder)}: name another place"
            )


def _refuse_link(path: Path) -> None:
    """Refuse a link to a file, which another user may have placed; the shell links to pipes."""
    if path.is_symlink() and _replaceable(path):
        raise ConfigError(
            f"{place(path)} is a symbolic link, which is not followed: remove it, or name the file "
            "itself"
        )


def _replaceable(path: Path) -> bool:
    """Whether a file can replace this path: it is neither a pipe nor a terminal."""
    return path.is_dir() or path.is_file() or not path.exists()


def _draft(path: Path, text: str) -> Path:
    """Write the text beside the path, to a new file with an unpredictable name."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.draft")
    try:
        with draft.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return draft
