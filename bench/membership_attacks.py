"""What each membership attack finds by itself, by the number of trainings that calibrate it.

    python -m pip install '.[implicit,torch]' && DPAUDIT_DATA=… \
        python bench/membership_attacks.py [FOLDER]

Models of MovieLens-100K with the raw ratings as values, 2500 target interactions, 1000 held-out
ones and the observer `scores`, each trained 26 times: 10 trainings are judged, and c of the 16
others calibrate. It prints the AUC and the true-positive rate at 1 % false positives, as means over
the judged trainings, and the standard error of the latter. With c < 2 a quarter of the targets
chooses, as in an audit, and the others are judged. `strongest` is the largest of the attacks of an
audit that promise most by each number. FOLDER keeps the trainings for the next time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

# One thread for every library, before any of them is imported.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

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
from dpaudit.data.readers.load import load
from dpaudit.data.source import DataSource
from dpaudit.recommenders.base import Recommender
from dpaudit.recommenders.implicit import Implicit
from dpaudit.recommenders.torch import Torch
from dpaudit.record.result import Family

SEED = 7
CALIBRATING, JUDGED = (0, 1, 2, 5, 16), 10
TRAININGS = max(CALIBRATING) + JUDGED
RATE = 0.01
FAMILY = Family(confidence=0.95, size=1, alpha=0.05)
MODELS: Mapping[str, Callable[[], Recommender]] = {
    "als": lambda: Implicit("als", {"factors": 64}),
    "bpr": lambda: Implicit("bpr", {"factors": 100}),
    "mf": lambda: Torch("mf"),
}
ALONE = ("conjugate-lira", "regression-lira", "regression-lira joint", "global-threshold")
Numbers = NDArray[np.float64]


def main(folder: Path | None = None) -> None:
    """Train, or read what was trained, and print the table."""
    source = Path(os.environ["DPAUDIT_DATA"]) / "ml-100k" / "u.data"
    ratings = load(DataSource(format="movielens-100k", path=str(source)))
    table = Membership(interactions=2500, held_out=1000, trainings=TRAININGS)
    design = Design.of(ratings, table, SEED)
    print("model  c", *(f"{label:>23}" for label in (*ALONE, "strongest")))
    for label, model in MODELS.items():
        trials = trained(model(), design, folder and folder / f"{label}.npy")
        for count in CALIBRATING:
            cells = (cell(*values) for values in found(trials, count))
            print(f"{label:<5}{count:>3}", *(f"{text:>23}" for text in cells), flush=True)


def trained(model: Recommender, design: Design, place: Path | None) -> Trials:
    """Train with coins, and return what the observer `scores` sees."""
    if place is None or not place.exists():
        training = Training(model, design, [("interaction", "scores")])
        rows = [unpacked(training(index), 1 + BESIDES)[0] for index in range(TRAININGS)]
        features = np.stack(rows)[:, :, :-BESIDE]
        if place is not None:
            np.save(place, features)
    else:
        features = np.load(place)
    targets, population = np.split(features, [len(design.rows)], axis=1)
    present = design.present(TRAININGS, "interaction")
    covariates = design.covariates("interaction")
    return Trials(targets, population, present, None, covariates).comparable


def found(trials: Trials, count: int) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield AUC and TPR in each judged training, of each attack and of the strongest."""
    order = division(TRAININGS, max(CALIBRATING), SEED)
    mine = order.calibrating[:count]
    # With targets that choose, an audit judges a single training.
    each = np.split(order.judged, JUDGED) if chooses_by_targets(count) else [order.judged]
    attacks = {one.label: one.create("attack") for one in battery(MembershipInference)}
    able = {label: one for label, one in attacks.items() if count or not one.compares_targets}
    audits = [audited(trials, able, Division(mine, rows)) for rows in each]
    for label in ALONE:
        scored = [audit[label].curve for audit in audits if label in audit]
        areas = [curve.areas() for curve in scored]
        rates = [curve.rates(RATE) for curve in scored]
        yield np.concatenate(areas or [[]]), np.concatenate(rates or [[]])
    areas, rates = [], []
    for audit in audits:
        areas.append(max((audit[one].curve.areas() for one in best(audit, "auc", count)), key=sum))
        by_rate = best(audit, f"tpr {RATE:g}", count)
        rates.append(max((audit[one].curve.rates(RATE) for one in by_rate), key=sum))
    yield np.concatenate(areas), np.concatenate(rates)


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
    main(*map(Path, sys.argv[1:2]))
