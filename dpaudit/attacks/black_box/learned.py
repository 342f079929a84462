"""A score learned from outputs alone: for mechanisms whose law is not known.

The most powerful score is the likelihood ratio of the two trials; a probabilistic classifier's
log-odds estimate it (Bichsel et al. 2021, DP-Sniper, doi:10.1109/SP40001.2021.00081). Any score is
valid where its threshold is certified on outputs that it has not seen; a better one certifies more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.black_box.choice import choose, fit_quick, joined, stacked
from dpaudit.attacks.black_box.classifiers import Model, Sample, Vector
from dpaudit.attacks.black_box.encoding import Encoding, Outputs
from dpaudit.attacks.black_box.features import common_values
from dpaudit.bounds.frequentist.revealing import Ends
from dpaudit.core.errors import InputError
from dpaudit.core.streams import generator

__all__ = ["LearnedScore", "Outputs"]

_LEAST, _BLOCK = 10, 32_768
# The part of the outputs that models are compared by.
_VALIDATION = 0.3


@dataclass(frozen=True)
class LearnedScore:
    """A score of outputs, large where data set D' is likelier.

    Attributes:
        encoding: how outputs become rows.
        model: the log-odds of a row.
        name: which model it is.
        side: where the most informative scores are: at the top, at the bottom, or at both.
    """

    encoding: Encoding
    model: Model
    name: str
    side: Ends = "top"

    @classmethod
    def fit(
        cls,
        absent: Outputs,
        present: Outputs,
        seed: int,
        *,
        quick: bool = False,
        trials: int | None = None,
    ) -> LearnedScore:
        """Learn to tell data set D' from data set D.

        The models are additive logistic regressions (with terms for each leaf, or with terms that
        all leaves share, of several penalties), boosted trees, where outputs repeat their
        frequencies, shrunk to the best of these, and rare events on top. All are fitted to 70 % of
        the outputs. Of those whose best event promises nearly the largest certified ε on the other
        30 %, the one with the least log-loss is chosen, with the largest penalty of its kind that
        is hardly worse; it is fitted again to all.

        Args:
            absent: outputs of data set D: an array `(n, ...)` of numbers, or n objects of any form.
            present: outputs of data set D'.
            seed: of the split and of the models. The result depends on nothing else, nor on the
                number of threads.
            quick: fit one additive model, and frequencies where outputs repeat, without a
                comparison.
            trials: outputs that the certificate will see; as many as are given here if None.

        Raises:
            InputError: fewer than 10 outputs of a trial, or outputs in which nothing can be read.
        """
        import sklearn.ensemble  # noqa: F401  before the limit, which binds what is loaded
        from threadpoolctl import threadpool_limits

        for outputs, name in ((absent, "absent"), (present, "present")):
            count = np.shape(outputs)[:1] if isinstance(outputs, np.ndarray) else (len(outputs),)
            if not count or not count[0]:
                raise InputError(f"{name} are empty: give at least one output")
            if count[0] < _LEAST:
                raise InputError(f"{name} has {count[0]} outputs: give at least {_LEAST} to learn")
        encoding = Encoding.fit([absent, present])
        rng = generator(seed)
        # One thread: sums in another order would round differently.
        with threadpool_limits(1):
            train, held_out = _split(encoding, (absent, present), rng)
            if quick:
                both = joined(train, held_out)
                return cls(encoding, fit_quick(both), "additive")
            trials = len(train.labels) + len(held_out.labels) if trials is None else trials
            return cls(encoding, *choose(train, held_out, seed, trials))

    def score(self, outputs: Outputs) -> Vector:
        """The log-odds of data set D' `(n,)`: finite, and a function of each output alone.

        Forms and words that the training did not see are all alike; entries beyond its longest
        output count for its length alone.

        Raises:
            InputError: there is no output.
        """
        if (isinstance(outputs, np.ndarray) and outputs.ndim == 0) or not len(outputs):
            raise InputError("outputs are empty: give at least one output")
        # In blocks that fit a processor's cache.
        blocks = range(0, len(outputs), _BLOCK)
        return np.concatenate(
            [
                self.model.log_odds(self.encoding.encode(outputs[start : start + _BLOCK]))
                for start in blocks
            ]
        )


def _split(
    encoding: Encoding, trials: tuple[Outputs, Outputs], rng: np.random.Generator
) -> tuple[Sample, Sample]:
    """The encoded outputs in random order: those that models are fitted to, and the others."""
    tables = [encoding.encode(outputs) for outputs in trials]
    labels = np.repeat([0, 1], [len(table) for table in tables])
    together = stacked(*tables)
    orders = [rng.permutation(np.flatnonzero(labels == trial)) for trial in (0, 1)]
    cuts = [int(_VALIDATION * len(order)) for order in orders]
    atoms = common_values(together)

    def sample(rows: list[NDArray[np.int64]]) -> Sample:
        chosen = rng.permutation(np.concatenate(rows))
        return Sample(together.take(chosen), labels[chosen], atoms)

    return (
        sample([order[cut:] for order, cut in zip(orders, cuts, strict=True)]),
        sample([order[:cut] for order, cut in zip(orders, cuts, strict=True)]),
    )
