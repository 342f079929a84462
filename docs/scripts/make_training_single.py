"""Write docs/results/training-single.md: errors of single settings, which explain the grids.

Run it with `DPAUDIT_DATA=… python docs/scripts/make_training_single.py FOLDER`. The models are
those of Wang & Tang 2017, the data are those of the examples that run its figures. FOLDER keeps
each number once it is known, in single.json, so that a run that was stopped goes on.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import Any

# It stands beside this file.
from pages import DATA_SETS, page, trained, write

from dpaudit.audits.trained.subject import ProbedTraining, errors
from dpaudit.config.model import Model
from dpaudit.core.files import write_text
from dpaudit.core.streams import Streams
from dpaudit.data.folds import Fold, capped, random_folds
from dpaudit.data.ratings import Ratings
from dpaudit.data.readers.load import load
from dpaudit.defenses.neighborhood.sgd import shortfalls
from dpaudit.reports.render.markdown import table_text
from dpaudit.reports.table import NONE, Table
from dpaudit.reports.words import epsilon

# The test ratings of every so many items are predicted.
EVERY = 5
HEAD = f"""Root mean squared errors of single settings of the models of Wang & Tang 2017, each a
mean over 16 trainings, without an interval: they show what [the grids of its figures](training.md)
leave out and why, and decide no verdict there; [the derivations](../claims/wt17.md) say what
follows. The errors are on the test ratings of every {EVERY}th item in the first fold, to save time.
Where a row offers several settings, a cell is the least of their errors, chosen by the same
ratings, and names the settings that have it. Other draws of noise move an error by up to 0.001.
"""
FIGURE_1, FIGURES_2_3 = "ml-100k-wt17-figure-1", "ml-100k-wt17-figures-2-3"
LARGER = "ml-1m-wt17-figure-1"
# B of Algorithm 2: τ times the squared width of the scale.
BOUND = 200 * 4**2
PNBM = {"neighbors": 500, "decay": 0.005, "weight": 15.0, "rescale": 10.0, "start": 0.05}
STEP = PNBM | {"steps": 1}
STILL = STEP | {"learning_rate": 1e-9}
CHAIN = {"neighbors": 500, "temperature": 0.001, "steps": 20}
MF = {"learning_rate": 8e-4, "epochs": 50, "decay": 0.02, "dimensions": 10}
# The spread is that of the examples' tuned models.
LONG = MF | {"learning_rate": 0.016, "epochs": 9, "spread": 0.05}
LONGER = LONG | {"learning_rate": 0.008, "epochs": 40, "decay": 0.08}
STARTS = (0.02, 0.05, 0.1)
ETA = {"learning_rate": [0.1, 0.4]}
ETA_K = ETA | {"steps": [1, 2, 5]}
SIZES = {"learning_rate": [0.01, 0.03, 0.1, 0.3]}
COLD = {"learning_rate": [0.003, 0.03, 0.3, 1.0]}
WARM = {"learning_rate": [1e-6, 1e-4, 0.01]}
SHORT = (
    "The share of predictions in training whose denominator is below C, in one training; β = 10, "
    f"s_1 = 0.05, C = 15, K = 1 unless a row says otherwise. Data of `examples/{FIGURE_1}.toml`."
)
LOW, HIGH, USERS = (1.0, 5.0, 20.0), (20.0, 50.0, 100.0, 200.0, 1000.0), (2.0, 20.0, 200.0, 2000.0)


@dataclass(frozen=True)
class Line:
    """A row of errors.

    Attributes:
        label: its name.
        at: the values of ε.
        params: the settings.
        grid: the settings among which the least error chooses.
        defense: the model.
        eta: η_1 of Algorithm 2, which decides the learning rate at each ε; 0 for a constant one.
    """

    label: str
    at: Sequence[float]
    params: Mapping[str, Any]
    grid: Mapping[str, list[float]] = field(default_factory=dict)
    defense: str = "dpsgd-pnbm"
    eta: float = 0.0

    def defenses(self, at: float) -> list[Any]:
        """Return the model at one ε with each combination of its grid."""
        # (ε/4B) η_1/2
        rate = {"learning_rate": at / (4 * BOUND) * self.eta / 2} if self.eta else {}
        model = Model(defense=self.defense, params={**self.params, **rate}, grid=dict(self.grid))
        return model.combinations("model", at)

    def cell(self, at: float, error: Callable[[Any], float]) -> str:
        """Return the least error at one ε, and the settings that have it."""
        tried = [(error(defense), defense) for defense in self.defenses(at)]
        least, best = min(tried, key=lambda pair: pair[0])
        chosen = ", ".join(f"{getattr(best, name):g}" for name in self.grid)
        return f"{least:.4f} at {chosen}" if chosen else f"{least:.4f}"


class Kept:
    """The numbers that a file keeps, by what they are of."""

    def __init__(self, place: Path) -> None:
        """Read the file, if there is one."""
        self._place, self._lock = place, Lock()
        text = place.read_text(encoding="utf-8") if place.is_file() else "{}"
        self._numbers: dict[str, float] = json.loads(text)

    def number(self, words: str, compute: Callable[[], float]) -> float:
        """Return a number that is kept, or compute it and keep it."""
        if words not in self._numbers:
            number = compute()
            with self._lock:
                self._numbers[words] = number
                write_text(self._place, json.dumps(self._numbers, indent=0))
        return self._numbers[words]


@dataclass(frozen=True)
class Section:
    """A table of errors.

    Attributes:
        title: its heading.
        words: what its rows have in common.
        example: the example whose data are used.
        lines: its rows.
    """

    title: str
    words: str
    example: str
    lines: Sequence[Line]

    def text(self, pool: ThreadPoolExecutor, kept: Kept) -> str:
        """Train and predict what is not kept, and return the section."""
        config, fold = trained(self.example), first_fold(self.example)
        streams = Streams.first(config.seed, "single", config.training.trials)

        def error(defense: Any) -> float:
            training = ProbedTraining("single", defense, fold.train, [errors(fold)], streams)
            return kept.number(
                f"{self.example}, {defense}", lambda: float(training(streams)[:, 0].mean())
            )

        cells = {
            (line.label, at): pool.submit(line.cell, at, error)
            for line in self.lines
            for at in line.at
        }
        columns = sorted({at for _, at in cells})
        table = Table(
            caption="",
            header=["", *(f"ε = {epsilon(at)}" for at in columns)],
            cells=[
                [
                    line.label,
                    *(cells[line.label, at].result() if at in line.at else NONE for at in columns),
                ]
                for line in self.lines
            ],
        )
        words = f"{self.words} Data of `examples/{self.example}.toml`."
        return f"## {self.title}\n\n{words}\n\n{table_text(table)}\n"


@cache
def first_fold(example: str) -> Fold:
    """Return the first fold of an example, with the test ratings of a part of the items."""
    config = trained(example)
    train = config.training
    fold = random_folds(load(config.source), train.folds, config.seed, first=1)[0]
    learned = fold.train if train.cap is None else capped(fold.train, train.cap, config.seed)
    kept = fold.items % EVERY == 0
    return Fold(learned, fold.users[kept], fold.items[kept], fold.values[kept])


SECTIONS = (
    Section(
        "Where DPSGD-PNBM starts",
        "C = 15, β = 10, λ = 0.005, N_k = 500; η of 0.1 and 0.4 and K of 1, 2 and 5 are offered.",
        FIGURE_1,
        [
            *(Line(f"s_1 = {s:g}", LOW, PNBM | {"start": s}, ETA_K) for s in (*STARTS, 0.2, 1)),
            Line("s_1 = 0.05, K = 1, η = 0.004", LOW[:1], STEP | {"learning_rate": 0.004}),
            Line("not trained", LOW, STILL),
        ],
    ),
    Section(
        "The same on MovieLens-1M",
        "From s_1 = 0.05, K = 1; η of 0.01, 0.03, 0.1 and 0.3 are offered.",
        LARGER,
        [Line("s_1 = 0.05", (1, 20), STEP, SIZES), Line("not trained", (1, 20), STILL)],
    ),
    Section(
        "What the grid of DPSGD-PNBM leaves out",
        "One change of β = 10, C = 15, λ = 0.005, s_1 = 0.05, K = 1; η of 0.1 and 0.4 are offered.",
        FIGURE_1,
        [
            Line("no change", LOW, STEP, ETA),
            Line("C = 10", LOW, STEP | {"weight": 10.0}, ETA),
            Line("β = 20", LOW, STEP | {"rescale": 20.0}, ETA),
            Line("λ = 0.05", LOW, STEP | {"decay": 0.05}, ETA),
            *(Line(f"s_1 = {s:g}", LOW, STEP | {"start": s}, ETA) for s in (0.1, 0.2, 0.4)),
            *(Line(f"K = {k}", LOW, PNBM | {"steps": k}, ETA) for k in (5, 10, 20)),
            Line("not trained", LOW, STILL),
        ],
    ),
    Section(
        "What the grid of DPSGD-MF leaves out",
        "η = 8·10⁻⁴, K = 50, λ = 0.02.",
        FIGURE_1,
        [
            Line(f"d = {d}", (1, 20), MF | {"dimensions": d}, defense="dpsgd-mf")
            for d in (10, 15, 20)
        ],
    ),
    Section(
        "At a larger ε than the figures'",
        "The settings were chosen by hand; DPSGD-MF has d = 10, and λ = 0.02 unless a row says "
        "otherwise.",
        FIGURE_1,
        [
            Line("DPSGD-PNBM, s_1 = 0.05, K = 1, η = 0.4", HIGH, STEP | {"learning_rate": 0.4}),
            Line("DPSGD-PNBM, s_1 = 0.05, K = 10, η = 0.1", HIGH[1:], PNBM | {"steps": 10}),
            Line("DPSGD-MF, η = 0.016, K = 9", HIGH, LONG, defense="dpsgd-mf"),
            Line("DPSGD-MF, η = 0.008, K = 40, λ = 0.08", HIGH[1:], LONGER, defense="dpsgd-mf"),
            Line("DPSGD-MF, the paper's η = 8·10⁻⁴, K = 50", HIGH, MF, defense="dpsgd-mf"),
        ],
    ),
    Section(
        "Where the chain of DPPS-PNBM starts",
        "The paper's largest η_1, 8·10⁻⁶, and least temperature, ϱ = 0.001.",
        FIGURES_2_3,
        [
            *(
                Line(
                    f"start {start:g}, {steps} steps",
                    USERS[1:] if (start, steps) == (0.005, 300) else USERS[-1:],
                    CHAIN | {"start": start, "steps": steps},
                    defense="dpps-pnbm",
                    eta=8e-6,
                )
                for start, steps in ((1.0, 300), (0.05, 300), (0.005, 20), (0.005, 300))
            ),
            Line("not trained", USERS[-1:], STILL),
        ],
    ),
    Section(
        "How long the steps of DPPS-PNBM are",
        "From a start of 1, 20 steps. Offered are the sizes 0.003, 0.03, 0.3 and 1 of "
        "`learning_rate` at ϱ = 0.001, and 10⁻⁶, 10⁻⁴ and 0.01 at ϱ = 1.",
        FIGURES_2_3,
        [
            *(
                Line(
                    f"the paper's largest η_1, ϱ = {temperature:g}",
                    USERS[1::2],
                    CHAIN | {"temperature": temperature},
                    defense="dpps-pnbm",
                    eta=8e-6,
                )
                for temperature in (0.001, 0.09)
            ),
            Line("ϱ = 0.001", USERS, CHAIN, COLD, defense="dpps-pnbm"),
            Line("ϱ = 1", USERS, CHAIN | {"temperature": 1.0}, WARM, defense="dpps-pnbm"),
            Line("not trained", USERS[-1:], STILL),
        ],
    ),
)


def denominators(kept: Kept) -> str:
    """Return the table of the shares of denominators below C."""
    config = trained(FIGURE_1)
    ratings, learned = load(config.source), first_fold(FIGURE_1).train
    rows = [
        *((f"the first fold's, s_1 = {s:g}", learned, 1.0, STEP | {"start": s}) for s in STARTS),
        *(
            (f"all, C = {c:g}, K = 10, ε = {at:g}", ratings, at, PNBM | {"weight": c, "steps": 10})
            for c, at in ((10.0, 1.0), (15.0, 1.0), (10.0, 100.0))
        ),
    ]
    cells = []
    for label, train, at, params in rows:
        (defense,) = Line(label, [at], params).defenses(at)

        def share(step: int, defense: Any = defense, train: Ratings = train) -> float:
            streams = Streams.first(config.seed, "single", 1)
            return shortfalls(defense, defense.prepare(train), streams)[step].share

        shares = [kept.number(f"{label}: {step}", partial(share, step)) for step in (0, -1)]
        cells.append([label, *(f"{100 * of:.2g} %" for of in shares)])
    table = table_text(Table("", ["training ratings", "first step", "last step"], cells))
    return f"## Denominators below C\n\n{SHORT}\n\n{table}\n"


def main(folder: Path) -> None:
    """Write the page."""
    kept = Kept(folder / "single.json")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        sections = [section.text(pool, kept) for section in SECTIONS]
    text = "\n".join([HEAD, *sections, denominators(kept)])
    command = "docs/scripts/make_training_single.py FOLDER"
    title = "Single settings of recommenders that are trained"
    write("training-single", page(title, command, text, DATA_SETS))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
