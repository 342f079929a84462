"""What CI services show of a run: a check for each claim, gate and finding, or for its failure."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from dpaudit.core.exit_codes import exit_code
from dpaudit.core.messages import plain, quoted
from dpaudit.execution.tasks import tool_version
from dpaudit.record.comparison import Comparison
from dpaudit.record.result import AuditResult, PlaceRecord, RunOutcome, concluded
from dpaudit.record.result import accepted as accepted_findings
from dpaudit.record.storage import NAME
from dpaudit.reports import digest, palette, rules
from dpaudit.reports.sections import screen, verdicts
from dpaudit.reports.sections.outcome import decision_of

State = Literal["error", "fail", "inconclusive", "accepted", "noticed", "untested", "pass"]
Level = Literal["error", "warning", "note"]
Kind = Literal["claim", "gate", "waiver", "baseline", "finding", "run"]
# From the worst on; `error` is whatever makes the exit code differ from 0.
LEVELS: dict[State, Level | None] = {
    "error": "error",
    "fail": "error",
    "inconclusive": "error",
    "accepted": "warning",
    "noticed": "warning",
    "untested": "note",
    "pass": None,
}
# The most characters of a message on GitHub, of a name, and of an id that is read.
_LONGEST, _NAME, _HUGE = 999, 200, 10**6
# What reports show of the states of a claim that is stated, and of all else.
_CLAIM: Mapping[State, palette.Word] = {
    "fail": palette.CLAIM["false"],
    "accepted": palette.harmless(palette.CLAIM["false"]),
    "untested": palette.CLAIM["not tested"],
    "pass": palette.CLAIM["survived"],
}
_WORDS: Mapping[State, palette.Word] = {
    "error": palette.NO_RESULT,
    "fail": palette.GATE["fail"],
    "inconclusive": palette.GATE["inconclusive"],
    "accepted": palette.WAIVER["active"],
    "noticed": palette.NOTICED,
    "pass": palette.GATE["pass"],
}
# The place of what no config states.
_RECORD = PlaceRecord(path=NAME, line=1)


@dataclass(frozen=True)
class CiCheck:
    """A claim, a gate, a waiver, the baseline, a finding, or the run itself.

    Attributes:
        kind: which of them it is.
        id: its name, the same in every run of the config.
        rule: the kind of problem that it has or could have.
        state: `error`: the run has no result; `fail`: a false claim, a failed gate, an expired
            waiver, or a number that is worse than in the baseline; `inconclusive`: a gate, or the
            baseline; `accepted`: a false claim or a gate that does not fail the run; `noticed`: a
            finding, or an unused waiver; `untested`: a claim; `pass`: otherwise.
        said: what was found, in one line without invisible characters.
        place: the line of the config, or of the record if the run was started from Python.
        because: why a false claim, or a gate that does not pass, stops nothing.
    """

    kind: Kind
    id: str
    rule: rules.Rule
    state: State
    said: str
    place: PlaceRecord
    because: str = ""

    @property
    def word(self) -> palette.Word:
        """Return what became of it, as reports show it."""
        if self.kind == "claim":
            return (
                _CLAIM[self.state]
                if self.rule in (rules.FALSE, rules.UNTESTED)
                else palette.NO_CLAIM
            )
        if self.kind == "waiver":
            return palette.WAIVER["expired" if self.state == "fail" else "unused"]
        return _WORDS[self.state]

    @property
    def name(self) -> str:
        """Return the id without invisible characters; of a long one both ends, which differ."""
        whole = quoted(self.id, _HUGE)
        half = _NAME // 2
        return whole if len(whole) <= _NAME else f"{whole[:half]}…{whole[1 - half :]}"

    @property
    def text(self) -> str:
        """Return what was found, at most 1000 characters."""
        sentence = self.said
        if self.because:
            sentence = f"{sentence.removesuffix('.')}. It stops nothing: {self.because}."
        return quoted(sentence, _LONGEST)

    @property
    def path(self) -> str:
        """Return the path of its file without invisible characters."""
        return quoted(self.place.path, _NAME)

    @property
    def level(self) -> Level | None:
        """Return how bad it is; None if it passes."""
        return LEVELS[self.state]

    @property
    def fingerprint(self) -> str:
        """Return a digest of the id, which is that of the same check in other runs."""
        return hashlib.sha256(self.id.encode(errors="replace")).hexdigest()


@dataclass(frozen=True)
class Failure:
    """A command that ended without a result.

    Attributes:
        message: why, in one sentence.
        exit_code: the exit code of the command.
        path: the config, or what else the command was about.
        line: the line of that file that is to blame, from 1.
    """

    message: str
    exit_code: int
    path: str
    line: int = 1


@dataclass(frozen=True)
class Run:
    """A run as CI services show it.

    Attributes:
        outcome: that of the run and its baseline; `error` if it has no result.
        exit_code: the exit code of the command.
        headline: what was found, in one line, or why there is no result.
        checks: the worst first.
        path: the config, or the record if the run was started from Python.
        tool: dpaudit's version.
        started: when, in ISO 8601 with the time zone UTC.
        seconds: how long it took.
        word: the outcome, or that there is no result, as reports show it.
    """

    outcome: RunOutcome | Literal["error"]
    exit_code: int
    headline: str
    checks: Sequence[CiCheck]
    path: str
    tool: str
    started: str
    seconds: float = 0.0
    word: palette.Word = palette.NO_RESULT

    @property
    def problems(self) -> list[CiCheck]:
        """The checks that do not pass."""
        return [check for check in self.checks if check.level]


@dataclass(frozen=True)
class Format:
    """A report for a CI service.

    Attributes:
        title: what it is, in one line.
        write: makes the report.
    """

    title: str
    write: Callable[[Run], str]

    def __call__(self, result: AuditResult, compared: Comparison | None = None) -> str:
        """Return the report of a record, and of its comparison with a baseline."""
        return self.write(run_of(result, compared))

    def failed(self, failure: Failure) -> str:
        """Return the report of a command that ended without a record."""
        return self.write(failed_run(failure))


def run_of(result: AuditResult, compared: Comparison | None = None) -> Run:
    """Return what CI services show of a record.

    Args:
        result: the record.
        compared: its comparison with a baseline.
    """
    checks = [*_judged(result), *_waivers(result), *_noticed(result)]
    place = next((check.place for check in checks if check.kind == "claim"), None)
    sentences = [screen.counts(result), decision_of(result).reason]
    outcome = result.outcome
    if compared is not None:
        worse, state, where = rules.WORSE, compared.outcome, place or _RECORD
        checks.append(CiCheck("baseline", "baseline", worse, state, compared.reason, where))
        outcome = concluded([compared.outcome], outcome)
        sentences.append(compared.reason)
    order = list(LEVELS)
    return Run(
        outcome=outcome,
        exit_code=exit_code(outcome, require_decision=result.require_decision),
        headline=plain(" ".join(sentences)),
        checks=sorted(_distinct(checks), key=lambda check: order.index(check.state)),
        path=quoted(place.path, _NAME) if place else NAME,
        tool=quoted(result.tool, _NAME),
        started=result.timing.started,
        seconds=result.timing.seconds,
        word=palette.run(result, outcome),
    )


def failed_run(failure: Failure) -> Run:
    """Return what CI services show of a command that ended without a result."""
    place = PlaceRecord(path=failure.path, line=failure.line)
    check = CiCheck("run", "run", rules.STOPPED, "error", failure.message, place)
    return Run(
        outcome="error",
        exit_code=failure.exit_code,
        headline=f"No result: {check.text.removesuffix('.')}.",
        checks=[check],
        path=check.path,
        tool=tool_version(),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _distinct(checks: Sequence[CiCheck]) -> Iterator[CiCheck]:
    """Yield the checks; those that share an id, as gates may, get a number."""
    count: Counter[str] = Counter()
    for check in checks:
        count[check.id] += 1
        again = count[check.id]
        yield replace(check, id=f"{check.id}/{again}") if again > 1 else check


def _judged(result: AuditResult) -> Iterator[CiCheck]:
    """Yield the claims, then the gates."""
    accepted = {
        name: verdicts.waiver_sentence(waiver, result)
        for name, waiver in accepted_findings(result.waivers).items()
    }
    state: State
    for verdict in result.verdicts:
        state, rule, because = "pass", rules.FALSE, accepted.get(verdict.id, "")
        if verdict.verdict == "false":
            if not result.fail_on_false_claim:
                because = because or "audit.fail_on_false_claim = false in the config"
            state = "accepted" if because else "fail"
        elif verdict.verdict == "not tested":
            state, rule = "untested", rules.UNTESTED
            if verdict.reason == "no claim":
                rule = rules.NOISELESS if verdict.noiseless else rules.UNCLAIMED
        sentence = f"{verdict.model}: {verdicts.on_claim(result, verdict)}"
        place = _place(verdict.id, result)
        yield CiCheck("claim", verdict.id, rule, state, sentence, place, because)
    for gate in result.gates:
        because = accepted.get(gate.id, "") if gate.outcome != "pass" else ""
        state = "accepted" if because else gate.outcome
        rule = rules.INCONCLUSIVE if gate.outcome == "inconclusive" else rules.FAILED
        sentence = f"{gate.rule}: {gate.outcome}. {digest.why(gate, result)}"
        yield CiCheck("gate", gate.id, rule, state, sentence, _place(gate.id, result), because)


def _waivers(result: AuditResult) -> Iterator[CiCheck]:
    """Yield the waivers that need attention, at what they accept."""
    for waiver in result.waivers:
        if waiver.state != "active":
            expired = waiver.state == "expired"
            yield CiCheck(
                "waiver",
                f"waiver/{waiver.id}",
                rules.EXPIRED if expired else rules.UNUSED,
                "fail" if expired else "noticed",
                verdicts.waiver_line(waiver, result),
                _place(waiver.id, result),
            )


def _noticed(result: AuditResult) -> Iterator[CiCheck]:
    """Yield the findings, each once, at the table of their model."""
    places = {verdict.model: _place(verdict.id, result) for verdict in reversed(result.verdicts)}
    noticed = [
        (finding.model, finding.about, f"{finding.text} {finding.remedy}")
        for finding in result.findings
    ]
    noticed += [(pair.model, "drift", f"{pair.drift}.") for pair in result.pairs if pair.drift]
    for model, about, said in dict.fromkeys(noticed):
        yield CiCheck(
            "finding",
            f"finding/{model}/{about}",
            rules.of_finding(about),
            "noticed",
            f"{model}: {said}",
            places.get(model, _RECORD),
        )


def _place(name: str, result: AuditResult) -> PlaceRecord:
    return result.origin.get(name, _RECORD)
