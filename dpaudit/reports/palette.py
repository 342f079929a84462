"""The words of outcomes and verdicts with their tones: in every report one word has one look.

A run that decides nothing, and a claim that was not tested, are neutral: neither is good.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from dpaudit.record.result import (
    AuditResult,
    Outcome,
    RunOutcome,
    State,
    Untested,
    Verdict,
    VerdictRecord,
)

# A tone is also the class of CSS that page.html.j2 gives its colours.
Tone = Literal["good", "neutral", "open", "bad"]
# Styles on a terminal, and colours at shields.io, from the best tone on.
_LOOKS: Mapping[Tone, tuple[str, str]] = {
    "good": ("bold green", "green"),
    "neutral": ("bold cyan", "lightgrey"),
    "open": ("bold yellow", "orange"),
    "bad": ("bold red", "red"),
}
_Text = TypeVar("_Text", bound=str)


@dataclass(frozen=True)
class Word:
    """A word that stands for an outcome or a verdict.

    Attributes:
        text: the word in lower case, as sentences and tables have it.
        tone: what it says to a reader who has to decide.
        but: what it leaves aside, such as claims that are false and accepted.
    """

    text: str
    tone: Tone
    but: str = ""

    @property
    def label(self) -> str:
        """The word in capitals, so that it needs no colour."""
        return self.text.upper()

    @property
    def shown(self) -> str:
        """The label, with what it leaves aside."""
        return f"{self.label}, {self.but}" if self.but else self.label

    @property
    def style(self) -> str:
        """Its style on a terminal."""
        return _LOOKS[self.tone][0]

    @property
    def shield(self) -> str:
        """Its colour at shields.io."""
        return _LOOKS[self.tone][1]


def _words(tones: Mapping[_Text, Tone]) -> Mapping[_Text, Word]:
    return {text: Word(text, tone) for text, tone in tones.items()}


RUN: Mapping[RunOutcome, Word] = _words(
    {"go": "good", "stop": "bad", "undecided": "open", "no decision": "neutral"}
)
NO_RESULT = Word("no result", "neutral")
GATE: Mapping[Outcome, Word] = _words({"pass": "good", "fail": "bad", "inconclusive": "open"})
CLAIM: Mapping[Verdict, Word] = {
    "false": Word("claim false", "bad"),
    "survived": Word("claim survived", "good"),
    "not tested": Word("claim not tested", "neutral"),
}
# What became of a claim that is not tested, by the reason, and what that means.
UNTESTED: Mapping[Untested, tuple[str, str]] = {
    "doubt": ("in doubt", "what was measured or computed speaks against the claim, uncertified"),
    "finding": ("left open", "a finding on the model leaves open what it reveals"),
    "no power": ("too weak to tell", "the games would miss a leak of several times the claim too"),
    "no game": ("never tested", "no game is about what the claim covers"),
    "no claim": ("no claim", "nothing is claimed"),
}
LEAK_MEASURED = Word("leak measured", "neutral")
# What became of what a model was to forget.
FORGOTTEN = Word("forgotten", "good")
NOT_FORGOTTEN = Word("not forgotten", "bad")
DELETION_UNDECIDED = Word("deletion undecided", "open")
# The same where gates judge the deletion, and none fails: what is left is not above their limits,
# or that is open; and nothing was found, where little would have been.
TRACE_LEFT = Word("trace left", "open")
NO_TRACE = Word("no trace found", "neutral")
NOT_ATTACKED = Word("not attacked", "neutral")
WAIVER: Mapping[State, Word] = {
    "active": Word("waived", "open"),
    "unused": Word("unused", "neutral"),
    "expired": Word("expired", "bad"),
}
# Of a requirement, by what a record answers to it.
ANSWER: Mapping[str, Word] = _words(
    {"met": "good", "not met": "bad", "undecided": "open", "to judge": "neutral", "gap": "open"}
)
NO_CLAIM = Word("no claim", "neutral")
NOTICED = Word("noticed", "open")
# The style of a cell on a terminal that shows more than is allowed.
MARKED = _LOOKS["bad"][0]


def run(result: AuditResult, outcome: RunOutcome | None = None) -> Word:
    """Return the word of a run's outcome, or of that which a baseline leaves of it.

    A go is green only without reservation: none of its leaks and false claims is accepted, and it
    is not about weaker attackers alone.
    """
    word = RUN[outcome or result.outcome]
    but = "; ".join(_reservations(result)) if word.text == "go" else ""
    return Word(word.text, "open", but) if but else word


def _reservations(result: AuditResult) -> Iterator[str]:
    """Yield what a go leaves aside."""
    if false := sum(verdict.verdict == "false" for verdict in result.verdicts):
        yield f"{false} false claim{'s' if false > 1 else ''} accepted"
    names = {gate.id for gate in result.gates if gate.outcome != "pass"} & result.waived
    if names:
        until = min(waiver.expires for waiver in result.waivers if waiver.id in names)
        yield f"{len(names)} gate{'s' if len(names) > 1 else ''} waived until {until}"
    if any(gate.attacker for gate in result.gates if gate.id not in result.waived):
        yield "against an attacker who trains no model"


def became(verdict: VerdictRecord) -> str:
    """Return what became of a claim: false, survived, or why it is not tested."""
    return UNTESTED[verdict.reason][0] if verdict.reason else verdict.verdict


def urgency(verdict: VerdictRecord) -> int:
    """Return a number by which claims are sorted: false ones, those in doubt, then what is sure."""
    if verdict.verdict == "not tested":
        return 1 if verdict.reason == "doubt" else 3
    return 0 if verdict.verdict == "false" else 2


def survived(count: int, stated: int) -> Word:
    """Return the word of a model some of whose claims survived; good only if all of them did."""
    return Word(f"survived {count} of {stated}", "good" if count == stated else "neutral")


def harmless(word: Word) -> Word:
    """Return the word of a problem that is waived or not set to stop a run."""
    return Word(f"{word.text}, stops nothing", "open")


def order(word: Word) -> int:
    """Return a number by which words are sorted, those of the worst tone first."""
    return -list(_LOOKS).index(word.tone)
