"""Compare a run with an earlier one, its baseline, by intervals and verdicts, never by points.

All intervals of a run hold together with its confidence, so those of both runs hold together with
1 − (α₁ + α₂), where α = 1 − confidence (union bound; the runs may share seeds and data). Then each
true change lies between the new lower end minus the old upper end, and the new upper end minus the
old lower end. A number is worse or better only if all of this interval is on one side of 0.

The same model has other numbers on other targets, other data or other held-out interactions, to
another attacker, and in other trainings. So two numbers are compared only if all that they are
about is equal (`apart`); others are not comparable, and shown beside each other.

A certified ε is a lower bound and its interval has no upper end: it never shows that the true ε
changed. Whether a claim is false is a verdict of each run, and a claim that is newly found to be
false counts as a regression.

**What a number is about** is what was drawn (data, seed, targets), who attacks (attacks, what
calibrates them) and what is asked (rates, lengths of lists). Two runs compare models by a number
only if all of that is equal. Each kind of audit says what its numbers are about
(`AuditKind.about`); what it does not name counts too, so that a key that an older record lacks
keeps numbers apart.

**Ranges of trainings.** Given what its calibrating trainings taught the attacker, a run's judged
trainings are independent. Let both runs have the same coins, and let L_j ~ F_j for j in A, and
L'_j ~ F'_j for j in B, be the numbers of their J₁ and J₂ judged trainings, where F_j depends on the
coins of training j, which are independent and alike. If F_j = F'_j for all j, each range lies above
the other with a probability of at most J₁! J₂!/(J₁ + J₂)!, also where A and B share trainings. With
s > 0 in both, a in A alone and b in B alone, x = E F_j(t) and h(x) = x − E F_j(t)² the probability
is, by parts,

    ½ ∫₀¹ [a x^(a−1) (1−x)^b h^s + b x^a (1−x)^(b−1) h^s + s x^a (1−x)^b h^(s−1)] dx

for continuous laws, and ties lessen it. It grows with h, and as E F² ≥ (E F)², h ≤ x(1 − x): the
value for J₁ + J₂ independent numbers of one law, which are exchangeable. So shared coins do no
harm.

This certifies that not all F_j are equal. For utility F_j is the model's alone, and runs may have
other numbers of trainings. For an attack F_j is that of the model *and* its attacker, who learned
from other trainings of it:

- With other calibrating trainings F_j differs for one model, so these have to be the same ones.
- A model that is a function of data and seed shows the same in both runs, bit for bit. So whatever
  is certified, it is not that model. One that differs with the same data and seed has two attackers
  even so, and no attack on it is compared.
- The attacks that do best in calibration may be others in each run, which the ranges would tell
  apart. So the attack that is the strongest on the worse model has to have ranges apart itself.

What is certified to be worse is therefore: the attack that is chosen on the one model, calibrated
by the same coins, reaches more in every judged training than on the other model in any. A changed
model of the very same law (another generator, say) has yet another attacker by the luck of its
calibration, which no judged training shows. In simulations of 150 pairs of runs of such a model, in
eleven settings, two pairs at most were told apart with three to five calibrating trainings, and
eight at most with two, most often by the advantage, whose threshold is calibrated.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from dpaudit.core import registry
from dpaudit.core.errors import ConfigError
from dpaudit.core.estimate import Estimate, Number, Probability
from dpaudit.core.membership import WITNESS
from dpaudit.core.messages import show
from dpaudit.record.metrics import MetricName, entry
from dpaudit.record.result import AuditResult, Measurement, Outcome, VerdictRecord

# The parts of a claim that decide what its verdict is about.
_CLAIMED = {"epsilon", "delta", "adjacency", "observer", "also"}
# How many keys that differ, or missing parts, a sentence names.
_NAMED = 3
# With how many orders of the trainings of two runs, for each number compared, ranges that lie apart
# by chance add 1/1000 at most to the error probability of all.
_ORDERS = 2000
# Why no attack on a model that data and seed do not decide is compared.
DRIFTING = "trainings with the same data and seed differ, and so do the attackers"
Judgement = Literal["worse", "better", "cannot tell", "not comparable"]


class Part(BaseModel):
    """A part of a comparison."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Difference(Part):
    """A setting that two runs do not share.

    Attributes:
        key: its dotted key, which begins with `data`, `config`, `claim`, `dpaudit` or
            `environment`; of what a number is about, without `config`.
        before: its value in the first run, or its beginning.
        after: its value in the second run.
    """

    key: str
    before: str
    after: str


def differences(before: AuditResult, after: AuditResult) -> Iterator[Difference]:
    """Yield what differs in the data, config, claims, version and environment of two runs."""
    yield from _unequal(_facts(before), _facts(after))


def apart(
    before: AuditResult,
    after: AuditResult,
    old: Measurement | VerdictRecord,
    new: Measurement | VerdictRecord,
) -> list[Difference]:
    """Return what two numbers, or two verdicts on a claim, are about and do not share.

    A seed that is not stored is of its run alone.

    Args:
        before: the record of one run.
        after: the record of another.
        old: a number, or a verdict, of the first.
        new: that of the second.
    """
    unlike = list(_unequal(_about(before, old), _about(after, new)))
    if before.config.get("seed", "entropy") == after.config.get("seed", "entropy") == "entropy":
        unlike.append(Difference(key="seed", before="not stored", after="not stored"))
    return unlike


def _about(result: AuditResult, one: Measurement | VerdictRecord) -> dict[str, Any]:
    """Return what a number or a verdict is about, by dotted keys."""
    facts: dict[str, Any] = {
        "kind": result.kind,
        "dpaudit": result.tool,
        "data.digest": result.data and result.data.digest,
        "seed": result.config.get("seed"),
    }
    kind = registry.installed("audits", result.kind)
    parts = list(_parts(result, one))
    for part in parts:
        facts |= _flat(kind.about(result, part) if kind else result.config)
    if parts != [one]:
        games = (part.pair or f"{part.unit} ({part.observer})" for part in parts)
        facts["games"] = ", ".join(sorted(games))
    if isinstance(one, VerdictRecord):
        for point in result.points:
            if point.claim and (point.model, point.epsilon) == (one.model, one.epsilon):
                facts |= _flat(point.claim.model_dump(include=_CLAIMED), "claim")
        facts["audit.confidence"] = result.family.confidence
    return facts


def _parts(result: AuditResult, one: Measurement | VerdictRecord) -> Iterator[Measurement]:
    """Yield the numbers that decide: those of all games for a verdict, or for what is derived."""
    if isinstance(one, Measurement) and not entry(one.metric).derived:
        yield one
        return
    metric = "epsilon" if isinstance(one, VerdictRecord) else "attack.advantage"
    for part in result.measurements:
        here = (part.metric, part.model, part.epsilon) == (metric, one.model, one.epsilon)
        joint = metric == "epsilon" or part.census or part.estimate.kind == "frequentist"
        if here and joint and part.observer != WITNESS:
            yield part


def _unequal(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the values of nested tables that differ, by their dotted keys."""
    old, new = dict(_flat(before)), dict(_flat(after))
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            values = (old.get(name), new.get(name))
            first, second = ("unset" if value is None else show(value) for value in values)
            yield Difference(key=name, before=first, after=second)


def _facts(result: AuditResult) -> dict[str, Any]:
    return {
        "data": result.data and result.data.model_dump(),
        "config": result.config,
        "claim": {
            f"{point.model}, ε = {point.epsilon:g}": point.claim.model_dump()
            for point in result.points
            if point.claim
        },
        "dpaudit": result.tool,
        "environment": result.environment,
    }


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested tables and lists by their dotted keys."""
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, list | tuple):
        parts = enumerate(value)
    else:
        yield name, value
    for key, part in parts:
        yield from _flat(part, f"{name}.{key}" if name else str(key))


class NumberChange(Part):
    """A number that both runs measured.

    Attributes:
        metric: its metric.
        place: the model, the ε, and what else distinguishes it.
        before: its estimate in the baseline.
        after: its estimate in the run.
        lower: lower end of the interval of its change; infinite if they are not comparable.
        upper: upper end of it.
        judgement: `worse` or `better` if the interval excludes 0; `not comparable` if the numbers
            are not about the same; else `cannot tell`.
        reason: what keeps them apart, or why no estimates could show that it got worse; empty if
            some could.
    """

    metric: MetricName
    place: str
    before: Estimate
    after: Estimate
    lower: Number
    upper: Number
    judgement: Judgement
    reason: str


def change(before: Estimate, after: Estimate) -> tuple[float, float]:
    """Return the interval of a change from both intervals; an end that is unknown is infinite."""
    lower = after.lower - before.upper
    if math.inf in (before.upper, -after.lower):
        lower = -math.inf
    upper = after.upper - before.lower
    if math.inf in (-before.lower, after.upper):
        upper = math.inf
    return lower, upper


def number_change(
    before: AuditResult, after: AuditResult, old: Measurement, new: Measurement, *, compared: int
) -> NumberChange:
    """Compare a number of two runs.

    Args:
        before: the record of the baseline.
        after: the record of the run.
        old: the number in the baseline.
        new: the number in the run.
        compared: how many numbers are compared.
    """
    lower, upper = change(old.estimate, new.estimate)
    judgement: Judgement = "cannot tell"
    unlike = apart(before, after, old, new)
    reason = listed(unlike) or _drifting(before, after, new) or _unfit(old, new, compared=compared)
    grows_worse = new.larger == "worse"
    if unlike:
        judgement, lower, upper = "not comparable", -math.inf, math.inf
    elif not reason and (lower > 0 or upper < 0):
        reason = _other_attack(before, after, old, new, rises=lower > 0)
        if not reason:
            judgement = "worse" if (lower > 0) == grows_worse else "better"
    elif not reason and grows_worse and old.estimate.upper == math.inf:
        reason = "the baseline has only a lower bound"
    return NumberChange(
        metric=new.metric,
        place=new.place,
        before=old.estimate,
        after=new.estimate,
        lower=lower,
        upper=upper,
        judgement=judgement,
        reason=reason,
    )


def listed(unlike: list[Difference]) -> str:
    """Return the first keys that differ, with their values."""
    more = [f"and {len(unlike) - _NAMED} more"] if len(unlike) > _NAMED else []
    return ", ".join([*(f"{one.key} {one.before} → {one.after}" for one in unlike[:_NAMED]), *more])


def _unfit(before: Measurement, after: Measurement, *, compared: int) -> str:
    """Return why no comparison may rest on the estimates; empty if one may.

    Ranges of trainings lie apart by chance with a probability of 2 J₁! J₂!/(J₁ + J₂)! (see above),
    which has to be so small that the comparisons of all numbers add nothing to the error
    probability. Of runs that stopped early, those that stopped at one look are compared; the looks
    have twice as many trainings each, so that their sum is hardly more than the first.
    """
    if before.census and after.census and before.estimate.kind == after.estimate.kind == "range":
        sizes = len(before.census.values), len(after.census.values)
        if math.comb(sum(sizes), sizes[0]) < _ORDERS * compared:
            return "the runs have too few judged trainings to tell their ranges apart"
        return ""
    for measurement, run in ((before, "baseline"), (after, "run")):
        if measurement.estimate.kind != "frequentist":
            return f"the estimate of the {run} is of kind {measurement.estimate.kind}"
    return ""


def _drifting(before: AuditResult, after: AuditResult, new: Measurement) -> str:
    """Return that each run has attackers of its own, if data and seed do not decide the model."""
    drifts = any(
        finding.about == "seed" and finding.model == new.model
        for run in (before, after)
        for finding in run.findings
    )
    return DRIFTING if drifts and new.census and new.attack else ""


def _other_attack(
    before: AuditResult, after: AuditResult, old: Measurement, new: Measurement, *, rises: bool
) -> str:
    """Return why the attack on trainings, and not the model, may be another; empty if it is not.

    A model that has the same law, with the same data and seed, may be attacked by another attack.
    """
    if not new.census or not new.attack:
        return ""
    best = new if rises else old
    if best.event is None:
        return ""
    if new.estimate.kind != "range":
        return "" if old.event == new.event else "another attack is the strongest"
    metric = "attack.advantage" if entry(new.metric).derived else new.metric
    wanted = (metric, best.model, best.epsilon, best.event, best.observer, best.unit, best.at)
    ends = [
        one.estimate
        for run in (before, after)
        for one in run.measurements
        if (one.metric, one.model, one.epsilon, one.attack, one.observer, one.unit, one.at)
        == wanted
    ]
    if len(ends) == 2 and (change(*ends)[0] > 0 if rises else change(*ends)[1] < 0):
        return ""
    return f"another attack is the strongest, and the ranges of {best.event} overlap"


# The parts of a record that say what was found.
_FOUND = ("measurements", "verdicts", "gates", "findings")
Move = Literal["newly false", "no longer tested", "changed", "same", "not comparable"]


class ClaimChange(Part):
    """The verdicts on a claim that both runs have.

    Attributes:
        id: the id of the verdict.
        before: the verdict in the baseline.
        after: the verdict in the run.
        move: `newly false`, `no longer tested`, `changed` if the verdict or the least mutant that
            was found is another, `not comparable` if another claim was tested or by other games,
            else `same`.
        waived: whether an active waiver of the run accepts that the claim is false.
        reason: what keeps the verdicts apart; empty if they are comparable.
    """

    id: str
    before: VerdictRecord
    after: VerdictRecord
    move: Move
    waived: bool
    reason: str = ""


class GateChange(Part):
    """A gate whose outcome changed; it is judged by the run itself, not by the comparison.

    Attributes:
        id: the gate's id.
        before: its outcome in the baseline.
        after: its outcome in the run.
    """

    id: str
    before: Outcome
    after: Outcome


class Comparison(Part):
    """A run compared with its baseline.

    Attributes:
        confidence: with which all comparisons hold together.
        claims: the claims of both runs.
        gates: the gates of both runs whose outcome changed.
        numbers: the numbers of both runs that may gate.
        missing: models, values of ε and numbers that only the baseline has.
        added: those that only the run has.
        uncompared: how many numbers of the baseline were not compared, as they may not gate, by
            metric.
        differences: what differs between the runs besides their results: data, config, claims,
            version and environment.
        same: whether the runs found the same: all numbers, verdicts, gates and findings.
        outcome: `fail` if a number is worse, or a claim is newly false and not waived; else
            `inconclusive` if something is missing, not comparable or no longer tested, or nothing
            could show a change; else `pass`.
        reason: what decided the outcome, as a sentence.
    """

    confidence: Probability
    claims: list[ClaimChange]
    gates: list[GateChange]
    numbers: list[NumberChange]
    missing: list[str]
    added: list[str]
    uncompared: dict[MetricName, int]
    differences: list[Difference]
    same: bool
    outcome: Outcome
    reason: str


def compare(before: AuditResult, after: AuditResult) -> Comparison:
    """Compare a run with its baseline.

    Args:
        before: the record of the baseline.
        after: the record of the run, with its waivers as judged.

    Raises:
        ConfigError: the confidences of the runs leave none for the comparison.
    """
    confidence = round(before.family.confidence + after.family.confidence - 1, 12)
    if not confidence > 0:
        raise ConfigError(
            f"the runs have confidence {before.family.confidence:g} and "
            f"{after.family.confidence:g}, which leaves none for both together: raise "
            "audit.confidence"
        )
    old, new = _by_key(before), _by_key(after)
    shared = [key for key in old if key in new and (_may_gate(old[key]) or _may_gate(new[key]))]
    numbers = [
        number_change(before, after, old[key], new[key], compared=len(shared)) for key in shared
    ]
    claims = list(_claims(before, after))
    missing = list(_lacking(before, after))
    outcome, reason = _decided(claims, numbers, missing)
    return Comparison(
        confidence=confidence,
        claims=claims,
        gates=list(_gates(before, after)),
        numbers=numbers,
        missing=missing,
        added=list(_lacking(after, before)),
        uncompared=Counter(
            measurement.metric
            for key, measurement in old.items()
            if not _may_gate(measurement) and not (key in new and _may_gate(new[key]))
        ),
        differences=list(differences(before, after)),
        same=all(getattr(before, name) == getattr(after, name) for name in _FOUND),
        outcome=outcome,
        reason=reason,
    )


def _claims(before: AuditResult, after: AuditResult) -> Iterator[ClaimChange]:
    old = {verdict.id: verdict for verdict in before.verdicts}
    for verdict in after.verdicts:
        if verdict.id in old:
            both = old[verdict.id], verdict
            stated = all(one.claimed is not None for one in both)
            reason = listed(apart(before, after, *both)) if stated else ""
            yield ClaimChange(
                id=verdict.id,
                before=old[verdict.id],
                after=verdict,
                move="not comparable" if reason else _move(*both),
                waived=verdict.verdict == "false" and verdict.id in after.waived,
                reason=reason,
            )


def _move(before: VerdictRecord, after: VerdictRecord) -> Move:
    if after.verdict not in (before.verdict, "survived"):
        return "newly false" if after.verdict == "false" else "no longer tested"
    alike = all(
        getattr(before, name) == getattr(after, name) for name in ("verdict", "claimed", "factor")
    )
    return "same" if alike else "changed"


def _gates(before: AuditResult, after: AuditResult) -> Iterator[GateChange]:
    old = {gate.id: gate.outcome for gate in before.gates}
    for gate in after.gates:
        if gate.id in old and gate.outcome != old[gate.id]:
            yield GateChange(id=gate.id, before=old[gate.id], after=gate.outcome)


def _decided(
    claims: list[ClaimChange], numbers: list[NumberChange], missing: list[str]
) -> tuple[Outcome, str]:
    false = sum(claim.move == "newly false" and not claim.waived for claim in claims)
    worse = sum(number.judgement == "worse" for number in numbers)
    if false or worse:
        said = [
            *([f"newly false claims: {false}"] if false else []),
            *([f"numbers certified to be worse: {worse}"] if worse else []),
        ]
        return "fail", f"The run is worse than its baseline ({'; '.join(said)})."
    lost = [
        f"a test of {claim.id} ({claim.after.reason})"
        for claim in claims
        if claim.move == "no longer tested"
    ]
    unlike = dict.fromkeys(
        [
            *(claim.reason for claim in claims if claim.move == "not comparable"),
            *(number.reason for number in numbers if number.judgement == "not comparable"),
        ]
    )
    gone = [*lost, *missing]
    said = [f"Not comparable: {'; '.join([*unlike][:_NAMED])}."] if unlike else []
    if gone:
        more = f" and {len(gone) - _NAMED} more" if len(gone) > _NAMED else ""
        said.append(f"The run lacks what its baseline has: {', '.join(gone[:_NAMED])}{more}.")
    if said:
        return "inconclusive", " ".join([*said, "If that is meant, make this run the baseline."])
    drifting = [one for one in numbers if one.reason == DRIFTING and one.lower > 0]
    if drifting:
        first = drifting[0]
        values = f"{first.before.value:.2g} → {first.after.value:.2g}"
        more = f", and {len(drifting) - 1} more numbers alike" if len(drifting) > 1 else ""
        return "inconclusive", (
            f"{first.metric} of {first.place} is above the baseline's whole interval, {values}"
            f"{more}, but {DRIFTING}, so this is not certified: let data and seed decide the "
            "model, and make both runs again."
        )
    able = sum(not number.reason for number in numbers)
    tested = sum(claim.after.verdict != "not tested" for claim in claims)
    if not able and not tested:
        reasons = Counter(number.reason for number in numbers)
        named = "; ".join(f"{count}: {reason}" for reason, count in reasons.items())
        why = (
            f"none of {len(numbers)} numbers could show a change ({named})"
            if numbers
            else "no number that may gate: compare runs of the same models and measures"
        )
        return "inconclusive", f"The runs share no tested claim, and {why}."
    return "pass", (
        f"Nothing is certified to be worse than in the baseline (tested claims: {tested}; numbers "
        f"that could show a change: {able}). This does not prove that nothing is."
    )


def _by_key(result: AuditResult) -> dict[tuple[Any, ...], Measurement]:
    """Return the measurements by what identifies them in any run of the config."""
    return {measurement.key: measurement for measurement in result.measurements}


def _may_gate(measurement: Measurement) -> bool:
    """Whether the number may gate: it is of trainings, or its interval holds with the others."""
    able = measurement.census is not None or measurement.estimate.kind == "frequentist"
    return entry(measurement.metric).gateable and able


def _lacking(one: AuditResult, other: AuditResult) -> Iterator[str]:
    """Yield the models, the values of ε, and the numbers that only the first run has."""
    models = {model.label for model in other.models}
    yield from (f"model {model.label!r}" for model in one.models if model.label not in models)
    points = {(point.model, point.epsilon) for point in other.points}
    for point in one.points:
        if point.model in models and (point.model, point.epsilon) not in points:
            yield f"ε = {point.epsilon:g} of {point.model!r}"
    keys = _by_key(other)
    for key, measurement in _by_key(one).items():
        if (
            (measurement.model, measurement.epsilon) in points
            and key not in keys
            and _may_gate(measurement)
        ):
            yield f"{measurement.metric} of {measurement.place}"
