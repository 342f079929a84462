"""Test the folder of compiled kernels: numba executes its files, so others must not write there."""

from __future__ import annotations

import grp
import os
import pickle
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dpaudit.kernels import jit

posix = pytest.mark.skipif(sys.platform == "win32", reason="file modes are of POSIX systems")
needs_root = pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() != 0,
    reason="only the administrator can make the files of another user",
)
SOMEBODY_ELSE = 54321
RUN = "from dpaudit.kernels.exact_noise import log_laplace_cdf; print(log_laplace_cdf(0.0))"


def run_kernel(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Call a kernel in a subprocess with the given home and temporary folders."""
    home = {"HOME": str(folder), "TMPDIR": str(folder)}
    unset = {"NUMBA_CACHE_DIR", "XDG_CACHE_HOME"}
    inherited = {key: value for key, value in os.environ.items() if key not in unset}
    return subprocess.run(
        [sys.executable, "-c", RUN],
        env={**inherited, **home, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


class Touch:
    """An object that creates a file when unpickled, in place of an attacker's code."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., None], tuple[Path]]:
        return Path.touch, (self.marker,)


def poisoned(base: Path, marker: Path) -> Path:
    """Make a cache in numba's format, owned by another user, whose index runs code."""
    run_kernel(base, NUMBA_CACHE_DIR=str(base)).check_returncode()
    indexes = list(base.rglob("*.nbi"))
    assert indexes
    for index in indexes:
        index.write_bytes(pickle.dumps(Touch(marker)))
    for place in (base, *base.rglob("*")):
        place.chmod(0o777)
        os.chown(place, SOMEBODY_ELSE, SOMEBODY_ELSE)
    return base


@pytest.mark.long
@needs_root
def test_a_cache_of_another_user_is_not_run(tmp_path: Path) -> None:
    base, marker = tmp_path / "cache", tmp_path / "marker"
    base.mkdir()
    poisoned(base, marker)
    folder = run_kernel(tmp_path, NUMBA_CACHE_DIR=str(base))
    assert not marker.exists()
    assert folder.returncode == 0, folder.stderr
    assert float(folder.stdout) == pytest.approx(-0.6931471805599453)
    assert f"{base} belongs to another user" in folder.stderr
    assert str(tmp_path / ".cache") in folder.stderr  # where they are kept instead


@pytest.mark.long
@needs_root
def test_kernels_are_not_looked_for_in_a_shared_temporary_folder(tmp_path: Path) -> None:
    shared, marker = tmp_path / "tmp", tmp_path / "marker"
    shared.mkdir()
    poisoned(shared, marker)
    shared.chmod(0o1777)
    os.chown(shared, 0, 0)
    folder = run_kernel(shared, HOME="/proc/nowhere")
    assert not marker.exists()
    assert folder.returncode == 0, folder.stderr
    assert "are kept nowhere" in folder.stderr


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that other users can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        if any(not above.stat().st_mode & 0o001 for above in folder.parents):
            pytest.skip("the temporary folder is closed to others")
        yield folder


@pytest.fixture
def kept(public: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Path | None]:
    """Return `cache_folder` for a user whose home is the folder `home` in a public folder."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(public / "home"))
    return jit.cache_folder.__wrapped__


@posix
@pytest.mark.parametrize(("mode", "above"), [(0o777, 0), (0o1777, 0), (0o707, 1), (0o777, 2)])
def test_a_folder_that_others_may_write_to_is_not_used(
    kept: Callable[[], Path | None], mode: int, above: int
) -> None:
    folder = kept()
    assert folder is not None
    folder.parent.chmod(0o755)
    place = (folder, *folder.parents)[above]
    place.chmod(mode)
    with pytest.warns(RuntimeWarning, match=f"others may write to {place}.*set NUMBA_CACHE_DIR"):
        assert kept() is None
    place.chmod(0o700)
    assert kept() == folder


@posix
def test_a_folder_that_others_cannot_reach_or_rename_is_used(
    kept: Callable[[], Path | None], public: Path
) -> None:
    folder = kept()
    assert folder is not None
    folder.parent.chmod(0o1777)  # sticky: users may rename only their own files
    assert kept() == folder
    folder.parent.chmod(0o777)
    (public / "home").chmod(0o700)  # no other user has access
    assert kept() == folder


@posix
def test_a_link_is_followed_before_it_is_judged(
    kept: Callable[[], Path | None], public: Path
) -> None:
    shared = public / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (public / "home").symlink_to(shared)
    with pytest.warns(RuntimeWarning, match=f"others may write to {shared}"):
        assert kept() is None


def test_a_file_in_the_current_folder_chooses_no_cache(
    kept: Callable[[], Path | None], public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(public)
    monkeypatch.setenv("XDG_CACHE_HOME", ".")
    monkeypatch.setenv("HOME", str(public / "own"))
    monkeypatch.setattr("numba.core.config.CACHE_DIR", "chosen")
    folder = kept()
    assert folder is not None
    assert folder.is_relative_to(public / "own")


@pytest.mark.long
def test_numba_reads_no_file_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kept").write_text("what nobody overwrites")
    settings = "chrome_trace: kept\ncache_locator_classes: no_such_module.Locator\n"
    Path(".numba_config.yaml").write_text(settings)
    ran = run_kernel(tmp_path)
    assert ran.stdout.startswith("-0.693"), ran.stderr  # log ½
    assert not ran.stderr
    assert Path("kept").read_text() == "what nobody overwrites"


@posix
def test_a_user_without_a_home_keeps_nothing_in_the_current_folder(
    kept: Callable[[], Path | None], public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(public)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with pytest.warns(RuntimeWarning, match="are kept nowhere.*there is no home folder"):
        assert kept() is None
    assert not list(public.iterdir())


@posix
def test_a_group_with_other_members_is_others(
    kept: Callable[[], Path | None], public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = kept()
    assert folder is not None
    user = pwd.getpwuid(os.geteuid()).pw_name
    (public / "home").chmod(0o775)
    for members, safe in (([], True), ([user], True), ([user, "somebody"], False)):
        group = grp.struct_group((user, "x", os.getegid(), members))
        monkeypatch.setattr("grp.getgrgid", lambda number, group=group: group)
        assert (jit.unsafe(folder) is None) == safe


@posix
def test_a_chosen_folder_that_is_refused_is_told(
    kept: Callable[[], Path | None], public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (public / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(public / "file"))
    with pytest.warns(RuntimeWarning, match="are kept in .*home.*file.* cannot be written"):
        folder = kept()
    assert folder is not None
    assert folder.is_relative_to(public / "home")
    assert folder.stat().st_mode & 0o777 == 0o700
