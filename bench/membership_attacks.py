"""What each membership attack finds by itself, by the number of trainings that calibrate it.

    python -m pip install '.[implicit,torch]' && DPAUDIT_DATA=… \
        python bench/membership_attacks.py [--models als,bpr,…] [FOLDER]

Models of MovieLens-100K with the raw ratings as values, 2500 target interactions and 1000 held-out
ones, each trained 26 times (models of sequences, whose held-out ones are the last, fewer times): 10
trainings are judged, and c of the others calibrate. It prints the AUC and the true-positive rate at
1 % false positives, as means over the judged trainings, and the standard error of the latter. With
c < 2 a quarter of the targets chooses, as in an audit, and the others are judged. `strongest` is
the largest of the attacks of an audit that promise most by each number.

Of an attack on `scores` an observer sees the score of one pair; `low-rank` (S) and those beside it
(S + R) read rows of scores. FOLDER keeps the trainings for the next time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

# One thread for every library, before any of them is imported.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import click
import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import MembershipInference
from dpaudit.audits.membership.calibration import (
    Calibration,
    Division,
    Judged,
    Trials,
    division,
    few,
    judged,
    rivals,
)
from dpaudit.audits.membership.config import Membership, chooses_by_targets
from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.training import BESIDE, BESIDES, Training, unpacked
from dpaudit.config.tables import battery
from dpaudit.core.membership import ROWS, Observer
from dpaudit.data.readers.load import load
from dpaudit.data.source import DataSource
from dpaudit.recommenders.base import Recommender
from dpaudit.recommenders.implicit import Implicit
from dpaudit.recommenders.torch import Torch
from dpaudit.record.result import Family

SEED = 7
CALIBRATING, JUDGED = (0, 1, 2, 5, 16), 10
RATE = 0.01
FAMILY = Family(confidence=0.95, size=1, alpha=0.05)
_LAYOUT = {
    "format": "delimited",
    "delimiter": "\t",
    "columns": {"user": 0, "item": 1, "rating": 2, "time": 3},
    "scale": {"minimum": 1, "maximum": 5, "step": 1},
}
REGRESSIONS = ("regression-lira", "regression-lira joint")
# The columns: their names, the observer, and the attacks, of which the audit's own choice counts.
Column = tuple[str, Observer, tuple[str, ...]]
PAIRS: Sequence[Column] = (
    ("threshold", "scores", ("global-threshold",)),
    ("conjugate", "scores", ("conjugate-lira",)),
    ("R", "scores", REGRESSIONS),
    ("S", "asked-rows", ("low-rank",)),
    ("S + R", "asked-rows", REGRESSIONS),
    ("strongest", "asked-rows", ()),
)
SENT: Sequence[Column] = (
    ("conjugate", "scores", ("conjugate-lira",)),
    ("conjugate", "asked-histories", ("conjugate-lira",)),
    ("R", "asked-histories", REGRESSIONS),
    ("strongest", "asked-histories", ()),
)


class Model(NamedTuple):
    """A model, with what is asked of it and how often it is trained."""

    made: Callable[[], Recommender]
    columns: Sequence[Column] = PAIRS
    trainings: int = max(CALIBRATING) + JUDGED


def _sequence(name: str, epochs: int, trainings: int) -> Model:
    return Model(lambda: Torch(name, epochs=epochs), SENT, trainings)


MODELS: Mapping[str, Model] = {
    "als": Model(lambda: Implicit("als", {"factors": 64})),
    "bpr": Model(lambda: Implicit("bpr", {"factors": 100})),
    "mf": Model(lambda: Torch("mf")),
    "item-item": Model(lambda: Implicit("item-item", {})),
    "multvae": Model(lambda: Torch("multvae")),
    "lightgcn": Model(lambda: Torch("lightgcn")),
    "sasrec 10": _sequence("sasrec", 10, 17),
    "sasrec 30": _sequence("sasrec", 30, 17),
    "gru4rec 20": _sequence("gru4rec", 20, 17),
}
Numbers = NDArray[np.float64]


@click.command()
@click.option("--models", default=",".join(MODELS), help="Which models, by name.")
@click.argument("folder", required=False, type=click.Path(path_type=Path))
def main(models: str, folder: Path | None) -> None:
    """Train, or read what was trained, and print the table."""
    path = str(Path(os.environ["DPAUDIT_DATA"]) / "ml-100k" / "u.data")
    ratings = load(DataSource.model_validate(_LAYOUT | {"path": path}))
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    for label in models.split(","):
        model = MODELS[label]
        sizes = {"interactions": 2500, "trainings": model.trainings}
        held = {"held_out": 1000} if model.columns is PAIRS else {"held_out": 900, "hold": "last"}
        design = Design.of(ratings, Membership.model_validate(sizes | held), SEED)
        trials = trained(model, design, folder and folder / f"{label}.npz")
        heads = (f"{name} ({seen})" for name, seen, _ in model.columns)
        print(f"{label:<10} c", *(f"{head:>26}" for head in heads))
        most = model.trainings - JUDGED
        for count in dict.fromkeys(min(one, most) for one in CALIBRATING):
            found = (cell(*numbers(trials[column[1]], column, count)) for column in model.columns)
            print(f"{'':<10}{count:>2}", *(f"{text:>26}" for text in found), flush=True)


def trained(model: Model, design: Design, place: Path | None) -> dict[Observer, Trials]:
    """Train with coins, and return what each observer sees."""
    observers = list(dict.fromkeys(observer for _, observer, _ in model.columns))
    if place is None or not place.exists():
        training = Training(model.made(), design, [("interaction", one) for one in observers])
        rows = [
            unpacked(training(index), len(observers) + BESIDES) for index in range(model.trainings)
        ]
        blocks = [np.stack([row[at] for row in rows]) for at in range(len(observers))]
        if place is not None:
            np.savez(place, *blocks)
    else:
        blocks = list(np.load(place).values())
    present = design.present(model.trainings, "interaction")
    covariates = design.covariates("interaction")
    shown = (np.split(block[:, :, :-BESIDE], [len(design.rows)], axis=1) for block in blocks)
    return {
        observer: Trials(*parts, present, None, covariates, int(observer == ROWS)).comparable
        for observer, parts in zip(observers, shown, strict=True)
    }


def numbers(trials: Trials, column: Column, count: int) -> tuple[Numbers, Numbers]:
    """Return AUC and TPR of a column in each judged training."""
    _, observer, labels = column
    order = division(len(trials), len(trials) - JUDGED, SEED)
    mine = order.calibrating[:count]
    # With targets that choose, an audit judges a single training.
    parts = np.split(order.judged, JUDGED) if chooses_by_targets(count) else [order.judged]
    every = {one.label: one.create("attack") for one in battery(MembershipInference)}
    able = {
        label: one
        for label, one in every.items()
        if label in (labels or every)
        and one.observer in (None, observer)
        and (count or not one.compares_targets)
    }
    areas, rates = [], []
    for rows in parts if able else ():
        audit = audited(trials, able, Division(mine, rows))
        by_area, by_rate = (best(audit, what, count) for what in ("auc", f"tpr {RATE:g}"))
        areas.append(max((audit[one].curve.areas() for one in by_area), key=sum))
        rates.append(max((audit[one].curve.rates(RATE) for one in by_rate), key=sum))
    return np.concatenate(areas or [[]]), np.concatenate(rates or [[]])


def audited(
    trials: Trials, attacks: Mapping[str, MembershipInference], parts: Division
) -> dict[str, Judged]:
    """Judge each attack on some trainings."""
    fitted = Calibration.of(trials, parts, SEED)
    return {label: judged(fitted, one, [RATE], FAMILY, 0.0) for label, one in attacks.items()}


def best(audit: Mapping[str, Judged], metric: str, count: int) -> list[str]:
    """The labels of the attacks that an audit judges."""
    return rivals(audit, metric, few(count))


def cell(areas: Numbers, rates: Numbers) -> str:
    """The means, and the standard error of the rate."""
    if not len(areas):
        return "-"
    error = rates.std(ddof=1) / np.sqrt(len(rates))
    return f"{areas.mean():.3f} / {rates.mean():.3f} ± {error:.3f}"


if __name__ == "__main__":
    main()
