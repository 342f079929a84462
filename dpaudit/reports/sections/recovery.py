"""What attackers recover of sensitive ratings, and errors compared, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpaudit.core.estimate import Estimate
from dpaudit.record.result import (
    BEYOND_MEANS,
    BEYOND_RELEASED,
    BEYOND_WITHOUT,
    LEAK,
    MEANS,
    RELEASED,
    SUBMITTED,
    WITHOUT,
    AuditResult,
    Measurement,
)
from dpaudit.reports import words
from dpaudit.reports.table import NONE, Table

# The columns of a table, and their names in the record.
_COLUMNS = {
    "from the released model": RELEASED,
    "from a model that saw none": WITHOUT,
    "better than from that": BEYOND_WITHOUT,
    "leak": LEAK,
    "from item means": MEANS,
    "better than item means": BEYOND_MEANS,
}
# Of what recommenders recover from submissions.
_READ = {
    "from submissions": SUBMITTED,
    "from the released model": RELEASED,
    "better than the model": BEYOND_RELEASED,
    "from item means": MEANS,
    "better than item means": BEYOND_MEANS,
}

# Beside which the others are read: their intervals stand in the record.
_PLAIN = {WITHOUT, MEANS}


def tables(result: AuditResult) -> list[Table]:
    """The attackers' errors, one table each, and the comparison with one model."""
    made = []
    for metric, columns in (("reconstruction.", _COLUMNS), ("submissions.", _READ)):
        found = [each for each in result.measurements if each.metric.startswith(metric)]
        labels = dict.fromkeys(each.attack or "" for each in found)
        made += [_attack(label, found, columns) for label in labels]
    compared = [each for each in result.measurements if each.metric == "utility.difference"]
    return [*made, *([_compared(compared)] if compared else [])]


def note(result: AuditResult) -> list[str]:
    """How to read the tables."""
    kinds = {each.metric.partition(".")[0] for each in result.measurements}
    notes = []
    if "reconstruction" in kinds:
        notes.append(
            "Sensitive ratings are recovered from a released model and what users share. Much of "
            "that a model tells about ratings that it never saw. A model trained without any "
            "sensitive rating shows what all of them together do for the attack, one rating for "
            "another's too; where noise depends on which ratings are sensitive it has less of it, "
            "and may serve the attack better. The leak is what a rating gives away of itself by "
            "being learned from: two models are trained on a random half of the sensitive ratings "
            "each, and it is by how much the attack on either does worse on the half that the "
            "model never saw than the other model, which did. Where a rating that is learned from "
            "adds noise to its item, which hides more than it shows, the leak may be below 0. "
            "A mean over folds with Student's interval, which is a paired t test: where the "
            "interval leaves out 0, the difference is significant, as far as folds that share "
            "training data can say."
        )
    if "submissions" in kinds:
        notes.append(
            "From submissions the recommender recovers the sensitive ratings of some users, whom "
            "it follows through the rounds of a training; the other columns of that table are of "
            "the same ratings."
        )
    return notes


def _attack(label: str, found: Sequence[Measurement], columns: Mapping[str, str]) -> Table:
    mine = [each for each in found if each.attack == label]
    points = dict.fromkeys((each.model, each.epsilon, each.metric) for each in mine)
    at = {(each.model, each.epsilon, each.metric, each.detail): each.estimate for each in mine}
    # Who has no model lists what is popular.
    guess = "the most popular" if mine[0].metric.endswith(("precision", "recall")) else "item means"
    return Table(
        f"Sensitive ratings recovered by {label}, and by how much better than otherwise",
        ["model", "ε", "measure", *(name.replace("item means", guess) for name in columns)],
        [
            [
                model,
                words.epsilon(epsilon),
                metric.rpartition(".")[2],
                *(
                    _shown(at.get((model, epsilon, metric, states)), states)
                    for states in columns.values()
                ),
            ]
            for model, epsilon, metric in points
        ],
    )


def _compared(found: Sequence[Measurement]) -> Table:
    kinds = list(dict.fromkeys(each.detail or "" for each in found))
    at = {(each.model, each.epsilon, each.detail): each.estimate for each in found}
    return Table(
        f"Difference on what is held out from {found[0].against}, fold by fold (paired)",
        ["model", "ε", *kinds],
        [
            [
                model,
                words.epsilon(epsilon),
                *(_interval(at.get((model, epsilon, k))) for k in kinds),
            ]
            for model, epsilon in dict.fromkeys((each.model, each.epsilon) for each in found)
        ],
    )


def _interval(estimate: Estimate | None) -> str:
    return words.interval(estimate) if estimate else NONE


def _shown(estimate: Estimate | None, states: str) -> str:
    if estimate and states in _PLAIN:
        return words.measured(estimate.value)
    return _interval(estimate)
