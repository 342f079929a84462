"""Leak: how much better than chance the strongest measured attack distinguishes the data sets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from dpaudit.auditor.measure import RecordPart
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import FindingRecord, Measurement
from dpaudit.record.values import Census

# What rounding may add to a number.
_ROUNDING = 1e-9


def leaks(parts: Iterable[RecordPart]) -> Iterator[Measurement]:
    """Yield the leak of each model and ε: the largest of its advantages, at least 0.

    The intervals of the advantages hold together: wherever they all do, the largest true advantage
    lies between the largest lower and the largest upper end, and so does the leak, since an
    attacker may also keep silent, or answer the reverse of an attack that is wrong more often than
    right. So the leak takes no share of the error probability. The attack and the observer that it
    names have the largest lower end.

    An advantage counts if coins of the auditor, or the choice between D and D', decide what is to
    be told. Then chance has the advantage 0, whatever the attacker knows. The share of recovered
    ratings (`attack.accuracy`) does not count: what an attacker with the same side information
    would guess without the release is not known.

    Args:
        parts: what was measured of one or more models.
    """
    at: dict[tuple[str, float], list[Measurement]] = {}
    for part in parts:
        if (
            isinstance(part, Measurement)
            and part.metric == "attack.advantage"
            and (part.census or part.estimate.kind == "frequentist")
        ):
            at.setdefault((part.model, part.epsilon), []).append(part)
    for here in at.values():
        most = max(here, key=lambda measurement: max(_directions(measurement.estimate)))
        estimate = _largest([measurement.estimate for measurement in here])
        censuses = [measurement.census for measurement in here if measurement.census]
        census = _largest_of_each(censuses) if censuses else None
        if census and any(measurement.estimate.kind == "range" for measurement in here):
            estimate = census.estimate
        update = {"metric": "leak", "estimate": estimate, "census": census}
        yield most.model_copy(update=update)


def contradictions(
    leaks: Iterable[Measurement], parts: Sequence[RecordPart]
) -> Iterator[FindingRecord]:
    """Yield a finding for each leak that is smaller than what other numbers of its model imply.

    The largest difference J of true- and false-positive rate is at least TPR(r) − r for every r,
    and AUC ≤ 1 − (1 − J)²/2, as no ROC curve with J encloses more. So J ≥ 1 − √(2(1 − AUC)), which
    is convex, so it holds for means too. Where an upper end of the leak is below a lower end of
    these, in one training or on average, an interval is wrong, or another attack leaks more.

    Args:
        leaks: the leaks of models.
        parts: what was measured of the same models.
    """
    for leak in leaks:
        implied = [
            (least, part)
            for part in parts
            if isinstance(part, Measurement)
            and (part.model, part.epsilon) == (leak.model, leak.epsilon)
            and part.metric in ("attack.tpr", "attack.auc")
            for low, high in zip(_ends(part, 0), _ends(leak, 1), strict=False)
            if (least := _implied(part, low)) > high + _ROUNDING
        ]
        if implied:
            least, part = max(implied, key=lambda pair: pair[0])
            yield FindingRecord(
                model=leak.model,
                about="contradiction",
                text=f"{part.place}: {part.metric} implies a leak of at least {least:.3g}, where "
                "the interval for the leak ends below that.",
                remedy="Gate attack.tpr and attack.auc, and do not rely on the leak of this run.",
                undecided=True,
                epsilon=leak.epsilon,
                metrics=("leak", "attack.advantage"),
            )


def _ends(measurement: Measurement, side: int) -> Iterator[float]:
    """Yield the lower (0) or upper (1) end of a number, then those of each training.

    A range over trainings is no interval, and says nothing.
    """
    known = measurement.estimate.kind == "frequentist"
    yield (measurement.estimate.lower, measurement.estimate.upper)[side] if known else side
    if measurement.census:
        yield from (measurement.census.lower, measurement.census.upper)[side]


def _implied(measurement: Measurement, low: float) -> float:
    """Return the least leak of a model that has at least this rate, or area."""
    if measurement.at is not None:
        return low - measurement.at
    return 1 - math.sqrt(2 * max(0.0, 1 - low))


def _largest(estimates: list[Estimate]) -> Estimate:
    directions = [direction for estimate in estimates for direction in _directions(estimate)]
    lower, value, upper = (max(0.0, *ends) for ends in zip(*directions, strict=True))
    several = f"largest of {len(estimates)} joint intervals"
    method = several if len(estimates) > 1 else estimates[0].method
    return estimates[0].changed(
        value=value,
        lower=lower,
        upper=upper,
        n=min(estimate.n for estimate in estimates),
        method=method,
    )


def _largest_of_each(censuses: list[Census]) -> Census:
    """Return the leak of each training; the intervals hold where those of all advantages do."""
    silent = Census.known([0.0] * len(censuses[0].values))
    return Census.largest([silent, *censuses, *(census.reverse for census in censuses)])


def _directions(estimate: Estimate) -> tuple[tuple[float, float, float], ...]:
    """Return the lower end, value and upper end of an advantage, and of its reverse."""
    return (estimate.lower, estimate.value, estimate.upper), (
        -estimate.upper,
        -estimate.value,
        -estimate.lower,
    )
