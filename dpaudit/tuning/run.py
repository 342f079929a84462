"""Run a search: from a checked config to its result, with what is kept in its folder."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dpaudit.auditor.plan import Plan, RunFolder, opened_store
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.audits.membership.training import Utility
from dpaudit.core.errors import ConfigError
from dpaudit.core.files import read_text, write_text
from dpaudit.core.knobs import Knob
from dpaudit.core.messages import place
from dpaudit.core.registry import suggestion
from dpaudit.core.rounding import duration
from dpaudit.data.ratings import Ratings
from dpaudit.execution.tasks import Progress, digest_of
from dpaudit.execution.workers import ONE_THREAD, Workers, started
from dpaudit.record.result import AuditResult
from dpaudit.tuning import search
from dpaudit.tuning.covered import claimed
from dpaudit.tuning.result import CandidateRecord, Tuning
from dpaudit.tuning.search import Trained
from dpaudit.tuning.settings import Setting, Tuned, Values, listed
from dpaudit.tuning.tuner import Tuner, doubled, judged_by, on_utility

# The file of earlier searches in a folder, and the most characters that are read of it.
HISTORY, _LARGEST = "searches.json", 2**22
# From so many trainings on, TPE finds more in ranges than random points (docs/methods/searches.md).
_TPE = 100


@dataclass
class History:
    """The searches in a folder.

    Attributes:
        path: the file.
        searches: each with the digest of its data and of what was asked, and how many trainings of
            each setting were seen when it had judged.
        budgets: the numbers of trainings that times became, by what was asked.
    """

    path: Path
    searches: list[dict[str, Any]] = field(default_factory=list)
    budgets: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path) -> History:
        """Read it; a folder without one has no searches.

        Raises:
            ConfigError: it cannot be read.
        """
        path = folder / HISTORY
        if not path.exists():
            return cls(path)
        try:
            table = json.loads(read_text(path, _LARGEST))
            return cls(path, list(table["searches"]), dict(table["budgets"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{place(path)} counts the searches in this folder and cannot be read ({error}): "
                "restore it, or name another folder with -o"
            ) from error

    def write(self) -> None:
        """Write it."""
        table = {"searches": self.searches, "budgets": self.budgets}
        write_text(self.path, json.dumps(table, indent=1) + "\n")

    def before(self, data: str, asked: str) -> tuple[int, dict[str, int]]:
        """Return how many other searches of the data came first, and what they have seen."""
        earlier: list[dict[str, Any]] = []
        for one in self.searches:
            if (one["data"], one["asked"]) == (data, asked):
                break
            if one["data"] == data:
                earlier.append(one)
        seen: dict[str, int] = {}
        for one in earlier:
            for key, count in one["seen"].items():
                seen[key] = max(seen.get(key, 0), int(count))
        return len(earlier), seen

    def note(self, data: str, asked: str, seen: Mapping[str, int]) -> None:
        """Note what a search has seen of its candidates."""
        for one in self.searches:
            if (one["data"], one["asked"]) == (data, asked):
                one["seen"] = {**one["seen"], **seen}
                break
        else:
            self.searches.append({"data": data, "asked": asked, "seen": dict(seen)})
        self.write()


@dataclass(frozen=True)
class Outcome:
    """What a search leaves.

    Attributes:
        tuning: the result.
        tables: the config with the chosen setting, as the user would state it; None without one.
        records: the records of the runs of candidates, by their number from 1.
    """

    tuning: Tuning
    tables: dict[str, Any] | None
    records: Mapping[int, AuditResult]


def check(config: MembershipConfig) -> Tuned:
    """Return the model of a config that is tuned, with settings that it takes.

    Raises:
        ConfigError: `[tune]` names a model, a setting, a utility or attacks that there are not, or
            too few trainings; or no gate judges the model.
    """
    tuned = Tuned.of(config)
    known = [f"utility.{one}" for one in Utility._fields]
    if tuned.tune.utility not in known:
        raise ConfigError(
            f"tune.utility = {tuned.tune.utility!r} is no utility of each training"
            f"{suggestion(tuned.tune.utility, known)}"
        )
    of_trainings = (gate for gate in tuned.config.gate if gate.judged != "epsilon")
    if all(gate.min is not None or on_utility(gate) for gate in of_trainings):
        raise ConfigError(
            "no [[gate]] limits what attackers find in a training, so that settings cannot be "
            "compared: add one, such as metric = 'leak' with max = 0.1"
        )
    values = tuned.values()
    for key, of_key in values.items():
        ends = (of_key.low, of_key.high) if isinstance(of_key, Knob) else of_key
        for value in ends:
            tuned.with_setting(Setting({key: value}))
    return tuned


def forecast(config: MembershipConfig, seconds: float | None) -> str:
    """Return what a search trains, and how long that takes.

    Args:
        config: the config.
        seconds: the time of a training; None if it is not known.

    Raises:
        ConfigError: as `check`.
    """
    tuned = check(config)
    tune, judged = tuned.tune, judged_by(Plan(tuned.config))
    if tune.time is not None:
        if seconds is None:
            return f"dpaudit tune: as many trainings as fit into {duration(tune.time)}."
        trainings = int(tune.time / seconds)
    else:
        trainings = tune.trainings
    most = max(2, search.settings_for(trainings, judged))
    count = min(tuned.possible() or most, most)
    took = "" if seconds is None else f", about {duration(trainings * seconds)} on one worker"
    return (
        f"dpaudit tune: at most {trainings} trainings{took}, without the attacks on them: up to "
        f"{count} settings once, the better ones "
        f"{search.SOME} and {search.MORE} times, and at most {search.MOST_JUDGED} judged by "
        f"{judged} new trainings each."
    )


def tune(
    config: MembershipConfig,
    *,
    folder: RunFolder,
    workers: Workers = ONE_THREAD,
    progress: Progress | None = None,
    allow_code: bool = False,
    ratings: Ratings | None = None,
    path: str = "",
) -> Outcome:
    """Search the settings of a model that pass the gates of its config and keep most utility.

    Args:
        config: a checked config.
        folder: where trainings are kept, so that the same call goes on after a kill.
        workers: where trainings run.
        progress: receives progress reports.
        allow_code: whether code that the config names may be run.
        ratings: the data, instead of those that the config names.
        path: the file of the config.

    Raises:
        ConfigError: as `check`, or as `run_audit`.
        DataError: as `run_audit`.
        RunError: as `run_audit`.
    """
    progress, tuned = progress or Progress(), check(config)
    plan = Plan(tuned.config, folder, allow_code, ratings).resumed()
    history = History.of(folder.path)
    with plan.begun(progress) as begun, ExitStack() as stack:
        fitted, data = begun.config, begun.ratings
        if not isinstance(fitted, MembershipConfig) or data is None:
            raise TypeError("a membership audit has a config of its kind, and data")
        whole = replace(begun, config=doubled(fitted, data))
        store = stack.enter_context(opened_store(whole, progress))
        pool = stack.enter_context(started(workers))
        asked = digest_of(
            json.dumps([tuned.tables, tuned.tune.model_dump(mode="json")], sort_keys=True),
            str(fitted.seed),
        )
        attempt, before = history.before(data.digest, asked)
        tuner = Tuner(tuned, whole, pool, progress, store, [Setting({})], before)
        trainings = _budget(tuner, history, asked)
        about = {
            "sampler": _searched(tuner, tuned.values(), trainings),
            "possible": tuned.possible(),
            "gated": any(map(on_utility, tuned.config.gate)),
            "attempt": attempt + 1,
            "config": path,
        }
        note = partial(history.note, data.digest, asked)
        return _judged(tuner, trainings, about, note, folder)


def _budget(tuner: Tuner, history: History, asked: str) -> int:
    """Return how many trainings there are; a time is divided by that of the unchanged setting.

    The number is kept, so that a search that goes on has the same.
    """
    tune = tuner.tuned.tune
    if tune.time is None:
        return tune.trainings
    if asked not in history.budgets:
        clock = time.perf_counter()
        tuner.survey(0, 1)
        took = max(time.perf_counter() - clock, 1e-3)
        count = tuner.pool.workers.count or 1
        history.budgets[asked] = int(min(tune.time / took * count, 100_000))
        history.write()
    return history.budgets[asked]


def _searched(tuner: Tuner, values: Values, trainings: int) -> str:
    """Train settings, and return how they were found.

    Raises:
        ConfigError: there are too few trainings.
    """
    judged, size, searched = tuner.judged, tuner.tuned.possible(), trainings - tuner.more
    least, ranges = search.fewest(size or 2, judged) + tuner.more, size is None
    if trainings < least:
        what = "two settings" if ranges else f"{size} settings with the unchanged one"
        raise ConfigError(
            f"tune.trainings = {trainings} are too few to search {what}, and to judge one by "
            f"{judged + tuner.more} new trainings: give {least} or more"
            f"{'' if ranges else ', or list fewer values'}"
        )
    tuner.progress.start(trainings)
    if ranges and trainings >= _TPE and find_spec("optuna"):
        _by_tpe(tuner, values, searched)
        return "TPE"
    most, current = search.settings_for(searched, judged), tuner.tuned.current(values)
    tuner.settings = listed(values, max(2, most), tuner.config.seed, current)
    search.search(range(len(tuner.settings)), tuner.train, searched, judged)
    return "random" if ranges else "listed"


def _by_tpe(tuner: Tuner, values: Values, trainings: int) -> None:
    """Search ranges by Optuna's tree-structured Parzen estimator, with the limit as a constraint.

    A setting has three trainings as soon as it is proposed, as its leak decides the next proposals
    (Bergstra et al. 2011, Algorithms for Hyper-Parameter Optimization, NeurIPS 24).
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    shown: dict[int, Trained] = {}
    sampler = optuna.samplers.TPESampler(seed=tuner.config.seed % 2**32)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    shown[0] = tuner.train(0, search.SOME)
    for _ in range(search.proposals(trainings, tuner.judged) - 1):
        trial = study.ask()
        setting = Setting({key: _suggested(trial, key, of) for key, of in values.items()})
        keys = [one.key for one in tuner.settings]
        if setting.key not in keys:
            tuner.settings.append(setting)
            keys.append(setting.key)
        number = keys.index(setting.key)
        shown[number] = trained = shown.get(number) or tuner.train(number, search.SOME)
        trial.set_constraint("limit", trained.beyond(1))
        study.tell(trial, max(trained.utility, 0.0))
    left = trainings - search.reserved(trainings, tuner.judged) - tuner.total
    search.refine([*list(shown)[1:], 0], shown, tuner.train, left, tuner.judged, len(shown))


def _suggested(trial: Any, key: str, values: Any) -> Any:
    if not isinstance(values, Knob):
        return values[trial.suggest_categorical(key, list(range(len(values))))]
    suggest = trial.suggest_int if values.whole else trial.suggest_float
    return values.rounded(suggest(key, values.low, values.high, log=values.log))


def _judged(
    tuner: Tuner,
    trainings: int,
    about: Mapping[str, Any],
    note: Callable[[Mapping[str, int]], None],
    folder: RunFolder,
) -> Outcome:
    """Judge the listed settings one after the other until one passes."""
    order = search.shortlist(tuner.trained, tuner.judged)
    # The more are listed, the more trainings judge each.
    while tuner.intervals and order[1:] and tuner.judging(order) > trainings - tuner.total:
        order = order[1:]
    candidates: list[CandidateRecord] = []
    records: dict[int, AuditResult] = {}
    waiting = list(order or [_nearest(tuner)])
    while waiting:
        number, setting = len(candidates) + 1, waiting.pop(0)
        left, result = trainings - tuner.total, None
        key = tuner.settings[setting].key
        note({key: tuner.used[setting] + 2 * tuner.judged})
        if tuner.intervals:
            kept = RunFolder(folder.path / f"judged-{number}", folder.fresh, folder.force)
            candidate, result = tuner.judge_afresh(setting, max(1, len(order)), left, kept)
        elif order:
            candidate, result = tuner.judge(setting, left)
        else:
            candidate, result = tuner.judge_nearest(setting)
        note({key: tuner.used[setting]})
        candidates.append(candidate)
        if result is not None:
            records[number] = result
        if candidate.fate == "go":
            break
        again = [one for one in candidates if one.fate == "undecided" and one.leak]
        if order and not waiting and again and number < search.MOST_JUDGED:
            # All that was seen of it calibrates stronger attackers, against new trainings.
            waiting = [min(again, key=lambda one: one.largest).setting]
    chosen = next((one.setting for one in candidates if one.fate == "go"), None)
    outcome = "go" if chosen is not None else "undecided"
    if not order and candidates[0].outcome == "stop":
        outcome = "stop"
    tuning = Tuning(
        outcome=outcome,
        model=tuner.tuned.model.label,
        utility=tuner.tuned.tune.utility,
        settings=[tuner.shown[one] for one in range(len(tuner.settings))],
        candidates=candidates,
        listed=len(order),
        chosen=chosen,
        price=[] if chosen is None else tuner.prices(chosen),
        again=None if chosen is None else candidates[-1].chance,
        level=1 - tuner.config.audit.confidence if tuner.intervals else None,
        trainings=trainings,
        used=tuner.total,
        judged=tuner.judged,
        seconds=tuner.tuned.tune.time,
        **about,
        **claimed(tuner.tuned, tuner.settings, tuner.ratings, chosen or 0),
    )
    tables = None if chosen is None else _tables(tuner, candidates[-1])
    return Outcome(tuning, tables, records)


def _nearest(tuner: Tuner) -> int:
    """Return the setting with the smallest leak of those with most trainings."""
    known = {one: record for one, record in tuner.shown.items() if record.relative}
    most = max(record.trainings for record in known.values())
    able = [one for one, record in known.items() if record.trainings == most]
    return min(able, key=lambda one: known[one].over)


def _tables(tuner: Tuner, candidate: CandidateRecord) -> dict[str, Any]:
    """Return the config of the chosen setting, with a seed of no training of the search."""
    tables = tuner.tuned.stated(tuner.settings[candidate.setting])
    table = dict(tables.get("membership") or {})
    if not tuner.intervals:
        trainings = candidate.seen + candidate.judged
        table |= {"trainings": trainings, "calibrating": candidate.seen}
    seed = tuner.fresh_seed(candidate.setting, "tuned") % 2**31
    return {"seed": seed, **{k: v for k, v in tables.items() if k != "seed"}, "membership": table}
