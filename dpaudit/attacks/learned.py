"""A score learned from outputs alone: for mechanisms whose law is not known.

The most powerful score is the likelihood ratio of the two worlds; a probabilistic classifier's
log-odds estimate it (Bichsel et al. 2021, DP-Sniper, doi:10.1109/SP40001.2021.00081). Any score is
valid where its threshold is certified on outputs that it has not seen; a better one certifies more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.classifiers import (
    Model,
    Sample,
    Term,
    Vector,
    fewer_than,
    fit_additive,
    fit_frequencies,
    fit_trees,
    pooled_terms,
    terms_of,
)
from dpaudit.attacks.encoding import Encoding, Outputs, Table
from dpaudit.attacks.features import Feature, common_values, fine_features, smooth_features
from dpaudit.attacks.prospects import Prospect, prospect
from dpaudit.attacks.rare import find_events, judge
from dpaudit.bounds.revealing import Ends
from dpaudit.errors import InputError

__all__ = ["LearnedScore", "Outputs"]

_LEAST, _BLOCK = 10, 32_768
# Outputs that models are compared by; the best is fitted to all.
_COMPARED = 300_000
_VALIDATION = 0.3
# The part of the rest that finds rare events; what is left of it judges them.
_FINDING = 2 / 3
# Ridge penalties of the additive model, from the largest; those of the pooled and the quick one.
_PENALTIES, _POOLED, _QUICK = (1e5, 1e4, 1000.0, 30.0, 1.0), (1e4, 30.0), 1000.0
# Counts are tried where there are fewer distinct outputs than this share of all.
_DISTINCT = 0.2
# Models that promise at least this part of the largest bound are compared by their log-loss, which
# is less a matter of luck.
_NEARLY = 0.7
# Outputs among which rare events are looked for, at most.
_LOOKED = 400_000
# An event with a smaller share of the outputs is judged alone if the best of the larger ones
# promises less than this part of its bound: from their labels nothing could be foreseen of it.
_ALONE, _MUCH_LESS = 0.2, 0.8
# Rare events are taken where they promise so much more than large events do, as they rest on few
# outputs; beside a small event of a smooth model, whose edge is vaguer, they may promise less.
_OVER_LARGE, _OVER_SMALL = 1.1, 0.8


@dataclass(frozen=True)
class LearnedScore:
    """A score of outputs, large where world D' is likelier.

    Attributes:
        encoding: how outputs become rows.
        model: the log-odds of a row.
        name: which model it is.
        side: where the most telling scores are: at the top, at the bottom, or at both.
        alone: the bounds of an event that is judged alone: scores between them are all alike.
    """

    encoding: Encoding
    model: Model
    name: str
    side: Ends = "top"
    alone: tuple[float, float] | None = None

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
        """Learn to tell worlds D' from worlds D.

        The models are additive logistic regressions (with terms for each leaf, of three penalties,
        or with terms that all leaves share), boosted trees, where outputs repeat their frequencies,
        shrunk to the better of these, and rare events on top. Fitted to 70 % of the outputs, the
        one is chosen whose best event promises the largest certified ε on the other 30 %, or,
        where none promises any, that of the least log-loss; it is fitted again to all.

        Args:
            absent: outputs of worlds D: an array `(n, ...)` of numbers, or n objects of any form.
            present: outputs of worlds D'.
            seed: of the split and of the models. The result depends on nothing else, nor on the
                number of threads.
            quick: fit one additive model, and frequencies where outputs repeat, without a
                comparison.
            trials: outputs that the certificate will see; as many as are given here if None.

        Raises:
            InputError: fewer than 10 outputs of a world, or outputs in which nothing can be read.
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
        rng = np.random.default_rng(seed)
        # One thread: sums in another order would round differently.
        with threadpool_limits(1):
            train, held_out = _split(encoding, (absent, present), rng)
            if quick:
                both = _joined(train, held_out)
                return cls(encoding, _fit_quick(both), "additive")
            trials = len(train.labels) + len(held_out.labels) if trials is None else trials
            return cls(encoding, *_choose(train, held_out, seed, trials))

    def score(self, outputs: Outputs) -> Vector:
        """The log-odds of world D' `(n,)`: finite, and a function of each output alone.

        Forms and words that the training did not see are all alike; entries beyond its longest
        output count for its length alone.

        Raises:
            InputError: there is no output.
        """
        if (isinstance(outputs, np.ndarray) and outputs.ndim == 0) or not len(outputs):
            raise InputError("outputs are empty: give at least one output")
        # In blocks that fit a processor's cache.
        blocks = range(0, len(outputs), _BLOCK)
        return np.concatenate([self._of(outputs[i : i + _BLOCK]) for i in blocks])

    def _of(self, outputs: Outputs) -> Vector:
        found = self.model.log_odds(self.encoding.encode(outputs))
        if self.alone is None:
            return found
        low, high = self.alone
        between = low + 1 if high == np.inf else high - 1 if low == -np.inf else (low + high) / 2
        return np.where((found >= high) | (found <= low), found, between)


def _split(
    encoding: Encoding, worlds: tuple[Outputs, Outputs], rng: np.random.Generator
) -> tuple[Sample, Sample]:
    """The encoded outputs in random order: those that models are fitted to, and the others."""
    tables = [encoding.encode(outputs) for outputs in worlds]
    labels = np.repeat([0, 1], [len(table) for table in tables])
    together = _stack(*tables)
    orders = [rng.permutation(np.flatnonzero(labels == world)) for world in (0, 1)]
    cuts = [int(_VALIDATION * len(order)) for order in orders]
    atoms = common_values(together)

    def sample(rows: list[NDArray[np.int64]]) -> Sample:
        chosen = rng.permutation(np.concatenate(rows))
        return Sample(together.take(chosen), labels[chosen], atoms)

    return (
        sample([order[cut:] for order, cut in zip(orders, cuts, strict=True)]),
        sample([order[:cut] for order, cut in zip(orders, cuts, strict=True)]),
    )


def _stack(*tables: Table) -> Table:
    names = Table.__dataclass_fields__
    return Table(*(np.concatenate([getattr(table, name) for table in tables]) for name in names))


def _joined(*samples: Sample) -> Sample:
    labels = np.concatenate([sample.labels for sample in samples])
    return replace(samples[0], table=_stack(*(each.table for each in samples)), labels=labels)


def _fit_quick(sample: Sample) -> Model:
    features = smooth_features(sample.columns) + fine_features(sample.columns, sample.labels)
    model: Model = fit_additive(sample, terms_of(sample, features), [_QUICK])[0]
    return fit_frequencies(sample, model) if fewer_than(sample, _DISTINCT) else model


@dataclass(frozen=True)
class _Tried:
    """A model, how it is fitted to other outputs, and its log-odds on the outputs held out."""

    name: str
    model: Model
    fit: Callable[[Sample], Model]
    scores: Vector


def _choose(
    train: Sample, held_out: Sample, seed: int, trials: int
) -> tuple[Model, str, Ends, tuple[float, float] | None]:
    """The model that promises most on the outputs held out, its name, side and `alone`."""

    def tried(name: str, model: Model, fit: Callable[[Sample], Model]) -> _Tried:
        return _Tried(name, model, fit, model.log_odds(held_out.table))

    def promised(of: _Tried, least_share: float = 0.0) -> Prospect:
        return prospect(of.scores, held_out.labels, trials, least_share)

    def worth(of: _Tried) -> tuple[float, float]:
        loss = np.logaddexp(0, np.where(held_out.labels == 1, -of.scores, of.scores)).mean()
        promise = prospect(of.scores, held_out.labels, trials, calibrated=True)
        return promise.epsilon, -float(loss)

    few = train.thinned(_COMPARED)
    features = smooth_features(few.columns) + fine_features(few.columns, few.labels)
    smooth_models = [tried(*each) for each in _smooth_models(few, features, seed)]
    valued = [(worth(of), of) for of in smooth_models]
    most = max(epsilon for (epsilon, _), _ in valued)
    near = [each for each in valued if each[0][0] >= _NEARLY * most]
    value, best = max(near, key=lambda each: each[0][1])
    if fewer_than(train, _DISTINCT):
        smooth = best.fit
        counted = tried(
            f"frequencies over {best.name}",
            fit_frequencies(train, best.model),
            lambda sample: fit_frequencies(sample, smooth(sample)),
        )
        promise = worth(counted)
        if promise[0] >= _NEARLY * most and promise[1] > value[1]:
            value, best = promise, counted
    found, rare = promised(best), False
    margin = _OVER_SMALL if found.share < _ALONE else _OVER_LARGE
    judged = _rare_model(train, features, best.model)
    if judged is not None:
        # It is not fitted again: its events are judged on outputs that did not find them.
        model: Model = judged
        over = tried(f"rare events over {best.name}", model, lambda _: model)
        promise = worth(over)
        if promise[0] > margin * value[0] and promise[1] > value[1]:
            best, found, rare = over, promised(over), True
    alone = 0 < found.share < _ALONE and (
        promised(best, _ALONE).epsilon < _MUCH_LESS * found.epsilon
    )
    if alone and (rare or len(few.labels) == len(train.labels)):
        # The bounds are of the scores of this very model.
        return best.model, best.name, found.side, (found.low, found.high)
    again = best.fit(_joined(train, held_out))
    if not alone:
        return again, best.name, found.side, None
    bounds = _moved(found, best.scores, again.log_odds(held_out.table))
    return again, best.name, found.side, bounds


def _moved(found: Prospect, before: Vector, after: Vector) -> tuple[float, float]:
    """The bounds that give an event as many outputs by the scores of a model fitted again."""
    ordered = np.sort(after)
    low, high = int((before <= found.low).sum()), int((before >= found.high).sum())
    return (
        float(ordered[low - 1]) if low else -np.inf,
        float(ordered[len(ordered) - high]) if high else np.inf,
    )


def _rare_model(train: Sample, features: list[Feature], model: Model) -> Model | None:
    """The rare events that one part of the outputs shows and another confirms, if any."""
    cut = min(int(_FINDING * len(train.labels)), _LOOKED)
    finding, judging = (
        Sample(train.table.take(rows), train.labels[rows], train.atoms)
        for rows in (slice(None, cut), slice(cut, None))
    )
    events = find_events(finding, features)
    return judge(judging, events, model) if events else None


def _smooth_models(
    train: Sample, features: list[Feature], seed: int
) -> Iterator[tuple[str, Model, Callable[[Sample], Model]]]:
    """Names, models without rare events, and how each is fitted to other outputs."""
    terms = terms_of(train, features)
    for penalty, model in zip(_PENALTIES, fit_additive(train, terms, _PENALTIES), strict=True):
        yield f"additive, penalty {penalty:g}", model, partial(_additive, terms, penalty)
    pooled = pooled_terms(train)
    if pooled:
        for penalty, model in zip(_POOLED, fit_additive(train, pooled, _POOLED), strict=True):
            yield f"pooled, penalty {penalty:g}", model, partial(_additive, pooled, penalty)
    if features:
        grown = partial(fit_trees, features=features, seed=seed)
        yield "trees", grown(train), grown


def _additive(terms: Sequence[Term], penalty: float, sample: Sample) -> Model:
    return fit_additive(sample, terms, [penalty])[0]
