"""A config on few generated ratings, in few trials: its run takes seconds and has all its parts."""

from __future__ import annotations

from typing import Any

from dpaudit.audits.federated.config import FederatedConfig
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.audits.on_demand.config import OnDemandConfig
from dpaudit.audits.sybil.config import SybilConfig
from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.config.schema import Config
from dpaudit.config.tables import DataConfig, ModelsConfig
from dpaudit.data.source import DataSource


def small(config: Config) -> Config:
    """Return a config with its models and tables on few generated ratings, in few trials."""
    assert isinstance(config, DataConfig)
    size = {"n_users": 120, "n_items": 150, "mean_per_user": 45, "minimum_per_user": 24}
    data: dict[str, Any] = {"synthetic": size}
    if config.data.sensitive:
        data = {"synthetic": {**size, "mean_friends": 2}, "sensitive": {"share": 0.2}}
    if config.data.binarize:
        data["binarize"] = min(config.data.binarize, 3.0)
    models = [model.model_copy(update=_short(model)) for model in config.model]
    changes: dict[str, Any] = {
        "data": DataSource.model_validate(data),
        "model": models,
        "audit": config.audit.model_copy(update={"trials": 200}),
    }
    if isinstance(config, ModelsConfig):
        changes["game"] = [game.model_copy(update={"trials": 400}) for game in config.game]
    if isinstance(config, SybilConfig):
        changes["sybil"] = [each.model_copy(update={"trials": 2}) for each in config.sybil]
    if isinstance(config, TrainedConfig) and config.train:
        few = {"trials": 1, "files": [], "folds": 2, "evaluate_folds": 2}
        changes["train"] = config.train.model_copy(update=few)
    if isinstance(config, OnDemandConfig) and config.convergence:
        changes["convergence"] = config.convergence.model_copy(update={"users": 2})
    if isinstance(config, MembershipConfig):
        # Generated ratings have no times.
        few = {"trainings": 8, "interactions": 500, "hold": "random"}
        if "user" in config.membership.units:
            few |= {"users": 40, "rates": [0.3]}
        changes["membership"] = config.membership.model_copy(update=few)
        changes["recommender"] = [
            own.model_copy(update={"params": {**own.params, "epochs": 1}})
            if own.library == "torch"
            else own
            for own in config.recommender
        ]
    return config.model_copy(update=changes)


def _short(model: Any) -> dict[str, Any]:
    """Return a model's shortest training, with the first value of each grid."""
    params = {**model.params, **{name: values[0] for name, values in model.grid.items()}}
    least = {"epochs": 1, "passes": 1, "steps": 1, "rounds": 3}
    return {"grid": {}, "params": {k: least.get(k, v) for k, v in params.items()}}


def shortest(config: Config) -> Config:
    """Return a small config whose federated trainings are short, too."""
    games = config.game if isinstance(config, ModelsConfig) else []
    few_trials = [game.model_copy(update={"trials": min(game.trials, 400)}) for game in games]
    config = small(config)
    if games:
        config = config.model_copy(update={"game": few_trials})
    if not isinstance(config, FederatedConfig):
        return config
    few = {"rounds": [], "trials": 2, "users": 10}
    models = [
        model.model_copy(update={"params": {**model.params, "rounds": 3}}) for model in config.model
    ]
    transcript = config.transcript.model_copy(update=few)
    return config.model_copy(update={"transcript": transcript, "model": models})
