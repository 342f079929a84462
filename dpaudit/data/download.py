"""Download public data sets from their publishers and verify their checksums."""

from __future__ import annotations

import logging
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from dpaudit.core.errors import DataError
from dpaudit.core.messages import quoted, show
from dpaudit.data import limits

_GROUPLENS = "https://files.grouplens.org/datasets/movielens"
_CITATION = (
    "F. Maxwell Harper and Joseph A. Konstan. 2015. The MovieLens Datasets: History and Context. "
    "ACM Transactions on Interactive Intelligent Systems 5(4):19. "
    "https://doi.org/10.1145/2827872"
)
_TIMEOUT_S = 60
_LARGEST = limits.GIB  # all members together, in bytes; the published sets are smaller than 30 MiB


@dataclass(frozen=True)
class Terms:
    """The terms of a publisher.

    Attributes:
        summary: a summary of the conditions; only the publisher's text is binding.
        url: the publisher's full text.
        citation: the work to cite.
    """

    summary: str
    url: str
    citation: str


@dataclass(frozen=True)
class Dataset:
    """A data set that is published as one zip file.

    Attributes:
        name: the folder in the zip file, and the folder it is unpacked to.
        title: its name in a sentence.
        url: the zip file's address.
        known_hash: the zip file's checksum, as `algorithm:hexadecimal`.
        ratings: the file of ratings inside the folder.
        terms: the terms of the publisher.
    """

    name: str
    title: str
    url: str
    known_hash: str
    ratings: str
    terms: Terms


_TERMS = (
    "Free for research. Acknowledge the data set in publications. Do not redistribute it, use it "
    "commercially or for revenue without permission, or suggest that the University of Minnesota "
    "or GroupLens endorses you. No warranty."
)
DATASETS: Mapping[str, Dataset] = MappingProxyType(
    {
        name: Dataset(
            name,
            title,
            f"{_GROUPLENS}/{name}.zip",
            known_hash,
            ratings,
            Terms(_TERMS, f"{_GROUPLENS}/{name}-README.txt", _CITATION),
        )
        for name, title, known_hash, ratings in (
            ("ml-100k", "MovieLens 100K", "md5:0e33842e24a9c977be4e0107933c0723", "u.data"),
            ("ml-1m", "MovieLens 1M", "md5:c4d9eecfca2ab87c1945afe126590906", "ratings.dat"),
        )
    }
)


def fetch(
    dataset: Dataset, folder: Path, *, base_url: str | None = None, progress: bool = False
) -> Path:
    """Download a data set into `folder` and unpack it, unless it already exists.

    Args:
        dataset: what to fetch, such as `DATASETS["ml-100k"]`.
        folder: the folder of data sets; created if missing.
        base_url: the address of a mirror; replaces everything before the name of the zip file.
        progress: whether to show a progress bar on the terminal.

    Returns:
        The folder `folder/<name>` that holds the data set's files.

    Raises:
        DataError: the download failed, is not the published file, or cannot be written; nothing
            half-written is left behind.
    """
    target = folder / dataset.name
    if (target / dataset.ratings).is_file():
        return target
    if target.exists():
        raise DataError(
            f"{target} exists without {dataset.ratings}: remove it or choose another folder"
        )
    url = dataset.url
    if base_url is not None:
        url = f"{base_url.rstrip('/')}/{PurePosixPath(url).name}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=f".{dataset.name}-") as temporary:
            archive = _download(dataset, url, Path(temporary), progress)
            _unpack(dataset, archive, Path(temporary) / "unpacked").rename(target)
    except OSError as error:
        raise DataError(
            f"{target} cannot be written ({error.strerror or error}): make room and allow "
            "writing, or choose another folder"
        ) from error
    return target


def _download(dataset: Dataset, url: str, folder: Path, progress: bool) -> Path:
    import pooch  # type: ignore[import-untyped]
    import requests

    # Suppress the message that pooch prints for each download.
    pooch.get_logger().setLevel(logging.WARNING)
    downloader = pooch.HTTPDownloader(progressbar=progress and _Bar(), timeout=_TIMEOUT_S)
    archive = folder / f"{dataset.name}.zip"
    try:
        pooch.retrieve(url, dataset.known_hash, archive.name, folder, downloader=downloader)
    except requests.HTTPError as error:
        raise DataError(
            f"the server refused the download ({quoted(str(error), 200)}): check the address or "
            "try again later"
        ) from error
    except requests.RequestException as error:
        raise DataError(
            f"the download of {url} broke off ({type(error).__name__}): check the connection and "
            "try again"
        ) from error
    except ValueError as error:  # raised by pooch for a wrong checksum
        raise DataError(
            f"{url} is not the published {dataset.title} (its checksum is not "
            f"{dataset.known_hash}): try again or choose another mirror"
        ) from error
    return archive


def _unpack(dataset: Dataset, archive: Path, folder: Path) -> Path:
    """Unpack the archive and return the data set's folder in it."""
    try:
        with zipfile.ZipFile(archive) as content:
            for name in content.namelist():
                path = PurePosixPath(name.replace("\\", "/"))
                if path.is_absolute() or ".." in path.parts or ":" in name or not path.parts:
                    raise DataError(
                        f"the zip file of {dataset.title} holds {show(name)}, which leads out of "
                        "its folder: choose another mirror"
                    )
            # zipfile unpacks no member beyond its stated size.
            if sum(member.file_size for member in content.infolist()) > _LARGEST:
                raise DataError(
                    f"the zip file of {dataset.title} unpacks to more than "
                    f"{_LARGEST // limits.GIB} GiB: choose another mirror"
                )
            content.extractall(folder)
    except (DataError, OSError):  # of the folder, not of the zip file
        raise
    except Exception as error:  # a damaged file can fail anywhere inside the parser
        raise DataError(
            f"the zip file of {dataset.title} is damaged ({quoted(str(error), 100)}): try again or "
            "choose another mirror"
        ) from error
    unpacked = folder / dataset.name
    if not (unpacked / dataset.ratings).is_file():
        raise DataError(
            f"the zip file of {dataset.title} holds no {dataset.name}/{dataset.ratings}: choose "
            "another mirror"
        )
    return unpacked


class _Bar:
    """The progress bar for pooch, which sets `total` and calls the methods."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, DownloadColumn, Progress

        self._progress: Any = Progress(BarColumn(), DownloadColumn())
        self._task = self._progress.add_task("download", total=None)
        self.total = 0

    def update(self, size: int) -> None:
        self._progress.start()
        self._progress.update(self._task, advance=size, total=self.total)

    def reset(self) -> None:
        self._progress.reset(self._task)

    def close(self) -> None:
        self._progress.stop()
