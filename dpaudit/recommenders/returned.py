"""Trainings that the user did elsewhere: what `dpaudit split` handed out, and what came back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path

import numpy as np
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.errors import ConfigError, RunError
from dpaudit.core.files import read_text
from dpaudit.core.messages import place
from dpaudit.core.plugin import STRICT
from dpaudit.data.interactions import Interactions
from dpaudit.recommenders.base import Answer, Query, Trainable
from dpaudit.recommenders.command import Folder, Shown
from dpaudit.recommenders.exchange import Exchange, Format

# Says which data a folder's training was handed out with.
_SEAL = "seal.json"
# The most characters of one.
_LONGEST = 1_000


@parameters(frozen=True, config=STRICT)
class Returned(Trainable):
    """Read what trainings show that were done elsewhere, one folder each.

    A folder is named by the seed of its training. Its seal is a digest of the data that were handed
    out, so that what another split or other data gave is refused. The coins stand in no file.

    Attributes:
        returned: the folder of all trainings.
        format: of all tables: `csv` or `parquet`.
        shows: what came back: `scores`, `lists`, `factors`, `histories`, as of a command.
        predicts_ratings: whether scores are predicted ratings; otherwise only their order counts.
        cwd: the folder from which a relative `returned` counts.
    """

    returned: Folder
    format: Format = "csv"
    shows: list[Shown] = field(default_factory=lambda: ["scores", "lists"])
    predicts_ratings: bool = False
    cwd: Folder = Path()

    @property
    def leaves_out(self) -> Collection[str]:
        """What did not come back."""
        return {"scores", "lists"} - set(self.shows)

    @property
    def answers_histories(self) -> bool:
        """Whether scores after histories came back."""
        return "histories" in self.shows

    @property
    def trains(self) -> bool:
        """It trains nothing."""
        return False

    def hand_out(self, interactions: Interactions, seed: int, query: Query) -> Path:
        """Write the data of a training and what is asked of it; return its folder.

        A folder of the same training is left as it is, so more trainings extend a split.

        Raises:
            FileExistsError: the folder exists, and is not of this training.
            OSError: it cannot be written.
            ConfigError: the format is parquet, and pyarrow is not installed.
        """
        files = self._files(interactions, seed, query)
        path = files.folder / _SEAL
        seal = _sealed(interactions, seed, query)
        if not path.exists() or read_text(path, _LONGEST) != seal:
            files.folder.mkdir(parents=True)
            files.write(interactions, seed)
            path.write_text(seal, encoding="utf-8")
        return files.folder

    def answer(self, interactions: Interactions, seed: int, query: Query) -> Answer:
        """Return what came back of a training with these data and this seed.

        Raises:
            RunError: it did not come back, was handed out with other data, its file of interactions
                was changed, or what it wrote is missing or wrong.
        """
        files = self._files(interactions, seed, query)
        folder = place(files.folder)
        try:
            seal = read_text(files.folder / _SEAL, _LONGEST)
        except FileNotFoundError as error:
            raise RunError(
                f"the training with seed {seed} has no folder {folder}: run 'dpaudit split' with "
                "this config, and train on what it writes"
            ) from error
        except (OSError, ConfigError) as error:
            raise RunError(f"{folder}/{_SEAL} cannot be read: split the data anew") from error
        if seal != _sealed(interactions, seed, query):
            raise RunError(
                f"{folder} was handed out with other data, targets or questions than this config "
                "has: run the config that was split, or split the data anew"
            )
        with _named(folder):
            same = files.still_holds(interactions)
        if not same:
            raise RunError(
                f"the interactions in {folder} are not those that were handed out, so the coins "
                "do not say what was trained on: split the data anew, and train on all of what is "
                "written and on nothing else"
            )
        with _named(folder):
            return files.read()

    def _files(self, interactions: Interactions, seed: int, query: Query) -> Exchange:
        folder = (self.cwd / self.returned / f"training-{seed}").absolute()
        return Exchange(folder, self.format, interactions.shape, query, moves=True)


@contextmanager
def _named(folder: str) -> Iterator[None]:
    """Name the folder in what is said of its files."""
    try:
        yield
    except RunError as error:
        raise RunError(f"{folder}: {error}") from error


def _sealed(interactions: Interactions, seed: int, query: Query) -> str:
    """Return a seal: the seed, and a digest of a training's data and of what is asked of it."""
    digest = hashlib.sha256()
    matrix, ratings = interactions.matrix, interactions.ratings
    parts = [matrix.indptr, matrix.indices, matrix.data]
    parts += [query.users, query.items, query.listed, np.array([query.k])]
    parts += [] if ratings.time is None else [ratings.time]
    parts += query.after or ()
    for part in parts:
        digest.update(str(part.dtype).encode() + np.ascontiguousarray(part).tobytes())
    digest.update(ratings.features)
    return json.dumps({"seed": seed, "data": digest.hexdigest()})
