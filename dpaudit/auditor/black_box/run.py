"""Plays the audit of a mechanism that a config names as Python code."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

from dpaudit import __version__
from dpaudit.auditor.black_box.audit import BlackBoxAudit, Score, audit_pairs
from dpaudit.auditor.gate import bars, judge
from dpaudit.config import schema as configs
from dpaudit.core.errors import ConfigError, DpauditError, RunError, foreign
from dpaudit.core.provenance import environment
from dpaudit.record import result as records

# The mutant's ε over the claimed one, where no gate says.
_FACTOR = 1.5
_SOURCE = "Bichsel et al. 2021, DP-Sniper, doi:10.1109/SP40001.2021.00081"


def run_python(
    config: configs.Config, defense: configs.PythonDefense, stage: Callable[[str], None]
) -> records.AuditResult:
    """Import the mechanism, certify a lower bound on its ε, judge the gates.

    Args:
        config: a checked config.
        defense: its table `[defense]`.
        stage: told what is being done.

    Raises:
        ConfigError: something that the config names cannot be imported, or is not what it must be.
        RunError: the mechanism itself failed.
    """
    started, clock = datetime.now(UTC), time.perf_counter()
    mechanism = named(defense.target, "defense.target")
    if not callable(mechanism):
        raise ConfigError(f"defense.target = {defense.target!r} cannot be called: name a function")
    pairs = _pairs(defense)
    score: Score | Literal["learned"] = "learned"
    if defense.score != "learned":
        score = named(defense.score, "defense.score")
        if not callable(score):
            raise ConfigError(
                f"defense.score = {defense.score!r} cannot be called: name a function"
            )
    stage(f"{defense.target}: {config.audit.trials} trials")
    limit, planted = _planted(config)
    culprit = defense.target if defense.score == "learned" else "the mechanism or its score"

    def failed(words: str) -> RunError:
        return RunError(
            f"{culprit} raised {words}; call it yourself with (data, "
            "numpy.random.default_rng(0)) to see where"
        )

    try:
        with foreign(failed):
            found = audit_pairs(
                mechanism,
                pairs,
                delta=defense.delta,
                confidence=config.audit.confidence,
                trials=config.audit.trials,
                search=min(defense.search, config.audit.trials),
                score=score,
                batched=defense.batched,
                fresh_process=defense.isolate == "process",
                claim=limit,
                detectable=planted / limit,
                seed=config.seed,
            )
    except RunError:
        raise
    except DpauditError as error:
        raise ConfigError(f"defense.target = {defense.target!r}: {error}") from error
    points = [_point(defense)]
    measurements = [_measurement(defense, found, planted)]
    gates = [judge(gate, points, measurements) for gate in config.gate]
    return records.AuditResult(
        tool=__version__,
        environment=environment(),
        config=config.model_dump(mode="json", include=_kept(config)),
        data=None,
        family=records.Family.of(config.audit.confidence, 1),
        models=[_model(defense, mechanism)],
        attacks={
            found.score: {
                "name": found.score,
                "title": "tells outputs of two data sets apart",
                "source": _SOURCE if defense.score == "learned" else defense.score,
            }
        },
        pairs=[
            records.PairRecord(
                model=defense.label,
                pair="given",
                summary=f"the most telling of {len(pairs)} given, number {found.pair}"
                if len(pairs) > 1
                else "the pair given",
                drift=found.drift,
            )
        ],
        points=points,
        measurements=measurements,
        gates=gates,
        outcome=records.worst([gate.outcome for gate in gates]),
        timing=records.Timing.since(started, clock),
    )


def _planted(config: configs.Config) -> tuple[float, float]:
    """What the mechanism is held to, and the ε of the mutant on which power is measured.

    That of the gate that asks for the smallest; 1.5 times the claim where none asks.
    """
    (point,) = config.measured()
    claim = point["epsilon"]
    asked = [
        (bar.limit, bar.limit * bar.factor)
        for bar in bars(config.gate, point, claim)
        if bar.factor is not None and bar.limit > 0
    ]
    return min(asked, key=lambda each: each[1], default=(claim, _FACTOR * claim))


def _kept(config: configs.Config) -> set[str]:
    """The tables of the record's config: of the others none may be set beside [defense]."""
    secret = {"keep_seed"} if config.keep_seed is not None else set()
    return {"seed", "audit", "gate", "defense", *secret}


def named(reference: str, place: str) -> Any:
    """The object of `package.module:name`.

    Raises:
        ConfigError: it is no such reference, or cannot be imported.
    """
    module, colon, name = reference.partition(":")
    if not (module and colon and name):
        raise ConfigError(f"{place} = {reference!r} is not package.module:name")
    with foreign(
        lambda words: ConfigError(
            f"{place} = {reference!r} cannot be imported ({words}): put the module beside the "
            "config, or install its package"
        )
    ):
        return getattr(importlib.import_module(module), name)


def _pairs(defense: configs.PythonDefense) -> list[tuple[Any, Any]]:
    if defense.pairs is None:
        return [(defense.d, defense.d_prime)]
    found = named(defense.pairs, "defense.pairs")
    with foreign(
        lambda words: ConfigError(
            f"defense.pairs = {defense.pairs!r} gives no pairs ({words}): name a list of pairs (d, "
            "d_prime), or a function that returns one"
        )
    ):
        return [(d, d_prime) for d, d_prime in (found() if callable(found) else found)]


def _model(defense: configs.PythonDefense, mechanism: Any) -> records.ModelRecord:
    isolated = {"isolate": defense.isolate} if defense.isolate else {}
    title = (mechanism.__doc__ or "a mechanism of your own").strip().partition("\n")[0]
    return records.ModelRecord(
        label=defense.label,
        defense="python",
        title=title,
        variant="black box",
        source=defense.target,
        params={"batched": defense.batched, "score": defense.score, **isolated},
        top_k=0,
    )


def _point(defense: configs.PythonDefense) -> records.PointRecord:
    return records.PointRecord(
        model=defense.label,
        epsilon=defense.epsilon,
        sensitivity=None,
        noise_scale=None,
        claim=records.ClaimRecord(
            epsilon=defense.epsilon,
            delta=defense.delta,
            adjacency=defense.adjacency,
            observer=defense.observer,
            public="nothing",
            source=defense.target,
        ),
    )


def _measurement(
    defense: configs.PythonDefense, found: BlackBoxAudit, planted: float
) -> records.Measurement:
    estimate, control = found.epsilon, found.control
    if control is not None:  # its factor is that of the limit; the record's is that of the claim
        control = control.model_copy(update={"factor": planted / defense.epsilon})
    return records.Measurement(
        metric="epsilon",
        model=defense.label,
        epsilon=defense.epsilon,
        attack=found.score,
        pair="given",
        estimate=estimate,
        event=str(found.event),
        control=control,
    )
