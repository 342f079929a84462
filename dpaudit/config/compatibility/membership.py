"""What may go with `[membership]`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dpaudit.attacks import base as roles
from dpaudit.config.membership import Membership
from dpaudit.config.model import Model
from dpaudit.config.tables import Attack, has_role
from dpaudit.core import registry
from dpaudit.record.result import STRONGEST

# Tables of other audits.
_OTHERS = ("split", "train", "game", "sybil", "convergence", "transcript")


def infers_membership(name: object) -> bool:
    """Whether a registered attack infers membership."""
    return has_role(name, roles.MembershipInference)


def check_membership(
    membership: Membership,
    models: Sequence[Model],
    attacks: Sequence[Attack],
    given: Collection[str],
) -> None:
    """Refuse tables of other audits, models that are not trained, and other attacks.

    Args:
        membership: `[membership]`.
        models: `[[model]]`.
        attacks: `[[attack]]`.
        given: the tables that the config has.

    Raises:
        ValueError: names the table and the remedy.
    """
    for table in _OTHERS:
        if table in given:
            raise ValueError(
                f"[{table}] does not go with [[recommender]] or [membership]: remove it, or use a "
                "second config"
            )
    for model in models:
        if not model.trains:
            raise ValueError(
                f"[membership] trains models, and model {model.label!r} ({model.defense}) computes "
                "predictions on demand: remove it, or audit one such as 'dpsgd-mf'"
            )
        if model.grid:
            raise ValueError(
                f"[membership] takes one combination of settings, and model {model.label!r} has a "
                "grid: set params to the combination to audit"
            )
        if not membership.observers_of(model):
            raise ValueError(
                f"model {model.label!r} ({model.defense}) publishes no factors for [membership]: "
                "name another observer in membership.observers, or remove the model"
            )
    known = registry.names("attacks")
    for attack in attacks:
        if attack.label == STRONGEST:
            raise ValueError(
                f"[[attack]] has the label {STRONGEST!r}, which reports give to the strongest "
                "attack: rename it"
            )
        if attack.name in known and not infers_membership(attack.name):
            raise ValueError(
                f"[[attack]] {attack.label!r} infers no membership: use 'lira', 'rmia' or "
                "'global-threshold', or remove [membership]"
            )
