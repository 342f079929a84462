"""What may go with models that compute predictions or lists on demand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpaudit.attacks.base import ListInference
from dpaudit.config.model import Model
from dpaudit.config.tables import Attack, Game, Sybil, has_role


def check_on_demand(
    models: Sequence[Model],
    attacks: Sequence[Attack],
    games: Sequence[Game],
    sybil_attacks: Sequence[Sybil],
    given: set[str],
) -> None:
    """Refuse tables that need trained models, or predictions of a model that shows only lists.

    Args:
        models: `[[model]]`, none of which is trained.
        attacks: `[[attack]]`.
        games: `[[game]]`.
        sybil_attacks: `[[sybil]]`.
        given: which of `[train]`, `[transcript]` and `[convergence]` the config has.

    Raises:
        ValueError: names the table and the remedy.
    """
    if "transcript" in given:
        raise ValueError(
            "[transcript] needs users who submit to a server, such as in 'fake-gradients', "
            "and no model here is trained: remove it"
        )
    if "train" in given:
        raise ValueError(
            "[train] applies only to trained models, such as 'dpsgd-mf', and there is none: "
            "remove it, or use [split]"
        )
    for model in models:
        if model.shows_lists:
            _check_lists(model, attacks, games, sybil_attacks)
            continue
        for attack in attacks:
            if has_role(attack.name, ListInference):
                raise ValueError(
                    f"[[attack]] {attack.label!r} reads lists without values, and model "
                    f"{model.label!r} ({model.defense}) shows predictions: use 'linear-ideal' in a "
                    "config of its own"
                )
    if "convergence" in given and not any(model.walks_chain for model in models):
        raise ValueError(
            "[convergence] applies only to the Markov chain of a published defense: add a "
            "[[model]] with defense = 'top-k', or remove it"
        )


def for_lists(given: Any, models: Sequence[Model]) -> Any:
    """Add the default attack on lists to an `[[attack]]` that names none, if all models show lists.

    Args:
        given: the table.
        models: `[[model]]`.
    """
    if not isinstance(given, dict) or "name" in given or not models:
        return given
    return {"name": "list-ideal", **given} if all(m.shows_lists for m in models) else given


def _check_lists(
    model: Model,
    attacks: Sequence[Attack],
    games: Sequence[Game],
    sybil_attacks: Sequence[Sybil],
) -> None:
    """Refuse parts that need predictions of a model that shows only lists."""
    place = f"model {model.label!r} ({model.defense}) shows lists and no predictions"
    for attack in attacks:
        if not has_role(attack.name, ListInference):
            raise ValueError(
                f"{place}, which [[attack]] {attack.label!r} needs: audit it by 'list-ideal', or "
                "by [[game]], in a config of its own"
            )
    for game in games:
        if game.pair == "data":
            raise ValueError(
                f"{place}, so the pair 'data' cannot be searched for: name a constructed pair of "
                f"'dpaudit show {model.defense}' instead"
            )
    for sybil in sybil_attacks:
        if sybil.is_passive:
            raise ValueError(
                f"{place}, and no related items, which [[sybil]] {sybil.label!r} "
                "observes: remove it"
            )
        if sybil.params.get("observe") != "list":
            raise ValueError(f"{place}: set params.observe = 'list' in [[sybil]] {sybil.label!r}")
