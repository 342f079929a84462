"""ε-Utility: how much of the recommender survives its noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.measure import Measure, MetricKey, gated, points
from dpaudit.audits.on_demand.config import OnDemandConfig
from dpaudit.audits.on_demand.draws import TOGETHER, choose, draw_trials, run_blocks
from dpaudit.audits.on_demand.model import OnDemandModel
from dpaudit.audits.on_demand.subject import OnDemandModels
from dpaudit.bounds.frequentist.means import betting_mean
from dpaudit.core.releases import SeesItems
from dpaudit.core.streams import Streams
from dpaudit.core.user_profile import Profile
from dpaudit.defenses.base import OnDemandDefense, PredictionDefense
from dpaudit.defenses.item_model import ExactScores, ItemModel
from dpaudit.defenses.top_k.chain import ranked
from dpaudit.execution.executor import INLINE, Executor
from dpaudit.record.result import Measurement


def run_overlap(
    defenses: Sequence[OnDemandDefense],
    model: ItemModel,
    profiles: Sequence[Profile],
    *,
    trials: int,
    seed: int,
    executor: Executor = INLINE,
) -> NDArray[np.float64]:
    """Compute the share of the noiseless top-k list that the noised list keeps `(D, T)`.

    The axes are defense and trial. ε-Utility is the mean: `1 − dist/max dist` with the number of
    different items as distance (Park & Acharya 2011, Definition 6 and §3.4). Arguments as in
    `run_risk`.
    """
    drawn = draw_trials(seed, "utility/overlap", trials, len(profiles))

    def run(user: int, streams: Streams) -> NDArray[np.float64]:
        exact = defenses[0].exact(model, profiles[user])
        # Ties are broken by the lower item number, as in every noiseless list.
        best = ranked(exact)[: defenses[0].top_k]
        lists = [defense.release_list(exact, streams).items for defense in defenses]
        return np.stack([np.isin(items, best).mean(1) for items in lists])

    return run_blocks(drawn, run, executor, TOGETHER)


def run_held_out(
    defenses: Sequence[PredictionDefense],
    model: ItemModel,
    profiles: Sequence[Profile],
    *,
    trials: int,
    seed: int,
    executor: Executor = INLINE,
) -> NDArray[np.float64]:
    """Compute the absolute error of noised predictions of held-out ratings, over Δr `(D, T)`.

    The axes are defense and trial; the values are in [0, 1]. A rating is taken out of the user's
    profile and predicted from the others; the noised prediction is clipped to the scale. Arguments
    as in `run_risk`; profiles need one more rating.
    """
    scale = model.ratings.scale
    drawn = draw_trials(seed, "utility/held-out", trials, len(profiles))

    def run(user: int, streams: Streams) -> NDArray[np.float64]:
        profile, draws = profiles[user], drawn.draws[streams.trials]
        rows = choose(draws[:, 0], len(profile))
        items, place = np.unique(profile.items[rows], return_inverse=True)
        scores = np.zeros(model.ratings.n_items, np.float32)
        scores[items] = [defenses[0].exact_held_out(model, profile, int(i)) for i in items]
        exact = ExactScores(scores, defenses[0].noise_of_predictions(scale).sensitivity)
        observer = SeesItems(items[place][:, None])
        shown = np.stack([d.release(exact, streams, observer).values[:, 0] for d in defenses])
        error = np.clip(shown, scale.minimum, scale.maximum) - profile.values[rows]
        return np.abs(error.astype(np.float64) / scale.width)

    return run_blocks(drawn, run, executor, TOGETHER)


class Utility(Measure[OnDemandConfig, OnDemandModel]):
    """`utility.overlap`, `….rmse` and `….mae`: accuracy of noised lists and predictions."""

    def __init__(self, subject: OnDemandModels[Any]) -> None:
        """Keep the context."""
        self.context = subject.context

    @classmethod
    def plan(cls, config: OnDemandConfig) -> Iterator[MetricKey]:
        """Yield the overlap, and errors unless the config shows that there are no ratings."""
        data = config.data
        rated = data.binarize is None and (data.columns is None or data.columns.rating is not None)
        lists = {model.label for model in config.model if model.shows_lists}
        for model, epsilon in points(config):
            yield _overlap(model, epsilon)
            if rated and model not in lists:
                yield from _errors(config, model, epsilon)

    def run(self, model: OnDemandModel) -> Iterator[Measurement]:
        """Measure the share of the list that is kept, and the error on held-out ratings."""
        yield from self._unit(f"{model.label}: lists", self._overlap, model)
        if model.has_rmse:
            yield from self._unit(f"{model.label}: held-out ratings", self._error, model)

    def _unit(
        self, stage: str, measured: Callable[..., Iterator[Measurement]], model: OnDemandModel
    ) -> list[Measurement]:
        options: dict[str, Any] = {
            "trials": self.context.config.audit.trials,
            "seed": self.context.seed,
            "executor": self.context.tasks(stage, model.model),
        }
        return self.context.unit(stage, partial(measured, model, options))

    def _overlap(self, model: OnDemandModel, options: dict[str, Any]) -> Iterator[Measurement]:
        kept = run_overlap(model.defenses, model.prepared, model.users(), **options)
        for epsilon, row in zip(model.model.epsilon, kept, strict=True):
            yield self._mean(_overlap(model.label, epsilon), row)

    def _error(self, model: OnDemandModel, options: dict[str, Any]) -> Iterator[Measurement]:
        width = model.train.scale.width
        errors = run_held_out(model.predicting, model.prepared, model.users(extra=1), **options)
        for epsilon, row in zip(model.model.epsilon, errors, strict=True):
            for key in _errors(self.context.config, model.label, epsilon):
                if key.metric == "utility.rmse":
                    yield self._mean(key, row**2, lambda mean: width * math.sqrt(mean))
                else:
                    yield self._mean(key, row, lambda mean: width * mean)

    def _mean(
        self, key: MetricKey, row: Any, increasing: Callable[[float], float] = float
    ) -> Measurement:
        """Estimate an increasing function of the mean of numbers."""
        family = self.context.family
        return key.measured(betting_mean(row, family.alpha, family.confidence).mapped(increasing))


def _overlap(model: str, epsilon: float) -> MetricKey:
    return MetricKey("utility.overlap", model, epsilon)


def _errors(config: OnDemandConfig, model: str, epsilon: float) -> Iterator[MetricKey]:
    yield MetricKey("utility.rmse", model, epsilon)
    if gated(config, "utility.mae"):
        yield MetricKey("utility.mae", model, epsilon)
