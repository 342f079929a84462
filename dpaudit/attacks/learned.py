"""A score learned from outputs alone: for mechanisms whose law is not known.

The most powerful score is the likelihood ratio of the two worlds; a probabilistic classifier's
log-odds estimate it (Bichsel et al. 2021, DP-Sniper, doi:10.1109/SP40001.2021.00081). Any score is
valid where its threshold is certified on outputs that it has not seen; a better one certifies more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.classifiers import (
    Fitter,
    Matrix,
    Model,
    Vector,
    Worlds,
    fit_additive,
    fit_frequencies,
    fit_trees,
    keys,
)
from dpaudit.bounds.intervals import clopper_pearson_each
from dpaudit.errors import InputError

# n outputs: an array (n, ...) of numbers, or n numbers, words, or sequences of either.
Outputs = NDArray[Any] | Sequence[Any]

_NUMBER = int | float | np.number | np.bool_
_LEAST = 10
_VALIDATION = 0.3
# The level at which models are compared; it certifies nothing.
_ALPHA = 0.01
_THRESHOLDS = 200
_QUICK: tuple[str, Fitter] = "additive, shrunk", partial(fit_additive, inverse_penalty=1e-3)
# Counts are tried where there are fewer distinct outputs than this share of all.
_DISTINCT = 0.2


@dataclass(frozen=True)
class LearnedScore:
    """A score of outputs, large where world D' is likelier.

    Attributes:
        codes: the number that stands for each word; empty where outputs are numbers.
        width: the number of entries of the longest output of the training.
        model: the log-odds of a row of entries and their number.
        name: which model it is.
    """

    codes: dict[str, int]
    width: int
    model: Model
    name: str

    @classmethod
    def fit(
        cls, absent: Outputs, present: Outputs, seed: int, *, quick: bool = False
    ) -> LearnedScore:
        """Learn to tell worlds D' from worlds D.

        The models are an additive logistic regression (weakly or strongly regularised), boosted
        trees, and, where outputs repeat, their frequencies, shrunk to the better of these. Fitted
        to 70 % of the outputs, the one is chosen that certifies the largest ε on the other 30 %,
        or, where none certifies any, has the least log-loss there; it is fitted again to all.

        Args:
            absent: outputs of worlds D: an array `(n, ...)` of numbers, or n numbers, words, or
                sequences of either, whose lengths may vary; None is no entry. In an array, code a
                mark such as "no answer" by a number that no answer has.
            present: outputs of worlds D'.
            seed: of the split and of the models. The result depends on nothing else, nor on the
                number of threads.
            quick: fit the strongly regularised additive model, the best most often, without a
                comparison.

        Raises:
            InputError: fewer than 10 outputs of a world, or a number that is not finite.
        """
        import sklearn.ensemble  # noqa: F401  before the limit, which binds what is loaded
        from threadpoolctl import threadpool_limits

        grids = _grid(absent, "absent"), _grid(present, "present")
        for grid, name in zip(grids, ("absent", "present"), strict=True):
            if len(grid) < _LEAST:
                raise InputError(f"{name} has {len(grid)} outputs: give at least {_LEAST} to learn")
        words: set[str] = set()
        if any(grid.dtype == object for grid in grids):
            words = {_word(x) for grid in grids for x in grid.flat if not _is_gap(x)}
        codes = {word: i for i, word in enumerate(sorted(words))}
        width = max(grid.shape[1] for grid in grids)
        rng = np.random.default_rng(seed)
        train, held_out = [], []
        for grid in grids:
            rows = rng.permutation(_rows(grid, codes, width))
            cut = int(_VALIDATION * len(rows))
            train.append(rows[cut:])
            held_out.append(rows[:cut])
        # One thread: sums in another order would round differently.
        with threadpool_limits(1):
            name, fitter = _QUICK
            if not quick:
                name, fitter = _choose((train[0], train[1]), (held_out[0], held_out[1]), seed)
            both = [np.concatenate(parts) for parts in zip(train, held_out, strict=True)]
            return cls(codes, width, fitter((both[0], both[1])), name)

    def score(self, outputs: Outputs) -> Vector:
        """The log-odds of world D' `(n,)`: finite, and equal for equal outputs.

        Words that the training did not see are all alike; entries beyond its longest output count
        for its length alone.

        Raises:
            InputError: there is no output, a number is not finite, or there are words where the
                training had numbers.
        """
        grid = _grid(outputs, "outputs")
        if grid.dtype == object and not self.codes:
            raise InputError("outputs hold words, but the training had numbers: code them as there")
        return self.model.log_odds(_rows(grid, self.codes, self.width))


def _grid(outputs: Outputs, name: str) -> NDArray[Any]:
    """One row an output: of numbers, shorter ones padded by infinity, or of objects, by None."""
    if (isinstance(outputs, np.ndarray) and outputs.ndim == 0) or not len(outputs):
        raise InputError(f"{name} are empty: give at least one output")
    if not isinstance(outputs, np.ndarray) or outputs.dtype.kind not in "biuf":
        items = [x if isinstance(x, tuple | list | np.ndarray) else (x,) for x in outputs]
        grid = np.full((len(items), max(map(len, items), default=0)), None, object)
        for row, item in zip(grid, items, strict=True):
            for j, entry in enumerate(item):
                row[j] = entry
        gap = np.array([x is None for x in grid.flat], np.bool_).reshape(grid.shape)
        if not all(isinstance(x, _NUMBER) for x in grid[~gap]):
            return grid
    else:
        grid = outputs.reshape(len(outputs), -1)
        gap = np.zeros(grid.shape, np.bool_)
    numbers = np.where(gap, 0.0, grid).astype(np.float64)
    bad = np.argwhere(~np.isfinite(numbers))
    if len(bad):
        raise InputError(
            f"{name}[{bad[0][0]}] holds {numbers[tuple(bad[0])]}, which is not a finite number: "
            "code what is no number by one that is no answer"
        )
    return np.where(gap, np.inf, numbers)


def _is_gap(entry: Any) -> bool:
    """Whether an entry is padding."""
    return entry is None or (isinstance(entry, _NUMBER) and entry == np.inf)


def _word(entry: Any) -> str:
    """An entry as a word: the same for 1 and 1.0, whatever the other outputs of its batch are.

    Were it not, numbers among words in one world and among numbers in the other would differ.
    """
    return repr(float(entry)) if isinstance(entry, _NUMBER) else str(entry)


def _rows(grid: NDArray[Any], codes: dict[str, int], width: int) -> Matrix:
    """`width` entries, padded by infinity, and their number."""
    if codes:
        coded = [np.inf if _is_gap(x) else codes.get(_word(x), -1) for x in grid.flat]
        grid = np.array(coded, np.float64).reshape(grid.shape)
    rows = np.full((len(grid), width + 1), np.inf)
    kept = min(width, grid.shape[1])
    rows[:, :kept] = grid[:, :kept]
    rows[:, width] = np.isfinite(grid.astype(np.float64)).sum(1)
    return rows + 0.0  # −0 becomes 0, so that equal rows have equal bytes


def _choose(train: Worlds, held_out: Worlds, seed: int) -> tuple[str, Fitter]:
    """The model that is best on the held-out worlds."""
    fitters: dict[str, Fitter] = {
        "additive": partial(fit_additive, inverse_penalty=1.0),
        _QUICK[0]: _QUICK[1],
        "trees": partial(fit_trees, seed=seed),
    }
    worth = {name: _worth(fitter(train), held_out) for name, fitter in fitters.items()}
    best = max(worth, key=worth.__getitem__)
    seen = np.concatenate(train)
    if len(set(keys(seen))) < _DISTINCT * len(seen):
        counts = partial(fit_frequencies, smooth=fitters[best])
        if _worth(counts(train), held_out) > worth[best]:
            return f"frequencies over {best}", counts
    return best, fitters[best]


def _worth(model: Model, worlds: Worlds) -> tuple[float, float]:
    """The largest ε that the model's thresholds would certify here, and minus the log-loss."""
    scores = [np.sort(model.log_odds(rows)) for rows in worlds]
    pooled = np.unique(np.concatenate(scores))
    keep = np.unique(np.linspace(0, len(pooled) - 1, _THRESHOLDS).astype(int))
    below = [np.searchsorted(s, pooled[keep], "right") for s in scores]
    limits = [clopper_pearson_each(b, len(s), _ALPHA) for b, s in zip(below, scores, strict=True)]
    bounds = []
    for one, other in ((0, 1), (1, 0)):
        (low, high), (least, most) = limits[one], limits[other]
        bounds += [low / most, (1 - high) / (1 - least)]  # the event and its complement
    loss = sum(np.logaddexp(0, sign * s).mean() for sign, s in zip((1, -1), scores, strict=True))
    return max(0.0, float(np.log(np.maximum(bounds, 1.0).max()))), -float(loss)
