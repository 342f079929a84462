"""Files are written whole or not at all, and places that cannot be written are refused first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dpaudit.errors import ConfigError
from dpaudit.files import check_writable, write_text

not_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere"
)


def test_text_is_written_as_it_is_and_folders_are_made(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b" / "c.txt"
    write_text(place, "ε ≤ 1\nend\n")
    assert place.read_bytes() == "ε ≤ 1\nend\n".encode()
    write_text(place, "")
    assert place.read_bytes() == b""
    assert os.listdir(place.parent) == ["c.txt"]


def test_a_failed_write_leaves_what_was_there_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "kept.txt"
    write_text(place, "old")

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ConfigError, match=r"kept\.txt cannot be written \(No space left"):
        write_text(place, "new")
    assert place.read_text(encoding="utf-8") == "old"
    assert os.listdir(tmp_path) == ["kept.txt"]


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old", encoding="utf-8")
    link.symlink_to(real)
    write_text(link, "new")
    assert link.is_symlink()
    assert real.read_text(encoding="utf-8") == "new"


def test_what_is_no_file_is_written_to_and_not_replaced() -> None:
    write_text(Path(os.devnull), "gone")
    assert not Path(os.devnull).is_file()


def test_a_folder_cannot_be_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        write_text(tmp_path, "text")
    with pytest.raises(ConfigError, match="cannot be written below"):
        check_writable([tmp_path])


def test_a_file_cannot_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    inside = tmp_path / "file" / "below" / "x.json"
    with pytest.raises(ConfigError, match="name another place"):
        check_writable([inside])
    with pytest.raises(ConfigError, match="name another place"):
        write_text(inside, "text")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


@not_root
def test_a_folder_that_admits_no_file_is_refused(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    with pytest.raises(ConfigError, match="name another place"):
        check_writable([closed / "x.json"])


def test_writable_places_and_standard_output_pass_and_nothing_is_made(tmp_path: Path) -> None:
    check_writable([Path("-"), tmp_path / "new" / "deep" / "x.json", tmp_path / "x.json"])
    assert os.listdir(tmp_path) == []
