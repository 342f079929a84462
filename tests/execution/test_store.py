"""The store: what it keeps, and what it does with faults of the disk and with other runs."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from dpaudit.core.errors import ConfigError, RunError
from dpaudit.execution.store import NAME, Store, _digest, count, opened, read, seed_in, words_of
from dpaudit.execution.tasks import Result

IDENTITY = {"code": "a", "seed": "7"}
VALUES: list[Result] = [
    np.arange(5.0), np.array([[True], [False]]), "text with ε", np.zeros((0, 3), np.float32),
]  # fmt: skip


def filled(folder: Path, values: list[Result] = VALUES) -> Path:
    with opened(folder, IDENTITY) as store:
        for number, value in enumerate(values):
            store.put(f"key {number}", "stage", 1, 0.5, value)
    return folder / NAME


def same(one: Result | None, other: Result) -> bool:
    if isinstance(one, str) or isinstance(other, str) or one is None:
        return one == other
    return one.dtype == other.dtype and np.array_equal(one, other)


def held(store: Store) -> list[int]:
    """Numbers of the results that the store holds, each equal to what was put."""
    there = [number for number in range(len(VALUES)) if store.get(f"key {number}") is not None]
    assert all(same(store.get(f"key {number}"), VALUES[number]) for number in there)
    return there


def test_results_come_back_as_they_were(tmp_path: Path) -> None:
    path = filled(tmp_path / "new" / "folder")
    notes: list[str] = []
    with opened(path.parent, IDENTITY, note=notes.append) as store:
        assert held(store) == [0, 1, 2, 3]
        assert store.get("key 4") is None
        assert notes == []
    assert path.stat().st_mode & 0o077 == 0  # nobody else reads it


def test_what_was_not_yet_committed_is_there_too(tmp_path: Path) -> None:
    with opened(tmp_path, IDENTITY) as store:
        store.put("key 0", "stage", 1, 0.5, VALUES[0])
        store.put("key 1", "stage", 1, 0.5, VALUES[1])
        assert held(store) == [0, 1]


@pytest.mark.parametrize("name", ["code", "seed"])
def test_the_store_of_another_run_is_not_used_and_it_says_why(tmp_path: Path, name: str) -> None:
    filled(tmp_path)
    notes: list[str] = []
    with opened(tmp_path, IDENTITY | {name: "other"}, note=notes.append) as store:
        assert held(store) == []
        [note] = notes
    assert "is of another run (other " in note
    assert name in note
    assert "starts anew" in note
    notes.clear()
    with opened(tmp_path, IDENTITY | {name: "other"}, note=notes.append) as store:
        assert notes == []


def test_fresh_drops_what_is_there(tmp_path: Path) -> None:
    filled(tmp_path)
    notes: list[str] = []
    with opened(tmp_path, IDENTITY, fresh=True, note=notes.append) as store:
        assert held(store) == []
        assert notes == []


def test_two_runs_in_one_folder_are_refused(tmp_path: Path) -> None:
    with (
        opened(tmp_path, IDENTITY),
        pytest.raises(ConfigError, match="another run works in"),
        opened(tmp_path, IDENTITY),
    ):
        pass
    with opened(tmp_path, IDENTITY):  # the lock is given back
        pass


def test_a_run_that_is_refused_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="refused"), opened(tmp_path / "out", IDENTITY):
        raise ConfigError("refused")
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_fails_keeps_its_results(tmp_path: Path) -> None:
    def failing() -> None:
        with opened(tmp_path, IDENTITY) as store:
            store.put("key 0", "stage", 1, 0.5, VALUES[0])
            raise RunError("failed")

    with pytest.raises(RunError, match="failed"):
        failing()
    with opened(tmp_path, IDENTITY) as store:
        assert held(store) == [0]


@pytest.mark.long
def test_no_flipped_byte_gives_a_wrong_result(tmp_path: Path) -> None:
    path = filled(tmp_path)
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    counts = []
    for place in [*range(0, 100, 3), *rng.integers(0, len(good), 400).tolist()]:
        changed = bytearray(good)
        changed[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(changed))
        notes: list[str] = []
        with opened(tmp_path, IDENTITY, note=notes.append) as store:
            # Damage is told; or the byte is one that SQLite does not read.
            assert notes or held(store) == [0, 1, 2, 3]
            counts.append(len(held(store)))
            for number, value in enumerate(VALUES):
                store.put(f"key {number}", "stage", 1, 0.5, value)
        notes.clear()
        with opened(tmp_path, IDENTITY, note=notes.append) as store:
            assert held(store) == [0, 1, 2, 3]
            assert notes == []
    assert min(counts) < 4  # some changes hit a result


def test_a_truncated_file_is_told_and_mended(tmp_path: Path) -> None:
    big: list[Result] = [np.full(20_000, float(number)) for number in range(20)]
    path = filled(tmp_path, big)
    good = path.read_bytes()
    for size in [0, 1, 100, 4096, *range(10_000, len(good), len(good) // 12)]:
        path.write_bytes(good[:size])
        notes: list[str] = []
        with opened(tmp_path, IDENTITY, note=notes.append) as store:
            assert len(notes) == 1
            there = [number for number in range(20) if store.get(f"key {number}") is not None]
            assert all(same(store.get(f"key {number}"), big[number]) for number in there)


def test_a_commit_that_was_cut_is_rolled_back(tmp_path: Path) -> None:
    filled(tmp_path)
    with closing(sqlite3.connect(tmp_path / NAME)) as file:
        file.execute("pragma cache_size = 1")
        file.execute("insert into results select key || 'x', stage, size, seconds, kind, "
                     "zeroblob(100000), digest from results")  # fmt: skip
        # The copy has the journal of a transaction that never ended, as after a power loss.
        other = tmp_path / "other"
        other.mkdir()
        for path in tmp_path.glob(f"{NAME}*"):
            (other / path.name).write_bytes(path.read_bytes())
    assert (other / f"{NAME}-journal").exists()
    notes: list[str] = []
    with opened(other, IDENTITY, note=notes.append) as store:
        assert held(store) == [0, 1, 2, 3]
        assert notes == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)],  # noqa: S607
        check=False,
        capture_output=True,
    )
    if done.returncode:
        pytest.skip("only root can mount a small file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)  # noqa: S607


def test_a_full_disk_is_one_sentence_and_loses_no_committed_result(small_disk: Path) -> None:
    filled(small_disk)
    (small_disk / "ballast").write_bytes(bytes(150_000))

    def filling() -> None:
        with opened(small_disk, IDENTITY) as store:
            for number in range(4, 40):
                store.put(f"key {number}", "stage", 1, 0.5, np.zeros(5_000))
                store.flush()

    with pytest.raises(RunError, match="cannot be written") as failed:
        filling()
    assert "full" in str(failed.value)
    assert "free the disk" in str(failed.value)
    (small_disk / "ballast").unlink()
    notes: list[str] = []
    with opened(small_disk, IDENTITY, note=notes.append) as store:
        assert held(store) == [0, 1, 2, 3]
        assert notes == []


def test_a_disk_that_is_full_at_the_end_costs_no_finished_run(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpaudit.execution.store._LEAST", 600.0)
    filled(small_disk)
    (small_disk / "ballast").write_bytes(bytes(150_000))
    said: list[str] = []
    with opened(small_disk, IDENTITY, note=said.append) as store:
        store.flush()  # the next commit is at the end
        for number in range(4, 40):
            store.put(f"key {number}", "stage", 1, 0.5, np.zeros(5_000))
    assert [("cannot be written" in note, "full" in note) for note in said] == [(True, True)]


def test_a_run_that_is_stopped_as_it_opens_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dpaudit.execution.store.json.dumps", stopped)
    with pytest.raises(KeyboardInterrupt), opened(tmp_path / "out", IDENTITY):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ConfigError, match="cannot be written"), opened(tmp_path, IDENTITY):
            pass
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.cases("name", [NAME, f".{NAME}.lock"])
def test_a_link_is_not_followed(tmp_path: Path, name: str) -> None:
    mine = tmp_path / f"mine{name}"
    mine.write_text("mine")
    (tmp_path / name).symlink_to(mine)
    with pytest.raises(ConfigError, match="is a symbolic link"), opened(tmp_path, IDENTITY):
        pass
    (tmp_path / name).unlink()
    assert mine.read_text() == "mine"


def test_the_seed_of_a_run_is_used_again_only_with_its_code(tmp_path: Path) -> None:
    path = filled(tmp_path)
    assert seed_in(path, {"code": "a"}) == 7
    assert seed_in(path, {"code": "b"}) is None
    assert seed_in(tmp_path / "none", {"code": "a"}) is None
    path.write_bytes(b"no database")
    assert words_of(path) == {}
    assert seed_in(path, {"code": "a"}) is None


def test_what_is_stored_is_listed_by_stage(tmp_path: Path) -> None:
    with opened(tmp_path, IDENTITY) as store:
        store.put("a", "first", 3, 0.5, "1234")
        store.put("b", "second", 4, 1.0, "1")
        store.put("c", "first", 5, 0.25, "12")
        store.set("trials", "20")
    assert count(tmp_path / NAME) == 3
    assert count(tmp_path / "none") == 0
    contents = read(tmp_path / NAME)
    first = contents.stages["first"]
    assert (first.tasks, first.trials, first.size, first.seconds) == (2, 8, 6, 0.75)
    assert list(contents.stages) == ["first", "second"]
    assert contents.meta["trials"] == "20"
    assert contents.identity == IDENTITY
    assert contents.damage == ""


def test_a_read_only_file_system_is_refused(small_disk: Path) -> None:
    filled(small_disk)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)  # noqa: S607
    with pytest.raises(ConfigError, match="cannot be written"), opened(small_disk, IDENTITY):
        pass
    with pytest.raises(ConfigError, match="cannot be written"), opened(small_disk / "a", IDENTITY):
        pass


def written(path: Path, row: tuple[object, ...], **words: str) -> None:
    """Add a result and words to a store, as whoever knows the format of digests can."""
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("insert into results values (?, ?, ?, ?, ?, ?, ?)", (*row, _digest(row)))
        file.executemany("insert or replace into meta values (?, ?)", words.items())


def archive() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, array=np.zeros(10))
    return file.getvalue()


def pickled() -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([Path()]), allow_pickle=True)
    return file.getvalue()


def header(shape: str) -> bytes:
    words = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(words).to_bytes(2, "little") + words.encode()


@pytest.mark.cases(
    "value",
    [b"", b"no array", archive(), pickled(), header("(10**14,)"), header("(100000000000000,)"),
     header("(-1,)"), header("(" * 5000)],
)  # fmt: skip
def test_a_value_that_is_no_array_is_no_result(tmp_path: Path, value: bytes) -> None:
    path = filled(tmp_path / str(abs(hash(value))), [])
    written(path, ("key", "stage", 1, 0.5, "npy", value))
    with opened(path.parent, IDENTITY) as store:
        assert store.get("key") is None


@pytest.mark.cases(
    "row",
    [
        ("key", "stage", "many", 0.5, "text", b"x"),
        ("key", "stage", 1, "long", "text", b"x"),
        ("key", b"stage", 1, 0.5, "text", b"x"),
        (b"key", "stage", 1, 0.5, "text", b"x"),
    ],
)
def test_a_result_of_other_types_is_damaged(tmp_path: Path, row: tuple[object, ...]) -> None:
    path = filled(tmp_path / str(abs(hash(row))))
    written(path, row)
    contents = read(path)
    assert len(contents.keys) == len(VALUES)
    assert "is damaged" in contents.damage


@pytest.mark.cases(
    "words",
    [
        {"identity": "[" * 100_000},
        {"identity": '{"code": ["a"], "seed": "7"}'},
        {"identity": '"a"'},
        {"identity": json.dumps({"code": "a", "seed": "9" * 5000})},
        {"format": "2"},
    ],
)
def test_words_of_others_name_no_seed(tmp_path: Path, words: dict[str, str]) -> None:
    path = filled(tmp_path / str(abs(hash(str(words)))))
    written(path, ("key", "stage", 1, 0.5, "text", b"x"), **words)
    assert seed_in(path, {"code": "a"}) is None
    assert len(read(path).keys) == len(VALUES) + 1
