"""The sections of a privacy card, and its appendix: all its facts and tables.

The headings follow NIST SP 800-226 (privacy parameters and variant, unit of privacy, algorithms,
utility and bias, trust models, mechanism implementation, data security, data collection exposure)
and the public registry of deployments of differential privacy (docs/guides/card.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from dpaudit.config.schema import STATEMENTS
from dpaudit.core import rounding
from dpaudit.reports import words
from dpaudit.reports.card import document
from dpaudit.reports.table import NONE, Table

# Columns of limits, the last of the audited data; and columns of beliefs.
_LIMIT_COLUMNS = (
    "advantage",
    "success from 1 in 10",
    "from 1 in 100, TPR at 1 % FPR",
    "from 1 in 1000, TPR at 0.1 % FPR",
    "from the data",
)
_BELIEF_COLUMNS = ("from 1 in 2", "from 1 in 10", "from 1 in 100", "from 1 in 1000")
_RISK_NOTES = (
    "Success is that of re-identification, attribute inference or reconstruction. Without the "
    "release the attacker is right once in 10, 100, …; with it, at most this often, even if all "
    "other data are known (Kulynych et al. 2025, arXiv:2507.06969).",
    "Advantage is the true-positive rate (TPR) minus the false-positive rate (FPR) of a test that "
    "tells two neighbouring data sets apart, such as data with and without one unit.",
    "A certified ε says that in some data some outputs raise the belief at least to this. It does "
    "not say how often they occur, so it gives no success rate; those measured are under 'Attacks "
    "tried'.",
    "At δ > 0 a claim limits the success over all outputs, and not the belief after each.",
)


@dataclass(frozen=True)
class Fact:
    """A named fact.

    Attributes:
        name: what it is about.
        text: the fact.
        stated: whether the owner states it.
    """

    name: str
    text: str
    stated: bool = False

    @property
    def missing(self) -> bool:
        """Whether the owner did not state it."""
        return self.stated and self.text == document.NOT_STATED


@dataclass(frozen=True)
class Section:
    """A part of a card under one heading.

    Attributes:
        heading: its heading.
        facts: its facts.
        tables: its tables.
        notes: what to know about the tables.
    """

    heading: str
    facts: Sequence[Fact] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()


def appendix(card: document.PrivacyCard) -> list[Section]:
    """Return the sections in the order in which the card shows them, without what is empty."""
    filled = [
        replace(
            section,
            facts=[fact for fact in section.facts if not fact.missing],
            tables=[table for table in section.tables if table.cells],
        )
        for section in _all_sections(card)
    ]
    return [section for section in filled if section.facts or section.tables or section.notes]


def _all_sections(card: document.PrivacyCard) -> list[Section]:
    missing = [named(name) for name in STATEMENTS if card.stated[name] == document.NOT_STATED]
    public = ((guarantee.model, guarantee.unprotected) for guarantee in card.guarantees)
    not_protected = ["model", "not protected by the claim"]
    return [
        Section("System", _stated(card, "system", "owner", "version", "contact", "intended_use")),
        Section("Privacy parameters and variant", tables=[_parameters(card)]),
        Section(
            "Unit of privacy", _stated(card, "privacy_unit"), [_claims(card), *group_tables(card)]
        ),
        _risk(card),
        Section(
            "What is not protected",
            _stated(card, "unprotected"),
            [Table("Treated as public", not_protected, _once(public))],
        ),
        Section("Data domain", [*_stated(card, "data_domain"), *_data(card.data)]),
        Section("Actors and trust model", _stated(card, "trust_model", "actors")),
        Section("Release and access", _stated(card, "release", "access", "composition")),
        Section("Mechanisms and tuning", _stated(card, "mechanisms", "tuning"), [_models(card)]),
        _utility(card),
        Section(
            "Correctness of the implementation",
            _stated(card, "correctness"),
            notes=card.correctness,
        ),
        Section(
            "Side channels, security and collection",
            _stated(card, "side_channels", "security", "collection"),
        ),
        Section(card.deployment.about, audited(card), [results(card)]),
        Section("Attacks tried", tables=_attacks(card)),
        Section("What was not tried", notes=card.deployment.untried),
        Section(
            "What the owner does not state",
            [Fact("Not stated", ", ".join(missing))] if missing else [],
        ),
    ]


def audited(card: document.PrivacyCard) -> list[Fact]:
    """Return what the kind of audit says besides."""
    return [Fact(name, text) for name, text in card.deployment.audited.items()]


def results(card: document.PrivacyCard) -> Table:
    """Return its results, the worst first; without rows if it has none."""
    rows = card.deployment.results
    cells = [list(row.values()) for row in rows]
    return Table("Results, the worst first", list(rows[0]) if rows else [], cells)


def _risk(card: document.PrivacyCard) -> Section:
    """Return what the guarantees mean for an attacker."""
    heading = "What it means for an attacker"
    if tables := risk_tables(card):
        return Section(heading, [], tables, _RISK_NOTES)
    return Section(heading, [Fact("Limits", "none: no model has a claim")])


def _stated(card: document.PrivacyCard, *names: str) -> list[Fact]:
    return [statement(card, name) for name in names]


def statement(card: document.PrivacyCard, name: str) -> Fact:
    """Return what the owner states under a key of `[card]`."""
    text = card.stated[name]
    return Fact(named(name), text if isinstance(text, str) else "; ".join(text), stated=True)


def named(key: str) -> str:
    """Return the name of a statement."""
    return key.replace("_", " ").capitalize()


def _parameters(card: document.PrivacyCard) -> Table:
    cells = [
        [
            guarantee.model,
            words.epsilon(guarantee.epsilon) if guarantee.epsilon else "none",
            guarantee.verdict + (f": {guarantee.reason}" if guarantee.reason else ""),
            NONE if guarantee.certified is None else f"≥ {rounding.at_least(guarantee.certified)}",
            _power(guarantee),
            NONE if guarantee.delta is None else f"{guarantee.delta:g}",
            guarantee.dp_variant,
            f"{guarantee.defense}, {guarantee.mechanism}",
        ]
        for guarantee in card.guarantees
    ]
    sure = words.percent(card.audit.confidence)
    return Table(
        f"Claims and verdicts, with {sure} simultaneous confidence",
        ["model", "ε", "claim is", "certified ε", "power", "δ", "DP variant", "mechanism"],
        cells,
        {(row, 2) for row, cell in enumerate(cells) if cell[2] == "false"},
    )


def _power(guarantee: document.Guarantee) -> str:
    """Return the least multiple of the claim that was found; a false claim needs none."""
    if guarantee.power:
        return f"{guarantee.power:.3g}×"
    return NONE if guarantee.verdict == "false" or guarantee.epsilon is None else "none"


def _claims(card: document.PrivacyCard) -> Table:
    rows = (
        (
            guarantee.model,
            guarantee.unit,
            guarantee.adjacency,
            "; ".join(guarantee.observers),
            "; ".join(guarantee.assumes) or NONE,
            guarantee.source,
        )
        for guarantee in card.guarantees
        if guarantee.epsilon
    )
    header = ["model", "one unit", "neighbours", "covers those who see", "assumes", "source"]
    return Table("What a claim is about", header, _once(rows))


def _once(rows: Iterable[tuple[str, ...]]) -> list[list[str]]:
    """Return the cells of rows that are alike at several ε."""
    return [list(row) for row in dict.fromkeys(rows)]


def _data(data: document.DataCounts | None) -> list[Fact]:
    if data is None:
        return [Fact("Audited data", "none: only the outputs of a mechanism were audited")]
    low, high, step = data.scale
    sizes = f"{data.ratings} ratings by {data.users} users of {data.items} items"
    facts = [
        Fact("Audited data", f"about {sizes}"),
        Fact("Scale", f"{low:g} to {high:g} in steps of {step:g}"),
    ]
    if data.per_user:
        median, large = data.per_user
        facts.append(Fact("Ratings per user", f"median {median}, 90 % quantile {large}"))
    return facts


def _models(card: document.PrivacyCard) -> Table:
    cells = [
        [model.model, model.defense, model.source, model.parameters or NONE, model.tuned or NONE]
        for model in card.mechanisms
    ]
    header = ["model", "mechanism", "source", "parameters", "chosen by grid search on these data"]
    return Table("Audited models", header, cells)


def _utility(card: document.PrivacyCard) -> Section:
    if not card.utility:
        return Section("Utility and bias", [Fact("Utility", "not measured")])
    grouped = {number.group for number in card.utility} != {"all"}
    facts = [] if grouped else [Fact("By group", "not measured")]
    metrics = list(dict.fromkeys(number.metric for number in card.utility))
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for number in card.utility:
        key = (number.model, words.epsilon(number.sweep_epsilon), number.of or NONE, number.group)
        rows.setdefault(key, {})[number.metric] = _number(number)
    cells = [[*key, *(row.get(name, NONE) for name in metrics)] for key, row in rows.items()]
    table = Table("Utility", ["model", "sweep ε", "of", "group", *metrics], cells)
    return Section("Utility and bias", facts, [table])


def _attacks(card: document.PrivacyCard) -> list[Table]:
    tried = [[attack.label, attack.name, attack.source] for attack in card.attacks]
    results = [
        [
            number.model,
            words.epsilon(number.sweep_epsilon),
            number.metric,
            number.of or NONE,
            number.group,
            _number(number),
            number.power or NONE,
        ]
        for number in card.measured
    ]
    header = ["model", "sweep ε", "metric", "of", "group", "measured", "power"]
    return [
        Table("Attacks", ["attack", "method", "source"], tried or [["none", NONE, NONE]]),
        Table("Results of attacks", header, results),
    ]


def _number(number: document.MeasuredNumber) -> str:
    if number.metric == "epsilon":
        return f"≥ {rounding.at_least(number.lower)}"
    low, high = rounding.at_least(number.lower), rounding.at_most(number.upper)
    return f"{rounding.measured(number.value)} [{low}, {high}]"


def risk_tables(card: document.PrivacyCard) -> list[Table]:
    """Return the limits of attackers under the claims, and their beliefs after an output."""
    claimed = [guarantee for guarantee in card.guarantees if guarantee.epsilon]
    limits = Table(
        f"If the claim holds, an attacker reaches at most ({document.DERIVED})",
        ["model", "ε", "δ", *_LIMIT_COLUMNS],
        [_limit_row(guarantee) for guarantee in claimed],
        {(i, 3) for i, guarantee in enumerate(claimed) if guarantee.derived.limits is None},
    )
    beliefs = Table(
        f"Belief in one of two neighbouring data sets after an output ({document.DERIVED})",
        ["model", "sweep ε", "by", *_BELIEF_COLUMNS],
        [row for guarantee in card.guarantees for row in _belief_rows(guarantee)],
    )
    return [*filter(None, (limits, beliefs))]


def group_tables(card: document.PrivacyCard) -> list[Table]:
    """Return what claims about one rating say of users with several, if there are any."""
    several = [guarantee for guarantee in card.guarantees if guarantee.derived.groups]
    if not several:
        return []
    sizes = [f"{group.ratings} ratings, {group.of}" for group in several[0].derived.groups]
    caption = (
        f"The claim for all ratings of a user together: k ratings have k ε ({document.DERIVED})"
    )
    return [Table(caption, ["model", "ε", *sizes], [*map(_group_row, several)])]


def _group_row(guarantee: document.Guarantee) -> list[str]:
    cells = [guarantee.model, words.epsilon(guarantee.epsilon or 0)]
    for limits in (group.limits for group in guarantee.derived.groups):
        delta = f", δ = {limits.delta:.3g}" if limits.delta else ""
        most = _most(limits.advantage)
        cells.append(f"ε = {limits.epsilon:.4g}{delta}: advantage at most {most}")
    return cells


def _limit_row(guarantee: document.Guarantee) -> list[str]:
    """Return the row of a claim; a claim that is false or in doubt limits nothing."""
    limits = guarantee.derived.limits
    start = [guarantee.model, words.epsilon(guarantee.epsilon or 0), f"{guarantee.delta or 0:g}"]
    if limits is None:
        why = "false" if guarantee.verdict == "false" else "in doubt"
        return [*start, f"void: the claim is {why}"] + [NONE] * (len(_LIMIT_COLUMNS) - 1)
    row = [*start, _most(limits.advantage), *(_most(rate.bound) for rate in limits.success)]
    if len(row) < len(start) + len(_LIMIT_COLUMNS):  # no data were audited
        return [*row, NONE]
    return [*row[:-1], f"{row[-1]} ({limits.success[-1].of})"]


def _belief_rows(guarantee: document.Guarantee) -> Iterator[list[str]]:
    """Yield the rows of a claim at δ = 0 and of a certified ε above 0."""
    start = [guarantee.model, words.epsilon(guarantee.sweep_epsilon)]
    limits, certified = guarantee.derived.limits, guarantee.derived.certified_belief
    if limits and limits.belief:
        yield [*start, "claim: at most", *(_most(rate.bound) for rate in limits.belief)]
    if certified:
        yield [*start, "certified: at least", *(_least(rate.bound) for rate in certified)]


def _most(share: float) -> str:
    return f"{rounding.at_most(round(100 * share, 9), 1)} %"


def _least(share: float) -> str:
    return f"{rounding.at_least(round(100 * share, 9), 1)} %"
