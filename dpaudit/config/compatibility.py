"""What a config may ask of models that are trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpaudit.config.model import Model
from dpaudit.config.tables import Attack, Campaign, Game, reads, recovers, watches
from dpaudit.core import registry

# The pairs of models that are trained, each in a sentence.
PAIRS = {
    "data": "what the claim is about, a rating's value where there is none, in the audited data",
    "rating": "one user's rating takes the far end of the scale, or disappears",
    "user": "each rating of one user takes the far end of the scale, or all disappear",
    "many": "ratings of many users, each at either end of the scale by a coin of its own",
}


def trained_game(given: Any) -> Any:
    """What a `[[game]]` says, with the attack that reads what is seen where it names none."""
    if not isinstance(given, dict):
        return given
    return {"attack": _reader(given.get("observe")), **given}


def _reader(observe: Any) -> str:
    steps = observe in (None, "iterates", "recommender", "friend")
    return "likelihood-ratio" if steps else "canary"


# Attacks that read what steps show.
READ_STEPS = ("likelihood-ratio", "float-bits")

# What is asked about submissions where a config names no attack.
BATTERY = [
    Attack.model_validate({"name": name, "params": params})
    for name, params in (
        ("popularity", {"by": "candidates"}),
        ("popularity", {"by": "response"}),
        ("zero-mean", {"statistic": "t", "about": "zero"}),
        ("zero-mean", {"statistic": "t", "about": "fake"}),
        ("zero-mean", {"statistic": "sign", "about": "zero"}),
        ("zero-mean", {"statistic": "sign", "about": "fake"}),
        ("zero-mean", {"statistic": "z", "about": "fake"}),
        ("zero-mean", {"statistic": "hotelling", "about": "fake"}),
        ("two-sample", {"statistic": "ks", "about": "fake"}),
        ("two-sample", {"statistic": "energy", "about": "fake"}),
        ("energy", {"about": "fake"}),
        ("energy", {"rounds": "difference", "about": "fake"}),
        ("gradient-ratio", {"knows": "model"}),
        ("gradient-ratio", {"knows": "gradient"}),
    )
]


def check_trained(
    models: Sequence[Model],
    attacks: Sequence[Attack],
    campaigns: Sequence[Campaign],
    games: Sequence[Game],
    given: set[str],
    gated: Sequence[str],
    transcript: bool,
) -> None:
    """Refuse what does not go with models that are trained, of which there is at least one.

    Args:
        models: `[[model]]`.
        attacks: `[[attack]]`.
        campaigns: `[[campaign]]`.
        games: `[[game]]`.
        given: the tables that ask for something.
        gated: the metrics of the gates.
        transcript: whether there is a `[transcript]`.

    Raises:
        ValueError: with the table and the remedy.
    """
    _check_transcript(models, attacks, gated, transcript)
    _check_lists(models, attacks)
    trained = next(model for model in models if model.trains)
    for model in models:
        if not model.trains:
            raise ValueError(
                f"model {trained.label!r} is trained and model {model.label!r} is not: audit them "
                "in two configs"
            )
    if "split" in given:
        raise ValueError("[split] is about models that are not trained: use [train]")
    for name, labels in (
        (
            "attack",
            [
                each.label
                for each in attacks
                if not (transcript or recovers(each.name) or reads(each.name))
            ],
        ),
        ("campaign", [campaign.label for campaign in campaigns]),
    ):
        if labels:
            raise ValueError(
                f"[[{name}]] {labels[0]!r} is about predictions of item-item models, which model "
                f"{trained.label!r} ({trained.defense}) does not make: remove it"
            )
    if "convergence" in given:
        raise ValueError("[convergence] is about the chain of 'top-k': remove it")
    if "utility.rmse" in gated:
        raise ValueError(
            "a gate on utility.rmse of models that are trained cannot pass: its interval over "
            "folds assumes a normal law; remove it"
        )
    for metric in gated:
        if metric not in {"epsilon", "attack.auc"}:
            raise ValueError(
                f"a gate on {metric} is about models that are not trained: remove it, or gate "
                "'epsilon'"
            )
    for game in games:
        _check_game(game)


def check_against(against: str | None, labels: Sequence[str]) -> None:
    """Refuse a comparison with a model that there is not.

    Raises:
        ValueError: with the remedy.
    """
    if against is not None and against not in labels:
        raise ValueError(
            f"train.against = {against!r} is no model's label{registry.suggestion(against, labels)}"
        )


def _check_lists(models: Sequence[Model], attacks: Sequence[Attack]) -> None:
    """Refuse models that rank beside others, and attacks that do not read what they release.

    Raises:
        ValueError: with the table and the remedy.
    """
    ranking = [model for model in models if model.ranks]
    others = [model for model in models if not model.ranks]
    if ranking and others:
        raise ValueError(
            f"model {ranking[0].label!r} ranks and model {others[0].label!r} predicts ratings: "
            "audit them in two configs"
        )
    known = registry.names("attacks")
    for attack in attacks:
        if attack.name not in known:
            continue
        part = registry.load("attacks", attack.name)
        if ranking and not hasattr(part, "lists"):
            raise ValueError(
                f"[[attack]] {attack.label!r} recovers ratings, and model {ranking[0].label!r} "
                "ranks: use 'ranking-reconstruction'"
            )
        if others and hasattr(part, "lists"):
            raise ValueError(
                f"[[attack]] {attack.label!r} recovers what models rank high, and model "
                f"{others[0].label!r} predicts ratings: use 'reconstruction'"
            )


def _check_transcript(
    models: Sequence[Model], attacks: Sequence[Attack], gated: Sequence[str], transcript: bool
) -> None:
    """Refuse what asks about submissions where there are none, and other attacks where there are.

    Raises:
        ValueError: with the table and the remedy.
    """
    if not transcript:
        if "attack.auc" in gated:
            raise ValueError(
                "a gate on attack.auc is about the submissions of a federated training: add "
                "[transcript], or remove it"
            )
        return
    for model in models:
        if not model.submits:
            raise ValueError(
                f"[transcript] is about what users submit to a server, and model {model.label!r} "
                f"({model.defense}) has none: remove it, or audit 'fake-gradients'"
            )
    known = registry.names("attacks")
    for attack in attacks:
        if attack.name in known and not any(f(attack.name) for f in (watches, recovers, reads)):
            raise ValueError(
                f"[[attack]] {attack.label!r} does not read what users submit: use one such as "
                "'zero-mean' or 'gradient-ratio'"
            )


def _check_game(game: Game) -> None:
    if game.pair not in PAIRS:
        raise ValueError(
            f"[[game]] pair = {game.pair!r} is not one of a model that is trained: use "
            f"{', '.join(repr(pair) for pair in PAIRS)}"
        )
    if game.pair == "many" and game.observe not in {None, "iterates"}:
        raise ValueError(
            f"[[game]] {game.label!r}: many ratings are told apart by the steps of a training: "
            "use observe = 'iterates'"
        )
    wanted = _reader(game.observe)
    known = registry.names("attacks")
    fits = {*READ_STEPS, "canary"} if game.observe is None else {wanted}
    if wanted in READ_STEPS:
        fits |= set(READ_STEPS)
    if game.attack in known and game.attack not in fits:
        raise ValueError(
            f"[[game]] {game.label!r}: attack {game.attack!r} does not read what is seen there: "
            f"use {wanted!r}"
        )
