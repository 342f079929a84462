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
# How many outputs the smooth model's opinion of an output is worth beside its counts.
_PRIORS = (10_000.0, 1000.0, 100.0, 10.0)
# Counts are tried where there are fewer distinct outputs than this share of all.
_DISTINCT = 0.2
# Models that promise at least this part of the largest bound are compared by their log-loss, which
# is less a matter of luck.
_NEARLY = 0.7
# Outputs among which rare events are looked for, at most.
_LOOKED = 400_000
# Rare events are taken where they promise so much more than large events do, as they rest on few
# outputs; beside an event with a smaller share than this, whose edge is vaguer, they may promise
# less.
_OVER_LARGE, _OVER_SMALL, _SMALL = 1.1, 0.8, 0.2


@dataclass(frozen=True)
class LearnedScore:
    """A score of outputs, large where world D' is likelier.

    Attributes:
        encoding: how outputs become rows.
        model: the log-odds of a row.
        name: which model it is.
        side: where the most telling scores are: at the top, at the bottom, or at both.
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
        return np.concatenate(
            [
                self.model.log_odds(self.encoding.encode(outputs[start : start + _BLOCK]))
                for start in blocks
            ]
        )


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
    return fit_frequencies(sample, model, _PRIORS[-1]) if fewer_than(sample, _DISTINCT) else model


@dataclass(frozen=True)
class _Tried:
    """A model, and what it shows on the outputs held out.

    Attributes:
        family: models of one family differ in their restraint, by a penalty or a prior; the most
            restrained comes first.
        name: of the model.
        model: the model.
        fit: how it is fitted to other outputs.
        promise: what it lets expect.
        losses: −ln of the probability that it gives each output's world.
    """

    family: str
    name: str
    model: Model
    fit: Callable[[Sample], Model]
    promise: Prospect
    losses: Vector

    @property
    def loss(self) -> float:
        """The mean loss."""
        return float(self.losses.mean())

    def hardly_worse(self, other: _Tried) -> bool:
        """Whether its loss exceeds another's by half a standard error of the difference at most."""
        excess = self.losses - other.losses
        return float(excess.mean()) <= 0.5 * float(excess.std()) / len(excess) ** 0.5


def _choose(train: Sample, held_out: Sample, seed: int, trials: int) -> tuple[Model, str, Ends]:
    """The model that promises most on the outputs held out, its name and side."""

    def tried(family: str, name: str, model: Model, fit: Callable[[Sample], Model]) -> _Tried:
        scores, labels = model.log_odds(held_out.table), held_out.labels
        promise = prospect(scores, labels, trials, calibrated=True)
        losses = np.logaddexp(0, np.where(labels == 1, -scores, scores))
        return _Tried(family, name, model, fit, promise, losses)

    few = train.thinned(_COMPARED)
    features = smooth_features(few.columns) + fine_features(few.columns, few.labels)
    smooth = [tried(*each) for each in _smooth_models(few, features, seed)]
    least = _NEARLY * max(each.promise.epsilon for each in smooth)
    near = [each for each in smooth if each.promise.epsilon >= least]
    likely = min(near, key=lambda each: each.loss)
    best = _cautious([each for each in smooth if each.family == likely.family])
    if fewer_than(train, _DISTINCT):
        name, plain = f"frequencies over {best.name}", best.fit
        counted = _cautious(
            [
                tried(
                    "frequencies",
                    f"{name}, prior {prior:g}",
                    fit_frequencies(train, best.model, prior),
                    partial(_counted, plain, prior),
                )
                for prior in _PRIORS
            ]
        )
        if counted.promise.epsilon >= least and counted.loss < best.loss:
            best = counted
    judged = _rare_model(train, features, best.model)
    if judged is not None:
        # It is not fitted again: its events are judged on outputs that did not find them.
        model: Model = judged
        rare = tried("rare events", f"rare events over {best.name}", model, lambda _: model)
        margin = _OVER_SMALL if best.promise.share < _SMALL else _OVER_LARGE
        if rare.promise.epsilon > margin * best.promise.epsilon and rare.loss < best.loss:
            best = rare
    return best.fit(_joined(train, held_out)), best.name, best.promise.side


def _counted(plain: Callable[[Sample], Model], prior: float, sample: Sample) -> Model:
    return fit_frequencies(sample, plain(sample), prior)


def _cautious(family: list[_Tried]) -> _Tried:
    """The first of a family that is hardly worse than its best.

    A model that is less restrained is surer of rare outputs, which few losses tell of.
    """
    best = min(family, key=lambda each: each.loss)
    return next(each for each in family if each.hardly_worse(best))


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
) -> Iterator[tuple[str, str, Model, Callable[[Sample], Model]]]:
    """Families and names, models without rare events, how each is fitted to other outputs."""
    terms = terms_of(train, features)
    for penalty, model in zip(_PENALTIES, fit_additive(train, terms, _PENALTIES), strict=True):
        yield (
            "additive",
            f"additive, penalty {penalty:g}",
            model,
            partial(_additive, terms, penalty),
        )
    pooled = pooled_terms(train)
    if pooled:
        for penalty, model in zip(_POOLED, fit_additive(train, pooled, _POOLED), strict=True):
            yield (
                "pooled",
                f"pooled, penalty {penalty:g}",
                model,
                partial(_additive, pooled, penalty),
            )
    if features:
        grown = partial(fit_trees, features=features, seed=seed)
        yield "trees", "trees", grown(train), grown


def _additive(terms: Sequence[Term], penalty: float, sample: Sample) -> Model:
    return fit_additive(sample, terms, [penalty])[0]
