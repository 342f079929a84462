"""A score learned from outputs alone, for mechanisms whose distribution is not known.

The most powerful score is the likelihood ratio of D' to D; a probabilistic classifier's log-odds
estimate it (Bichsel et al. 2021, DP-Sniper, doi:10.1109/SP40001.2021.00081). Any score is valid if
it is certified on outputs that were not used to learn it; a better one certifies a larger ε.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.black_box.classifiers import LabelledOutputs, Labels, OddsModel, Vector
from dpaudit.attacks.black_box.encoding import EncodedOutputs, Encoding, Outputs
from dpaudit.attacks.black_box.features import common_values
from dpaudit.attacks.black_box.model_choice import choose, fit_quick, joined_samples, stacked
from dpaudit.attacks.black_box.rare import Rare
from dpaudit.bounds.frequentist.event_choice import Ends
from dpaudit.core.errors import InputError
from dpaudit.core.streams import generator

__all__ = ["LearnedScore", "Outputs"]

# The fewest outputs of a data set, and the most rows and entries of a block.
_LEAST, _BLOCK, _CELLS = 10, 32_768, 20_000_000
# The fraction of the outputs that models are compared on.
_VALIDATION = 0.3


@dataclass(frozen=True)
class LearnedScore:
    """A score of outputs, larger where data set D' is more likely.

    Attributes:
        encoding: the encoding of outputs as rows.
        model: the model of a row's log-odds.
        name: the name of the model.
        side: where the most informative scores are: at the top, at the bottom, or at both ends.
        rare: rare events that are forecast to certify more than the score; None for none.
    """

    encoding: Encoding
    model: OddsModel
    name: str
    side: Ends = "top"
    rare: Rare | None = None

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
        """Learn to distinguish data set D' from data set D.

        The models are: additive logistic regressions with several penalties (with terms for each
        leaf, or with terms shared by all leaves); boosted trees; if outputs repeat, their
        frequencies, shrunk towards the best of these. All are fitted to
        70 % of the outputs. The other 30 % forecast the certified ε of each model's best event. Of
        the models with nearly the largest forecast, the one with the least log-loss is chosen, with
        the largest penalty of its kind that is not clearly worse. It is refitted to all outputs.
        Rare events are found beside it; see `rare`.

        Args:
            absent: outputs of data set D: an array `(n, ...)` of numbers, or n objects of any form.
            present: outputs of data set D'.
            seed: seed of the split and of the models. The result depends only on it and on the
                outputs, not on the number of threads.
            quick: fit one additive model, and frequencies if outputs repeat, without comparing
                models.
            trials: number of outputs that the certificate will use; if None, the number given here.

        Raises:
            InputError: fewer than 10 outputs of a data set, or outputs that cannot be read.
        """
        import sklearn.ensemble  # noqa: F401  before the limit, which affects loaded libraries only
        from threadpoolctl import threadpool_limits

        for outputs, name in ((absent, "absent"), (present, "present")):
            count = np.shape(outputs)[:1] if isinstance(outputs, np.ndarray) else (len(outputs),)
            if not count or not count[0]:
                raise InputError(f"{name} are empty: give at least one output")
            if count[0] < _LEAST:
                raise InputError(f"{name} has {count[0]} outputs: give at least {_LEAST} to learn")
        encoding = Encoding.fit([absent, present])
        rng = generator(seed)
        # One thread, because another order of sums would round differently.
        with threadpool_limits(1):
            train, held_out = _split(encoding, (absent, present), rng)
            if quick:
                both = joined_samples(train, held_out)
                return cls(encoding, fit_quick(both), "additive")
            trials = len(train.labels) + len(held_out.labels) if trials is None else trials
            chosen = choose(train, held_out, seed, trials)
            return cls(encoding, chosen.model, chosen.name, chosen.side, chosen.rare)

    def score(self, outputs: Outputs) -> Vector:
        """Return the log-odds of data set D' `(n,)`, finite and a function of each output alone.

        Unknown forms and words are one category each; entries beyond the longest training output
        affect only the length.

        Raises:
            InputError: there is no output.
        """
        if (isinstance(outputs, np.ndarray) and outputs.ndim == 0) or not len(outputs):
            raise InputError("outputs are empty: give at least one output")
        return np.concatenate([self.model.log_odds(table) for table in self._blocks(outputs)])

    def guesses(self, outputs: Outputs) -> Labels | None:
        """Return 1 (D') or −1 (D) for outputs in rare events, 0 for others; None without `rare`."""
        if self.rare is None:
            return None
        return np.concatenate([self.rare.guesses(table) for table in self._blocks(outputs)])

    def _blocks(self, outputs: Outputs) -> Iterator[EncodedOutputs]:
        """Yield the encoded outputs in blocks that fit in the processor's cache."""
        rows = max(1, min(_BLOCK, _CELLS // max(1, self.encoding.columns)))
        for start in range(0, len(outputs), rows):
            yield self.encoding.encode(outputs[start : start + rows])


def _split(
    encoding: Encoding, trials: tuple[Outputs, Outputs], rng: np.random.Generator
) -> tuple[LabelledOutputs, LabelledOutputs]:
    """Split the encoded outputs at random: those that models are fitted to, and the others."""
    tables = [encoding.encode(outputs) for outputs in trials]
    labels = np.repeat([0, 1], [len(table) for table in tables])
    together = stacked(*tables)
    orders = [rng.permutation(np.flatnonzero(labels == trial)) for trial in (0, 1)]
    cuts = [int(_VALIDATION * len(order)) for order in orders]
    atoms = common_values(together)

    def sample(rows: list[NDArray[np.int64]]) -> LabelledOutputs:
        chosen = rng.permutation(np.concatenate(rows))
        return LabelledOutputs(together.take(chosen), labels[chosen], atoms)

    return (
        sample([order[cut:] for order, cut in zip(orders, cuts, strict=True)]),
        sample([order[:cut] for order, cut in zip(orders, cuts, strict=True)]),
    )
