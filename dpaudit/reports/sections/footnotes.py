"""The notes that explain the numbers of a report: which intervals hold together, and of what."""

from __future__ import annotations

from collections.abc import Iterator

from dpaudit.record.metrics import entry, ordered
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports import columns, digest, words
from dpaudit.reports.sections.base import sections_of
from dpaudit.reports.table import NONE, Table

# What holds with the confidence of the run, each for itself, if gates judge single trainings.
APART = "all that is certified, all gates that pass, and all gates that fail"


def has_ranges(result: AuditResult) -> bool:
    """Return whether any number is the range of what single trainings have."""
    return any(measurement.estimate.kind == "range" for measurement in result.measurements)


def has_joint_intervals(result: AuditResult) -> bool:
    """Return whether any interval belongs to the family of intervals that hold together."""
    return any(
        number.estimate.kind not in ("exact", "range")
        and not over_folds(number)
        and not _alone(number)
        for number in result.measurements
    )


def over_folds(measurement: Measurement) -> bool:
    """Return whether it is Student's interval over folds, which holds only by itself."""
    return (
        measurement.estimate.kind == "assumes-law" and "over folds" in measurement.estimate.method
    )


def joint_confidence(result: AuditResult) -> str:
    """Return the confidence of the family of intervals as a phrase."""
    family = result.family
    sure = f"{words.percent(family.confidence)} confidence"
    if has_ranges(result):
        gates = "; so do all gates that pass, and all that fail" if result.gates else ""
        return f"What is certified holds together with {sure}{gates}"
    if family.size == 1:
        return f"The interval holds with {sure}"
    return f"All {family.size} intervals hold together with {sure}"


def interval_table(result: AuditResult) -> Table:
    """Return a table of each interval's trials, level, method and kind."""
    kinds = dict.fromkeys(_method(measurement) for measurement in result.measurements)
    header = ["quantity", "trials", "level α", "method", "kind"]
    return Table("How each interval was made", header, [*map(list, kinds)])


def _alone(measurement: Measurement) -> bool:
    """Return whether the interval holds only by itself, and is none over folds."""
    if measurement.estimate.kind == "assumes-law" and not over_folds(measurement):
        return True
    return measurement.estimate.kind != "frequentist" and entry(measurement.metric).alone


def _method(measurement: Measurement) -> tuple[str, ...]:
    estimate = measurement.estimate
    both = measurement.metric == "epsilon" and not measurement.unit
    trials = f"{estimate.n}{', on both data sets together' if both else ''}"
    level = f"{estimate.alpha:.3g}"
    if _alone(measurement):  # many intervals share this row, with different numbers of users
        trials = NONE
    elif estimate.kind == "range":
        trials, level = f"{estimate.n} trainings", NONE
    elif estimate.kind == "exact":
        trials, level = NONE, NONE
    return digest.quantity(measurement), trials, level, estimate.method, estimate.kind


def notes(result: AuditResult) -> list[str]:
    """Return the notes on the numbers of this record."""
    family = result.family
    notes = []
    if has_joint_intervals(result):
        level = f"α = {family.alpha:.3g}{'' if family.size == 1 else ' (Bonferroni)'}"
        which = "it" if family.size == 1 else "each"
        notes.append(
            f"{joint_confidence(result)}: {which} has the level {level}. "
            "The ends of intervals are rounded outwards."
        )
    notes.append(
        "A lower bound on ε is not a proof of privacy: other attacks or other data may reveal "
        "more. The report lists what was tried."
    )
    if any(map(over_folds, result.measurements)):
        notes.append(
            "An error is a mean over the folds, with Student's interval over folds, and each such "
            "interval holds by itself. It shows the scatter, assumes a normal law and independent "
            "folds, and decides no gate."
        )
    if any(measurement.theory for measurement in result.measurements):
        notes.append(
            f"ε by the law is the ε of the same pair, computed by the law of {_drawn(result)}. It "
            "needs no trials, and it misses mistakes in the code. The certified ε is measured on "
            "the running code, and it alone decides gates."
        )
    notes += _terms(result)
    by_model = digest.rows(result).values()
    if any(row.power(pair) for sweep in by_model for row in sweep for pair in row.games):
        notes.append(
            "Power is measured and not computed: the game runs with the same pair, attack and "
            "number of trials on a mutant that breaks the claim, such as a copy with the noise of "
            "a larger ε. The mutant is found if more than the claimed ε is certified on it. Power "
            "is about this pair and such mutants only: it does not show whether the noise is large "
            "enough for other pairs."
        )
    metrics = ordered(measurement.metric for measurement in result.measurements)
    notes += dict.fromkeys(sentence for metric in metrics for sentence in metric.note)
    notes += sections_of(result).notes()
    notes += _public(result)
    notes += _uncovered(result)
    if any(point.claim and point.noise_scale is not None for point in result.points):
        notes.append(
            "Released values are rounded to a public grid, so that their low-order bits reveal "
            "nothing. Noise is drawn finely enough, in its tail too, that finite precision adds at "
            "most 2^-30 to ε for each number that differs; corrected claims allow for this. All "
            "this holds against those who do not know the seed."
        )
    return notes


def _drawn(result: AuditResult) -> str:
    """Return what the laws beside the certified ε describe: noise, lists, or both."""
    known = [measurement for measurement in result.measurements if measurement.theory]
    noise = "the noise that the defense says it adds"
    lists = "the list that the defense says it draws"
    if all(map(digest.noised, known)):
        return noise
    return f"{noise}, or of {lists}" if any(map(digest.noised, known)) else lists


def _uncovered(result: AuditResult) -> Iterator[str]:
    """Yield a note on attacks that see more than the claims cover."""
    lists = [label for label, attack in result.attacks.items() if attack.get("observe") == "list"]
    if lists and any(point.claim for point in result.points):
        yield (
            f"The list attacked by {', '.join(lists)} is chosen among all predictions. A claim "
            "covers it only if the defense's parameter outputs is the number of a user's unrated "
            "items."
        )


def _terms(result: AuditResult) -> Iterator[str]:
    """Yield what the words mean in which games are described."""
    games = columns.within(result, "games")
    if any(not game.unit for game in games):
        yield (
            "D and D' are the two neighbouring data sets of a game: D' differs from D by what the "
            "claim protects, such as one rating."
        )
    if games and any(point.claim for point in result.points):
        yield (
            "A mutant is a copy of the model with less noise or a planted leak. A game that misses "
            "it could not have found such a leak in the model itself."
        )


def _public(result: AuditResult) -> Iterator[str]:
    """Yield the statistics that the claims treat as public."""
    models: dict[str, dict[str, None]] = {}
    for point in result.points:
        if point.claim:
            models.setdefault(point.claim.public, {})[point.model] = None
    for public, labels in models.items():
        yield f"Treated as public by the claims ({', '.join(labels)}): {public}."
