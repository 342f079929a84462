"""Write docs/results/federated.md: fake gradients, with the open choices of their paper varied.

Run it with `DPAUDIT_DATA=… python docs/scripts/make_federated.py FOLDER`. Errors in
FOLDER/errors.json are read from there; the others are computed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from federated_design import (
    ALGORITHMS,
    APART,
    DELAYED,
    DENSITIES,
    DRAWN,
    DRAWN_BY,
    GRID,
    HALF,
    LAWS,
    MOST,
    NEITHER,
    NORMAL,
    SENTENCES,
    UNIFORM,
    ZERO,
    Params,
    Sentence,
    defense,
    settings,
)
from pages import DATA_SETS, page, trained, write

from dpaudit.audits.trained.subject import errors, guess_means, mean_errors, over_folds
from dpaudit.core.estimate import Estimate
from dpaudit.core.files import write_text
from dpaudit.core.streams import Streams
from dpaudit.data.folds import Fold, random_folds
from dpaudit.data.readers.load import load as read
from dpaudit.defenses.federated.fake_gradients import FakeGradients
from dpaudit.defenses.federated.training import FederatedTraining
from dpaudit.reports.render.markdown import captioned
from dpaudit.reports.table import NONE, Table
from dpaudit.reports.words import interval, measured

COMMAND = "docs/scripts/make_federated.py FOLDER"
FOLDS, RUN, SEED = 5, 3, 1
ROUNDS = (10, 25, 50, 100, 200, 300, 400)

TITLE = "Fake gradients: section 5 of their paper, with its open choices varied"
HEAD = """\
[Federated training](../methods/federated.md) discusses the numbers. Each cell is the root mean
squared error on test ratings of MovieLens-100K, a mean over the first three of five folds and one
training of each, with Student's interval over folds. The interval has 2 degrees of freedom and
folds that share training ratings, so it shows scatter and proves nothing. A difference is paired:
both sides have the same folds, candidates, initial factors and draws of noise. Training takes 400
rounds. Ranges and levels were set after a look at one training of each on the first fold; no cell
is chosen by its test errors.

Documented setting: ε = 50 (σ = 3), p = .75, all candidates submitted in each round, d = 16, λ = .1,
AdaDelta with ρ = .95 and a learning rate η = 1, π̂ of at least .05, F of norm 5 at most, initial
factors of deviation .1, no offset b. Made-up ratings are uniform on the scale, or normal with mean
0 and deviation 1."""
BASELINES = """*Best*: λ of .01, .03, .1 and ρ of .95, .99 are chosen for each algorithm, density
and fold by the error on a tenth of that fold's training ratings."""
LAWS_NOTE = "Nothing removes made-up ratings, so predictions move towards them."
APART_NOTE = "The second row has the delayed mean's server without F: its norm is cut to 10⁻¹²."
COUNTS = """Counted by the mean over folds, with the worse density of each fold; in brackets, by the
whole interval. *That learn*: settings in which zero fakes have a smaller error than items' means,
at both densities."""


class Rounds:
    """Errors by round for trainings on each fold, stored in a file.

    Attributes:
        folds: the folds that are run.
    """

    def __init__(self, folder: Path) -> None:
        source = trained("ml-100k-fake-gradients").data
        self.folds = random_folds(read(source), FOLDS, SEED)[:RUN]
        self._inner = [random_folds(fold.train, 10, SEED)[0] for fold in self.folds]
        self._file = folder / "errors.json"
        self._seen: dict[str, list[float]] = {}
        if self._file.is_file():
            self._seen = json.loads(self._file.read_text(encoding="utf-8"))

    def curves(self, defense: FakeGradients) -> list[list[float]]:
        """Return the rmse on test ratings after each of `ROUNDS`, by fold."""
        return [self._curve(f"fold {k}", k, fold, defense) for k, fold in enumerate(self.folds)]

    def last(self, defense: FakeGradients) -> list[float]:
        """Return the rmse on test ratings after the last round, by fold."""
        return [curve[-1] for curve in self.curves(defense)]

    def items_means(self) -> list[float]:
        """Return the rmse of predicting each item by its mean rating, by fold."""
        guesses = [guess_means(fold.train, fold.items)[None] for fold in self.folds]
        return [
            float(mean_errors(guess, fold.values)[0, 0])
            for guess, fold in zip(guesses, self.folds, strict=True)
        ]

    def best(self, defenses: Sequence[FakeGradients]) -> list[float]:
        """Return the rmse, by fold, of the defense that is best on a tenth of the training part."""
        found = []
        for k, (fold, inner) in enumerate(zip(self.folds, self._inner, strict=True)):
            tried = [self._curve(f"held back {k}", k, inner, each)[-1] for each in defenses]
            chosen = defenses[int(np.argmin(tried))]
            found.append(self._curve(f"fold {k}", k, fold, chosen)[-1])
        return found

    def _curve(self, where: str, k: int, fold: Fold, defense: FakeGradients) -> list[float]:
        key = f"{where}: {defense}"
        if key not in self._seen:
            start = time.perf_counter()
            self._seen[key] = _trained(defense, fold, Streams.first(SEED, f"fold/{k}", 1))
            write_text(self._file, json.dumps(self._seen))
            print(f"{time.perf_counter() - start:.1f} s", key, flush=True)
        return self._seen[key]


def _trained(defense: FakeGradients, fold: Fold, trial: Streams) -> list[float]:
    probe, found = errors(fold), []
    training = FederatedTraining(defense, defense.prepare(fold.train), trial)
    for _ in range(defense.rounds):
        training.run_round()
        if training.done in ROUNDS:
            found.append(float(probe(training.models())[0, 0]))
    return found


def main(folder: Path) -> None:
    """Write the page."""
    folder.mkdir(parents=True, exist_ok=True)
    outcome, design = Rounds(folder), settings()
    parts = [HEAD, "## Figures 1 and 2: error by round"]
    parts += [captioned(_figure(outcome, density)) for density in DENSITIES]
    parts += ["## Baselines", captioned(_baselines(outcome)), BASELINES]
    parts += [
        "## Table 2 taken apart",
        captioned(_above_zero(outcome, "Ratings made up, by their law", LAWS)),
        LAWS_NOTE,
        captioned(_above_zero(outcome, "From zero fakes to the delayed mean", APART)),
        APART_NOTE,
        f"## Table 2 in {len(design)} settings",
        f"{len(design) - DRAWN - 1} settings differ from the documented one in one choice; of "
        f"{DRAWN} each choice is drawn from its values, by seed {DRAWN_BY}.",
        captioned(_counts(outcome, design)),
        COUNTS,
    ]
    parts += [captioned(_table(outcome, design, density)) for density in DENSITIES]
    write("federated", page(TITLE, COMMAND, "\n\n".join(parts), DATA_SETS))


def _figure(outcome: Rounds, density: float) -> Table:
    models = {name: defense(each, density, {}) for name, each in ALGORITHMS.items()}
    curves = [np.mean(outcome.curves(each), axis=0) for each in (NEITHER, *models.values())]
    rows = [
        [str(done), *(measured(float(curve[k])) for curve in curves)]
        for k, done in enumerate(ROUNDS)
    ]
    return Table(
        f"Figure {1 + DENSITIES.index(density)}: {100 * density:g} % of fakes",
        ["rounds", "no noise, no fakes", *models],
        rows,
    )


def _baselines(outcome: Rounds) -> Table:
    """Errors of each algorithm as documented, and with settings chosen on held-back ratings."""
    choices = [dict(zip(GRID, values, strict=True)) for values in product(*GRID.values())]
    means = outcome.items_means()
    nothing = [replace(NEITHER, **each) for each in choices]  # type: ignore[arg-type]
    rows = [
        ["items' means", _rmse(means), NONE, _rmse(means), NONE],
        [
            "no noise, no fakes",
            _rmse(outcome.last(NEITHER)),
            NONE,
            _rmse(outcome.best(nothing)),
            NONE,
        ],
    ]
    for name, algorithm in ALGORITHMS.items():
        cells = {
            q: (
                _rmse(outcome.last(defense(algorithm, q, {}))),
                _rmse(outcome.best([defense(algorithm, q, each) for each in choices])),
            )
            for q in DENSITIES
        }
        rows.append([name, cells[HALF][0], cells[MOST][0], cells[HALF][1], cells[MOST][1]])
    return Table(
        "Baselines after 400 rounds, as documented and at their best",
        ["", "50 %", "75 %", "50 %, best", "75 %, best"],
        rows,
    )


def _above_zero(outcome: Rounds, caption: str, algorithms: dict[str, Params]) -> Table:
    rows = []
    for name, algorithm in algorithms.items():
        cells = []
        for density in DENSITIES:
            own = outcome.last(defense(algorithm, density, {}))
            zero = outcome.last(defense(ZERO, density, {}))
            cells += [_rmse(own), NONE if algorithm is ZERO else _rmse(_less(own, zero))]
        rows.append([name, *cells])
    return Table(caption, ["", "rmse, 50 %", "less zero's", "rmse, 75 %", "less zero's"], rows)


def _table(outcome: Rounds, design: dict[str, Params], density: float) -> Table:
    rows = []
    for label, params in design.items():
        by = {name: defense(each, density, params) for name, each in ALGORITHMS.items()}
        zero, *others = (outcome.last(each) for each in by.values())
        sigma = by["zero"].sigma(by["zero"].prepare(outcome.folds[0].train))
        rows.append([
            label,
            f"{sigma:.3g}",
            *(_rmse(each) for each in (zero, *others)),
            *(_rmse(_less(each, zero)) for each in others),
        ])  # fmt: skip
    differences = [f"{name} − zero" for name in list(ALGORITHMS)[1:]]
    return Table(
        f"{100 * density:g} % of fakes, by setting",
        ["setting", "σ", *ALGORITHMS, *differences],
        rows,
    )


def _counts(outcome: Rounds, design: dict[str, Params]) -> Table:
    """Count the settings in which each sentence holds, by the law of made-up ratings."""
    level_of_means = float(np.mean(outcome.items_means()))
    learned = {
        label: params
        for label, params in design.items()
        if all(
            np.mean(outcome.last(defense(ZERO, density, params))) < level_of_means
            for density in DENSITIES
        )
    }
    columns = {
        f"{law}, {which}": list(_numbers(outcome, part, made_up))
        for which, part in (("all", design), ("that learn", learned))
        for law, made_up in (("uniform", UNIFORM), ("normal", NORMAL))
    }
    rows = [
        [
            f"{sentence.words}{'' if sentence.levels == (0.0,) else f' {level:g}'}",
            *(_so(sentence, level, [each[place] for each in found]) for found in columns.values()),
        ]
        for place, sentence in enumerate(SENTENCES)
        for level in sentence.levels
    ]
    caption = f"In how many of {len(design)} settings, and of {len(learned)} that learn, each is so"
    return Table(caption, ["sentence", *columns], rows)


def _so(sentence: Sentence, level: float, found: Sequence[Estimate]) -> str:
    """Count the numbers that agree with a sentence, and the whole intervals that do."""
    if sentence.most:
        so, sure = [e.value <= level for e in found], [e.upper <= level for e in found]
    else:
        so, sure = [e.value > level for e in found], [e.lower > level for e in found]
    return f"{sum(so)} ({sum(sure)})"


def _numbers(
    outcome: Rounds, design: dict[str, Params], made_up: Params
) -> Iterator[list[Estimate]]:
    """Yield, for each setting, the number of each sentence, estimated over folds."""
    for params in design.values():
        algorithms = {"zero": ZERO, "delayed": DELAYED, "made up": made_up}
        last = {
            name: {q: outcome.last(defense(each, q, params)) for q in DENSITIES}
            for name, each in algorithms.items()
        }
        yield [
            over_folds(
                [
                    sentence.number(
                        {name: {q: own[q][k] for q in DENSITIES} for name, own in last.items()}
                    )
                    for k in range(RUN)
                ],
                0.95,
            )
            for sentence in SENTENCES
        ]


def _less(mine: Sequence[float], other: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(mine, other, strict=True)]


def _rmse(by_fold: Sequence[float]) -> str:
    return interval(over_folds(by_fold, 0.95))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
