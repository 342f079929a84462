"""What may go with trained models."""

from __future__ import annotations

from collections.abc import Sequence

from dpaudit.attacks import base as roles
from dpaudit.config.model import Model
from dpaudit.config.tables import (
    Attack,
    Game,
    Sybil,
    Transcript,
    has_role,
    reads,
    recovers,
    tests_submissions,
)
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError
from dpaudit.core.releases import ItemFactors
from dpaudit.defenses.base import SubmittingDefense

# The pairs of trained models, each in a sentence.
PAIRS = {
    "data": "in the audited data, a change that the claim covers; without a claim, of one rating",
    "rating": "one rating of a user moves to the far end of the scale, or is removed",
    "user": "all ratings of one user move to the far end of the scale, or are removed",
    "many": "ratings of many users; a coin sets each to one or the other end of the scale",
}

# The attacks on submissions if the config names none.
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
    sybil_attacks: Sequence[Sybil],
    games: Sequence[Game],
    given: set[str],
    transcript: bool,
) -> None:
    """Refuse what does not apply to trained models; at least one model is trained.

    Args:
        models: `[[model]]`.
        attacks: `[[attack]]`.
        sybil_attacks: `[[sybil]]`.
        games: `[[game]]`.
        given: the tables that differ from their defaults.
        transcript: whether there is a `[transcript]`.

    Raises:
        ValueError: names the table and the remedy.
    """
    if transcript:
        _check_transcript(models, attacks)
    _check_lists(models, attacks)
    _check_factors(models, attacks)
    trained = next(model for model in models if model.trains)
    for model in models:
        if not model.trains:
            raise ValueError(
                f"model {trained.label!r} is trained and model {model.label!r} is not: audit them "
                "in two configs"
            )
    if "split" in given:
        raise ValueError("[split] applies only to untrained models: use [train]")
    for name, labels in (
        (
            "attack",
            [
                each.label
                for each in attacks
                if not (transcript or recovers(each.name) or reads(each.name))
            ],
        ),
        ("sybil", [sybil.label for sybil in sybil_attacks]),
    ):
        if labels:
            raise ValueError(
                f"[[{name}]] {labels[0]!r} needs predictions of item-item models, which model "
                f"{trained.label!r} ({trained.defense}) does not make: remove it"
            )
    if "convergence" in given:
        raise ValueError("[convergence] applies only to the chain of 'top-k': remove it")
    for game in games:
        _check_game(game)


def check_against(against: str | None, labels: Sequence[str]) -> None:
    """Refuse a comparison with a model that does not exist.

    Raises:
        ValueError: names the label and the remedy.
    """
    if against is not None and against not in labels:
        raise ValueError(
            f"train.against = {against!r} is not a label{registry.suggestion(against, labels)}"
        )


def check_files(files: Sequence[str], least_raters: int) -> None:
    """Refuse published test files beside a filter of items, which does not apply to them.

    Raises:
        ValueError: names the remedy.
    """
    if files and least_raters > 1:
        raise ValueError(
            f"train.files contain ratings of items that data.least_raters = {least_raters} leaves "
            "out: remove one of them"
        )


def check_budgets(given: bool, file: bool, models: Sequence[Model]) -> None:
    """Refuse budgets of users that no model uses, and models that lack them.

    Args:
        given: whether there is `[data.budgets]`.
        file: whether the ratings are read from a file.
        models: `[[model]]`.

    Raises:
        ValueError: names the table or the model, and the remedy.
    """
    users = [
        model.label
        for model in models
        if True in (model.params.get("budgets"), *model.grid.get("budgets", ()))
    ]
    if given and not users:
        raise ValueError(
            "[data.budgets] is used by no model: set params.budgets = true of 'dpps-mf', or "
            "remove it"
        )
    if users and file and not given:
        raise ValueError(
            f"params.budgets = true of model {users[0]!r} needs the budget of each user: set "
            "data.budgets, or remove it"
        )


def _check_lists(models: Sequence[Model], attacks: Sequence[Attack]) -> None:
    """Refuse to mix models that rank with others, and attacks that do not read their releases.

    Raises:
        ValueError: names the table and the remedy.
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
        if ranking and not has_role(attack.name, roles.ListReconstruction):
            raise ValueError(
                f"[[attack]] {attack.label!r} recovers ratings, and model {ranking[0].label!r} "
                "ranks: use 'ranking-reconstruction'"
            )
        if others and has_role(attack.name, roles.ListReconstruction):
            raise ValueError(
                f"[[attack]] {attack.label!r} recovers what models rank high, and model "
                f"{others[0].label!r} predicts ratings: use 'reconstruction'"
            )


def _check_factors(models: Sequence[Model], attacks: Sequence[Attack]) -> None:
    """Refuse attacks that read a released factorisation if a model releases none.

    Raises:
        ValueError: names the attack, the model and the remedy.
    """
    for attack in attacks:
        if not (recovers(attack.name) or reads(attack.name)):
            continue
        for model in models:
            observers = model.observers()
            public = observers.get("public")
            if observers and (public is None or not issubclass(public.shows[0], ItemFactors)):
                raise ValueError(
                    f"[[attack]] {attack.label!r} reads a released factorisation, and model "
                    f"{model.label!r} ({model.defense}) releases none: remove it, or audit one "
                    "such as 'dpsgd-mf'"
                )


def _check_transcript(models: Sequence[Model], attacks: Sequence[Attack]) -> None:
    """Refuse models and attacks that do not go with `[transcript]`.

    Raises:
        ValueError: names the table and the remedy.
    """
    for model in models:
        if not model.submits:
            raise ValueError(
                f"[transcript] needs users who submit to a server, and model {model.label!r} "
                f"({model.defense}) has none: remove it, or audit 'fake-gradients'"
            )
    known = registry.names("attacks")
    for attack in attacks:
        if attack.name in known and not any(
            f(attack.name) for f in (tests_submissions, recovers, reads)
        ):
            raise ValueError(
                f"[[attack]] {attack.label!r} does not read what users submit: use one such as "
                "'zero-mean' or 'gradient-ratio'"
            )


def _check_game(game: Game) -> None:
    if game.pair not in PAIRS:
        raise ValueError(
            f"[[game]] pair = {game.pair!r} is not a pair of trained models: use "
            f"{', '.join(repr(pair) for pair in PAIRS)}"
        )
    if game.pair == "many" and game.observe not in {None, "iterates"}:
        raise ValueError(
            f"[[game]] {game.label!r}: the pair 'many' needs an observer of the training steps: "
            "use observe = 'iterates'"
        )


def check_reading(attacks: Sequence[Attack], models: Sequence[Model]) -> None:
    """Refuse attacks on submissions if a model has no visible submissions, or too few rounds.

    Raises:
        ConfigError: an attack does not fit; names the model and the remedy.
    """
    for attack in attacks:
        made = attack.create("attack")
        for model in models:
            for defense in model.defenses("model"):
                if not isinstance(defense, SubmittingDefense):
                    raise ConfigError(
                        f"[[attack]] {attack.label!r} reads what users submit to a recommender, "
                        f"but users of model {model.label!r} ({defense.name}) submit nothing that "
                        "it reads: remove it, or audit 'privsr'"
                    )
                try:
                    defense.check_submissions()
                    made.check_rounds(defense.rounds)
                except ConfigError as error:
                    raise ConfigError(
                        f"[[attack]] {attack.label!r} on model {model.label!r}: {error}"
                    ) from error


def check_transcript(
    transcript: Transcript, tests: Sequence[Attack], models: Sequence[Model]
) -> None:
    """Refuse a `[transcript]` that does not fit a model, and unknown attacks.

    Raises:
        ConfigError: names the remedy.
    """
    for attack in tests:
        attack.create("attack")
    for model in models:
        for defense in model.defenses("model"):
            transcript.steps(defense.rounds)
            if defense.variant != "nonprivate" and defense.density == 0:
                raise ConfigError(
                    f"model {model.label!r} has params.density = 0, so nobody submits a fake that "
                    "[transcript] could tell from real ones: raise it, or remove [transcript]"
                )
            if model.grid:
                raise ConfigError(
                    f"model {model.label!r} has a grid, but [transcript] observes one combination: "
                    "set params to the combination to observe"
                )
