"""The contents of a record as rows and sentences, from which all readable reports are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dpaudit.core.estimate import Estimate
from dpaudit.record.result import AuditResult, Measurement, PointRecord

MORE = "more than claimed"


@dataclass(frozen=True)
class Row:
    """All measurements at one ε of one model.

    Attributes:
        point: the point of the sweep.
        accuracy: ε-Risk of each attack, by label.
        overlap: ε-Utility, the share of the noiseless top-k list that is kept.
        rmse: root mean squared error on held-out ratings, if there are any.
        mae: mean absolute error on held-out ratings, for trained models.
        games: the certified lower bounds on ε, by pair.
        divergence: the divergence of a published chain from its limit law, by states and steps.
        short: the share of denominators that are smaller than the claim assumes, by step.
        norms: the share of users whose factors are longer than the claim assumes, and the greatest
            length.
        personal: the quantiles over users of their ε and of their losses, by metric and quantile.
        hits: precision and recall of lists, for models that rank.
    """

    point: PointRecord
    accuracy: dict[str, Estimate]
    overlap: Estimate | None
    rmse: Estimate | None
    mae: Estimate | None
    games: dict[str, Measurement]
    divergence: dict[str, dict[int, Estimate]] = field(default_factory=dict)
    short: dict[int, float] = field(default_factory=dict)
    norms: dict[str, float] = field(default_factory=dict)
    personal: dict[str, dict[str, float]] = field(default_factory=dict)
    hits: dict[str, Estimate] = field(default_factory=dict)

    @property
    def difference(self) -> Estimate | None:
        """The share of the noiseless top-k list that is lost."""
        kept = self.overlap
        return kept and kept.changed(
            value=1 - kept.value, lower=1 - kept.upper, upper=1 - kept.lower
        )

    @property
    def strongest(self) -> str | None:
        """The label of the attack with the largest accuracy; None without attacks."""
        return max(self.accuracy, key=lambda label: self.accuracy[label].value, default=None)

    def exceeds(self, pair: str) -> bool:
        """Return whether more than the claimed ε is certified on this pair."""
        claim = self.point.claim
        return claim is not None and pair in self.games and self.games[pair].exceeds(claim)

    def power(self, pair: str) -> str:
        """Return which mutants the game on this pair found; empty if no claim is left to test."""
        control = self.games[pair].control
        claim = self.point.claim
        if claim is None or not self.games[pair].tests(claim) or self.exceeds(pair):
            return ""
        if control is None:
            return "none"
        return f"{'finds' if control.found else 'none up to'} {control.factor:.3g}×"

    @property
    def exceeding(self) -> list[str]:
        """The pairs on which more than the claimed ε is certified."""
        return [pair for pair in self.games if self.exceeds(pair)]


def rows(result: AuditResult) -> dict[str, list[Row]]:
    """Return the rows of each model by its label, sorted by ε."""
    by_model: dict[str, list[Row]] = {model.label: [] for model in result.models}
    for point in sorted(result.points, key=lambda point: point.epsilon):
        here = [
            found
            for found in result.measurements
            if (found.model, found.epsilon) == (point.model, point.epsilon)
        ]
        by_model[point.model].append(
            Row(
                point=point,
                accuracy={m.attack or "": m.estimate for m in _of(here, "attack.accuracy")},
                overlap=next((m.estimate for m in _of(here, "utility.overlap")), None),
                rmse=next((m.estimate for m in _of(here, "utility.rmse")), None),
                mae=next((m.estimate for m in _of(here, "utility.mae")), None),
                games={m.pair or "": m for m in _of(here, "epsilon")},
                divergence=_divergence(_of(here, "chain.divergence")),
                short={m.step or 0: m.estimate.value for m in _of(here, "assumption.denominator")},
                norms={m.detail or "": m.estimate.value for m in _of(here, "assumption.norm")},
                personal={
                    metric: {m.detail or "": m.estimate.value for m in _of(here, metric)}
                    for metric in ("personal.epsilon", "personal.loss")
                },
                hits={
                    name: m.estimate
                    for name in ("precision", "recall")
                    for m in _of(here, f"utility.{name}")
                },
            )
        )
    return by_model


def attacks(here: Sequence[Row]) -> list[str]:
    """Return the labels of the attacks whose accuracy was measured at any ε."""
    return list(dict.fromkeys(label for row in here for label in row.accuracy))


def _of(found: list[Measurement], metric: str) -> list[Measurement]:
    return [measurement for measurement in found if measurement.metric == metric]


def _divergence(found: list[Measurement]) -> dict[str, dict[int, Estimate]]:
    by_states: dict[str, dict[int, Estimate]] = {}
    for measurement in found:
        here = by_states.setdefault(measurement.states or "", {})
        here[measurement.step or 0] = measurement.estimate
    return by_states


def command(result: AuditResult) -> str:
    """Return the command that runs the recorded config again."""
    own = result.config.get("recommender", [])
    code = "defense" in result.config or any(
        each.get("target") or each.get("command") for each in own
    )
    return "dpaudit run dpaudit.toml" + (" --allow-code" if code else "")


def noised(found: Measurement) -> bool:
    """Return whether the law beside a certified ε is the noise's law, and not a list's law."""
    return found.shift is not None or (found.observer is not None and found.unit is None)
