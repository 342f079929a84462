"""The config of attacks by accounts and public lists: `[[sybil]]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, model_validator

from dpaudit.attacks import base as roles
from dpaudit.audits.on_demand.config import OnDemandConfig, only_lists
from dpaudit.config.model import as_list
from dpaudit.config.tables import WithAttack, has_role, named_attacks
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError


class Sybil(WithAttack):
    """An attacker who creates accounts, changes their own entries, or observes public lists.

    Attributes:
        label: its name in reports; by default its category and what it observes.
        attack: `sybil`, or `passive-lists` for the passive attacker.
        params: its parameters, see `dpaudit show ATTACK`.
        efforts: the numbers of accounts, changes or observed lists to try, increasing; accounts
            created before training count.
        trials: the number of attacked hidden ratings, at each ε.
        background: for `passive-lists`, the number of other users who rate at the same time.
    """

    label: str = ""
    attack: str = "sybil"
    efforts: Annotated[
        list[Annotated[int, Field(ge=1, le=1_000_000)]], Field(min_length=1, max_length=100)
    ] = [1, 3, 10, 30, 100, 300]
    trials: Annotated[int, Field(ge=2, le=1_000_000)] = 200
    background: Annotated[int, Field(ge=1, le=1_000_000)] = 50

    @model_validator(mode="before")
    @classmethod
    def _name(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        params = values.get("params", {})
        attack = values.get("attack", "sybil")
        label = "passive" if has_role(attack, roles.PassiveAttack) else attack
        if attack == "sybil" and isinstance(params, dict):
            label = f"{params.get('category', 'dynamic')}, {params.get('observe', 'values')}"
        return {"label": label, **values}

    @model_validator(mode="after")
    def _increasing(self) -> Self:
        if sorted(set(self.efforts)) != self.efforts:
            raise ValueError("efforts do not increase: sort them and remove duplicates")
        return self

    @property
    def plugin(self) -> str:
        """The registered attack."""
        return self.attack

    @property
    def is_passive(self) -> bool:
        """Whether the attacker creates no accounts."""
        return has_role(self.attack, roles.PassiveAttack)

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of the run that are recorded beside the parameters."""
        observed = {"background": self.background} if self.is_passive else {}
        return {"efforts": self.efforts, "trials": self.trials, **observed}


class SybilConfig(OnDemandConfig):
    """A config of recommenders that serve on demand, attacked by accounts and public lists.

    Attributes:
        sybil: the attackers.
    """

    title: ClassVar[str] = "fake accounts, and public lists"
    marks: ClassVar[frozenset[str]] = frozenset({"sybil"})

    sybil: Annotated[list[Sybil], BeforeValidator(as_list), Field(min_length=1, max_length=100)]

    @model_validator(mode="after")
    def _observed(self) -> Self:
        """Refuse attackers who observe what a model does not show."""
        for model in self.model:
            if model.trains:
                raise ValueError(
                    f"[[sybil]] {self.sybil[0].label!r} needs predictions of item-item models, "
                    f"which model {model.label!r} ({model.defense}) does not make: remove it"
                )
            if not model.shows_lists:
                continue
            for sybil in self.sybil:
                if sybil.is_passive:
                    raise ValueError(
                        f"{only_lists(model)}, and no related items, which [[sybil]] "
                        f"{sybil.label!r} observes: remove it"
                    )
                if sybil.params.get("observe") != "list":
                    raise ValueError(
                        f"{only_lists(model)}: set params.observe = 'list' in [[sybil]] "
                        f"{sybil.label!r}"
                    )
        return self

    def check_plugins(self) -> None:
        """Refuse unknown plug-ins, wrong parameters, and attacks of other roles.

        Raises:
            ConfigError: names the place and the remedy.
        """
        super().check_plugins()
        for index, sybil in enumerate(self.sybil):
            attack = sybil.create(f"sybil.{index}")
            if not isinstance(attack, roles.SybilAttack | roles.PassiveAttack):
                raise ConfigError(
                    f"sybil.{index}.attack = {sybil.attack!r} makes no accounts and "
                    "observes no public lists: use "
                    f"{named_attacks(roles.SybilAttack, roles.PassiveAttack)}"
                )

    @property
    def labels(self) -> Mapping[str, list[str]]:
        """The labels of models, attacks, games and Sybil attacks."""
        return {**super().labels, "sybil": [sybil.label for sybil in self.sybil]}

    @property
    def numbers_per_point(self) -> int:
        """The numbers that are measured at each ε, at most."""
        return super().numbers_per_point + sum(len(sybil.efforts) for sybil in self.sybil)

    @property
    def plugins(self) -> set[str]:
        """The modules of its defenses and attacks."""
        attackers = {registry.load("attacks", sybil.plugin).__module__ for sybil in self.sybil}
        return super().plugins | attackers
