"""Tables of what attackers recover of sensitive ratings, and of compared errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpaudit.core import rounding
from dpaudit.core.estimate import Estimate
from dpaudit.record.bases import (
    BEYOND_MEANS,
    BEYOND_RELEASED,
    BEYOND_WITHOUT,
    LEAK,
    MEANS,
    RELEASED,
    SUBMITTED,
    WITHOUT,
)
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports import columns, words
from dpaudit.reports.table import NONE, Table

# The columns of the table of reconstruction, and their names in the record.
_COLUMNS = {
    "from the released model": RELEASED,
    "from a model without sensitive ratings": WITHOUT,
    "better than without": BEYOND_WITHOUT,
    "leak": LEAK,
    "from item means": MEANS,
    "better than item means": BEYOND_MEANS,
}
# The columns of the table of recovery from submissions.
_READ = {
    "from submissions": SUBMITTED,
    "from the released model": RELEASED,
    "better than the model": BEYOND_RELEASED,
    "from item means": MEANS,
    "better than item means": BEYOND_MEANS,
}

# The sections of both tables.
_OF_MODELS, _OF_SUBMISSIONS = "recovery from models", "recovery from submissions"
# References for the other columns; the table leaves out their intervals, which the record has.
_PLAIN = {WITHOUT, MEANS}


def tables(result: AuditResult) -> list[Table]:
    """Return a table of errors for each attacker, and the comparison of models with one model."""
    made = []
    for section, bases in ((_OF_MODELS, _COLUMNS), (_OF_SUBMISSIONS, _READ)):
        found = columns.within(result, section)
        labels = dict.fromkeys(each.attack or "" for each in found)
        made += [_attack(label, found, bases) for label in labels]
    compared = columns.within(result, "comparison")
    return [*made, *([_compared(compared)] if compared else [])]


def note(result: AuditResult) -> list[str]:
    """Return the notes that explain the tables."""
    notes = []
    if columns.within(result, _OF_MODELS):
        notes.append(
            "Sensitive ratings are recovered from a released model and from what users share. Much "
            "of this works for ratings that the model never saw. 'better than without' compares "
            "with a model trained without any sensitive rating: it shows how much all sensitive "
            "ratings together help the attack, including one rating's help for another. If noise "
            "depends on which ratings are sensitive, the model without them has less noise, and "
            "may serve the attack better. 'leak' is what a rating reveals about itself because it "
            "is in the training data: two models are trained on a random half of the sensitive "
            "ratings each, and the leak is by how much worse the attack does on the half that a "
            "model never saw than with the other model, which did. If a rating in the training "
            "data adds noise to its item that hides more than the rating reveals, the leak may be "
            "below 0. Each number is a mean over folds with Student's interval, which is a paired "
            "t test: if the interval does not contain 0, the difference is significant, as far as "
            "folds that share training data can show. A number that a gate judges has instead an "
            "interval over trainings on these data, which holds together with all others."
        )
    if columns.within(result, _OF_SUBMISSIONS):
        notes.append(
            "From submissions, the recommender recovers the sensitive ratings of some users, whom "
            "it observes in every round of a training. The other columns of that table are about "
            "the same ratings."
        )
    return notes


def _attack(label: str, found: Sequence[Measurement], bases: Mapping[str, str]) -> Table:
    here = [each for each in found if each.attack == label]
    points = dict.fromkeys((each.model, each.epsilon, each.metric) for each in here)
    at = {(each.model, each.epsilon, each.metric, each.detail): each.estimate for each in here}
    # Without a model, an attacker that lists items lists the most popular.
    guess = "the most popular" if here[0].metric.endswith(("precision", "recall")) else "item means"
    return Table(
        f"Sensitive ratings recovered by {label}, and the gain over other guesses",
        ["model", "ε", "measure", *(name.replace("item means", guess) for name in bases)],
        [
            [
                model,
                words.epsilon(epsilon),
                metric.rpartition(".")[2],
                *(
                    _shown(at.get((model, epsilon, metric, states)), states)
                    for states in bases.values()
                ),
            ]
            for model, epsilon, metric in points
        ],
    )


def _compared(found: Sequence[Measurement]) -> Table:
    kinds = list(dict.fromkeys(each.detail or "" for each in found))
    at = {(each.model, each.epsilon, each.detail): each.estimate for each in found}
    return Table(
        f"Difference on held-out data from {found[0].against}, fold by fold (paired)",
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
        return rounding.measured(estimate.value)
    return _interval(estimate)
