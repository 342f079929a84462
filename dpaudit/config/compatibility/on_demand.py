"""What may go with models that compute predictions or lists on demand."""

from __future__ import annotations

from collections.abc import Sequence

from dpaudit.config.model import Model
from dpaudit.config.tables import Attack, Game, Sybil


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
    if "convergence" in given and not any(model.walks_chain for model in models):
        raise ValueError(
            "[convergence] applies only to the Markov chain of a published defense: add a "
            "[[model]] with defense = 'top-k', or remove it"
        )


def _check_lists(
    model: Model,
    attacks: Sequence[Attack],
    games: Sequence[Game],
    sybil_attacks: Sequence[Sybil],
) -> None:
    """Refuse parts that need predictions of a model that shows only lists."""
    place = f"model {model.label!r} ({model.defense}) shows lists and no predictions"
    if attacks:
        raise ValueError(
            f"{place}, which [[attack]] {attacks[0].label!r} needs: audit it by [[game]] in a "
            "config of its own"
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
