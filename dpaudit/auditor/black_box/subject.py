"""A mechanism that a config names as Python code, audited from its outputs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from dpaudit.auditor.black_box.audit import BlackBoxAudit, Score, audit_pairs
from dpaudit.auditor.context import Context, Subject
from dpaudit.auditor.gate import bars
from dpaudit.auditor.measures.base import Found, Measure, MetricKey
from dpaudit.config import schema as configs
from dpaudit.core.errors import ConfigError, DpauditError, RunError, foreign
from dpaudit.data.ratings import Ratings
from dpaudit.record import result as records

# The mutant's ε over the claimed one, where no gate says.
_FACTOR = 1.5
_SOURCE = "Bichsel et al. 2021, DP-Sniper, doi:10.1109/SP40001.2021.00081"


@dataclass(frozen=True)
class Mechanism:
    """The mechanism, as a model of the run.

    Attributes:
        table: `[defense]` of the config.
        called: the mechanism itself.
    """

    table: configs.PythonDefense
    called: Callable[..., Any]

    @property
    def label(self) -> str:
        """The mechanism's label."""
        return self.table.label

    @property
    def defenses(self) -> tuple[()]:
        """None: nothing is known of it."""
        return ()

    def record(self) -> records.ModelRecord:
        """Its docstring's first line, and how it is called."""
        return _model(self.table, self.called)

    def points(self) -> list[records.PointRecord]:
        """The one claim."""
        return [_point(self.table)]


@dataclass(frozen=True)
class BlackBox(Subject):
    """A mechanism of which outputs alone are seen.

    Attributes:
        context: what the measures share.
        mechanism: the mechanism.
        pairs: the neighbouring data sets that it may be tried on.
        score: what tells its outputs apart.
    """

    context: Context
    mechanism: Mechanism
    pairs: list[tuple[Any, Any]]
    score: Score | Literal["learned"]

    @classmethod
    def of(cls, context: Context, ratings: Ratings | None) -> Self:
        """Import what the config names.

        Raises:
            ConfigError: it cannot be imported, or is not what it must be.
        """
        table = context.config.defense
        if table is None:
            raise TypeError("the config names no mechanism")
        mechanism = named(table.target, "defense.target")
        if not callable(mechanism):
            raise ConfigError(
                f"defense.target = {table.target!r} cannot be called: name a function"
            )
        pairs = _pairs(table)
        score: Score | Literal["learned"] = "learned"
        if table.score != "learned":
            score = named(table.score, "defense.score")
            if not callable(score):
                raise ConfigError(
                    f"defense.score = {table.score!r} cannot be called: name a function"
                )
        return cls(context, Mechanism(table, mechanism), pairs, score)

    def trials(self) -> int:
        """The outputs that certify."""
        return self.context.config.audit.trials

    def models(self) -> Iterator[Mechanism]:
        """The one."""
        yield self.mechanism

    def data(self) -> None:
        """None: its data sets are its own."""

    def settings(self) -> dict[str, Any]:
        """The tables that may stand beside `[defense]`."""
        config = self.context.config
        secret = {"keep_seed"} if config.keep_seed is not None else set()
        kept = {"seed", "audit", "gate", "defense", *secret}
        return config.model_dump(mode="json", include=kept)

    def attacks(self) -> Mapping[str, dict[str, Any]]:
        """The score."""
        learned = self.mechanism.table.score == "learned"
        name = "learned" if learned else self.score_name
        return {
            name: {
                "name": name,
                "title": "tells outputs of two data sets apart",
                "source": _SOURCE if learned else self.mechanism.table.score,
            }
        }

    @property
    def score_name(self) -> str:
        """The score's own name, where it is given."""
        return str(getattr(self.score, "__name__", "given"))


class OutputGame(Measure[Mechanism]):
    """`epsilon`: what outputs certify on the most telling pair, with a planted control."""

    def __init__(self, subject: BlackBox) -> None:
        """Take the mechanism's pairs and score."""
        self.context, self.subject = subject.context, subject

    @classmethod
    def plan(cls, config: configs.Config) -> Iterator[MetricKey]:
        """One bound."""
        if config.defense:
            table = config.defense
            yield MetricKey("epsilon", table.label, table.epsilon, pair="given")

    def run(self, model: Mechanism) -> Iterator[Found]:
        """Draw outputs and certify.

        Raises:
            ConfigError: the data sets are equal, or the trials too few.
            RunError: the mechanism itself failed.
        """
        table, config, pairs = model.table, self.context.config, self.subject.pairs
        self.context.progress.stage(f"{table.target}: {config.audit.trials} trials")
        limit, planted = _planted(config, table)
        culprit = table.target if table.score == "learned" else "the mechanism or its score"

        def failed(words: str) -> RunError:
            return RunError(
                f"{culprit} raised {words}; call it yourself with (data, "
                "numpy.random.default_rng(0)) to see where"
            )

        try:
            with foreign(failed):
                found = audit_pairs(
                    model.called,
                    pairs,
                    delta=table.delta,
                    confidence=config.audit.confidence,
                    trials=config.audit.trials,
                    search=min(table.search, config.audit.trials),
                    score=self.subject.score,
                    batched=table.batched,
                    fresh_process=table.isolate == "process",
                    claim=limit,
                    detectable=planted / limit,
                    seed=config.seed,
                )
        except RunError:
            raise
        except DpauditError as error:
            raise ConfigError(f"defense.target = {table.target!r}: {error}") from error
        most = f"the most telling of {len(pairs)} given, number {found.pair}"
        yield records.PairRecord(
            model=table.label,
            pair="given",
            summary=most if len(pairs) > 1 else "the pair given",
            drift=found.drift,
        )
        yield _measurement(table, found, planted)


def _planted(config: configs.Config, table: configs.PythonDefense) -> tuple[float, float]:
    """What the mechanism is held to, and the ε of the mutant on which power is measured.

    That of the gate that asks for the smallest; 1.5 times the claim where none asks.
    """
    (point,) = OutputGame.plan(config)
    claim = table.epsilon
    asked = [
        (bar.limit, bar.limit * bar.factor)
        for bar in bars(config.gate, asdict(point), claim)
        if bar.factor is not None and bar.limit > 0
    ]
    return min(asked, key=lambda each: each[1], default=(claim, _FACTOR * claim))


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
