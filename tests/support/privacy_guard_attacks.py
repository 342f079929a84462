"""PrivacyGuard's attacks and rates on the numbers of dpaudit; needs `privacyguard-platform`.

It attacks one model at a time: a data frame has a row for each target that is in the data of the
attacked model, and another those that are not. Columns hold what the attacker's own models gave.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from dpaudit.attacks.base import Signals

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Law(NamedTuple):
    """Means and standard deviations of targets `(m,)`."""

    mean: Numbers
    deviation: Numbers


class Frames(NamedTuple):
    """What the peer reads of one attacked model; the index of a row is its target."""

    present: pd.DataFrame
    absent: pd.DataFrame


def their_law(fit: Numbers, which: Mask) -> Law:
    """The law as the peer's function for shadow models prepares it: squares are divided by n."""
    chosen = np.where(which, fit, np.nan)
    return Law(np.nanmean(chosen, axis=0), np.nanstd(chosen, axis=0) + 1e-8)


def our_law(fit: Numbers, which: Mask, own: bool) -> Law:
    """The law as dpaudit states it: pooled variance with n − 1, of which an own one has one count.

    For targets that at least one of the trainings has, and deviations that are not tiny.
    """
    count = which.sum(0)
    mean = (which * fit).sum(0) / count
    squares = (which * (fit - mean) ** 2).sum(0)
    pooled = squares.sum() / (count - 1).sum()
    variance = (squares + pooled) / count if own else np.full(len(mean), pooled)
    return Law(mean, np.sqrt(variance))


def probabilities(signals: Signals, reference: Signals) -> Signals:
    """Expit of the fit, standardised over targets and reference trainings, as dpaudit takes it."""
    center, spread = reference.fit.mean(), reference.fit.std()
    fit, population = (
        expit((each - center) / spread) for each in (signals.fit, signals.population)
    )
    return Signals(signals.features, fit, population)


def lira_frames(fit: Numbers, present: Mask, within: Law, without: Law) -> list[Frames]:
    """What LiRA reads, for each attacked model."""
    laws = pd.DataFrame(
        {
            "user_id": np.arange(fit.shape[1]),
            "score_mean_in": within.mean,
            "score_std_in": within.deviation,
            "score_mean_out": without.mean,
            "score_std_out": without.deviation,
            "score_mean": without.mean,
            "score_std": without.deviation,
        }
    )
    return [
        _divided(laws.assign(score_orig=row), here) for row, here in zip(fit, present, strict=True)
    ]


def rmia_frames(
    seen: Signals, present: Mask, reference: Signals, had: Mask
) -> list[tuple[Frames, pd.DataFrame]]:
    """What RMIA reads, for each attacked model: the targets and the population."""
    targets, others = (
        pd.DataFrame(
            {f"score_ref_{model}": row for model, row in enumerate(scores)}
            | {f"member_ref_{model}": row for model, row in enumerate(members)}
        )
        for scores, members in (
            (reference.fit, had),
            (reference.population, np.zeros(reference.population.shape, np.bool_)),
        )
    )
    targets["user_id"] = np.arange(seen.fit.shape[1])
    return [
        (_divided(targets.assign(score_orig=fit), here), others.assign(score_orig=population))
        for fit, population, here in zip(seen.fit, seen.population, present, strict=True)
    ]


def lira(frames: Sequence[Frames], **settings: Any) -> list[Frames]:
    """Run LiRA on each attacked model; the frames have a column `score`."""
    attack = import_module("privacy_guard.attacks.lira_attack").LiraAttack
    return [_scored(attack(*each, row_aggregation=_each_row(), **settings)) for each in frames]


def rmia(frames: Sequence[tuple[Frames, pd.DataFrame]], **settings: Any) -> list[Frames]:
    """Run RMIA on each attacked model; the frames have a column `score`."""
    attack = import_module("privacy_guard.attacks.rmia_attack").RmiaAttack
    return [
        _scored(attack(*each, others, row_aggregation=_each_row(), **settings))
        for each, others in frames
    ]


def table(found: Sequence[Frames]) -> Numbers:
    """Their scores in the order of the targets `(T, m)`."""
    rows = [pd.concat([each.present["score"], each.absent["score"]]) for each in found]
    return np.stack([row.sort_index().to_numpy(np.float64) for row in rows])


def frames_of(scores: Numbers, present: Mask) -> list[Frames]:
    """Scores of dpaudit as the peer's metrics read them."""
    return [
        _divided(pd.DataFrame({"score": row}), here)
        for row, here in zip(scores, present, strict=True)
    ]


def rates(found: Sequence[Frames], at: Sequence[float]) -> Numbers:
    """Their area under the ROC curve and true-positive rates, for each attacked model `(T, 1 + k)`.

    A true-positive rate is that of the last point of the curve with at most this share of false
    positives.
    """
    torch = import_module("torch")
    results = import_module("privacy_guard.analysis.mia.mia_results").MIAResults
    auc = import_module("sklearn.metrics").auc
    rows = []
    for each in found:
        tpr, fpr = results(
            *(torch.from_numpy(frame["score"].to_numpy(np.float64, copy=True)) for frame in each)
        ).get_tpr_fpr()
        last = np.searchsorted(fpr, at, "right") - 1
        rows.append([auc(fpr, tpr), *tpr[last]])
    return np.array(rows)


def analysed(frames: Frames, resamples: int, seed: int) -> tuple[float, float]:
    """Their interval of the area under the ROC curve of one model, by resampling its targets.

    They draw from numpy's global state, so the seed is set there.
    """
    analysis = import_module("privacy_guard.analysis.mia.analysis_node").AnalysisNode
    inputs = import_module("privacy_guard.analysis.mia.aggregate_analysis_input")
    given = inputs.AggregateAnalysisInput(_each_row(), *frames, user_id_key="user_id")
    count = min(map(len, frames)) // 2
    np.random.seed(seed)  # noqa: NPY002
    node = analysis(given, 1e-5, count, num_bootstrap_resampling_times=resamples)
    low, high = node.run_analysis().auc_ci
    return float(low), float(high)


def _divided(frame: pd.DataFrame, present: Mask) -> Frames:
    return Frames(frame[present].copy(), frame[~present].copy())


def _scored(attack: Any) -> Frames:
    found = attack.run_attack()
    return Frames(found.df_train_user, found.df_test_user)


def _each_row() -> Any:
    kinds = import_module("privacy_guard.analysis.mia.aggregate_analysis_input").AggregationType
    return kinds.NONE
