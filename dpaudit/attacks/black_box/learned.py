"""A score learned from outputs alone, for mechanisms whose distribution is not known.

The most powerful score is the likelihood ratio of D' to D; a probabilistic classifier's log-odds
estimate it (Bichsel et al. 2021, DP-Sniper, doi:10.1109/SP40001.2021.00081). Any score is valid if
it is certified on outputs that were not used to learn it; a better one certifies a larger ε. The
same holds of the choice of its model by held-out outputs: a bad one costs power alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.black_box.classifiers import (
    Fitter,
    LabelledOutputs,
    OddsModel,
    Term,
    fewer_than,
    fit_additive,
    fit_frequencies,
    fit_trees,
    pooled_terms,
    terms_of,
)
from dpaudit.attacks.black_box.encoding import EncodedOutputs, Encoding, Outputs
from dpaudit.attacks.black_box.features import (
    Feature,
    Labels,
    Vector,
    common_values,
    fine_features,
    smooth_features,
)
from dpaudit.attacks.black_box.prospects import Prospect, Rare, fit_rare, prospect
from dpaudit.bounds.frequentist.labels import Ends
from dpaudit.core.errors import InputError
from dpaudit.core.streams import generator

# The family, the name and the fit of a model, and the function that fits it to other outputs.
_Model = tuple[str, str, OddsModel, Fitter]

# The fewest outputs of a data set, and the most rows and entries of a block.
_LEAST, _BLOCK, _CELLS = 10, 32_768, 20_000_000
# The fraction of the outputs that models are compared on.
_VALIDATION = 0.3
# Largest number of training outputs for comparing models; the best is refitted to all.
_COMPARED = 300_000
# Ridge penalties of the additive model, largest first; of the pooled model; of the quick model.
_PENALTIES, _POOLED, _QUICK = (1e5, 1e4, 1000.0, 30.0, 1.0), (1e4, 30.0), 1000.0
# Weights of the smooth model's probability for an output, in pseudo-counts.
_PRIORS = (10_000.0, 1000.0, 100.0, 10.0)
# Frequencies are tried if distinct outputs are fewer than this fraction of all.
_DISTINCT = 0.2
# Models whose forecast bound is at least this fraction of the largest are compared by log-loss,
# which varies less by chance.
_NEARLY = 0.7
# Rare events are certified beside the score if their forecast bound exceeds the score's by this
# factor, since each of the two then gets half of the level.
_CLEARLY = 1.1


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
        Rare events are found beside it; see `prospects`.

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
                return cls(encoding, _quick(_joined(train, held_out)), "additive")
            trials = len(train.labels) + len(held_out.labels) if trials is None else trials
            return cls(encoding, *_chosen(train, held_out, seed, trials))

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
    together = _stacked(tables)
    orders = [rng.permutation(np.flatnonzero(labels == trial)) for trial in (0, 1)]
    cuts = [int(_VALIDATION * len(order)) for order in orders]
    atoms = common_values(together)

    def sample(rows: list[NDArray[np.int64]]) -> LabelledOutputs:
        chosen = rng.permutation(np.concatenate(rows))
        return LabelledOutputs(together.take(chosen), labels[chosen], atoms)

    fitting = sample([order[cut:] for order, cut in zip(orders, cuts, strict=True)])
    return fitting, sample([order[:cut] for order, cut in zip(orders, cuts, strict=True)])


def _stacked(tables: Sequence[EncodedOutputs]) -> EncodedOutputs:
    """Concatenate the rows of several tables."""
    names = EncodedOutputs.__dataclass_fields__
    return EncodedOutputs(
        *(np.concatenate([getattr(table, name) for table in tables]) for name in names)
    )


def _joined(first: LabelledOutputs, second: LabelledOutputs) -> LabelledOutputs:
    """Concatenate two samples that have the same atoms."""
    table = _stacked([first.table, second.table])
    return replace(first, table=table, labels=np.concatenate([first.labels, second.labels]))


def _quick(sample: LabelledOutputs) -> OddsModel:
    """Fit one additive model, and frequencies if outputs repeat, without comparing models."""
    columns, labels = sample.columns, sample.labels
    features = smooth_features(columns, labels) + fine_features(columns, labels)
    model: OddsModel = fit_additive(sample, terms_of(sample, features), [_QUICK])[0]
    return fit_frequencies(sample, model, _PRIORS[-1]) if fewer_than(sample, _DISTINCT) else model


def _chosen(
    train: LabelledOutputs, held_out: LabelledOutputs, seed: int, trials: int
) -> tuple[OddsModel, str, Ends, Rare | None]:
    """Choose the model with the best forecast on held-out outputs, and rare events if any.

    Args:
        train: the outputs that models are fitted to.
        held_out: the outputs that models are compared on; the chosen model is refitted to both.
        seed: the seed of boosted trees.
        trials: the number of outputs that the certificate will use.

    Returns:
        The model, its name, the side of its most informative scores, and the rare events.
    """
    sample = train.thinned(_COMPARED)
    plain = smooth_features(sample.columns, sample.labels)
    features = plain + fine_features(sample.columns, sample.labels)
    smooth = _tried(_smooth_models(sample, features, seed), held_out, trials)
    least = _NEARLY * max(candidate.promise.epsilon for candidate in smooth)
    near = [candidate for candidate in smooth if candidate.promise.epsilon >= least]
    family = min(near, key=lambda candidate: candidate.loss).family
    best = _cautious([candidate for candidate in smooth if candidate.family == family])
    if fewer_than(train, _DISTINCT):
        counted = _cautious(_tried(_counting_models(train, best), held_out, trials))
        if counted.promise.epsilon >= least and counted.loss < best.loss:
            best = counted
    outputs = _joined(train, held_out)
    usual = fit_additive(sample, terms_of(sample, plain), [_QUICK])[0]
    rare = fit_rare(outputs, features, usual, trials)
    if rare is not None and rare.promise <= _CLEARLY * best.promise.epsilon:
        rare = None
    return best.fit(outputs), best.name, best.promise.side, rare


@dataclass(frozen=True)
class _Tried:
    """A model and its performance on held-out outputs.

    Attributes:
        family: models of a family differ in regularisation, by a penalty or a prior; the most
            regularised comes first.
        name: the name of the model.
        model: the model.
        fit: the function that fits it to other outputs.
        promise: the forecast of its certified bound.
        losses: log-loss of each held-out output.
    """

    family: str
    name: str
    model: OddsModel
    fit: Fitter
    promise: Prospect
    losses: Vector

    @property
    def loss(self) -> float:
        """The mean loss."""
        return float(self.losses.mean())

    def hardly_worse(self, other: _Tried) -> bool:
        """Whether its mean loss exceeds another's by at most half a standard error."""
        excess = self.losses - other.losses
        return float(excess.mean()) <= 0.5 * float(excess.std()) / len(excess) ** 0.5


def _tried(models: Iterable[_Model], held_out: LabelledOutputs, trials: int) -> list[_Tried]:
    """Return models with their performance; `trials` outputs will certify."""
    labels, tried = held_out.labels, []
    for family, name, model, fit in models:
        scores = model.log_odds(held_out.table)
        promise = prospect(scores, labels, trials, calibrated=True)
        losses = np.logaddexp(0, np.where(labels == 1, -scores, scores))
        tried.append(_Tried(family, name, model, fit, promise, losses))
    return tried


def _cautious(family: list[_Tried]) -> _Tried:
    """Return the most regularised model of a family whose loss is close to the family's best.

    Less regularised models give rare outputs more extreme odds, which affect few of the losses.
    """
    best = min(family, key=lambda candidate: candidate.loss)
    return next(candidate for candidate in family if candidate.hardly_worse(best))


def _smooth_models(train: LabelledOutputs, features: list[Feature], seed: int) -> Iterator[_Model]:
    """Yield the family, name, model and fitting function of each model without rare events."""
    for family, terms, penalties in (
        ("additive", terms_of(train, features), _PENALTIES),
        ("pooled", pooled_terms(train), _POOLED),
    ):
        if family == "pooled" and not terms:
            continue
        for penalty, model in zip(penalties, fit_additive(train, terms, penalties), strict=True):
            name = f"{family}, penalty {penalty:g}"
            yield family, name, model, partial(_additive, terms, penalty)
    if features:
        grown = partial(fit_trees, features=features, seed=seed)
        yield "trees", "trees", grown(train), grown


def _additive(terms: Sequence[Term], penalty: float, sample: LabelledOutputs) -> OddsModel:
    return fit_additive(sample, terms, [penalty])[0]


def _counting_models(train: LabelledOutputs, smooth: _Tried) -> Iterator[_Model]:
    """Yield models that count outputs, shrunk towards a smooth one, as `_smooth_models` does."""
    for prior in _PRIORS:
        name = f"frequencies over {smooth.name}, prior {prior:g}"
        model = fit_frequencies(train, smooth.model, prior)
        yield "frequencies", name, model, partial(_counted, smooth.fit, prior)


def _counted(smooth: Fitter, prior: float, sample: LabelledOutputs) -> OddsModel:
    return fit_frequencies(sample, smooth(sample), prior)
