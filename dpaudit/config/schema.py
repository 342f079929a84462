"""The audit's config: TOML, checked field by field; unknown keys are errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_validator,
)

from dpaudit.bounds.frequentist.seeds import fresh_seed
from dpaudit.config.compatibility import (
    BATTERY,
    check_against,
    check_games,
    check_trained,
    with_attack,
)
from dpaudit.config.model import TABLE, Model, PythonDefense, as_list
from dpaudit.config.tables import (
    Attack,
    Campaign,
    Convergence,
    Game,
    Train,
    Transcript,
    reads,
    recovers,
)
from dpaudit.data.source import DataSource

__all__ = [
    "Attack",
    "Audit",
    "Campaign",
    "Config",
    "Convergence",
    "Game",
    "Gate",
    "Model",
    "Policy",
    "PythonDefense",
    "Split",
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
    """How much is played and how sure the numbers are.

    Attributes:
        trials: trials of each attack and of each utility, at each ε.
        confidence: simultaneous confidence of all intervals of the run, from 0.5 on.
    """

    trials: Annotated[int, Field(ge=2, le=100_000_000)] = 20_000
    confidence: Annotated[float, Field(ge=0.5, le=1 - 1e-9)] = 0.95


class Gate(_Table):
    """A threshold on a bound.

    Attributes:
        metric: `attack.accuracy`, `attack.auc`, `utility.overlap`, `utility.rmse`,
            `campaign.accuracy` or `epsilon`.
        where: which points of the sweep; each key picks, together they narrow.
        max: fails when the lower bound lies above, passes when the upper does not; of `epsilon`
            also `"claim"`.
        min: fails when the upper bound lies below, passes when the lower does not.
        detectable: a gate on `epsilon` passes only if, on some pair, the same game certified a
            breach of `max` by a mutant whose noise is too small by at most this factor.
    """

    metric: Literal[
        "attack.accuracy",
        "attack.auc",
        "utility.overlap",
        "utility.rmse",
        "epsilon",
        "campaign.accuracy",
    ]
    where: dict[Literal["epsilon", "model", "attack", "pair", "effort"], float | str] = {}
    max: Finite | Literal["claim"] | None = None
    min: Finite | None = None
    detectable: Annotated[float, Field(gt=1, le=1e6)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.max is None) == (self.min is None):
            raise ValueError("give exactly one of max and min")
        if self.metric == "epsilon" and (self.min is not None or self.detectable is None):
            raise ValueError(
                "a gate on epsilon needs max and detectable: a lower bound below the threshold "
                "says nothing unless the same game finds a mutant that breaks it"
            )
        if self.metric != "epsilon" and (self.max == "claim" or self.detectable is not None):
            raise ValueError("max = 'claim' and detectable belong to metric 'epsilon'")
        return self

    def picks(self, point: Mapping[str, Any]) -> bool:
        """Whether the gate judges a measured point with these `where` keys and this `metric`."""
        return point["metric"] == self.metric and all(
            point.get(key) == value for key, value in self.where.items()
        )


# Numbers that a run may measure, of which each has its interval: more are a mistake, or hostile.
_MEASURED = 10_000
_DEFAULT = {"split": Split(), "convergence": None}


class Config(_Table):
    """A whole audit.

    Attributes:
        seed: decides every stream. Where it is left out one is drawn from the operating system's
            entropy, and the record holds it. "entropy" draws one that the record does not hold:
            whoever knows the seed of a real release knows its noise.
        keep_seed: whether the record holds a seed that "entropy" drew.
    """

    seed: Annotated[int, Field(ge=0, lt=2**64, default_factory=fresh_seed)]
    keep_seed: bool | None = None
    data: DataSource = DataSource()
    split: Split = Split()
    train: Train | None = None
    model: Annotated[list[Model], BeforeValidator(as_list), Field(min_length=1, max_length=500)] = [
        Model()
    ]
    attack: Annotated[list[Attack], BeforeValidator(as_list), Field(max_length=100)] = []
    audit: Audit = Audit()
    game: Annotated[list[Game], BeforeValidator(as_list), Field(max_length=100)] = []
    campaign: Annotated[list[Campaign], BeforeValidator(as_list), Field(max_length=100)] = []
    convergence: Convergence | None = None
    transcript: Transcript | None = None
    gate: Annotated[list[Gate], BeforeValidator(as_list), Field(max_length=500)] = []
    defense: PythonDefense | None = None

    @model_validator(mode="before")
    @classmethod
    def _seed(cls, values: Any) -> Any:
        """Draw the seed of "entropy", and remember whether it may be told."""
        if not isinstance(values, dict):
            return values
        seed = values.get("seed")
        if seed == "entropy":
            return {"keep_seed": False, **values, "seed": fresh_seed()}
        if isinstance(seed, str) and not seed.isdecimal():
            raise ValueError(f"seed = {seed!r} is neither a whole number of 64 bits nor 'entropy'")
        if values.get("keep_seed") is False:
            raise ValueError("keep_seed = false is of seed = 'entropy': another seed is kept")
        return values

    @field_serializer("seed")
    def _told(self, seed: int) -> int | str:
        return "entropy" if self.keep_seed is False else seed

    @field_validator("game", mode="before")
    @classmethod
    def _by_model(cls, games: Any, info: ValidationInfo) -> Any:
        """An attack that is not named is one that reads what is seen of such models."""
        return [with_attack(game, info.data.get("model", [])) for game in as_list(games)]

    @model_validator(mode="after")
    def _either(self) -> Self:
        other = self.model_fields_set & {
            *("data", "split", "train", "model", "attack", "game", "campaign", "convergence"),
            "transcript",
        }
        if self.defense and other:
            raise ValueError(
                f"[defense] is audited from its outputs alone: remove {min(other)} from this config"
            )
        return self

    @model_validator(mode="after")
    def _labels(self) -> Self:
        for name, labels in (
            ("model", [model.label for model in self.model]),
            ("attack", [attack.label for attack in self.attack]),
            ("game", [game.label for game in self.game]),
            ("campaign", [campaign.label for campaign in self.campaign]),
        ):
            twice = [label for label, count in Counter(labels).items() if count > 1]
            if twice:
                key = "pair" if name == "game" else "label"
                raise ValueError(f"two [[{name}]] have the {key} {twice[0]!r}: rename one")
        return self

    @model_validator(mode="after")
    def _ends(self) -> Self:
        """Refuse a sweep without end, before anything is made of it."""
        points = sum(len(model.epsilon) for model in self.model)
        efforts = sum(len(campaign.efforts) for campaign in self.campaign)
        each = len(self.attack) + len(self.game) + efforts + 2
        if points * each > _MEASURED:
            raise ValueError(
                f"{points} values of ε, of all models together, with {each} measures each are more "
                f"than the {_MEASURED} numbers of a run: make several configs"
            )
        return self

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        """Refuse what cannot be played together; unknown names are refused where they are made."""
        check_games(self.model, self.game)
        if self.trains:
            check_trained(
                self.model,
                self.attack,
                self.campaign,
                self.game,
                # What is left at its default asks for nothing.
                {
                    name
                    for name in ("split", "convergence")
                    if getattr(self, name) != _DEFAULT[name]
                },
                [gate.metric for gate in self.gate],
                self.transcript is not None,
            )
            check_against(self.training.against, [model.label for model in self.model])
            if self.training.files and self.data.least_raters > 1:
                raise ValueError(
                    f"train.files hold ratings of items that data.least_raters = "
                    f"{self.data.least_raters} leaves out: remove one of them"
                )
            return self
        if self.transcript:
            raise ValueError(
                "[transcript] is about what users submit to a server, such as in 'fake-gradients', "
                "and no model here is trained: remove it"
            )
        if self.train:
            raise ValueError(
                "[train] is about models that are trained, such as 'dpsgd-mf', and there is none: "
                "remove it, or use [split]"
            )
        for model in self.model:
            if model.shows_lists:
                _check_lists(model, self.attack, self.game, self.campaign)
        if self.convergence and not any(model.walks_chain for model in self.model):
            raise ValueError(
                "[convergence] is about the chain of a published defense: add a [[model]] with "
                "defense = 'top-k', or remove it"
            )
        return self

    @property
    def training(self) -> Train:
        """How models that are trained are tested, defaults included."""
        return self.train or Train()

    @property
    def trains(self) -> bool:
        """Whether the models are trained."""
        return any(model.trains for model in self.model)

    @property
    def watching(self) -> list[Attack]:
        """The attacks on submissions: those that are named, or of each kind some."""
        others = [*self.recovering, *self.reading]
        named = [attack for attack in self.attack if attack not in others]
        return (named or BATTERY) if self.transcript else []

    @property
    def recovering(self) -> list[Attack]:
        """The attacks that recover sensitive ratings."""
        return [attack for attack in self.attack if recovers(attack.name)]

    @property
    def reading(self) -> list[Attack]:
        """The attacks that recover them from what users submit."""
        return [attack for attack in self.attack if reads(attack.name)]


def _check_lists(
    model: Model, attacks: list[Attack], games: list[Game], campaigns: list[Campaign]
) -> None:
    """Refuse what asks predictions of a model that shows lists alone."""
    place = f"model {model.label!r} ({model.defense}) shows lists and no predictions"
    if attacks:
        raise ValueError(
            f"{place}, which [[attack]] {attacks[0].label!r} needs: audit it by [[game]] in a "
            "config of its own"
        )
    for game in games:
        if game.pair == "data":
            raise ValueError(
                f"{place}, so no change of the data is searched for: name a constructed pair of "
                f"'dpaudit show {model.defense}' in place of 'data'"
            )
    for campaign in campaigns:
        if campaign.is_passive:
            raise ValueError(
                f"{place}, and none of related items, which [[campaign]] {campaign.label!r} "
                "watches: remove it"
            )
        if campaign.params.get("observe") != "list":
            raise ValueError(
                f"{place}: set params.observe = 'list' in [[campaign]] {campaign.label!r}"
            )


class Policy(_Table):
    """Gates alone, for a finished run."""

    gate: Annotated[list[Gate], BeforeValidator(as_list), Field(min_length=1, max_length=500)]
