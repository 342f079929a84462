from __future__ import annotations

import contextlib
import hashlib
import io
import os
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dpaudit.core.errors import DataError
from dpaudit.data import DATASETS, Dataset, DataSource, Terms, fetch, load


def zip_of(**members: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return content.getvalue()


GOOD = zip_of(**{"tiny/u.data": "1\t1\t3\t0\n1\t2\t4\t0\n", "tiny/README": "made up"})


def dataset_of(content: bytes, url: str) -> Dataset:
    return Dataset(
        name="tiny",
        title="Tiny",
        url=url,
        known_hash="sha256:" + hashlib.sha256(content).hexdigest(),
        ratings="u.data",
        terms=Terms("none", "none", "none"),
    )


@dataclass
class Site:
    """A web server whose pages the test sets; `cut` pages end before their stated length."""

    url: str
    pages: dict[str, bytes]
    cut: set[str]
    requests: list[str]

    def serve(self, content: bytes) -> Dataset:
        self.pages["/tiny.zip"] = content
        return dataset_of(content, f"{self.url}/tiny.zip")


@pytest.fixture
def site() -> Iterator[Site]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.requests.append(self.path)
            page = state.pages.get(self.path)
            if page is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page[: len(page) // 2] if self.path in state.cut else page)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state = Site(f"http://127.0.0.1:{server.server_port}", {}, set(), [])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        server.shutdown()
        thread.join()


@contextlib.contextmanager
def refusal(folder: Path, message: str) -> Iterator[None]:
    """The block raises a `DataError` with the message and leaves nothing in the folder."""
    with pytest.raises(DataError, match=message):
        yield
    assert not folder.exists() or not list(folder.iterdir())


@pytest.mark.parametrize("progress", [False, True])
def test_fetches_and_unpacks(site: Site, tmp_path: Path, progress: bool) -> None:
    folder = tmp_path / "not" / "there"
    target = fetch(site.serve(GOOD), folder, progress=progress)
    assert target == folder / "tiny"
    assert [path.name for path in folder.iterdir()] == ["tiny"]
    assert sorted(path.name for path in target.iterdir()) == ["README", "u.data"]
    ratings = load(DataSource(format="movielens-100k", path=str(target / "u.data")))
    assert ratings.value.tolist() == [3, 4]


def test_says_nothing_by_itself(
    site: Site, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fetch(site.serve(GOOD), tmp_path)
    assert capfd.readouterr() == ("", "")


def test_present_data_are_not_fetched_again(site: Site, tmp_path: Path) -> None:
    dataset = site.serve(GOOD)
    fetch(dataset, tmp_path)
    assert fetch(dataset, tmp_path) == tmp_path / "tiny"
    assert len(site.requests) == 1


def test_base_url_is_a_mirror(site: Site, tmp_path: Path) -> None:
    site.pages["/mirror/tiny.zip"] = GOOD
    dataset = dataset_of(GOOD, "http://127.0.0.1:9/no/tiny.zip")
    assert fetch(dataset, tmp_path, base_url=f"{site.url}/mirror/") == tmp_path / "tiny"


def test_wrong_checksum(site: Site, tmp_path: Path) -> None:
    dataset = replace(site.serve(GOOD), known_hash="sha256:" + "0" * 64)
    with refusal(tmp_path, "is not the published Tiny"):
        fetch(dataset, tmp_path)


def test_missing_page(site: Site, tmp_path: Path) -> None:
    dataset = dataset_of(GOOD, f"{site.url}/tiny.zip")
    with refusal(tmp_path, "404"):
        fetch(dataset, tmp_path)


def test_connection_closes_mid_body(site: Site, tmp_path: Path) -> None:
    dataset = site.serve(GOOD)
    site.cut.add("/tiny.zip")
    with refusal(tmp_path, "broke off"):
        fetch(dataset, tmp_path)


@pytest.mark.parametrize("base_url", ["http://127.0.0.1:9", "nonsense://x"])
def test_no_server(tmp_path: Path, base_url: str) -> None:
    with refusal(tmp_path, "broke off"):
        fetch(dataset_of(GOOD, "http://x/tiny.zip"), tmp_path, base_url=base_url)


@pytest.mark.cases("name", ["../out", "/out", "tiny/../../out", "..\\out", "C:\\out", ".", "./"])
def test_members_stay_in_the_folder(site: Site, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "data"
    with refusal(folder, "leads out of its folder"):
        fetch(site.serve(zip_of(**{"tiny/u.data": "", name: "evil"})), folder)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_zip_without_the_ratings(site: Site, tmp_path: Path) -> None:
    with refusal(tmp_path, "holds no tiny/u.data"):
        fetch(site.serve(zip_of(**{"other/u.data": ""})), tmp_path)


@pytest.mark.parametrize("content", [b"no zip", GOOD[:60] + b"\xff" * 10 + GOOD[70:]])
def test_damaged_zip(site: Site, tmp_path: Path, content: bytes) -> None:
    with refusal(tmp_path, "is damaged"):
        fetch(site.serve(content), tmp_path)


@pytest.mark.long
def test_zip_bomb(site: Site, tmp_path: Path) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("tiny/u.data", "tiny/more"):
            with archive.open(name, "w") as member:
                for _ in range(600):
                    member.write(bytes(2**20))
    with refusal(tmp_path, "unpacks to more than 1 GiB: choose another mirror"):
        fetch(site.serve(content.getvalue()), tmp_path)


def test_locked_zip(site: Site, tmp_path: Path) -> None:
    content = bytearray(GOOD)
    for header, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        content[content.index(header) + flags] |= 1
    with refusal(tmp_path, "is damaged .* is encrypted"):
        fetch(site.serve(bytes(content)), tmp_path)


def test_hostile_names_in_messages(site: Site, tmp_path: Path) -> None:
    with refusal(tmp_path, r"holds '\.\./\\x1b\[31mx+…, which leads"):
        fetch(site.serve(zip_of(**{"../\x1b[31m" + "x" * 900: ""})), tmp_path)


def test_links_are_written_as_files(site: Site, tmp_path: Path) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("tiny/u.data", "1\t1\t3\t0\n")
        link = zipfile.ZipInfo("tiny/link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    target = fetch(site.serve(content.getvalue()), tmp_path)
    assert not (target / "link").is_symlink()


def test_foreign_folder_is_kept(tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "mine").write_text("mine")
    with pytest.raises(DataError, match=r"exists without u\.data"):
        fetch(dataset_of(GOOD, "http://x/tiny.zip"), tmp_path)
    assert (tmp_path / "tiny" / "mine").read_text() == "mine"


def test_folder_that_is_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "file"
    folder.write_text("x")
    with pytest.raises(DataError, match="cannot be written"):
        fetch(dataset_of(GOOD, "http://x/tiny.zip"), folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="the super-user may write everywhere")
def test_folder_without_permission(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    with pytest.raises(DataError, match="cannot be written"):
        fetch(dataset_of(GOOD, "http://x/tiny.zip"), folder)


@pytest.mark.parametrize("name", ["ml-100k", "ml-1m"])
def test_published_sets(name: str) -> None:
    dataset = DATASETS[name]
    assert dataset.name == name
    assert dataset.url == f"https://files.grouplens.org/datasets/movielens/{name}.zip"
    assert len(dataset.known_hash) == len("md5:") + 32
    assert "10.1145/2827872" in dataset.terms.citation
    assert dataset.terms.url.endswith(f"{name}-README.txt")
