"""Audit a recommender from Python: whose data can an attacker tell were used for training?"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from numbers import Integral
from os import PathLike
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from pydantic import PrivateAttr, ValidationError

from dpaudit.auditor.plan import Plan, RunFolder
from dpaudit.auditor.run import run_audit
from dpaudit.audits.membership.config import MembershipConfig, target_sizes
from dpaudit.audits.models.config import OwnRecommender
from dpaudit.config.schema import Config
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError
from dpaudit.core.estimate import Estimate
from dpaudit.core.files import write_text
from dpaudit.core.membership import Observer, Unit
from dpaudit.data.interactions import given_ratings
from dpaudit.data.ratings import Ratings
from dpaudit.execution.tasks import Progress
from dpaudit.execution.workers import Workers
from dpaudit.recommenders.base import Trainable
from dpaudit.recommenders.python_class import GivenModel
from dpaudit.record.result import STRONGEST, AuditResult
from dpaudit.reports.folder import Folder
from dpaudit.reports.sections import screen

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Audit", "RecommenderAudit", "audit_recommender"]

C = TypeVar("C", bound=Config)
# The width of printed text, and the style of the frame in a notebook.
_WIDTH = 120
_FRAME = "width: 100%; height: 48rem; border: 0"


def printed(show: Callable[[Any], None]) -> str:
    """Return what is shown on a console of rich, as text."""
    from rich.console import Console

    text = io.StringIO()
    show(Console(file=text, width=_WIDTH))
    return text.getvalue()


def framed(page: str, title: str) -> str:
    """Return a page in a frame of its own, whose style is not that of a notebook around it."""
    return f'<iframe srcdoc="{escape(page)}" title="{title}" sandbox style="{_FRAME}"></iframe>'


@dataclass(frozen=True, repr=False)
class Audit:
    """The result of an audit; it displays itself in a notebook and prints as text.

    Attributes:
        record: every number with its interval, and all that is needed to reproduce it.
    """

    record: AuditResult

    _further: ClassVar[str] = ""

    def save(self, path: str | Path) -> None:
        """Write a report: `.html`, `.md`, `.csv` or `.json`, by the ending of the path.

        Raises:
            ConfigError: there is no report of one file with this ending.
        """
        target = Path(path)
        every = registry.every("reports").items()
        reports = {f".{name}": made for name, made in every if not isinstance(made, Folder)}
        if target.suffix not in reports:
            raise ConfigError(f"{target} has none of the endings {', '.join(reports)}: rename it")
        write_text(target, reports[target.suffix](self.record))

    def to_frame(self) -> DataFrame:
        """Return every measured number, a row each, with its interval and what it is about."""
        import pandas as pd

        numbers = self.record.measurements
        rows = [{**m.model_dump(exclude={"estimate"}), **m.estimate.model_dump()} for m in numbers]
        return pd.DataFrame(rows).dropna(axis=1, how="all")

    def __repr__(self) -> str:
        shown = screen.of(self.record)
        lines = [
            f"{type(self).__name__}: {shown.decision.word.shown}. {shown.decision.reason}",
            *shown.sentences,
            f"More: print(audit), audit.to_frame(), {self._further}audit.save('x.html').",
        ]
        return "\n".join(lines)

    def __str__(self) -> str:
        from dpaudit.reports.render.console import show

        return printed(partial(show, self.record))

    def _repr_html_(self) -> str:
        return framed(registry.load("reports", "html")(self.record), "Privacy audit")


@dataclass(frozen=True, repr=False)
class RecommenderAudit(Audit):
    """The result of `audit_recommender`."""

    _further: ClassVar[str] = "audit.estimate(metric), "

    def estimate(
        self,
        metric: str,
        *,
        observer: Observer = "scores",
        unit: Unit = "interaction",
        at: float | None = None,
    ) -> Estimate:
        """Return one number of the strongest attack.

        Args:
            metric: `attack.auc`, `attack.tpr`, `attack.advantage` or `epsilon`.
            observer: who observes the model.
            unit: what a target is.
            at: the false-positive rate, for `attack.tpr`.

        Raises:
            ConfigError: it was not measured.
        """
        for measurement in self.record.measurements:
            key = measurement.metric, measurement.observer, measurement.unit, measurement.attack
            if key == (metric, observer, unit, STRONGEST) and at in (None, measurement.at):
                return measurement.estimate
        remedy = "ask for it in observers, units or rates"
        diverged = (one.text for one in self.record.findings if one.about == "diverged")
        raise ConfigError(
            f"{metric} of observer {observer!r} and unit {unit!r} was not measured: "
            f"{next(diverged, remedy)}"
        )


class Given(OwnRecommender):
    """A recommender that the program passes."""

    _trainable: Trainable = PrivateAttr()

    @property
    def state(self) -> str:
        """A digest of what a class, a function or an object is, besides its code."""
        import joblib

        model = self._trainable
        try:
            if isinstance(model, GivenModel):
                return str(joblib.hash((model.model, model.arguments)))
            return str(joblib.hash(model))
        except Exception:  # a user's object may raise anything
            return token_hex()  # it may have any state, so its trainings are not used again

    def create(self, place: str) -> Trainable:
        """Return what is trained."""
        return self._trainable

    def with_arguments(self, values: Mapping[str, Any]) -> Given:
        """Return the recommender whose class or function is called with further arguments.

        Raises:
            ConfigError: it is an object, which no argument makes anew.
        """
        model = self._trainable
        if not isinstance(model, GivenModel) or model.model is not model.definition:
            raise ConfigError(
                f"{self.label} is an object, and settings are arguments of a class or a function: "
                "pass that"
            )
        made = self.model_copy()
        made._trainable = replace(model, arguments={**model.arguments, **values})
        return made


def audit_recommender(
    model: Any,
    interactions: Any,
    *,
    settings: Mapping[str, Any] | None = None,
    units: Sequence[Unit] = ("interaction",),
    observers: Sequence[Observer] | None = None,
    trainings: int = 24,
    stop: Literal["when-decided", "at-end"] = "at-end",
    targets: int | None = None,
    users: int | None = None,
    claim: Mapping[str, Any] | None = None,
    gates: Sequence[Mapping[str, Any]] = (),
    predicts_ratings: bool = False,
    confidence: float = 0.95,
    seed: int | None = None,
    workers: Workers | None = None,
    folder: str | Path | None = None,
    progress: Progress | None = None,
) -> RecommenderAudit:
    """Train a recommender by coins, and measure whose data an attacker can tell were used.

    Args:
        model: the name of an adapter (`dpaudit list recommenders`); an adapter; or a class with
            `fit(interactions, seed)`, a function that makes such an object, or an object that can
            be copied, see docs/guides/own-models.md.
        interactions: a sparse matrix of users × items; a data frame of pandas, polars, Arrow or
            another library that narwhals reads; or the path of a file.
        settings: parameters of an adapter that is given by name.
        units: what a target is: an interaction, or a user with the whole history.
        observers: who observes the model; by default everyone who sees a served model: `scores`,
            `asked-rows`, `own-list` and `others-lists`.
        trainings: number of trainings; 5 of 24 calibrate the attacks, and the others are judged.
        stop: `when-decided` ends the trainings as soon as a gate about the next one surely fails.
        targets: number of target interactions; by default at most 2500, and a 20th of all.
        users: number of target users; by default at most 300, and a third of the active ones.
        claim: the guarantee that is stated for it: `epsilon`, `delta`, `adjacency`, `observers`; it
            is about the released model, and what own lists leave out as seen breaks it only if
            `observers` names `own-list`.
        gates: thresholds, as tables of `[[gate]]`.
        predicts_ratings: whether the scores of a class or object are predicted ratings.
        confidence: simultaneous confidence of the joint intervals.
        seed: decides everything that is random; None draws one, which the record holds.
        workers: where trainings run; by default one after the other in this process.
        folder: where finished trainings are kept, so that the same call goes on after a kill.
        progress: receives progress reports; by default they are shown on a terminal and in a
            notebook.

    Raises:
        ConfigError: an argument is out of range, or a setting is refused.
        DataError: the interactions cannot be used, or are too few.
        RunError: a training fails.
    """
    check_arguments(targets, users, workers, folder)
    ratings = given_ratings(interactions)
    membership = {"units": units, "observers": observers, "trainings": trainings, "stop": stop}
    config = configured(
        given_recommender(model, settings or {}, claim, predicts_ratings),
        {**membership, **target_sizes(ratings, targets, users)._asdict()},
        seed=seed,
        audit={"confidence": confidence},
        gate=gates,
    )
    place = None if folder is None else RunFolder(Path(folder).absolute())
    return RecommenderAudit(recorded(config, ratings, progress, workers, place))


def recorded(
    config: Config,
    ratings: Ratings,
    progress: Progress | None,
    workers: Workers | None = None,
    folder: RunFolder | None = None,
) -> AuditResult:
    """Run an audit of what a program passes, and return its record.

    Args:
        config: the config.
        ratings: the data.
        progress: receives progress reports; None for a terminal or a notebook, if there is one.
        workers: where tasks run; None for this process.
        folder: where finished trainings are kept; None for nowhere.
    """
    from dpaudit.execution.reporter import Reporter, interactive

    with Reporter() if progress is None and interactive() else nullcontext(progress) as shown:
        return run_audit(
            config,
            workers=workers or Workers(),
            progress=shown,
            allow_code=True,
            folder=folder,
            ratings=ratings,
        )


def configured(
    given: tuple[Trainable | None, dict[str, Any]],
    membership: Mapping[str, Any],
    *,
    seed: int | None,
    **tables: Any,
) -> MembershipConfig:
    """Return the config of what the program passes.

    Args:
        given: what is trained and its table, of `given_recommender`.
        membership: the game.
        seed: the seed; None draws one.
        tables: further tables.

    Raises:
        ConfigError: a value is wrong.
    """
    trainable, recommender = given
    config = checked(
        MembershipConfig,
        "audit_recommender",
        seed=seed,
        recommender=[recommender],
        membership={key: _as_table(value) for key, value in membership.items()},
        **{key: _as_table(value) for key, value in tables.items()},
    )
    if trainable is None:
        return config
    own = Given.model_validate(config.recommender[0].model_dump())
    own._trainable = trainable
    return config.model_copy(update={"recommender": [own]})


def check_arguments(targets: Any, users: Any, workers: Any, folder: Any) -> None:
    """Refuse what no config checks.

    Raises:
        ConfigError: names the argument, the value and the remedy.
    """
    for name, count in (("targets", targets), ("users", users)):
        if isinstance(count, bool) or not isinstance(count, Integral | None):
            raise ConfigError(f"{name} = {count!r} is no whole number: give one, or leave it out")
    if not isinstance(workers, Workers | None):
        raise ConfigError(f"workers = {workers!r} are none: give Workers.parse('processes:2')")
    if folder is not None and (not isinstance(folder, str | PathLike) or not str(folder)):
        raise ConfigError(f"folder = {folder!r} is no path: name a folder, or leave it out")


def _as_table(values: Any) -> Any:
    """Return a sequence as a table holds it; anything else is refused there."""
    return list(values) if isinstance(values, tuple | set | frozenset) else values


def checked(kind: type[C], call: str, *, seed: int | None, **tables: Any) -> C:
    """Return the config of what a program passes.

    Args:
        kind: the class of the config.
        call: the function that the program calls.
        seed: the seed; None draws one.
        tables: its tables.

    Raises:
        ConfigError: a value is wrong.
    """
    values = {**({} if seed is None else {"seed": seed}), **tables}
    try:
        config = kind.model_validate(values)
    except ValidationError as error:
        raise ConfigError(registry.first_problem(error, call, (), values)) from error
    Plan(config).check_gates()
    return config


def given_recommender(
    model: Any, settings: Mapping[str, Any], claim: Mapping[str, Any] | None, rated: bool
) -> tuple[Trainable | None, dict[str, Any]]:
    """Return what the program passes, if it is no name, and the table of the config."""
    if isinstance(model, str):
        return None, {"library": model, "params": dict(settings), "claim": claim}
    if settings:
        raise ConfigError("settings belong to an adapter that is given by name: remove them")
    trainable = model if isinstance(model, Trainable) else GivenModel(model, rated)
    kind = trainable.definition if isinstance(trainable, GivenModel) else type(trainable)
    target = f"{kind.__module__}:{kind.__qualname__}"
    return trainable, {"label": kind.__name__, "target": target, "claim": claim}
