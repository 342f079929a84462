"""The schema of an audit's config; unknown keys are errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_validator,
)

from dpaudit.bounds.frequentist.seeds import fresh_seed
from dpaudit.config.card import Card
from dpaudit.config.compatibility.gates import check_threshold
from dpaudit.config.compatibility.membership import check_membership
from dpaudit.config.compatibility.observers import check_games, with_attack
from dpaudit.config.compatibility.on_demand import check_on_demand, for_lists
from dpaudit.config.compatibility.trained import (
    BATTERY,
    check_against,
    check_budgets,
    check_files,
    check_trained,
)
from dpaudit.config.membership import BATTERY as MEMBERSHIP_BATTERY
from dpaudit.config.membership import Membership, OwnRecommender
from dpaudit.config.model import TABLE, Model, PythonDefense, as_list
from dpaudit.config.origin import Origin
from dpaudit.config.tables import (
    Attack,
    Convergence,
    Game,
    Sybil,
    Train,
    Transcript,
    reads,
    recovers,
)
from dpaudit.config.waivers import Waivers
from dpaudit.data.source import DataSource
from dpaudit.record.metric import WhereKey
from dpaudit.record.metrics import entry, gateable, table

__all__ = [
    "Attack",
    "Audit",
    "Config",
    "Convergence",
    "Game",
    "Gate",
    "Model",
    "Policy",
    "PythonDefense",
    "Split",
    "Sybil",
    "Train",
    "Transcript",
]

Share = Annotated[float, Field(gt=0, lt=1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Table(BaseModel):
    model_config = TABLE


class Split(_Table):
    """Which users are attacked.

    Attributes:
        test_share: share of the users who are attacked; the similarity is built from the others.
    """

    test_share: Share = 0.2


class Audit(_Table):
    """The number of trials and the confidence.

    Attributes:
        trials: trials of each attack and of each utility measure, at each ε.
        confidence: simultaneous confidence of all intervals of the run, at least 0.5.
        fail_on_broken: whether a claim that the run certifies to be broken fails the run, with or
            without a gate; false where a claim is known to be false, as in a paper's replication.
    """

    trials: Annotated[int, Field(ge=2, le=100_000_000)] = 20_000
    confidence: Annotated[float, Field(ge=0.5, le=1 - 1e-9)] = 0.95
    fail_on_broken: bool = True


def _listed(schema: dict[str, Any]) -> None:
    """Name the metrics that a gate may use, with their meanings, for editors."""
    able = [metric for metric in table().values() if metric.gateable]
    schema["enum"] = [metric.name for metric in able]
    schema["enumDescriptions"] = [metric.words for metric in able]


class Gate(_Table):
    """A threshold on a bound.

    Attributes:
        metric: one that may gate (`dpaudit list metrics`).
        where: which points of the sweep the gate judges; a point must match all keys. Of what is
            recovered of sensitive ratings, `basis` is the released model or the submissions unless
            given.
        max: the gate fails if the lower bound is above it, and passes if the upper bound is not;
            for `epsilon` also `"claim"`.
        min: the gate fails if the upper bound is below it, and passes if the lower bound is not.
            A threshold that no value of the metric breaks, or none keeps, is refused.
        detectable: a gate on `epsilon` passes only if, on some pair, the same game certifies that
            a mutant breaks `max` whose noise is too small by at most this factor.
    """

    # `max = true` would be 1, and "0.1" is a word.
    model_config = ConfigDict(strict=True)
    metric: Annotated[str, AfterValidator(gateable), Field(json_schema_extra=_listed)]
    where: dict[WhereKey, float | str] = {}
    max: Finite | Literal["claim"] | None = None
    min: Finite | None = None
    detectable: Annotated[float, Field(gt=1, le=1e6)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.max is None) == (self.min is None):
            raise ValueError("give exactly one of max and min")
        if self.metric == "epsilon" and (self.min is not None or self.detectable is None):
            raise ValueError(
                "a gate on epsilon needs max and detectable: a lower bound below the threshold is "
                "no evidence unless the same game finds a mutant that breaks it"
            )
        if self.metric != "epsilon" and (self.max == "claim" or self.detectable is not None):
            raise ValueError("max = 'claim' and detectable belong to metric 'epsilon'")
        bases, basis = entry(self.metric).bases, self.wanted.get("basis")
        if bases and basis not in bases:
            raise ValueError(f"where.basis = {basis!r} is none of {', '.join(bases)}: use one")
        check_threshold(self)
        return self

    @property
    def wanted(self) -> dict[WhereKey, Any]:
        """Return `where`, with what the metric picks unless it says otherwise."""
        bases = entry(self.metric).bases
        usual: dict[WhereKey, Any] = {"basis": bases[0]} if bases else {}
        return {**usual, **self.where}

    def picks(self, point: Mapping[str, Any]) -> bool:
        """Whether the gate judges a point, given by its `metric` and the keys of `where`."""
        return point["metric"] == self.metric and all(
            point.get(key) == value for key, value in self.wanted.items()
        )


# The most numbers of a run, each with an interval: larger configs are mistakes, or hostile.
_MEASURED = 10_000
_DEFAULT = {"split": Split(), "convergence": None}


class Config(_Table):
    """A whole audit.

    Attributes:
        seed: determines every random stream. If it is left out, a seed is drawn from the operating
            system's entropy and stored in the record. "entropy" draws one that is not stored:
            anyone who knows the seed of a real release can compute its noise.
        keep_seed: whether the record stores a seed drawn by "entropy".
    """

    seed: Annotated[int, Field(ge=0, lt=2**64, default_factory=fresh_seed)]
    keep_seed: bool | None = None
    data: DataSource = DataSource()
    split: Split = Split()
    train: Train | None = None
    model: Annotated[list[Model], BeforeValidator(as_list), Field(max_length=500)] = [Model()]
    recommender: Annotated[
        list[OwnRecommender], BeforeValidator(as_list), Field(max_length=500)
    ] = []
    membership: Membership | None = None
    attack: Annotated[list[Attack], BeforeValidator(as_list), Field(max_length=100)] = []
    audit: Audit = Audit()
    game: Annotated[list[Game], BeforeValidator(as_list), Field(max_length=100)] = []
    sybil: Annotated[list[Sybil], BeforeValidator(as_list), Field(max_length=100)] = []
    convergence: Convergence | None = None
    transcript: Transcript | None = None
    gate: Annotated[list[Gate], BeforeValidator(as_list), Field(max_length=500)] = []
    waiver: Waivers = []
    defense: PythonDefense | None = None
    card: Card | None = None
    _origin: Origin | None = PrivateAttr(None)

    @model_validator(mode="before")
    @classmethod
    def _own(cls, values: Any) -> Any:
        """Audit membership of `[[recommender]]`; beside it, only models that are named."""
        if not isinstance(values, dict) or not values.get("recommender", "membership" in values):
            return values
        return {"model": [], "membership": {}, **values}

    @model_validator(mode="before")
    @classmethod
    def _seed(cls, values: Any) -> Any:
        """Draw the seed of "entropy", and set whether the record stores it."""
        if not isinstance(values, dict):
            return values
        seed = values.get("seed")
        if seed == "entropy":
            # Left out, it is drawn, and can be told from a seed that the user chose.
            return {"keep_seed": False, **{k: v for k, v in values.items() if k != "seed"}}
        if isinstance(seed, str) and not (seed.isascii() and seed.isdecimal()):
            raise ValueError(f"seed = {seed!r} is neither a 64-bit integer nor 'entropy'")
        if values.get("keep_seed") is False:
            raise ValueError("keep_seed = false needs seed = 'entropy': other seeds are stored")
        return values

    @field_serializer("seed")
    def _told(self, seed: int) -> int | str:
        return "entropy" if self.keep_seed is False else seed

    @field_validator("attack", mode="before")
    @classmethod
    def _by_release(cls, attacks: Any, info: ValidationInfo) -> Any:
        """Fill in missing names with that of an attack on lists, if no model shows more."""
        return [for_lists(attack, info.data.get("model", [])) for attack in as_list(attacks)]

    @field_validator("game", mode="before")
    @classmethod
    def _by_model(cls, games: Any, info: ValidationInfo) -> Any:
        """Fill in missing attacks with one that reads what the observer sees of the models."""
        return [with_attack(game, info.data.get("model", [])) for game in as_list(games)]

    @model_validator(mode="after")
    def _either(self) -> Self:
        other = self.model_fields_set & {
            *("data", "split", "train", "model", "attack", "game", "sybil", "convergence"),
            *("transcript", "recommender", "membership"),
        }
        if self.defense and other:
            raise ValueError(
                f"[defense] is audited from its outputs alone: remove {min(other)} from this config"
            )
        return self

    @model_validator(mode="after")
    def _labels(self) -> Self:
        for name, labels in (
            ("recommender" if self.recommender else "model", [each.label for each in self.audited]),
            ("attack", [attack.label for attack in self.attack]),
            ("game", [game.label for game in self.game]),
            ("sybil", [sybil.label for sybil in self.sybil]),
        ):
            twice = [label for label, count in Counter(labels).items() if count > 1]
            if twice and name == "game":
                raise ValueError(
                    f"two [[game]] have the pair and observer {twice[0]!r}: choose another pair or "
                    "observer, or use a second config"
                )
            if twice:
                raise ValueError(f"two [[{name}]] have the label {twice[0]!r}: rename one")
        return self

    @model_validator(mode="after")
    def _ends(self) -> Self:
        """Refuse a sweep that is too large, before any work is done."""
        points = sum(len(model.epsilon) for model in self.audited)
        if not points:
            raise ValueError("nothing is audited: add a [[model]] or a [[recommender]]")
        efforts = sum(len(sybil.efforts) for sybil in self.sybil)
        each = len(self.attack) + len(self.game) + efforts + 2
        if points * each > _MEASURED:
            raise ValueError(
                f"{points} values of ε over all models, with {each} measures each, exceed the "
                f"limit of {_MEASURED} numbers of a run: split the config"
            )
        return self

    @model_validator(mode="after")
    def _plugins_fit(self) -> Self:
        """Refuse parts that do not fit together; unknown names are refused on creation."""
        check_budgets(self.data.budgets is not None, self.data.path is not None, self.model)
        if self.membership:
            # A table at its default requests nothing.
            given = {
                name
                for name in self.model_fields_set
                if getattr(self, name) not in ([], None, _DEFAULT.get(name))
            }
            check_membership(self.membership, self.model, self.attack, given)
            return self
        check_games(self.model, self.game)
        if self.trains:
            check_trained(
                self.model,
                self.attack,
                self.sybil,
                self.game,
                # A table at its default requests nothing.
                {
                    name
                    for name in ("split", "convergence")
                    if getattr(self, name) != _DEFAULT[name]
                },
                self.transcript is not None,
            )
            check_against(self.training.against, [model.label for model in self.model])
            check_files(self.training.files, self.data.least_raters)
            return self
        given = {
            name
            for name in ("train", "transcript", "convergence")
            if getattr(self, name) is not None
        }
        check_on_demand(self.model, self.attack, self.game, self.sybil, given)
        return self

    def stated_at(self, origin: Origin) -> Self:
        """Return the config with the lines of its tables."""
        located = self.model_copy()
        located._origin = origin
        return located

    @property
    def origin(self) -> Origin | None:
        """Return where its tables stand; None if it was not read from a file."""
        return self._origin

    @property
    def training(self) -> Train:
        """Return the `[train]` table, or its defaults."""
        return self.train or Train()

    @property
    def audited(self) -> list[Model | OwnRecommender]:
        """Return every audited model: the user's own first."""
        return [*self.recommender, *self.model]

    @property
    def inferring(self) -> list[Attack]:
        """Return the membership inference attacks: the named ones, else the default battery."""
        return self.attack or list(MEMBERSHIP_BATTERY)

    @property
    def trains(self) -> bool:
        """Whether any model is trained."""
        return any(model.trains for model in self.model)

    @property
    def submission_tests(self) -> list[Attack]:
        """Return the attacks on submissions: the named ones, else the default battery."""
        others = [*self.recovering, *self.reading]
        named = [attack for attack in self.attack if attack not in others]
        return (named or BATTERY) if self.transcript else []

    @property
    def recovering(self) -> list[Attack]:
        """Return the attacks that recover sensitive ratings from a released model."""
        return [attack for attack in self.attack if recovers(attack.name)]

    @property
    def reading(self) -> list[Attack]:
        """Return the attacks that recover sensitive ratings from submissions."""
        return [attack for attack in self.attack if reads(attack.name)]


class Policy(_Table):
    """Gates for a finished run."""

    gate: Annotated[list[Gate], BeforeValidator(as_list), Field(min_length=1, max_length=500)]
