"""The result of a search, as it is written and reported."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from dpaudit.record.values import Record

Fate = Literal["go", "exceeded", "undecided", "too weak", "no trainings left"]


class Leak(Record):
    """A number that a gate limits, as trainings show it to attackers with the others' help.

    Attributes:
        rule: the gate.
        metric: the metric.
        at: its false-positive rate, if it has one.
        limit: the limit.
        lower: whether it is a lower limit.
        values: the number in each training.
    """

    rule: str
    metric: str
    at: float | None
    limit: float
    lower: bool = False
    values: tuple[float, ...]

    @property
    def utility(self) -> bool:
        """Whether it is a utility, and no leak."""
        return self.metric.startswith("utility.")

    @property
    def mean(self) -> float:
        """The mean over the trainings."""
        return sum(self.values) / len(self.values)

    @property
    def relative(self) -> tuple[float, ...]:
        """The numbers in units of the limit; a lower limit in units of the numbers."""
        if self.lower:
            return tuple(self.limit / max(value, 1e-12) for value in self.values)
        return tuple(value / max(self.limit, 1e-12) for value in self.values)

    @property
    def over(self) -> float:
        """The mean of these."""
        return sum(self.relative) / len(self.values)


class SettingRecord(Record):
    """What the search saw of a setting.

    Attributes:
        values: the values of its keys; empty for the unchanged one.
        words: the same in words.
        trainings: how often it was trained in the search.
        utility: the utility in each of these trainings, on the held-out data of the search.
        leak: what leaks furthest beyond its limit; None if utility alone was read.
        relative: in each training the largest number in units of its limit, of all gates.
        chance: the chance that a run passes, by forecast.
    """

    values: Mapping[str, Any]
    words: str
    trainings: int
    utility: tuple[float, ...]
    leak: Leak | None = None
    relative: tuple[float, ...] = ()
    chance: float | None = None

    @property
    def gain(self) -> float:
        """The mean utility."""
        return sum(self.utility) / len(self.utility)

    @property
    def over(self) -> float:
        """The mean of the largest number in units of its limit."""
        return sum(self.relative) / len(self.relative)


class CandidateRecord(Record):
    """What became of a setting that was judged.

    Attributes:
        setting: its place among the settings.
        fate: `go`; `exceeded` in a judged training; `undecided` by its gates, `too weak` the
            attackers for any pass; or `no trainings left`.
        seen: how many trainings calibrated: all that were seen of it.
        judged: how many new trainings were judged.
        leak: the number that exceeds, else what leaks furthest, in the judged trainings; of a
            setting without a chance to pass, in those of the search.
        relative: in each of these the largest number in units of its limit, of all gates.
        chance: the chance that no training of another run exceeds; None if not all were judged by
            their numbers.
        reason: why the gates do not pass, in their words; or how many trainings were lacking.
        outcome: the outcome of the run of its judged trainings; empty if it ended before.
    """

    setting: int
    fate: Fate
    seen: int
    judged: int
    leak: Leak | None = None
    relative: tuple[float, ...] = ()
    chance: float | None = None
    reason: str = ""
    outcome: str = ""

    @property
    def largest(self) -> float:
        """The largest number in units of its limit; infinite if none is known."""
        return max(self.relative, default=math.inf)


class Price(Record):
    """A utility of the chosen setting beside the unchanged one, on data that the search left.

    Attributes:
        group: the group of users; empty for all.
        chosen: the mean of the chosen setting over its trainings.
        unchanged: that of the unchanged one.
        lower: the lower end of a 95 % interval of their ratio; None for a group.
        upper: the upper end.
    """

    group: str = ""
    chosen: float
    unchanged: float
    lower: float | None = None
    upper: float | None = None

    @property
    def ratio(self) -> float:
        """The chosen setting's utility in units of the unchanged one's."""
        return self.chosen / self.unchanged


class Tuning(Record):
    """The result of a search.

    Attributes:
        outcome: `go`, `stop` or `undecided`, as of a run.
        model: the label of the model.
        utility: the metric that was kept.
        config: the file of the config; empty if the program passed it.
        tuned: the file of the config with the chosen setting; empty without one.
        settings: the settings, the unchanged one first.
        possible: how many the lists have; None for ranges.
        gated: whether a gate limits a utility, so that the search read all held-out interactions.
        sampler: how they were found: `listed`, `random` or `TPE`.
        candidates: those judged, in their order.
        listed: how many were to be judged.
        chosen: the place of the one that passes.
        price: its utility beside the unchanged one, for all and by group.
        again: the chance that no training of a run of the tuned config exceeds; None if an interval
            judges it.
        level: the error probability of gates by an interval, of all candidates; None without such.
        trainings: how many were allowed, and `used` how many there are.
        used: all trainings of this search, those of an earlier one with the same settings too.
        judged: how many judge a candidate.
        attempt: which search in this folder on these data it is.
        seconds: what `time` was, if that set the number of trainings.
        claim: ε and δ that the chosen setting states, else the unchanged one; None without such.
        covered: ε of a private choice among all settings, by the mean number of runs.
    """

    outcome: Literal["go", "stop", "undecided"]
    model: str
    utility: str
    config: str
    tuned: str = ""
    settings: Sequence[SettingRecord]
    possible: int | None = None
    gated: bool = False
    sampler: Literal["listed", "random", "TPE"]
    candidates: Sequence[CandidateRecord]
    listed: int
    chosen: int | None = None
    price: Sequence[Price] = ()
    again: float | None = None
    level: float | None = None
    trainings: int
    used: int
    judged: int
    attempt: int
    seconds: float | None = None
    claim: tuple[float, float] | None = None
    covered: Mapping[int, float] = {}
