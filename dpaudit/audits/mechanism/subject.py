"""The black-box audit of a mechanism that a config names as Python code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self

from dpaudit.auditor.gate import bars
from dpaudit.auditor.measure import Context, Measure, MetricKey, RecordPart, Subject
from dpaudit.audits.mechanism.audit import BlackBoxAudit, audit_pairs
from dpaudit.audits.mechanism.calls import Score, failed
from dpaudit.audits.mechanism.config import MechanismConfig, PythonDefense
from dpaudit.core.errors import ConfigError, DpauditError, RunError
from dpaudit.core.foreign import foreign, import_object
from dpaudit.data.ratings import Ratings
from dpaudit.record import result as records

# ε of the planted violation as a multiple of the claim, if no gate sets it.
_FACTOR = 1.5
# The name of the pair in measurements, whichever of those given it is.
_PAIR = "given"
_SOURCE = "Bichsel et al. 2021, DP-Sniper, doi:10.1109/SP40001.2021.00081"


@dataclass(frozen=True)
class CalledMechanism:
    """The mechanism as the one model of the run.

    Attributes:
        table: `[defense]` of the config.
        called: the function.
    """

    table: PythonDefense
    called: Callable[..., Any]

    @property
    def label(self) -> str:
        """The mechanism's label."""
        return self.table.label

    @property
    def defenses(self) -> tuple[()]:
        """Empty: nothing is known of the mechanism but its outputs."""
        return ()

    def record(self) -> records.ModelRecord:
        """Record the first line of its docstring and how it is called."""
        table = self.table
        isolated = {"isolate": table.isolate} if table.isolate else {}
        title = (self.called.__doc__ or "a mechanism of your own").strip().partition("\n")[0]
        return records.ModelRecord(
            label=table.label,
            defense="python",
            title=title,
            variant="black box",
            source=table.target,
            params={"batched": table.batched, "score": table.score, **isolated},
            top_k=0,
        )

    def points(self) -> list[records.PointRecord]:
        """Return the one point of its claim."""
        table = self.table
        claim = records.ClaimRecord(
            epsilon=table.epsilon,
            delta=table.delta,
            adjacency=table.adjacency,
            observer=table.observer,
            public="nothing",
            source=table.target,
        )
        return [
            records.PointRecord(
                model=table.label,
                epsilon=table.epsilon,
                sensitivity=None,
                noise_scale=None,
                claim=claim,
            )
        ]


@dataclass(frozen=True)
class BlackBox(Subject[MechanismConfig]):
    """A mechanism that is audited from its outputs alone.

    Attributes:
        context: inputs that the measures share.
        mechanism: the mechanism.
        pairs: candidate pairs of neighbouring data sets.
        score: the function that scores its outputs, or "learned".
    """

    context: Context[MechanismConfig]
    mechanism: CalledMechanism
    pairs: list[tuple[Any, Any]]
    score: Score | Literal["learned"]

    @classmethod
    def of(cls, context: Context[MechanismConfig], ratings: Ratings | None) -> Self:
        """Import the mechanism, pairs and score that the config names.

        Raises:
            ConfigError: one cannot be imported or called, or there are no pairs.
        """
        table = context.config.defense
        mechanism = CalledMechanism(table, _function(table.target, "defense.target"))
        pairs = _pairs(table)
        score: Score | Literal["learned"] = "learned"
        if table.score != "learned":
            score = _function(table.score, "defense.score")
        return cls(context, mechanism, pairs, score)

    def trials(self) -> int:
        """Return the number of outputs drawn on the chosen pair."""
        return self.context.config.audit.trials

    def models(self) -> Iterator[CalledMechanism]:
        """Yield the mechanism."""
        yield self.mechanism

    def data(self) -> None:
        """Return None: the mechanism brings its own data sets."""

    def attacks(self) -> Mapping[str, dict[str, Any]]:
        """Return the score as the one attack."""
        learned = self.mechanism.table.score == "learned"
        name = "learned" if learned else str(getattr(self.score, "__name__", "given"))
        return {
            name: {
                "name": name,
                "title": "tells outputs of two data sets apart",
                "source": _SOURCE if learned else self.mechanism.table.score,
            }
        }


class OutputGame(Measure[MechanismConfig, CalledMechanism]):
    """`epsilon`: the bound certified on the most informative pair, with a planted violation."""

    def __init__(self, subject: BlackBox) -> None:
        """Keep the subject with the mechanism's pairs and score."""
        self.context, self.subject = subject.context, subject

    @classmethod
    def plan(cls, config: MechanismConfig) -> Iterator[MetricKey]:
        """Yield the key of the one bound."""
        yield _key(config.defense)

    def run(self, model: CalledMechanism) -> Iterator[RecordPart]:
        """Draw outputs and certify.

        Raises:
            ConfigError: the data sets are equal, or there are too few trials.
            RunError: the mechanism itself failed.
        """
        table, config, pairs = model.table, self.context.config, self.subject.pairs
        limit, planted = _planted(config, table)
        culprit = table.target if table.score == "learned" else "the mechanism or its score"

        try:
            with foreign(partial(failed, culprit=culprit)):
                audit = audit_pairs(
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
                    stop=config.audit.stop,
                    seed=config.seed,
                    executor=self.context.executor,
                )
        except RunError:
            raise
        except DpauditError as error:
            raise ConfigError(f"defense.target = {table.target!r}: {error}") from error
        most = f"the most informative of {len(pairs)} given, number {audit.pair}"
        summary = most if len(pairs) > 1 else "the pair given"
        if audit.stopped:
            summary += (
                f"; {audit.stopped.outputs} of at most {config.audit.trials} outputs refute ε = "
                f"{limit:g} (p = {audit.stopped.p_value:.2g} at any time), which ended the audit"
            )
        yield records.PairRecord(model=table.label, pair=_PAIR, summary=summary, drift=audit.drift)
        for finding in _findings(audit):
            yield records.FindingRecord(model=table.label, **finding)
        control = audit.control
        if control is not None:  # its factor refers to the limit, the record's to the claim
            control = control.model_copy(update={"factor": planted / table.epsilon})
        yield _key(table).measured(
            audit.epsilon, attack=audit.score, event=str(audit.event), control=control
        )


def _findings(audit: BlackBoxAudit) -> Iterator[dict[str, str]]:
    """Yield what else the audit noticed: what it is about, a sentence, and a remedy."""
    if audit.noiseless:
        yield {
            "about": "noiseless",
            "text": "every call on D gave the same output, and every call on D′ another: the "
            "mechanism seems to add no noise.",
            "remedy": "Add noise to what it returns, from rng or from a generator without a fixed "
            "seed.",
        }
    sentences = {
        "repetition": (audit.repetition, "Draw all noise from rng, in each call."),
        "settings": (
            audit.settings and f"Given its settings: {audit.settings}",
            "Draw all noise from rng, in each call; what is a setting may stay.",
        ),
        "exceptions": (audit.raised, "Let it answer whatever the data are."),
    }
    for about, (sentence, remedy) in sentences.items():
        if sentence:
            yield {"about": about, "text": f"{sentence}.", "remedy": remedy}


def _planted(config: MechanismConfig, table: PythonDefense) -> tuple[float, float]:
    """Return the limit on ε, and the ε of the planted violation that measures the power.

    Both come from the gate that asks for the smallest such ε; without a gate they are the claim
    and 1.5 times the claim.
    """
    claim = table.epsilon
    asked = [
        (bar.limit, bar.limit * bar.factor)
        for bar in bars(config.gate, _key(table), claim)
        if bar.factor is not None and bar.limit > 0
    ]
    return min(asked, key=lambda limits: limits[1], default=(claim, _FACTOR * claim))


def _key(table: PythonDefense) -> MetricKey:
    return MetricKey("epsilon", table.label, table.epsilon, pair=_PAIR)


def _function(name: str, place: str) -> Callable[..., Any]:
    """Import a function that the config names."""
    function = import_object(name, place)
    if not callable(function):
        raise ConfigError(f"{place} = {name!r} cannot be called: name a function")
    return function


def _pairs(defense: PythonDefense) -> list[tuple[Any, Any]]:
    if defense.pairs is None:
        return [(defense.d, defense.d_prime)]
    pairs = import_object(defense.pairs, "defense.pairs")
    with foreign(
        lambda words: ConfigError(
            f"defense.pairs = {defense.pairs!r} gives no pairs ({words}): name a list of pairs (d, "
            "d_prime), or a function that returns such a list"
        )
    ):
        return [(d, d_prime) for d, d_prime in (pairs() if callable(pairs) else pairs)]
