"""The tables of a report, the same in Markdown and in HTML."""

from __future__ import annotations

from dpaudit.core import rounding
from dpaudit.record.metrics import entry
from dpaudit.record.result import AuditResult, DataRecord
from dpaudit.reports import columns, digest, palette, words
from dpaudit.reports.sections import footnotes, screen
from dpaudit.reports.sections.base import sections_of
from dpaudit.reports.table import NONE, Table


def results(result: AuditResult) -> list[Table]:
    """Return the tables of the record's kind, then those of sections that it does not show."""
    return [*sections_of(result).tables(), *others(result)]


def others(result: AuditResult) -> list[Table]:
    """Return a table for each section of the metrics that the record's kind does not show.

    They are of metrics that other packages add, or of another kind of audit.
    """
    shown = sections_of(result).shown
    sections = dict.fromkeys(entry(number.metric).section for number in result.measurements)
    tables = (columns.of_section(result, name) for name in sections if name not in shown)
    return [*filter(None, tables)]


def gates(result: AuditResult) -> Table:
    """Return the gates with their outcomes."""
    cells = [
        [palette.GATE[gate.outcome].shown, gate.rule, digest.why(gate, result)]
        for gate in result.gates
    ]
    return Table("Gates", ["outcome", "gate", "why"], cells)


def models(result: AuditResult) -> Table:
    """Return the audited models."""
    cells = [
        [
            model.label,
            f"{model.defense}: {model.title}",
            model.variant,
            words.settings(model.params, but=["variant"]),
            model.source,
        ]
        for model in result.models
    ]
    return Table("Models", ["model", "defense", "variant", "parameters", "source"], cells)


def attacks(result: AuditResult) -> Table:
    """Return the attacks and Sybil attacks that were run."""
    tried = [*result.attacks.items(), *result.sybil_attacks.items()]  # they may share a label
    named = ("name", "title", "source")
    cells = [
        [
            label,
            f"{attack.get('name', NONE)}: {attack.get('title', NONE)}",
            words.settings(attack, but=named),
            str(attack.get("source", NONE)),
        ]
        for label, attack in tried
    ]
    return Table("Attacks", ["attack", "method", "parameters", "source"], cells)


def claims(result: AuditResult) -> Table:
    """Return all claims; claims of one model that differ only in ε share a row."""
    grouped: dict[tuple[str, ...], list[float]] = {}
    for point in result.points:
        if point.claim:
            claim = point.claim
            key = (
                point.model, claim.adjacency, ", ".join((claim.observer, *claim.also)),
                f"{claim.delta:g}", "; ".join(claim.assumes) or NONE, claim.source,
            )  # fmt: skip
            grouped.setdefault(key, []).append(claim.epsilon)
    cells = [
        [model, words.listed(sorted(epsilons)), *rest]
        for (model, *rest), epsilons in grouped.items()
    ]
    header = ["model", "claimed ε", "adjacency", "observer sees", "δ", "assumes", "source"]
    return Table("Claims", header, cells)


def pairs(result: AuditResult) -> Table:
    """Return the pairs of neighbouring data sets of the games."""
    cells = [[pair.model, pair.pair, pair.summary] for pair in result.pairs]
    return Table("Pairs of neighbouring data sets", ["model", "pair", "what differs"], cells)


def games(result: AuditResult) -> Table:
    """Return the event that certifies each lower bound on ε."""
    games = columns.within(result, "games")
    header = ["model", "ε", "pair", "attack", "certified ε", "point estimate (not certified)"]
    caption = "Games: the event whose probabilities certify ε"
    shifted = any(game.shift is not None for game in games)
    if shifted:
        caption += ", and the shift of the noiseless prediction between the two data sets"
    cells = [
        [
            game.model,
            words.epsilon(game.epsilon),
            game.pair or NONE,
            game.attack or NONE,
            f"≥ {rounding.at_least(game.estimate.lower)}",
            rounding.measured(game.estimate.value),
            *([words.number(game.shift)] if shifted else []),
            game.event or NONE,
        ]
        for game in games
    ]
    return Table(caption, [*header, *(["shift"] if shifted else []), "event"], cells)


def audited(result: AuditResult) -> list[Table]:
    """Return what was audited: models and claims."""
    return [*filter(None, (models(result), claims(result)))]


def tried(result: AuditResult) -> list[Table]:
    """Return what was tried: attacks, pairs and games, and how each interval was made."""
    tables = filter(None, (attacks(result), pairs(result), games(result)))
    return [*tables, footnotes.interval_table(result)]


def provenance(result: AuditResult) -> Table:
    """Return what is needed to reproduce the numbers."""
    cells = [
        ["dpaudit", result.tool],
        *([key, value] for key, value in result.environment.items()),
        ["seed", str(result.config.get("seed", NONE))],
        *(_data(result, result.data) if result.data else ()),
        ["started", result.timing.started],
        ["took", f"{result.timing.seconds:.1f} s"],
    ]
    return Table("How to reproduce", ["what", "value"], cells)


def _data(result: AuditResult, data: DataRecord) -> list[list[str]]:
    low, high, step = data.scale
    rows = [
        ["data, SHA-256", data.digest],
        ["data", f"{data.ratings} ratings by {data.users} users of {data.items} items"],
        ["scale", f"{low:g} to {high:g} in steps of {step:g}"],
        [*sections_of(result).attacked(data)],
    ]
    if data.links is not None:
        rows.append(["friends", f"{data.links} links from a user to a friend"])
    if data.sensitive is not None:
        rows.append(["sensitive", f"{data.sensitive} of the {data.ratings} ratings"])
    if data.repairs:
        rows.append(["dropped, merged or in doubt", screen.repairs(result)])
    return rows
