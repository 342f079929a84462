"""Search the settings of a recommender from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dpaudit.auditor.plan import RunFolder
from dpaudit.audits.membership.audit import (
    check_arguments,
    configured,
    framed,
    given_recommender,
    printed,
)
from dpaudit.audits.membership.config import target_sizes
from dpaudit.core.files import write_text
from dpaudit.core.membership import Observer, Unit
from dpaudit.data.interactions import given_ratings
from dpaudit.execution.tasks import Progress
from dpaudit.execution.workers import ONE_THREAD, Workers
from dpaudit.tuning import report
from dpaudit.tuning.result import Tuning
from dpaudit.tuning.run import Outcome, tune

__all__ = ["RecommenderTuning", "tune_recommender"]


@dataclass(frozen=True, repr=False)
class RecommenderTuning:
    """The result of `tune_recommender`; it displays itself in a notebook and prints as text.

    Attributes:
        outcome: what was searched, what passes and its price, and the records of its runs.
    """

    outcome: Outcome

    @property
    def result(self) -> Tuning:
        """What was searched, what passes and its price."""
        return self.outcome.tuning

    @property
    def settings(self) -> dict[str, Any] | None:
        """The setting that passes, by the keys that were searched; None without one."""
        chosen = self.result.chosen
        if chosen is None:
            return None
        values = self.result.settings[chosen].values
        return {key.removeprefix("params."): value for key, value in values.items()}

    def save(self, path: str | Path) -> None:
        """Write the page, as one HTML file that loads nothing.

        Raises:
            ConfigError: the file cannot be written.
        """
        write_text(Path(path), report.render_html(self.result))

    def __repr__(self) -> str:
        said = " ".join(report.sentences(self.result))
        return f"RecommenderTuning: {self.result.outcome.upper()}. {said}"

    def __str__(self) -> str:
        return printed(partial(report.show, self.result))

    def _repr_html_(self) -> str:
        return framed(report.render_html(self.result), "Settings")


def tune_recommender(
    model: Any,
    interactions: Any,
    search: Mapping[str, Any] | None = None,
    *,
    gates: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any] | None = None,
    utility: str = "utility.ndcg",
    budget: int = 200,
    units: Sequence[Unit] = ("interaction",),
    observers: Sequence[Observer] | None = None,
    targets: int | None = None,
    users: int | None = None,
    claim: Mapping[str, Any] | None = None,
    predicts_ratings: bool = False,
    confidence: float = 0.95,
    seed: int | None = None,
    workers: Workers | None = None,
    folder: str | Path | None = None,
    progress: Progress | None = None,
) -> RecommenderTuning:
    """Search the settings of a recommender that pass gates and keep most utility.

    At most three are judged, each by new trainings; see docs/guides/tune.md.

    Args:
        model: as in `audit_recommender`; settings are arguments of a class or a function, or
            parameters of an adapter.
        interactions: as there.
        search: lists of values, or ranges such as `{"from": 4, "to": 64, "log": True}`, by
            argument, or by parameter as `settings.factors`; by default what the adapter proposes.
        gates: thresholds, as tables of `[[gate]]`; at least one.
        settings: parameters of an adapter that is given by name.
        utility: the metric to keep.
        budget: the number of trainings of all settings together.
        units: as there.
        observers: as there.
        targets: as there.
        users: as there.
        claim: as there.
        predicts_ratings: as there.
        confidence: as there.
        seed: as there.
        workers: as there.
        folder: where finished trainings are kept, so that the same call goes on after a kill, and
            searches of the same data are counted.
        progress: as there.

    Raises:
        ConfigError: an argument is out of range, or a setting is refused.
        DataError: the interactions cannot be used, or are too few.
        RunError: a training fails.
    """
    from dpaudit.execution.reporter import Reporter, interactive

    check_arguments(targets, users, workers, folder)
    ratings = given_ratings(interactions)
    values = {f"params.{key}": value for key, value in (search or {}).items()}
    config = configured(
        given_recommender(model, settings or {}, claim, predicts_ratings),
        {"units": units, "observers": observers, **target_sizes(ratings, targets, users)._asdict()},
        seed=seed,
        audit={"confidence": confidence},
        gate=gates,
        tune={"settings": values, "utility": utility, "trainings": budget},
    )
    shown = Reporter(unit="trainings") if progress is None and interactive() else None
    with shown or nullcontext(progress) as receiver, TemporaryDirectory() as scratch:
        outcome = tune(
            config,
            folder=RunFolder(Path(scratch if folder is None else folder).absolute()),
            workers=workers or ONE_THREAD,
            progress=receiver,
            allow_code=True,
            ratings=ratings,
        )
    return RecommenderTuning(outcome)
