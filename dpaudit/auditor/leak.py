"""Leak: how much better than chance the strongest measured attack distinguishes the data sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dpaudit.auditor.measure import Found
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import Measurement


def leaks(found: Iterable[Found]) -> Iterator[Measurement]:
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
        found: what was measured of one or more models.
    """
    at: dict[tuple[str, float], list[Measurement]] = {}
    for each in found:
        if (
            isinstance(each, Measurement)
            and each.metric == "attack.advantage"
            and each.estimate.kind == "frequentist"
        ):
            at.setdefault((each.model, each.epsilon), []).append(each)
    for here in at.values():
        most = max(here, key=lambda each: max(_directions(each.estimate)))
        estimate = _largest([each.estimate for each in here])
        yield most.model_copy(update={"metric": "leak", "estimate": estimate})


def _largest(estimates: list[Estimate]) -> Estimate:
    directions = [each for estimate in estimates for each in _directions(estimate)]
    lower, value, upper = (max(0.0, *ends) for ends in zip(*directions, strict=True))
    several = f"largest of {len(estimates)} joint intervals"
    method = several if len(estimates) > 1 else estimates[0].method
    return estimates[0].changed(
        value=value, lower=lower, upper=upper, n=min(each.n for each in estimates), method=method
    )


def _directions(found: Estimate) -> tuple[tuple[float, float, float], ...]:
    """Return the lower end, value and upper end of an advantage, and of its reverse."""
    return (found.lower, found.value, found.upper), (-found.upper, -found.value, -found.lower)
