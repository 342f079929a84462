"""The kinds of problems that CI reports name, whose texts stand in rules.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files


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


_RULES = {
    name: Rule(name, **texts)
    for name, texts in tomllib.loads(
        files(__package__).joinpath("rules.toml").read_text("utf-8")
    ).items()
}
RULES = tuple(_RULES.values())
FALSE, FAILED, INCONCLUSIVE = (
    _RULES[name] for name in ("false-claim", "gate-failed", "gate-inconclusive")
)
UNTESTED, UNCLAIMED = _RULES["claim-not-tested"], _RULES["no-claim"]
EXPIRED, UNUSED = _RULES["waiver-expired"], _RULES["waiver-unused"]
WORSE, STOPPED = _RULES["worse-than-baseline"], _RULES["run-failed"]
# Of models that release their outputs without noise.
NOISELESS = _RULES["noiseless-release"]
# Findings whose rules are not named by what they are about.
_NAMED = {"noiseless": "noiseless-release", "drift": "outputs-drift"}


def of_finding(about: str) -> Rule:
    """Return the rule of a finding, by what it is about."""
    named = _NAMED.get(about, f"finding-{about}")
    return _RULES.get(named, _RULES["finding-other"])
