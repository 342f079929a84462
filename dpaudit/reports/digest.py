"""What a record says, point by point and in sentences: the ground of every report for people."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from dpaudit.auditor.result import AuditResult, Family, Measurement, PointRecord
from dpaudit.bounds.estimate import Estimate
from dpaudit.reports import campaigns, recovery, transcripts, words

MORE = "more than claimed"
POWER = "95 %"
_Key = TypeVar("_Key")


@dataclass(frozen=True)
class Row:
    """All that was measured at one ε of one model.

    Attributes:
        point: the point of the sweep.
        accuracy: ε-Risk of each attack, by label.
        overlap: ε-Utility, the share of the noiseless top-k list that is kept.
        rmse: error on held-out ratings, where there are any.
        mae: mean absolute error on them, of models that are trained.
        games: the certified lower bounds on ε, by pair.
        divergence: of a published chain from the law that it tends to, by states and steps.
        short: the share of denominators that are smaller than the claim assumes, by step.
        norms: how many users' factors are longer than the claim assumes, and the longest.
        hits: precision and recall of lists, of models that rank.
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
    hits: dict[str, Estimate] = field(default_factory=dict)

    @property
    def difference(self) -> Estimate | None:
        """The share of the noiseless top-k list that is lost."""
        kept = self.overlap
        return kept and kept.model_copy(
            update={"value": 1 - kept.value, "lower": 1 - kept.upper, "upper": 1 - kept.lower}
        )

    @property
    def strongest(self) -> str | None:
        """The attack with the largest accuracy."""
        return max(self.accuracy, key=lambda label: self.accuracy[label].value, default=None)

    def exceeds(self, pair: str) -> bool:
        """Whether more than the claimed ε is certified on this pair."""
        claim = self.point.claim
        return (
            claim is not None
            and pair in self.games
            and self.games[pair].estimate.lower > claim.epsilon
        )

    @property
    def exceeding(self) -> list[str]:
        """The pairs on which more than the claimed ε is certified."""
        return [pair for pair in self.games if self.exceeds(pair)]


@dataclass(frozen=True)
class Finding:
    """A sentence on the claims.

    Attributes:
        text: the sentence.
        broken: whether it says that a claim is broken.
    """

    text: str
    broken: bool = False


def rows(result: AuditResult) -> dict[str, list[Row]]:
    """The rows of each model, by label, ε ascending."""
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
                norms={m.states or "": m.estimate.value for m in _of(here, "assumption.norm")},
                hits={
                    name: m.estimate
                    for name in ("precision", "recall")
                    for m in _of(here, f"utility.{name}")
                },
            )
        )
    return by_model


def _of(found: list[Measurement], metric: str) -> list[Measurement]:
    return [measurement for measurement in found if measurement.metric == metric]


def _divergence(found: list[Measurement]) -> dict[str, dict[int, Estimate]]:
    by_states: dict[str, dict[int, Estimate]] = {}
    for measurement in found:
        here = by_states.setdefault(measurement.states or "", {})
        here[measurement.step or 0] = measurement.estimate
    return by_states


def outcome(result: AuditResult) -> str:
    """The worst outcome of the gates in a word or two; without gates nothing was judged."""
    return result.outcome if result.gates else "not judged"


def command(result: AuditResult) -> str:
    """How to play the recorded config again."""
    return "dpaudit run dpaudit.toml" + (" --allow-code" if "defense" in result.config else "")


def headline(result: AuditResult) -> str:
    """The outcome in a sentence."""
    if not result.gates:
        return "The config sets no gates, so no threshold was judged."
    counts = [
        f"{sum(gate.outcome == word for gate in result.gates)} {word}"
        for word in ("pass", "fail", "inconclusive")
        if any(gate.outcome == word for gate in result.gates)
    ]
    total = len(result.gates)
    return f"{total} gate{'s' if total > 1 else ''}: {', '.join(counts)}."


def findings(result: AuditResult) -> list[Finding]:
    """What the games found about the claims, in sentences; gates or not."""
    if not any(found.metric == "epsilon" for found in result.measurements):
        return [Finding("No distinguishing game was played: the claimed ε was not tested.")]
    found = []
    for model, here in rows(result).items():
        for pair in here[0].games if here else ():
            broken = [row.point.epsilon for row in here if row.exceeds(pair)]
            if broken:
                said = f"{model}: {MORE} is certified at ε = {words.listed(broken)} (pair {pair})."
                found.append(Finding(said, broken=True))
    return found or [Finding("No game certified more than the claimed ε, which proves no privacy.")]


def footnotes(result: AuditResult) -> list[str]:
    """What has to be said beside the numbers so that they are not misread."""
    family = result.family
    notes = []
    if judged(result):
        level = f"α = {family.alpha:.3g}{'' if family.size == 1 else ' (Bonferroni)'}"
        notes.append(
            f"{together(family)}: {'it' if family.size == 1 else 'each'} has the level {level}. "
            "Interval ends are rounded outwards."
        )
    notes.append(
        "A lower bound on ε is not a proof of privacy: other attacks or other data may reveal "
        "more. What was tried is listed."
    )
    if any(_over_folds(found) for found in result.measurements):
        notes.append(
            "The error is a mean over the folds, with Student's interval over folds: each stands "
            "for itself. It shows scatter, assumes a normal law and independent folds, and gates "
            "nothing."
        )
    if any(found.metric == "assumption.denominator" for found in result.measurements):
        notes.append(
            "The claim of Wang & Tang 2017 assumes Σ_j |s_ij| ≥ C in every prediction of training, "
            "which nothing enforces. 'below C' is the share of predictions where it fails, counted "
            "in some rows; 0 % says nothing about other rows, noise or data."
        )
    if any(found.metric == "assumption.norm" for found in result.measurements):
        notes.append(
            "The claims of Meng et al. 2018 assume that no user's factors are longer than 1, which "
            "nothing enforces. 'users longer than 1' is the share of those with ratings whose "
            "factors end longer in one training, of which 'longest user' is the greatest length; "
            "0 % says nothing about earlier rounds, other noise or data."
        )
    if any(found.theory for found in result.measurements):
        notes.append(
            f"Beside the certified ε stands the ε of the same pair by the law of {_drawn(result)}: "
            "computed, not measured. It needs no trials and sees no mistake in the code; the "
            "certified one sees both, and judges."
        )
    notes += _power(result)
    if any(found.metric == "attack.accuracy" for found in result.measurements):
        notes.append(
            "Attack accuracy is ε-Risk, the share of hidden ratings that the attack recovered."
        )
    if any(found.metric == "utility.overlap" for found in result.measurements):
        notes.append(
            "Overlap is ε-Utility, the share of the noiseless top-k list that the private list "
            "keeps; difference = 1 − overlap."
        )
    if result.campaigns:
        notes.append(campaigns.NOTE)
    if any(found.metric == "chain.divergence" for found in result.measurements):
        notes.append(
            "The divergence of a chain is computed from its law: no trial is played, and no "
            "interval is needed. A small one says nothing about ε, which is about single lists "
            "and not about their average."
        )
    notes += recovery.note(result) + transcripts.note(result)
    notes += _public(result)
    notes += _uncovered(result)
    if any(point.claim and point.noise_scale is not None for point in result.points):
        notes.append(
            "The claims are those of exact Laplace noise. Released values are rounded to a public "
            "grid, so that their low-order bits tell nothing; what finite precision leaves is an ε "
            "larger by about 0.001·max(1, ε) and a δ of about 5e-7, and beyond ε = 20 a claim is "
            "nominal."
        )
    return notes


def _over_folds(found: Measurement) -> bool:
    over = found.metric.startswith(("utility.", "reconstruction.", "submissions."))
    return over and found.estimate.kind == "assumes-law"


def _drawn(result: AuditResult) -> str:
    """What the laws beside the certified ε are laws of."""
    known = [found for found in result.measurements if found.theory]
    noise = "the noise that the defense says it adds"
    lists = "the list that the defense says it draws"
    if all(noised(found) for found in known):
        return noise
    return f"{noise}, or of {lists}" if any(noised(found) for found in known) else lists


def noised(found: Measurement) -> bool:
    """Whether the law beside a certified ε is that of noise, and not of a list."""
    return found.shift is not None or found.observer is not None


def judged(result: AuditResult) -> bool:
    """Whether any interval belongs to the family that holds together."""
    return any(
        not _over_folds(found) and not alone(found) and found.estimate.kind != "exact"
        for found in result.measurements
    )


def alone(found: Measurement) -> bool:
    """Whether its interval stands for itself: of submissions, and of what games saw."""
    return found.metric.startswith("transcript.") or found.metric == "game.kl"


def together(family: Family) -> str:
    """How sure all intervals are."""
    sure = f"{words.percent(family.confidence)} confidence"
    if family.size == 1:
        return f"The interval holds with {sure}"
    return f"All {family.size} intervals hold together with {sure}"


def _uncovered(result: AuditResult) -> Iterator[str]:
    """Attacks that see more than the claims cover."""
    lists = [label for label, attack in result.attacks.items() if attack.get("observe") == "list"]
    if lists and any(point.claim for point in result.points):
        yield (
            f"The list attacked by {', '.join(lists)} is chosen among all predictions: no claim "
            "here covers it unless its parameter outputs is the number of a user's unrated items."
        )


def _power(result: AuditResult) -> Iterator[str]:
    """The true ε that each game would have found; models with the same power share a sentence."""
    for (pair, found), models in _grouped(
        ((pair, _found(here, pair)), model)
        for model, here in rows(result).items()
        for pair in (here[0].games if here else ())
    ):
        if found:
            seen = [game for game in result.measurements if game.pair == pair]
            known = any(noised(game) for game in seen)
            what = "a noise so small that the true" if known else "a violation whose true"
            rest = (
                "A sensitivity that is too small for other pairs it does not show."
                if known
                else "That holds for a score as telling as can be, and for this pair alone."
            )
            yield (
                f"With {POWER} power, the game on pair {pair} ({models}) would have shown {what} "
                f"ε is {found}. {rest}"
            )


def _found(here: list[Row], pair: str) -> str:
    """The detectable ε beside the claimed one, at each point."""
    told, never = [], []
    for row in here:
        claim, least = row.point.claim, row.games[pair].detectable
        if claim is None or least is None:
            continue
        if least == math.inf:
            never.append(claim.epsilon)
        else:
            said = words.epsilon(claim.epsilon)
            told.append(f"{words.at_most(least)} where {said} is claimed")
    if never:
        remedy = "more trials, or a pair of which is known how much it shows"
        told.append(f"none (∞) where {words.listed(never)} is claimed: that needs {remedy}")
    return "; ".join(told)


def _public(result: AuditResult) -> Iterator[str]:
    """The statistics that the claims treat as public."""
    for public, models in _grouped(
        (public, model)
        for model, here in rows(result).items()
        for public in dict.fromkeys(row.point.claim.public for row in here if row.point.claim)
    ):
        yield f"Treated as public by the claims ({models}): {public}."


def _grouped(pairs: Iterable[tuple[_Key, str]]) -> Iterator[tuple[_Key, str]]:
    """Each key with the labels that share it."""
    groups: dict[_Key, list[str]] = {}
    for key, label in pairs:
        groups.setdefault(key, []).append(label)
    return ((key, ", ".join(labels)) for key, labels in groups.items())
