"""The intervals of a record: which of them hold together, and how each was computed."""

from __future__ import annotations

from dpaudit.record.result import AuditResult, Family, Measurement
from dpaudit.reports import words
from dpaudit.reports.table import NONE, Table

# The table's names of the metrics, each completed by a pair, an attack or a detail.
_QUANTITIES = {
    "attack.accuracy": "accuracy of attack",
    "utility.overlap": "overlap@k",
    "utility.rmse": "rmse",
    "utility.mae": "mae",
    "utility.precision": "precision of lists",
    "utility.recall": "recall of lists",
    "utility.difference": "difference from",
    "reconstruction.rmse": "rmse of sensitive ratings by",
    "reconstruction.mae": "mae of sensitive ratings by",
    "reconstruction.precision": "precision of sensitive items by",
    "reconstruction.recall": "recall of sensitive items by",
    "submissions.rmse": "rmse of sensitive ratings by",
    "submissions.mae": "mae of sensitive ratings by",
    "epsilon": "certified ε, pair",
    "sybil.accuracy": "accuracy of Sybil attack",
    "chain.divergence": "divergence of the chain,",
    "assumption.denominator": "share of denominators below C",
    "assumption.floor": "items whose share is floored",
    "assumption.norm": "length of users' factors,",
    "personal.epsilon": "ε of a user,",
    "personal.loss": "loss of a user,",
    "attack.auc": "expected area of attack",
    "attack.tpr": "true positives of attack",
    "attack.advantage": "advantage of attack",
    "leak": "leak, to attack",
    "membership.roc": "curve of attack",
    "membership.exposed": "exposure to attack",
    "membership.group": "exposure to attack, group",
    "utility.ndcg": "nDCG of lists",
    "game.kl": "divergence by",
    "transcript.auc": "area of attack",
    "transcript.tpr": "true positives of attack",
    "transcript.power": "power of single tests of attack",
    "transcript.exposed": "real pairs found by attack",
    "transcript.false": "fakes among those found by attack",
    "transcript.kl": "divergence of real submissions,",
    "transcript.rmse": "rmse by round",
    "transcript.roc": "curve of attack",
}


def judged(result: AuditResult) -> bool:
    """Return whether any interval belongs to the family of intervals that hold together."""
    return any(
        not over_folds(found) and not _alone(found) and found.estimate.kind != "exact"
        for found in result.measurements
    )


def over_folds(found: Measurement) -> bool:
    """Return whether it is Student's interval over folds, which holds only by itself."""
    return found.estimate.kind == "assumes-law" and "over folds" in found.estimate.method


def together(family: Family) -> str:
    """Return the confidence of the family of intervals as a phrase."""
    sure = f"{words.percent(family.confidence)} confidence"
    if family.size == 1:
        return f"The interval holds with {sure}"
    return f"All {family.size} intervals hold together with {sure}"


def table(result: AuditResult) -> Table:
    """Return a table of each interval's trials, level, method and kind."""
    kinds = dict.fromkeys(_method(found) for found in result.measurements)
    return Table(
        "How each interval was made",
        ["quantity", "trials", "level α", "method", "kind"],
        [list(kind) for kind in kinds],
    )


def _alone(found: Measurement) -> bool:
    """Return whether the interval holds only by itself, and is none over folds."""
    if found.estimate.kind == "assumes-law" and not over_folds(found):
        return True
    joint = found.estimate.kind == "frequentist"
    return not joint and (found.metric.startswith("transcript.") or found.metric == "game.kl")


def _method(found: Measurement) -> tuple[str, ...]:
    of = found.pair if found.metric == "epsilon" else found.group or found.attack or found.detail
    made = found.estimate
    quantity = f"{_QUANTITIES[found.metric]} {of or ''}".rstrip()
    if _alone(found):  # many intervals share this row, with different numbers of users
        return quantity, NONE, f"{made.alpha:.3g}", made.method, made.kind
    both = found.metric == "epsilon" and not found.unit
    trials = f"{made.n}" + (", on both data sets together" if both else "")
    if made.kind == "exact":
        return quantity, NONE, NONE, made.method, made.kind
    return quantity, trials, f"{made.alpha:.3g}", made.method, made.kind
