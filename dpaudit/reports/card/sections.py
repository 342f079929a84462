"""The sections of a privacy card, as facts and tables.

The headings follow NIST SP 800-226 (privacy parameters and variant, unit of privacy, algorithms,
utility and bias, trust models, mechanism implementation, data security, data collection exposure)
and the public registry of deployments of differential privacy (docs/guides/card.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dpaudit.core import rounding
from dpaudit.reports import words
from dpaudit.reports.card import risk
from dpaudit.reports.card.document import NOT_STATED, Data, Guarantee, Measured, PrivacyCard
from dpaudit.reports.table import NONE, Table


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
        return self.stated and self.text == NOT_STATED


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


def header(card: PrivacyCard) -> list[Fact]:
    """Return whose card it is and which audit is behind it."""
    return [
        *_stated(card, "system", "owner", "version", "contact", "intended_use"),
        Fact("Audit", f"dpaudit {card.audit.tool}, {card.audit.started}"),
    ]


def sections(card: PrivacyCard) -> list[Section]:
    """Return the sections in the order in which the card shows them."""
    return [
        Section("Privacy parameters and variant", tables=[_parameters(card)]),
        Section(
            "Unit of privacy",
            _stated(card, "privacy_unit"),
            [table for table in (_claims(card), risk.groups(card)) if table],
        ),
        _risk(card),
        Section("What is not protected", _stated(card, "unprotected"), _public(card)),
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
        Section("Attacks tried", tables=_attacks(card)),
        Section("Limits", notes=card.limits),
    ]


def _risk(card: PrivacyCard) -> Section:
    """Return what the guarantees mean for an attacker."""
    tables = risk.tables(card)
    return Section(
        "What it means for an attacker",
        [] if tables else [Fact("Limits", "none: no model has a claim")],
        tables,
        risk.NOTES if tables else (),
    )


def _stated(card: PrivacyCard, *names: str) -> list[Fact]:
    return [
        Fact(name.replace("_", " ").capitalize(), _joined(card.stated[name]), stated=True)
        for name in names
    ]


def _joined(stated: str | list[str]) -> str:
    return stated if isinstance(stated, str) else "; ".join(stated)


def _parameters(card: PrivacyCard) -> Table:
    cells = [
        [
            each.model,
            words.epsilon(each.epsilon) if each.epsilon else "none",
            each.verdict + (f": {each.reason}" if each.reason else ""),
            NONE if each.certified is None else f"≥ {rounding.at_least(each.certified)}",
            _power(each),
            NONE if each.delta is None else f"{each.delta:g}",
            each.dp_variant,
            f"{each.defense}, {each.mechanism}",
        ]
        for each in card.guarantees
    ]
    sure = words.percent(card.audit.confidence)
    return Table(
        f"Claims and verdicts, with {sure} simultaneous confidence",
        ["model", "ε", "claim is", "certified ε", "power", "δ", "DP variant", "mechanism"],
        cells,
        {(row, 2) for row, each in enumerate(card.guarantees) if each.verdict == "broken"},
    )


def _power(found: Guarantee) -> str:
    """Return the least multiple of the claim that was found; a broken claim needs none."""
    if found.power:
        return f"{found.power:.3g}×"
    return NONE if found.verdict == "broken" or found.epsilon is None else "none"


def _claims(card: PrivacyCard) -> Table | None:
    rows = dict.fromkeys(
        (
            each.model,
            each.unit,
            each.adjacency,
            "; ".join(each.observers),
            "; ".join(each.assumes) or NONE,
            each.source,
        )
        for each in card.guarantees
        if each.epsilon
    )
    header = ["model", "one unit", "neighbours", "covers those who see", "assumes", "source"]
    return Table("What a claim is about", header, _cells(rows)) if rows else None


def _public(card: PrivacyCard) -> list[Table]:
    rows = dict.fromkeys((each.model, each.unprotected) for each in card.guarantees)
    return [Table("Treated as public", ["model", "not protected by the claim"], _cells(rows))]


def _cells(rows: Iterable[tuple[str, ...]]) -> list[list[str]]:
    return [list(row) for row in rows]


def _data(data: Data | None) -> list[Fact]:
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


def _models(card: PrivacyCard) -> Table:
    cells = [
        [each.model, each.defense, each.source, each.parameters or NONE, each.tuned or NONE]
        for each in card.mechanisms
    ]
    header = ["model", "mechanism", "source", "parameters", "chosen by grid search on these data"]
    return Table("Audited models", header, cells)


def _utility(card: PrivacyCard) -> Section:
    if not card.utility:
        return Section("Utility and bias", [Fact("Utility", "not measured")])
    groups = {each.group for each in card.utility}
    facts = [] if groups != {"all"} else [Fact("By group", "not measured")]
    metrics = list(dict.fromkeys(each.metric for each in card.utility))
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for each in card.utility:
        key = (each.model, words.epsilon(each.sweep_epsilon), each.of or NONE, each.group)
        rows.setdefault(key, {})[each.metric] = _number(each)
    cells = [[*key, *(row.get(name, NONE) for name in metrics)] for key, row in rows.items()]
    table = Table("Utility", ["model", "sweep ε", "of", "group", *metrics], cells)
    return Section("Utility and bias", facts, [table])


def _attacks(card: PrivacyCard) -> list[Table]:
    tried = [[each.label, each.name, each.source] for each in card.attacks]
    results = [
        [
            each.model,
            words.epsilon(each.sweep_epsilon),
            each.metric,
            each.of or NONE,
            each.group,
            _number(each),
            each.power or NONE,
        ]
        for each in card.measured
    ]
    header = ["model", "sweep ε", "metric", "of", "group", "measured", "power"]
    return [
        Table("Attacks", ["attack", "method", "source"], tried or [["none", NONE, NONE]]),
        *([Table("Results of attacks", header, results)] if results else []),
    ]


def _number(found: Measured) -> str:
    if found.metric == "epsilon":
        return f"≥ {rounding.at_least(found.lower)}"
    low, high = rounding.at_least(found.lower), rounding.at_most(found.upper)
    return f"{rounding.measured(found.value)} [{low}, {high}]"
