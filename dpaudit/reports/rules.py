"""The kinds of problems that CI reports name; their ids stay the same from version to version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """A kind of problem.

    Attributes:
        id: its stable name.
        title: what it is, in a few words.
        help: what it means and what to do.
        severity: 0 to 10, as GitHub's `security-severity`; from 7 on it is high.
    """

    id: str
    title: str
    help: str
    severity: float


FALSE = Rule(
    "false-claim",
    "A claim of differential privacy is false",
    "A game certifies, with the simultaneous confidence of the run, that the model leaks more than "
    "its claimed ε. Correct the mechanism or the claim. One that is known to be false stops "
    "no run with audit.fail_on_false_claim = false.",
    9.0,
)
FAILED = Rule(
    "gate-failed",
    "A gate failed",
    "The whole interval of a measured number lies beyond the gate's threshold. Change the model, "
    "or the threshold if it was wrong.",
    7.0,
)
INCONCLUSIVE = Rule(
    "gate-inconclusive",
    "A gate is inconclusive",
    "The interval straddles the threshold, or the game found no mutant that breaks it. The "
    "gate's reason says what decides it.",
    5.0,
)
UNTESTED = Rule(
    "claim-not-tested",
    "A claim was not tested",
    "The run says nothing for sure about this claim: no game is about what it covers, the games "
    "would miss a larger leak too, or what speaks against it is not certified. Add a game about "
    "what the claim covers, or do what the verdict asks.",
    3.0,
)
UNCLAIMED = Rule(
    "no-claim",
    "A model states no claim",
    "No guarantee is stated for this model, so none could be tested: only its gates are judged.",
    1.0,
)
DRIFT = Rule(
    "outputs-drift",
    "Outputs change from call to call",
    "The outputs of a mechanism depend on earlier calls, so its trials are not independent: run "
    "each call in a fresh process.",
    4.0,
)
EXPIRED = Rule(
    "waiver-expired",
    "A waiver is expired",
    "An expired waiver fails the run, whatever became of its finding: remove it, or review the "
    "finding and renew it.",
    7.0,
)
UNUSED = Rule(
    "waiver-unused",
    "A waiver is unused",
    "The finding that the waiver accepts is not there: remove the waiver if that lasts.",
    1.0,
)
WORSE = Rule(
    "worse-than-baseline",
    "The run is worse than its baseline",
    "A number is certified to have got worse since the baseline, a claim is newly false, or a "
    "part of the baseline is missing. Change the model, or make this run the new baseline.",
    7.0,
)
STOPPED = Rule(
    "run-failed",
    "The audit has no result",
    "The command ended before it had a result, so nothing is known about the claims: the message "
    "says why.",
    8.0,
)
_OTHER = Rule(
    "finding-other", "Something was noticed", "The message says what, and what to do.", 4.0
)
# Titles, helps and severities of findings, by what they are about.
_ABOUT: Mapping[str, tuple[str, str, float]] = {
    "seed": (
        "Trainings depend on more than data and seed",
        "Two trainings on the same data with the same seed differ: pass the seed on.",
        4.0,
    ),
    "constant": (
        "Trainings do not depend on the data",
        "The model is the same whatever it is trained on, so its audit shows nothing.",
        4.0,
    ),
    "vocabulary": (
        "A user or item vanishes with its last interaction",
        "Which users and items a model knows tells who was in its training data: fix the shape.",
        6.0,
    ),
    "hide-seen": (
        "Lists hide what a user has seen",
        "Whoever sees such a list can tell what its user interacted with.",
        5.0,
    ),
    "beside-claim": (
        "More than the claim allows leaks where the claim is not about it",
        "The claim is about other observers or other neighbours, so this breaks no claim. A claim "
        "about it would be false.",
        5.0,
    ),
    "not-probed": (
        "Trainings were not tested by further ones",
        "Whether the seed decides everything and the model reads its data was not tried, as that "
        "takes four more trainings.",
        1.0,
    ),
    "alone": (
        "Attacks had no trainings of their own",
        "No further training calibrates the attacks, so stronger ones, which compare with such "
        "trainings, were not tried.",
        1.0,
    ),
    "blind": (
        "What no model can tell is told",
        "Something tells who is in the trainings although it does not depend on them: the audit, "
        "or the trainings as they were done, have a fault, and no gate is decided.",
        6.0,
    ),
    "explained": (
        "How popular lists are explains an attack",
        "Who is in the trainings shows by how popular lists are, without memory of their items.",
        3.0,
    ),
    "control": (
        "A game could not be run on a mutant",
        "The power of the game is not measured there, so it shows nothing of the claim.",
        4.0,
    ),
    "diverged": (
        "A training ends without a model",
        "Whether it does may tell what it was trained on, and what is measured on models has no "
        "value there: take smaller steps or less noise.",
        5.0,
    ),
    "noiseless": (
        "A model releases its outputs without noise",
        "The model adds no noise: whoever sees its outputs can tell the data sets apart.",
        1.0,
    ),
    "repetition": (
        "Outputs depend on more than data and stream",
        "Noise or a state of the mechanism may be shared by its calls, so only calls in fresh "
        "processes count: draw all noise from rng, in each call.",
        4.0,
    ),
    "exceptions": (
        "Calls raise exceptions",
        "Whoever calls the mechanism sees its exceptions, so they are outputs that may tell data "
        "sets apart.",
        4.0,
    ),
}
_FINDINGS: Mapping[str, Rule] = {
    about: Rule("noiseless-release" if about == "noiseless" else f"finding-{about}", *texts)
    for about, texts in _ABOUT.items()
}
NOISELESS = _FINDINGS["noiseless"]
RULES = (
    FALSE, FAILED, INCONCLUSIVE, UNTESTED, UNCLAIMED, EXPIRED, UNUSED, WORSE, DRIFT,
    STOPPED, *_FINDINGS.values(), _OTHER,
)  # fmt: skip


def of_finding(about: str) -> Rule:
    """Return the rule of a finding, by what it is about."""
    return DRIFT if about == "drift" else _FINDINGS.get(about, _OTHER)
