"""What numbers of trainings decide, before any is run."""

from __future__ import annotations

from collections.abc import Iterator

from dpaudit.auditor.measure import MetricKey, picked
from dpaudit.auditor.plan import family_of, plan
from dpaudit.auditor.trainings import NEXT, trainings_for
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.bounds.frequentist.next_draw import draws_needed, share_wealth
from dpaudit.core.rounding import percent


def decisions(config: MembershipConfig) -> Iterator[str]:
    """Yield what its trainings can decide of the gates about the next one, and the fewest that can.

    Nothing is said of a config without such gates.
    """
    keys = [key for key in plan(config) if key.census and picked(config, key, *NEXT)]
    if not keys:
        return
    family = family_of(config, None)
    # What decides claims and other gates takes its share of the error probability.
    taken = sum(_decides(config, key) for key in plan(config)) * family.alpha
    alpha = 1 - family.confidence - taken
    table = config.membership
    judged = table.trainings - table.calibrating_trainings
    needed = draws_needed(0, alpha)
    yield (
        f"The gates about the next training can pass with membership.trainings = "
        f"{trainings_for(needed)}: {needed} are judged, and if none of them breaks a gate's limit, "
        f"the next one does with a probability of at most {percent(alpha, 2)}."
    )
    worst = next(n for n in range(1, 100) if share_wealth([True] * n, alpha) * alpha >= len(keys))
    yield (
        f"A leak in every training fails them with {trainings_for(worst)}, and a blatant one with "
        f"a single training, by its own interval."
    )
    can = "pass and fail" if judged >= needed else "fail, and cannot pass"
    yield f"With {table.trainings} trainings, {judged} of which are judged, they can {can}."


def _decides(config: MembershipConfig, key: MetricKey) -> bool:
    """Whether the joint interval of a number decides a claim, or a gate but on the next one."""
    if key.census:
        return picked(config, key, "average") or picked(config, key, "this-model")
    claimed = {model.label for model in config.model}
    claimed |= {model.label for model in config.recommender if model.claim}
    bound = key.metric == "epsilon" and key.model in claimed
    return key.counted and (bound or picked(config, key, None))
