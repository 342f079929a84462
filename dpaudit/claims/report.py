"""Reports of a verification of the catalogue: tables, a chart, Markdown, HTML and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dpaudit.claims.record import Entry, GameRecord, PublishedClaim, Verification, verdict_text
from dpaudit.core import rounding
from dpaudit.record.result import Outcome
from dpaudit.reports import chart_parts as parts
from dpaudit.reports import vega, words
from dpaudit.reports.render import page
from dpaudit.reports.render.markdown import escape, section, table_text
from dpaudit.reports.table import NONE, Table

_STATUS = {"as recorded": "as recorded", "differs": "DIFFERS", "too few trials": "too few trials"}
_NEITHER = "none: not a statement about neighbours"
_EARLY = (
    "Falsified after so many outputs: bets on these first outputs refuted the claim, with a "
    "p-value that holds however often one looks. The game ended there, so nothing is certified but "
    "that the pair's ε is above the claim."
)
_WIDTH, _ROW = 520, 32  # of the plot, and from one row to the next, in pixels
# The least multiple of a claim that is drawn; smaller ones are drawn there.
_LEAST = 0.1
_VERDICTS = [
    parts.Series("falsified", parts.FALSE),
    parts.Series("not falsified", parts.COLORS[0]),
    parts.Series("holds", parts.COLORS[1]),
    parts.Series("no power", parts.COLORS[3]),
    parts.Series("inconclusive", parts.REST),
]
_COLUMNS = {
    "entry": "claim",
    "game": "game",
    "claim": "claimed ε",
    "bound": "certified ε",
    "truth": "ε by the law",
    "series": "verdict",
}


def render_json(verification: Verification) -> str:
    """Render the record as JSON."""
    return verification.model_dump_json(indent=1) + "\n"


def render_markdown(verification: Verification) -> str:
    """Render the verification as GitHub Markdown."""
    parts = [
        "# Published guarantees and their verdicts",
        f"**{outcome(verification).upper()}** {escape(headline(verification))}",
        "\n".join(f"- {escape(text)}" for text in findings(verification)),
        *(section(table.caption, [table]) for table in tables(verification)),
        "## How to read this\n\n"
        + "\n".join(f"- {escape(note)}" for note in footnotes(verification)),
        "## Each claim",
    ]
    for entry in verification.entries:
        parts += [f"### {entry.id}", "\n".join(f"- {k}: {escape(v)}" for k, v in about(entry))]
        if entry.games:
            parts.append(table_text(details(entry)))
    parts.append(section("How to reproduce", [provenance(verification)]))
    return "\n\n".join(parts) + "\n"


def render_html(verification: Verification) -> str:
    """Render the verification as one HTML file that loads nothing."""
    return page.render(
        "claims.html.j2",
        package="dpaudit.claims",
        charts=charts(verification),
        outcome=outcome(verification),
        headline=headline(verification),
        findings=findings(verification),
        tables=tables(verification),
        footnotes=footnotes(verification),
        entries=[(entry, about(entry), details(entry)) for entry in verification.entries],
        provenance=provenance(verification),
    )


def headline(verification: Verification) -> str:
    """Return the number of statements with each verdict, as a sentence."""
    counts = Counter(verdict_text(entry.verdict, entry.basis) for entry in verification.entries)
    verdicts = ", ".join(
        f"{count} {'hold' if verdict == 'holds' and count > 1 else verdict}"
        for verdict, count in counts.most_common()
    )
    statements = "statement" if len(verification.entries) == 1 else "statements"
    return f"{len(verification.entries)} published {statements}: {verdicts}."


def outcome(verification: Verification) -> Outcome:
    """Return `pass` if all verdicts are as recorded, `fail` if one differs, else `inconclusive`.

    Entries without experiments decide nothing: if there are no others, it is `inconclusive`.
    """
    states = {entry.status for entry in verification.entries if entry.games}
    if "differs" in states:
        return "fail"
    return "pass" if states == {"as recorded"} else "inconclusive"


def findings(verification: Verification) -> list[str]:
    """Return the disagreements with the catalogue as sentences, or that there are none."""
    odd = [entry for entry in verification.entries if entry.status != "as recorded"]
    untested = sum(not entry.games for entry in verification.entries)
    notes = [f"Not tested: {untested} that hold by algebra alone."] if untested else []
    if not odd and untested < len(verification.entries):
        notes.insert(0, "Every verdict is as recorded in the catalogue.")
    return notes + [
        f"{entry.id}: {_STATUS[game.status]}: {game.role} {game.label} is {game.verdict}, the "
        f"catalogue has {entry.recorded if game.role != 'corrected' else 'not falsified'}"
        for entry in odd
        for game in entry.games
        if game.status != "as recorded"
    ]


def footnotes(verification: Verification) -> list[str]:
    """Return the notes that explain the tables."""
    share = words.percent(verification.confidence)
    early = any(game.early for entry in verification.entries for game in entry.games)
    return [
        f"The verdicts on all {verification.size} games hold together with {share} confidence "
        "(Holm), and so do all certified bounds (Bonferroni).",
        "Certified ε: a lower bound on the ε of the pair of data sets, from trials of the "
        "mechanism alone. ε by the law: the same pair's ε, computed and not measured; no verdict "
        "rests on it.",
        *([_EARLY] if early else []),
        "A false statement of algebra is tried on instances. An instance on which it fails is "
        "certain, or, if the statement is about probabilities, wrong with a probability below "
        "1e-9.",
        "Not tested: the statement holds by algebra, and nothing of it is run here. The named test "
        "of dpaudit's source tree tries its derivation on instances.",
        "Falsified as stated: the paper's own words are false. On a reading: our reading of the "
        "paper is false, where the text is silent or allows another. Formulas that are false by a "
        "misprint, where the paper's own proof or text has the right one, are no entries.",
        "Holds: derived, and no game or instance contradicts it. Unprovable as stated: no proof "
        "is possible without a condition that the paper does not state; its check shows that the "
        "condition can fail.",
        "Finds: the measured power of a game. If a game certifies no more than the claim, it is "
        "run again, with the same data sets and number of trials, on mutants: copies of the "
        "mechanism with the noise of 1.25, 1.5, 2 or 4 times its ε, starting with the first that a "
        "forecast expects to be found. The factor is the least for which more than the claim is "
        "certified. No power: no mutant was found, and the entry rests on its other games or on "
        "its derivation. Not falsified is not a proof of privacy.",
    ]


def statement(entry: PublishedClaim | Entry) -> list[tuple[str, str]]:
    """Return a published statement as named texts: claim, source, neighbours and observer."""
    parts = [
        ("Claim", entry.sentence),
        ("Reading", entry.reading),
        ("Source", entry.source),
        ("Neighbours", words.meaning(entry.adjacency) if entry.adjacency else _NEITHER),
        ("Observer", words.meaning(entry.observer) if entry.observer else _NEITHER),
    ]
    return [(name, text) for name, text in parts if text]


def about(entry: Entry) -> list[tuple[str, str]]:
    """Return an entry as named texts: its statement, its verdict and the reason."""
    verdict = verdict_text(entry.verdict, entry.basis)
    parts = [*statement(entry), ("Verdict", verdict), ("Why", entry.because)]
    if not entry.games:
        parts += [("Recorded", entry.recorded), ("Held by", entry.held_by)]
    return parts


def details(entry: Entry) -> Table:
    """Return a table of the experiments of one entry."""
    return Table(
        caption=entry.id,
        header=["", "mechanism", "data sets", "witness"],
        cells=[
            [
                f"{game.role}: {game.label}",
                game.mechanism or NONE,
                f"{game.pair}. {game.weak}" if game.weak else game.pair or NONE,
                game.event,
            ]
            for game in entry.games
        ],
    )


def provenance(verification: Verification) -> Table:
    """Return what is needed to reproduce the numbers."""
    rows = {
        "dpaudit": verification.tool,
        **verification.environment,
        "seed": str(verification.seed),
        "stop": verification.stop,
        "started": verification.timing.started,
        "seconds": f"{verification.timing.seconds:g}",
    }
    return Table("How to reproduce", ["", ""], [[key, value] for key, value in rows.items()])


def tables(verification: Verification) -> list[Table]:
    """Return the table of the games and the table of the statements of algebra."""
    outcome = [entry for entry in verification.entries if any(game.trials for game in entry.games)]
    tried = [entry for entry in verification.entries if entry not in outcome]
    return [*filter(None, (_games(outcome), _algebra(tried)))]


def _games(entries: Sequence[Entry]) -> Table:
    cells: list[list[str]] = []
    marked: set[tuple[int, int]] = set()
    for entry in entries:
        for i, game in enumerate(entry.games):
            if game.verdict == "falsified":
                marked |= {(len(cells), 3), (len(cells), 5)}
            cells.append(_game_row(entry.id if i == 0 else "", entry, game))
    header = ["claim", "mechanism", "claimed ε", "certified ε", "ε by the law", "verdict", "finds"]
    return Table("Guarantees", [*header, "trials", "seconds"], cells, marked)


def _game_row(name: str, entry: Entry, game: GameRecord) -> list[str]:
    return [
        name,
        f"{game.role}: {game.label}",
        words.epsilon(game.claimed) if game.claimed is not None else NONE,
        _certified(game),
        f"{game.truth.value:.4g}".replace("inf", "∞") if game.truth else NONE,
        _verdict(entry, game),
        _power(game),
        f"2 × {_whole(game.trials)}" if game.trials else NONE,
        f"{game.seconds:.1f}",
    ]


def _whole(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def _certified(game: GameRecord) -> str:
    if game.early and game.claimed is not None:
        return f"> {words.epsilon(game.claimed)}"
    return f"≥ {rounding.at_least(game.certified.lower)}" if game.certified else NONE


def _power(game: GameRecord) -> str:
    control = game.control
    if game.claimed is None or game.verdict == "falsified":
        return NONE
    if control is None:
        return "none"
    return f"{control.factor:.3g}×" if control.found else f"none up to {control.factor:.3g}×"


def _algebra(entries: Sequence[Entry]) -> Table:
    cells: list[list[str]] = []
    marked: set[tuple[int, int]] = set()
    for entry in entries:
        if not entry.games:
            recorded = verdict_text(entry.recorded, entry.basis)
            cells.append([entry.id, NONE, f"not tested; recorded: {recorded}", entry.held_by])
        for i, game in enumerate(entry.games):
            if game.verdict == "falsified":
                marked.add((len(cells), 2))
            verdict = _verdict(entry, game)
            cells.append([entry.id if i == 0 else "", game.label, verdict, game.event or NONE])
    return Table("Statements of algebra", ["claim", "tried", "verdict", "witness"], cells, marked)


def _verdict(entry: Entry, game: GameRecord) -> str:
    """Return a game's verdict; for a falsified published form, with the basis of the verdict."""
    verdict = game.verdict if game.role == "corrected" else verdict_text(game.verdict, entry.basis)
    if game.early:
        verdict += f" after {_whole(2 * game.trials)} outputs"
    return verdict if game.status == "as recorded" else f"{verdict}: {game.status}"


def charts(verification: Verification) -> list[parts.Chart]:
    """Return the chart, if any game was run: one row for each claim, one dot for each game."""
    data = [
        _datum(entry.id, game)
        for entry in verification.entries
        for game in entry.games
        if game.certified and game.claimed
    ]
    if not data:
        return []
    most = 2 * max(datum["certified"] for datum in data)
    for datum in data:
        datum["law"] = min(datum["law"], most) if datum["law"] is not None else None
    entries = list(dict.fromkeys(datum["entry"] for datum in data))
    x = parts.Axis("multiple of the claimed ε", _LEAST / 1.1, most * 1.1, log=True)
    verdicts = [series for series in _VERDICTS if any(series.name == d["series"] for d in data)]
    color = parts.color(verdicts)
    color.legend = vega.Legend(symbolOpacity=1)
    base = parts.drawn_from("points").encode(
        y=vega.Y("entry:N", sort=entries, title=None, axis=None), color=color
    )
    names = parts.drawn_from("entries").mark_text(align="left", dx=4, dy=-9, color=parts.INK)
    layers = [
        parts.drawn_from("claimed")
        .mark_rule(strokeDash=[4, 3], color=parts.MUTED)
        .encode(x=x.x("certified")),
        base.mark_rule(yOffset=5, opacity=0.4)
        .transform_filter("isValid(datum.law)")
        .encode(x=x.x("certified"), x2="law:Q"),
        base.mark_point(shape="diamond", size=60, strokeWidth=1.5, yOffset=5)
        .transform_filter("isValid(datum.law)")
        .encode(x=x.x("law")),
        base.mark_point(filled=True, size=70, yOffset=5).encode(x=x.x("certified")),
        names.encode(
            y=vega.Y("entry:N", sort=entries, title=None, axis=None),
            x=vega.XValue(0),
            text=vega.Text("entry:N"),
        ),
    ]
    spec = parts.spec(
        layers,
        (_WIDTH, _ROW * len(entries)),
        points=data,
        claimed=[{"certified": 1.0}],
        entries=[{"entry": entry} for entry in entries],
    )
    caption = (
        "One row for each claim, one dot for each of its games: the certified lower bound on ε "
        "over the claimed ε. Diamonds: the pair's ε by the mechanism's law over the claimed ε, at "
        "the right edge if it is infinite or far beyond what these trials can certify. Right of "
        "the dashed line the claim is false. Values below a tenth of the claimed ε are drawn at a "
        "tenth."
    )
    title = "Certified ε as a multiple of the claimed ε"
    early = sum(game.early for entry in verification.entries for game in entry.games)
    if early:
        caption += f" Games that ended early have no bound and no dot: {early}."
    above = sum(datum["certified"] > 1 for datum in data)
    summary = f"{above} of {len(data)} bounds are above the claimed ε."
    table = parts.numbers(_COLUMNS, data)
    return [parts.Chart("claims", title, caption, summary, [parts.Panel("", spec)], table)]


def _datum(entry: str, game: GameRecord) -> parts.Datum:
    claimed = game.claimed or 1.0
    bound = game.certified.lower if game.certified else 0.0
    law = None if game.truth is None else max(game.truth.value / claimed, _LEAST)
    return {
        "entry": entry,
        "game": f"{game.role}: {game.label}",
        "claim": f"{claimed:g}",
        "bound": f"≥ {rounding.at_least(bound)}",
        "truth": "not known" if game.truth is None else rounding.measured(game.truth.value),
        "certified": max(bound / claimed, _LEAST),
        "law": law,
        "series": game.verdict,
    }
