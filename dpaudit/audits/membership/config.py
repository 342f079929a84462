"""The config of a membership audit: `[membership]`, and what it asks of the models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, PrivateAttr, ValidationError, model_validator

from dpaudit.attacks import base as roles
from dpaudit.audits.models.config import (
    SERVED,
    SHOWN,
    OwnRecommender,
    RecommendersConfig,
    check_distinct,
)
from dpaudit.config.model import Model, Table
from dpaudit.config.schema import Config
from dpaudit.config.tables import Attack, battery, has_role, named_attacks
from dpaudit.config.tune import Tune
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError
from dpaudit.core.membership import WITNESS, Observer, Unit
from dpaudit.core.rounding import percent
from dpaudit.data.ratings import Ratings
from dpaudit.data.readers.cells import moment
from dpaudit.record.result import STRONGEST

# The fewest interactions by which utility is measured.
FEWEST_HELD_OUT = 20
# Standard deviations by which a training may have fewer absent targets than expected.
_FEWER = 4
# The fewest targets for which there is a usual or larger rate.
_FEWEST = 30
# The most target interactions by default; half of them are missing from each training.
_MOST = 10_000
# The most calibrating trainings by default, and how many of 24: the 19 others are the fewest with
# which the next training is bounded by 5 %.
MOST_CALIBRATING, _CALIBRATING, _OF = 16, 5, 24
# The attack that reads surrogate models.
_SURROGATES = Attack.model_validate(
    {
        "name": "regression-lira",
        "label": "regression-lira surrogates",
        "params": {"surrogates": True},
    }
)
# The share of the targets that chooses where no trainings do it.
_CHOOSING = 0.25
# The usual false-positive rates, and larger ones for few targets.
_RATES, _LARGER = (0.001, 0.01), (0.03, 0.1, 0.3)


def default_calibrating(trainings: int) -> int:
    """Return how many trainings calibrate the attacks if the config does not say it.

    5 of 24, at least 2 if one is left to judge, and at most 16.
    """
    return min(MOST_CALIBRATING, max(trainings * _CALIBRATING // _OF, min(2, trainings - 1)))


def chooses_by_targets(calibrating: int) -> bool:
    """Whether targets, and no trainings, choose the attack, its threshold and its guesses."""
    return calibrating < 2


def choosing_targets(targets: int) -> int:
    """Return the number of targets that choose where no trainings do."""
    return int(_CHOOSING * targets)


def _moment(value: Any) -> float:
    time = moment(value)
    if not math.isfinite(time):
        raise ValueError(
            f"{value!r} is neither a number nor a date such as '2026-01-31': give when utility "
            "starts to be measured"
        )
    return time


class Membership(Table):
    """The membership game: whose data an attacker can tell were used for training.

    A coin decides for each target and each training whether the target is in the data. The attacks
    learn from the calibrating trainings and are judged on the others.

    Attributes:
        units: what a target is: `interaction`, or `user` with the whole history.
        observers: who observes the models: `scores` of the targets; `asked-rows`, who asks for
            further scores too; the target user's `own-list`, `others-lists`, the published
            `factors` of items, or the `nearest-items` that a search among these factors returns;
            `asked-histories` sends histories to a model of sequences, which says what comes next;
            `before-and-after` sees the scores of a model with `forget` twice. By default everyone
            who sees a served model: all but the last four, of a command or what was returned those
            whom it shows something, without `asked-rows`, and `asked-histories` of `sasrec` and
            `gru4rec`.
        trainings: the number of trainings of each model. From 8 on, four more test the model.
        calibrating: how many of them calibrate the attacks; the others are judged. By default 5 of
            24, at least 2 if one is left to judge, and at most 16.
        coins: the seed of the coins and of the trainings' own seeds, instead of the run's. Runs
            with one seed and other coins have the same targets and held-out interactions, and
            trainings that are independent given these.
        seen: how many of the trainings, the first ones, whoever chose the model has seen: they
            calibrate, and none of them is judged.
        stop: `when-decided` ends the trainings of a model as soon as a gate about the next training
            surely fails, at the earliest after 4 trainings; `at-end` runs them all. A gate passes
            at the end alone.
        interactions: the number of target interactions; by default a tenth of all, at least 30 and
            at most 10000. More of them narrow every interval and cost no training.
        users: the number of target users.
        draw: which targets: `random`; or canaries, which a model is likelier to remember:
            `rare-items`, interactions with the items that fewest have; `out-of-profile`, those
            least like the rest of their user's history; `fake-users`, inserted users who share as
            few items as possible, which leave the real users' data as they are (unit `user`).
            Canaries hide each other least if there are fewer than users and than items.
        held_out: the number of interactions that no training has. Utility is measured on them, and
            attacks use them as a population.
        hold: which are held out: `random`, or `last`, the last one of as many users.
        held_out_from: a date, or a number as in `data.columns.time`: what happened then or later
            is held out, however many these are; None for `hold`.
        k: the length of lists.
        observed_users: the number of users whose lists an observer of others' lists sees. Their
            interactions are no targets; if others' are, half of the users at most are observed.
        groups: columns of `data.users`: who is exposed, and the nDCG of lists, are also shown by
            group of users with the same value. At most 10 values each; a missing one is no group.
        rates: the false-positive rates at which true-positive rates are measured; a finding names
            those for which there are too few targets.
        delta: δ of the certified ε of models without a claim; a claim has its own.
        ships: the training whose model ships, which gates with `of = "this-model"` judge, while all
            others calibrate: its number from 1 on, `last`, or `each` for all of them, one after
            the other, which share the error probability.
        surrogates: whether `regression-lira` also predicts what a target shows from the scores of
            cheap models that are trained beside: of factor models it finds more with one or two
            calibrating trainings. It is one more attack if the config names none.
    """

    judging: ClassVar[frozenset[str]] = frozenset(
        {"calibrating", "seen", "stop", "observers", "rates", "delta", "ships", "surrogates"}
    )

    units: Annotated[list[Unit], Field(min_length=1)] = ["interaction"]
    observers: Annotated[list[Observer], Field(min_length=1)] | None = None
    trainings: Annotated[int, Field(ge=1, le=100_000)] = 24
    calibrating: Annotated[int, Field(ge=0, le=1000)] | None = None
    coins: Annotated[int, Field(ge=0, lt=2**64)] | None = None
    seen: Annotated[int, Field(ge=0, le=1000)] = 0
    stop: Literal["when-decided", "at-end"] = "at-end"
    interactions: Annotated[int, Field(ge=20, le=1_000_000)] | None = None
    users: Annotated[int, Field(ge=20, le=1_000_000)] = 300
    draw: Literal["random", "rare-items", "out-of-profile", "fake-users"] = "random"
    held_out: Annotated[int, Field(ge=FEWEST_HELD_OUT, le=10_000_000)] = 1000
    hold: Literal["random", "last"] = "random"
    held_out_from: Annotated[float, BeforeValidator(_moment)] | None = None
    k: Annotated[int, Field(ge=1, le=1000)] = 10
    observed_users: Annotated[int, Field(ge=1, le=100_000)] = 100
    groups: Annotated[list[str], Field(max_length=10)] = []
    rates: Annotated[
        list[Annotated[float, Field(ge=1e-9, lt=1)]], Field(min_length=1, max_length=20)
    ] = [0.001, 0.01]
    delta: Annotated[float, Field(ge=0, lt=1)] = 1e-5
    ships: Annotated[int, Field(ge=1)] | Literal["last", "each"] = "last"
    surrogates: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Refuse keys that contradict each other, and rates that few absent targets cannot show."""
        check_distinct(self, "units", "observers", "groups", "rates")
        judged = self.trainings - self.calibrating_trainings
        if judged < 1:
            raise ValueError(
                f"calibrating = {self.calibrating} leaves none of {self.trainings} trainings to "
                "judge: lower it, or raise trainings"
            )
        if self.seen > self.calibrating_trainings:
            raise ValueError(
                f"seen = {self.seen} trainings may not be judged, and {self.calibrating_trainings} "
                f"calibrate: set calibrating = {self.seen} or more"
            )
        if isinstance(self.ships, int) and self.ships > self.trainings:
            raise ValueError(
                f"ships = {self.ships} is none of {self.trainings} trainings: lower it"
            )
        if chooses_by_targets(self.calibrating_trainings) and judged > 1:
            raise ValueError(
                f"calibrating = {self.calibrating} lets targets of the {judged} judged trainings "
                "choose the attacks, so that these are no fair sample: set it to 2 or more"
            )
        both = {"held_out", "hold"} & self.model_fields_set
        if self.held_out_from is not None and both:
            raise ValueError(
                f"held_out_from holds out all that happened since then: remove {min(both)}, or it"
            )
        if self.draw == "fake-users" and self.units != ["user"]:
            raise ValueError("draw = 'fake-users' inserts whole users: set units = ['user']")
        for unit in self.units:
            if not self.rates_of(unit):
                raise ValueError(
                    f"rates = {self.rates} are too small for {self.targets(unit)} targets of unit "
                    f"{unit!r}: use {self._targets_for(max(self.rates))} targets, or a larger rate"
                )
        return self

    @property
    def calibrating_trainings(self) -> int:
        """The number of trainings that calibrate the attacks."""
        if self.calibrating is None:
            return default_calibrating(self.trainings)
        return self.calibrating

    def shipped(self, trainings: NDArray[np.int64]) -> list[int]:
        """Return which of the trainings at hand ship (indices, increasing).

        It is the last of those at hand where trainings were stopped before the one that ships.
        """
        if self.ships == "each":
            return [int(training) for training in trainings]
        place = self.ships - 1 if isinstance(self.ships, int) else self.trainings - 1
        return [place if place in trainings else int(trainings[-1])]

    def targets(self, unit: Unit) -> int:
        """Return the number of targets of a unit; the most by default until the data are read."""
        return (self.interactions or _MOST) if unit == "interaction" else self.users

    def rates_of(self, unit: Unit) -> list[float]:
        """Return the rates that the absent targets of a training show; the others are left out.

        A rate needs 1/rate of them, and half of the targets are absent, give or take 4σ.
        """
        return [rate for rate in self.rates if _shows(rate, self.judged(unit))]

    def judged(self, unit: Unit) -> int:
        """Return the number of targets of a unit that are judged."""
        targets, chosen = self.targets(unit), chooses_by_targets(self.calibrating_trainings)
        return targets - choosing_targets(targets) if chosen else targets

    def _targets_for(self, rate: float) -> int:
        """Return the least number of targets that show a rate: n/2 + 1 − 2√n is at least 1/rate."""
        judged = math.ceil((2 + math.sqrt(2 + 2 / rate)) ** 2)
        chosen = chooses_by_targets(self.calibrating_trainings)
        return math.ceil(judged / (1 - _CHOOSING)) if chosen else judged

    def left_out(self, unit: Unit) -> list[str]:
        """Return a sentence on each stated rate that absent targets of a training cannot show."""
        if "rates" not in self.model_fields_set:
            return []
        return [
            f"TPR at {percent(rate)} FPR needs {self._targets_for(rate)} targets of unit {unit!r}, "
            f"{self.targets(unit)} were given."
            for rate in self.rates
            if rate not in self.rates_of(unit)
        ]

    def observers_of(self, model: OwnRecommender | Model) -> list[Observer]:
        """Return who observes a model; a defense of dpaudit shows scores and lists alone here."""
        if isinstance(model, OwnRecommender):
            return model.observers or self.observers or model.served
        shown = ("scores", "lists")
        return [observer for observer in self.observers or SERVED if SHOWN[observer] in shown]


class TargetSizes(NamedTuple):
    """Numbers of targets and held-out interactions that fit the data, and the rates they show."""

    interactions: int
    users: int
    held_out: int
    rates: list[float]


def target_sizes(
    ratings: Ratings, interactions: int | None = None, users: int | None = None
) -> TargetSizes:
    """Return sizes for some data: a tenth of the interactions, and a third of the active users.

    Args:
        ratings: the data.
        interactions: the number of target interactions, if it is chosen already.
        users: the number of target users, likewise.
    """
    active = int((np.diff(ratings.by_user.start) > 0).sum())
    targets = default_targets(ratings) if interactions is None else interactions
    others = max(_FEWEST, min(300, active // 3)) if users is None else users
    rates = default_rates(max(_FEWEST, targets), max(_FEWEST, others))
    return TargetSizes(targets, others, min(1000, max(_FEWEST, len(ratings) // 20)), rates)


def default_targets(ratings: Ratings) -> int:
    """Return a tenth of the interactions, at least 30 and at most 10000."""
    return min(_MOST, max(_FEWEST, len(ratings) // 10))


def default_rates(*targets: int) -> list[float]:
    """Return the usual false-positive rates, and a larger one if these targets show none of them.

    Args:
        targets: the number of targets of each unit, at least 30.
    """
    rates = (*_RATES, *_LARGER)
    usual = [rate for rate in _RATES if any(_shows(rate, count) for count in targets)]
    least = [next(rate for rate in rates if _shows(rate, count)) for count in targets]
    return sorted({*usual, *least})


def _shows(rate: float, targets: int) -> bool:
    """Whether a training surely has the 1/rate absent targets that show a rate."""
    absent = targets / 2 - _FEWER * math.sqrt(targets) / 2
    return rate * (absent + 1) >= 1


class MembershipConfig(RecommendersConfig):
    """A config of a membership audit.

    Attributes:
        membership: the game.
        tune: what `dpaudit tune` searches; no other command reads it.
    """

    title: ClassVar[str] = "whose data trained models reveal (membership)"
    marks: ClassVar[frozenset[str]] = frozenset({"recommender", "membership"})
    table: ClassVar[str] = "[membership]"
    # Attacks read finished trainings.
    judging: ClassVar[frozenset[str]] = Config.judging | {"attack", "tune"}

    membership: Membership = Membership()
    tune: Tune | None = None
    _asked: Membership | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Refuse models that no observer sees, and attacks that infer no membership."""
        for model in self.model:
            if not self.membership.observers_of(model):
                raise ValueError(
                    f"model {model.label!r} ({model.defense}) publishes no factors and answers no "
                    "histories for [membership]: name another observer in membership.observers, or "
                    "remove the model"
                )
        for audited in self.audited:
            forgets = isinstance(audited, OwnRecommender) and audited.forget
            if not forgets and WITNESS in self.membership.observers_of(audited):
                table = "recommender" if isinstance(audited, OwnRecommender) else "model"
                raise ValueError(
                    f"the observer {WITNESS!r} sees a deletion, and {table} {audited.label!r} "
                    "forgets nothing: name it in the observers of a [[recommender]] with forget"
                )
        folders = [recommender.save for recommender in self.recommender if recommender.save]
        for folder in folders:
            if folders.count(folder) > 1:
                raise ValueError(
                    f"two [[recommender]] have save = {folder!r}: give each a folder of its own"
                )
        known = registry.names("attacks")
        for attack in self.attack:
            if attack.label == STRONGEST:
                raise ValueError(
                    f"[[attack]] has the label {STRONGEST!r}, which reports give to the strongest "
                    "attack: rename it"
                )
            if attack.name in known and not has_role(attack.name, roles.MembershipInference):
                raise ValueError(
                    f"[[attack]] {attack.label!r} infers no membership: use "
                    f"{named_attacks(roles.MembershipInference)}, or remove [membership]"
                )
        return self

    def check_plugins(self) -> None:
        """Refuse unknown recommenders, defenses and attacks, by creating each.

        Raises:
            ConfigError: names the place and the remedy.
        """
        super().check_plugins()
        attacks = [attack.create(f"attack.{at}") for at, attack in enumerate(self.inferring)]
        calibrated = self.membership.calibrating_trainings > 0
        able = [attack for attack in attacks if calibrated or not attack.compares_targets]
        if not able:
            raise ConfigError(
                f"membership.trainings = {self.membership.trainings} leaves no training that "
                "calibrates, and every [[attack]] compares a target with itself in such trainings: "
                "raise it, or add the attack 'global-threshold'"
            )
        alone = {attack.observer for attack in attacks if not attack.compares_targets}
        for place, gate in enumerate(self.gate):
            seen = {one for model in self.audited for one in self.observers_of(model)}
            seen &= {gate.where.get("observer", one) for one in seen}
            lacking = sorted(one for one in seen if not alone & {None, one})
            if gate.attacker and lacking:
                raise ConfigError(
                    f"gate.{place}.attacker = {gate.attacker!r} is about attacks that train no "
                    f"model, and no such [[attack]] reads what the observer {lacking[0]!r} sees: "
                    "add 'global-threshold', or name another observer in the gate's where"
                )
        read = {attack.observer for attack in able}
        for observer in {one for model in self.audited for one in self.observers_of(model)}:
            if not read & {None, observer}:
                raise ConfigError(
                    f"no [[attack]] reads what the observer {observer!r} sees: add one such as "
                    "'global-threshold', or leave the observer out"
                )

    def fitted(self, ratings: Ratings | None) -> Self:
        """Return the config with the number of target interactions, and rates, that fit the data.

        Raises:
            ConfigError: so many targets show none of the rates that the config names.
        """
        table = self.membership
        if ratings is None or table.interactions is not None:
            return self
        sized: dict[str, Any] = {"interactions": default_targets(ratings)}
        if "rates" not in table.model_fields_set:
            table = table.model_copy(update=sized)
            counts = [max(_FEWEST, table.judged(unit)) for unit in table.units]
            sized["rates"] = default_rates(*counts)
        try:
            asked = self.membership.model_dump(exclude_unset=True)
            table = Membership.model_validate(asked | sized)
        except ValidationError as error:
            raise ConfigError(registry.first_problem(error, "membership", (), sized)) from error
        fitted = self.model_copy(update={"membership": table})
        fitted._asked = self.membership
        return fitted

    def recorded(self) -> Self:
        """Return the config without what was fitted to the data, which a rerun fits again."""
        return self.model_copy(update={"membership": self._asked or self.membership})

    def observers_of(self, model: OwnRecommender | Model) -> Sequence[Observer]:
        """Return who observes a model."""
        return self.membership.observers_of(model)

    @property
    def inferring(self) -> Sequence[Attack]:
        """Return the membership inference attacks: the named ones, else the default battery.

        It has those that read what some observer of an audited model sees.
        """
        read = {None, *(one for model in self.audited for one in self.observers_of(model))}
        usual = battery(roles.MembershipInference)
        usual += [_SURROGATES] if self.membership.surrogates else []
        loaded = {attack.plugin: registry.load("attacks", attack.plugin) for attack in usual}
        return self.attack or [one for one in usual if loaded[one.plugin].observer in read]

    @property
    def plugins(self) -> set[str]:
        """The modules of its recommenders, defenses and attacks."""
        attacks = {registry.load("attacks", attack.plugin).__module__ for attack in self.inferring}
        return super().plugins | attacks
