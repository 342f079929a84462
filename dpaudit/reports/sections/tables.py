"""The tables of a report, the same in Markdown and in HTML."""

from __future__ import annotations

from collections.abc import Iterator

from dpaudit.core import rounding
from dpaudit.record.metric import MODELS
from dpaudit.record.metrics import SECTIONS, entry
from dpaudit.record.result import AuditResult, DataRecord, Measurement, ModelRecord
from dpaudit.reports import columns, words
from dpaudit.reports.digest import MORE, Row, noised, rows
from dpaudit.reports.sections import chains, membership, recovery, sybil, transcripts
from dpaudit.reports.table import NONE, Table

_POWER = (
    "Power: the least factor by which a copy has to break the claim for the game to find it, as in "
    "“finds 2×”. “none up to 4×”: it missed the copies that were tried, up to that factor; “none”: "
    "no copy could be tried, or none found with so few trials; “–”: not needed, as the game breaks "
    "the claim, or there is no claim that it tests."
)


def results(result: AuditResult) -> list[Table]:
    """Return one table for each model with a row for each ε, then the tables of special topics."""
    if membership.audited(result):
        return [*membership.tables(result), *added(result)]
    by_model = rows(result)
    tables = [_model_table(model, by_model[model.label]) for model in result.models]
    tables += chains.tables(by_model) + recovery.tables(result) + transcripts.tables(result)
    rest = [sybil.table(result), transcripts.games(result)]
    return [*tables, *(table for table in rest if table), *added(result)]


def added(result: AuditResult) -> list[Table]:
    """Return a table for each section that metrics of other packages name."""
    named = dict.fromkeys(entry(each.metric).section for each in result.measurements)
    sections = [name for name in named if name not in SECTIONS]
    return [table for name in sections if (table := columns.of_section(result, name))]


def swept(here: list[Row]) -> list[list[Measurement]]:
    """Return what stands in the rows of a model's own table, but for its games."""
    return [[m for m in row.measurements if entry(m.metric).section == MODELS] for row in here]


def _model_table(model: ModelRecord, here: list[Row]) -> Table:
    shown = list(_columns(model, here))
    marked = {
        (index, column)
        for index, row in enumerate(here)
        for column, (name, _) in enumerate(shown)
        if any(name == _certified(pair) for pair in row.exceeding)
    }
    return Table(
        caption=f"{model.label}: {model.defense}, {model.variant}. {claim_words(here)}",
        header=[name for name, _ in shown],
        cells=[list(cells) for cells in zip(*(cells for _, cells in shown), strict=True)],
        marked=marked,
        note=_POWER if any(name.startswith("power (") for name, _ in shown) else "",
    )


def _columns(model: ModelRecord, here: list[Row]) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and cells of the columns of a model's table that are not empty."""
    points = [row.point for row in here]
    yield "ε", [words.epsilon(point.epsilon) for point in points]
    yield (
        "claimed ε",
        [words.epsilon(point.claim.epsilon) if point.claim else "none" for point in points],
    )
    if any(point.chosen for point in points):
        yield "chosen", [words.settings(point.chosen) for point in points]
    if any(point.sensitivity is not None for point in points):
        yield "Δf", [words.number(point.sensitivity) for point in points]
    for pair in here[0].games if here else ():
        yield _certified(pair), [certified(row, pair) for row in here]
        found = [row.games[pair] for row in here]
        if any(game.theory for game in found):
            law = "noise" if any(noised(game) for game in found) else "list"
            yield f"ε by the {law}'s law ({pair})", [theory(game) for game in found]
        yield f"power ({pair})", [row.power(pair) or NONE for row in here]
    yield from ((each.name, each.cells) for each in columns.columns(swept(here), model.top_k))


def _certified(pair: str) -> str:
    return f"certified ε ({pair})"


def certified(row: Row, pair: str) -> str:
    """Return the certified lower bound on ε, with a remark if it breaks the claim."""
    bound = f"≥ {rounding.at_least(row.games[pair].estimate.lower)}"
    return f"{bound} ({MORE})" if row.exceeds(pair) else bound


def theory(found: Measurement) -> str:
    """Return the ε of the pair by the law, as its upper bound if the number is not exact."""
    return NONE if found.theory is None else rounding.measured(found.theory.upper)


def claim_words(here: list[Row]) -> str:
    """Return what a model's claims hold for, without their ε."""
    claims = dict.fromkeys(
        words.claim(row.point.claim) if row.point.claim else "none" for row in here
    )
    return f"Claim: {'; '.join(claims)}."


def gates(result: AuditResult) -> Table | None:
    """Return the gates with their outcomes."""
    if not result.gates:
        return None
    cells = [[gate.outcome.upper(), gate.rule, gate.reason] for gate in result.gates]
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


def attacks(result: AuditResult) -> Table | None:
    """Return the attacks and Sybil attacks that were run."""
    tried = [*result.attacks.items(), *result.sybil_attacks.items()]  # they may share a label
    if not tried:
        return None
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


def claims(result: AuditResult) -> Table | None:
    """Return all claims; claims of one model that differ only in ε share a row."""
    grouped: dict[tuple[str, ...], list[float]] = {}
    for point in result.points:
        if point.claim:
            said = point.claim
            key = (
                point.model, said.adjacency, ", ".join((said.observer, *said.also)),
                f"{said.delta:g}",
                "; ".join(said.assumes) or NONE, said.source,
            )  # fmt: skip
            grouped.setdefault(key, []).append(said.epsilon)
    if not grouped:
        return None
    cells = [
        [model, words.listed(sorted(found)), *rest] for (model, *rest), found in grouped.items()
    ]
    header = ["model", "claimed ε", "adjacency", "observer sees", "δ", "assumes", "source"]
    return Table("Claims", header, cells)


def pairs(result: AuditResult) -> Table | None:
    """Return the pairs of neighbouring data sets of the games."""
    if not result.pairs:
        return None
    cells = [[pair.model, pair.pair, pair.summary] for pair in result.pairs]
    return Table("Pairs of neighbouring data sets", ["model", "pair", "what differs"], cells)


def games(result: AuditResult) -> Table | None:
    """Return the event that certifies each lower bound on ε."""
    found = columns.within(result, "games")
    if not found:
        return None
    parts = {
        "model": [game.model for game in found],
        "ε": [words.epsilon(game.epsilon) for game in found],
        "pair": [game.pair or NONE for game in found],
        "attack": [game.attack or NONE for game in found],
        "certified ε": [f"≥ {rounding.at_least(game.estimate.lower)}" for game in found],
        "point estimate (not certified)": [
            rounding.measured(game.estimate.value) for game in found
        ],
    }
    caption = "Games: the event whose probabilities certify ε"
    if any(game.shift is not None for game in found):
        caption += ", and the shift of the noiseless prediction between the two data sets"
        parts["shift"] = [words.number(game.shift) for game in found]
    parts["event"] = [game.event or NONE for game in found]
    cells = [list(cells) for cells in zip(*parts.values(), strict=True)]
    return Table(caption, list(parts), cells)


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
    ]
    if membership.audited(result):
        rows.append(["targets", membership.targets(result)])
    else:
        attacked = f"{data.attacked} {'is' if data.attacked == 1 else 'are'} attacked"
        rows.append(["users", f"{data.trained} train the models, {attacked}"])
    if data.links is not None:
        rows.append(["friends", f"{data.links} links from a user to a friend"])
    if data.sensitive is not None:
        rows.append(["sensitive", f"{data.sensitive} of the {data.ratings} ratings"])
    if data.repairs:
        found = (f"{what}: {count}" for what, count in data.repairs.items())
        rows.append(["dropped or changed", "; ".join(found)])
    return rows
