"""Files are written whole or not at all, and places that cannot be written are refused first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpaudit.core.errors import ConfigError
from dpaudit.core.files import check_writable, own_folder, read_text, write_set, write_text

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
    with pytest.raises(ConfigError, match=r"kept\.txt cannot be written \(No space"):
        write_text(place, "new")
    assert place.read_text(encoding="utf-8") == "old"
    assert os.listdir(tmp_path) == ["kept.txt"]


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_not_followed(tmp_path: Path, there: bool) -> None:
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    if there:
        real.write_text("old", encoding="utf-8")
    link.symlink_to(real)
    with pytest.raises(ConfigError, match="is a symbolic link"):
        write_text(link, "new")
    with pytest.raises(ConfigError, match="is a symbolic link"):
        check_writable([link])
    assert link.is_symlink()
    assert real.exists() == there
    assert not there or real.read_text(encoding="utf-8") == "old"


def test_a_link_to_a_pipe_is_the_shells(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(os.devnull)
    check_writable([link])
    write_text(link, "gone")
    assert link.is_symlink()


KILLED = """
import os, signal, sys
from pathlib import Path
from dpaudit.core.files import write_set
calls = 0
def counted(name):
    before = getattr(Path, name)
    def after(self, *arguments, **options):
        global calls
        calls += 1
        if calls == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        return before(self, *arguments, **options)
    setattr(Path, name, after)
for name in ("open", "replace", "unlink"):
    counted(name)
folder = Path(sys.argv[1])
write_set({folder / name: "new" for name in ("record.json", "report.html", "report.md")})
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_killed_process_leaves_no_new_file_beside_an_old_one(tmp_path: Path) -> None:
    ended = []
    for step in range(1, 20):
        folder = tmp_path / str(step)
        folder.mkdir()
        for name in ("record.json", "report.html", "report.md"):
            (folder / name).write_text("old", encoding="utf-8")
        command = [sys.executable, "-c", KILLED, str(folder), str(step)]
        ended.append(subprocess.run(command, check=False, capture_output=True).returncode)
        texts = {path.name: path.read_text() for path in folder.iterdir() if path.name[0] != "."}
        assert texts["record.json"] in ("old", "new")
        assert set(texts.values()) == {texts["record.json"]}
        if not ended[-1]:
            break
    assert ended[-1] == 0  # the last was not killed, and every step before it was
    assert len(ended) > 6
    assert texts == dict.fromkeys(("record.json", "report.html", "report.md"), "new")
    assert not list(folder.glob(".*"))


def test_a_full_disk_changes_no_file_of_a_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "record.json", tmp_path / "report.md"
    write_set({first: "old", second: "old"})

    def full(descriptor: int) -> None:
        if any("report.md" in path.name for path in tmp_path.glob(".*")):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match=r"report\.md cannot be written \(No space"):
        write_set({first: "new", second: "new"})
    assert [path.read_text() for path in (first, second)] == ["old", "old"]
    assert sorted(os.listdir(tmp_path)) == ["record.json", "report.md"]


def test_drafts_of_two_processes_cannot_meet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafts = set[Path]()
    monkeypatch.setattr(os, "fsync", lambda descriptor: drafts.update(tmp_path.glob(".*")))
    for _ in range(2):
        write_text(tmp_path / "a.txt", "text")
    assert len(drafts) == 2


def test_what_is_no_file_is_written_to_and_not_replaced() -> None:
    write_text(Path(os.devnull), "gone")
    assert not Path(os.devnull).is_file()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path):
        with pytest.raises(ConfigError, match="a pipe or a device: give a file"):
            read_text(place, 100)


def test_a_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("ε" * 100, encoding="utf-8")
    assert read_text(tmp_path / "file", 100) == "ε" * 100
    with pytest.raises(ConfigError, match="has more than 99 characters"):
        read_text(tmp_path / "file", 99)


@pytest.mark.cases("encoding", ["UTF-16", "UTF-16-LE", "ISO-8859-1"])
def test_text_of_another_encoding_is_refused_with_the_remedy(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "file").write_text("a = 'é'", encoding=encoding)
    family = encoding.removesuffix("-LE")
    with pytest.raises(ConfigError, match=f"{family} .*'iconv -f {family} -t UTF-8'"):
        read_text(tmp_path / "file", 100)


@pytest.mark.parametrize("link", ["dpaudit-out", "dpaudit-out/run"])
def test_a_checkout_cannot_lead_outputs_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert own_folder("run") == tmp_path / "dpaudit-out/run"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / link).parent.mkdir(exist_ok=True)
    (tmp_path / link).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=f"{link} is a symbolic link: .* -o"):
        own_folder("run")


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
