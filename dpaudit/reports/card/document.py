"""The schema of a privacy card, which both of its formats render."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict

from dpaudit.core.estimate import Number, Probability
from dpaudit.core.messages import lines
from dpaudit.record.result import RunOutcome, Untested, Verdict
from dpaudit.record.values import Count, Positive

NOT_STATED = "not stated"
DERIVED: Literal["derived, not measured"] = "derived, not measured"


Text = Annotated[str, AfterValidator(lines)]


class _CardPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Rate(_CardPart):
    """A probability at a base rate.

    Attributes:
        base_rate: the probability without a release.
        of: the base rate in words.
        bound: the limit, or what is reached at least.
    """

    base_rate: Probability
    of: Text
    bound: Probability


class ClaimLimits(_CardPart):
    """What a claim allows every attack at most.

    Attributes:
        epsilon: ε of the claim, or of several units together.
        delta: δ of the same.
        advantage: the largest true- minus false-positive rate of a membership test.
        success: the largest success rates of re-identification, attribute inference and
            reconstruction at base rates; also the largest true-positive rates of a membership test
            at these false-positive rates.
        belief: the largest belief after an output; None at δ > 0, where no output is excepted.
    """

    epsilon: Positive
    delta: Probability
    advantage: Probability
    success: list[Rate]
    belief: list[Rate] | None


class Group(_CardPart):
    """What a claim about one rating says of a user with several.

    Attributes:
        ratings: the number of ratings.
        of: whose number it is.
        limits: what the claim allows of all these ratings together.
    """

    ratings: Count
    of: Text
    limits: ClaimLimits


class Derived(_CardPart):
    """What a claim and a certified bound mean for an attacker.

    Attributes:
        basis: that these numbers are derived.
        limits: what the claim allows an attacker; None without a claim, or if it is false or in
            doubt.
        groups: the same for users with several ratings; empty if the unit is a user.
        certified_belief: the belief that an attacker reaches at least, after outputs of unknown
            frequency, by the certified ε; empty without one.
    """

    basis: Literal["derived, not measured"] = DERIVED
    limits: ClaimLimits | None = None
    groups: list[Group] = []
    certified_belief: list[Rate] = []


class Guarantee(_CardPart):
    """A model at one ε: what it claims and what the audit found.

    Attributes:
        model: the model's label.
        defense: the registered defense or library.
        mechanism: `published`, `corrected` or `nonprivate`.
        sweep_epsilon: the ε of the sweep, infinite without noise.
        dp_variant: `pure DP`, `approximate DP` or `none`.
        epsilon: the claimed ε.
        delta: the claimed δ.
        unit: what one unit of privacy is.
        adjacency: which data sets are neighbours.
        observers: whom the claim covers.
        unprotected: what the claim treats as public.
        assumes: what the claim relies on.
        source: where the claim is stated.
        verdict: the audit's verdict on the claim.
        reason: why the claim was not tested.
        power: the least multiple of the claim that the same game found on a mutant.
        condition: for which law of noise that holds, and in how many runs; empty for the model's.
        certified: the certified lower bound on ε; None without a game.
        derived: what the claim and the bound mean for an attacker.
    """

    model: Text
    defense: Text
    mechanism: Text
    sweep_epsilon: Positive
    dp_variant: Literal["pure DP", "approximate DP", "none"] = "none"
    epsilon: Positive | None = None
    delta: Probability | None = None
    unit: Text = "none"
    adjacency: Text = "none"
    observers: list[Text] = []
    unprotected: Text = "everything"
    assumes: list[Text] = []
    source: Text = "none"
    verdict: Verdict
    reason: Untested | None = None
    power: Number | None = None
    condition: Text = ""
    certified: Number | None = None
    derived: Derived


class MeasuredNumber(_CardPart):
    """A measured number with its interval.

    Attributes:
        metric: its name in docs/metrics.md.
        model: the model's label.
        sweep_epsilon: the ε of the sweep, infinite without noise.
        of: attack, observer, target, pair, effort or other details.
        group: the group of users, items or targets; `all` if it is not divided.
        value: the estimate.
        lower: the lower end of the interval.
        upper: the upper end of the interval.
        power: what the same game found on mutants; empty for other metrics.
    """

    metric: Text
    model: Text
    sweep_epsilon: Positive
    of: Text
    group: Text = "all"
    value: Number
    lower: Number
    upper: Number
    power: Text = ""


class DataCounts(_CardPart):
    """The audited data in numbers.

    A card is for the public, so it has no digest, and counts have two significant digits: whoever
    knows all records but one could tell that one from exact numbers.

    Attributes:
        users: number of users, rounded.
        items: number of items, rounded.
        ratings: number of ratings, rounded.
        scale: minimum rating, maximum rating, step.
        per_user: median and 90 % quantile of the ratings of a user; None for few users.
    """

    users: Count
    items: Count
    ratings: Count
    scale: list[Number]
    per_user: list[Count] | None


class AuditedModel(_CardPart):
    """One audited model.

    Attributes:
        model: its label.
        defense: the registered defense or library, with its title.
        source: paper and equations.
        parameters: its hyper-parameters.
        tuned: the hyper-parameters that a grid search chose on the audited data; empty without.
    """

    model: Text
    defense: Text
    source: Text
    parameters: Text
    tuned: Text


class AuditFacts(_CardPart):
    """The audit behind the card.

    Attributes:
        tool: the version of dpaudit.
        started: date and time.
        confidence: the simultaneous confidence of the certified numbers.
    """

    tool: Text
    started: Text
    confidence: Probability


class AttackTried(_CardPart):
    """An attack that was tried.

    Attributes:
        label: its label in the run.
        name: the registered attack, with its title.
        source: paper.
    """

    label: Text
    name: Text
    source: Text


class Deployment(_CardPart):
    """What is deployed, and what the audit says of it.

    Attributes:
        outcome: the outcome of the whole run.
        reason: why it is that, as a sentence.
        model: the label of the deployed model; None if that is not chosen.
        epsilon: its ε in the sweep, infinite without noise; None if that is not chosen.
        named: the model with its claimed ε, in words; empty if that is not chosen.
        choice: which keys of the config choose; empty if one model at one ε is left.
        badge: the verdict on it in a few words.
        claims: what became of how many claims; one at most if a model is chosen.
        attacker: who attacks, as a sentence.
        protected: what this attacker is not to learn, as a sentence.
        found: what each attacker finds as natural frequencies, each by the names of its columns,
            the most first.
        counted: what is found, and with how many false alarms.
        certain: what leaks for certain, as sentences.
        violated: how often an assumption of its claim was seen not to hold, by what was counted.
        utility: how useful it is, as a sentence; empty if that was not measured.
        about: what else the kind of audit is about, as a heading; empty if nothing is added.
        audited: what it says of that, as sentences by their names.
        results: the rows of its results, each by the names of its columns, the worst first.
        untried: what was not tried, as sentences, the most specific first.
        steps: what to do next, as sentences, the best first.
    """

    outcome: RunOutcome
    reason: Text
    model: Text | None
    epsilon: Positive | None
    named: Text
    choice: Text
    badge: Text
    claims: dict[Text, Count]
    attacker: Text
    protected: Text
    found: list[dict[Text, Text]]
    counted: Text
    certain: list[Text]
    violated: dict[Text, Number]
    utility: Text
    about: Text = ""
    audited: dict[str, Text] = {}
    results: list[dict[str, Text]] = []
    untried: list[Text]
    steps: list[Text]


class PrivacyCard(_CardPart):
    """A privacy card.

    Attributes:
        card_version: the version of this layout.
        deployment: what is deployed, and what the audit says of it.
        stated: the owner's statements by the keys of `[card]`; what is missing is `not stated`.
        audit: the audit behind the card.
        guarantees: each model at each ε.
        data: the audited data; None if only the outputs of a mechanism were audited.
        mechanisms: the audited models.
        utility: utility as measured, by group where a metric has groups.
        correctness: what the audit knows about the implementation.
        attacks: the attacks that were tried.
        measured: their results.
        limits: what the card does not say.
    """

    card_version: Literal[2] = 2
    deployment: Deployment
    stated: dict[str, Text | list[Text]]
    audit: AuditFacts
    guarantees: list[Guarantee]
    data: DataCounts | None
    mechanisms: list[AuditedModel]
    utility: list[MeasuredNumber]
    correctness: list[Text]
    attacks: list[AttackTried]
    measured: list[MeasuredNumber]
    limits: list[Text]
