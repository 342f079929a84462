"""The result of a search in words, tables, a picture, Markdown, HTML and CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from typing import Any

from rich.console import Console

from dpaudit.core import rounding
from dpaudit.core.frequency import Spelling, base_of
from dpaudit.core.messages import capitalised, plain
from dpaudit.record.metrics import entry
from dpaudit.reports import chart_parts as parts
from dpaudit.reports import palette, vega
from dpaudit.reports.render import page
from dpaudit.reports.render.markdown import escape, section
from dpaudit.reports.table import NONE, Table
from dpaudit.reports.terminal import say, show_columns
from dpaudit.tuning.result import CandidateRecord, Leak, Price, SettingRecord, Tuning
from dpaudit.tuning.search import MOST_JUDGED, false_go

# What a share counts, by the metric of attacks that find it.
_FOUND = {
    "attack.tpr": "are recognised",
    "attack.advantage": "are recognised beyond false alarms",
    "leak": "are recognised beyond false alarms",
    "attack.auc": "comparisons are right",
}
_FATES = {
    "go": "GO",
    "exceeded": "exceeded",
    "undecided": "undecided",
    "too weak": "attackers too weak",
    "no trainings left": "not judged",
}
_YOURS, _CHOSEN, _OTHERS = "yours", "chosen", "searched"
_SERIES = [
    parts.Series(_CHOSEN, parts.COLORS[0]),
    parts.Series(_YOURS, parts.FALSE),
    parts.Series(_OTHERS, parts.MUTED),
]


def _spelling(leak: Leak, value: float | None = None) -> Spelling:
    """Return how the numbers of a gate are written: what attackers find is counted.

    Args:
        leak: the numbers.
        value: one that has so many digits that it differs from the limit; None for all of them.
    """
    limit = leak.limit
    if leak.metric not in _FOUND:
        return Spelling(None)
    return Spelling(base_of(limit if value is None else value, leak.at or limit, limit))


def amount(leak: Leak, value: float) -> str:
    """Return a number of a gate as people read it: `5 of 100` for a share."""
    return _spelling(leak).value(value)


def _number(leak: Leak, value: float) -> str:
    """Return a number beside others that say of how many it is."""
    return amount(leak, value).partition(" of ")[0]


def _found(leak: Leak, value: float) -> str:
    name = _FOUND.get(leak.metric, "")
    if name:
        return f"{amount(leak, value)} {name}"
    metric = entry(leak.metric)
    return f"{metric.quantity or metric.name} is {amount(leak, value)}"


def _quantity(tuning: Tuning) -> str:
    metric = entry(tuning.utility)
    return metric.quantity or metric.name


def price_words(tuning: Tuning, price: Price) -> str:
    """Return what the chosen setting costs, such as `nDCG 11 % more (3 % less to 27 % more)`."""
    both = f"{rounding.measured(price.chosen)} in place of {rounding.measured(price.unchanged)}"
    said = f"{_quantity(tuning)} {_change(price.ratio)}"
    if price.lower is not None and price.upper is not None:
        said += f" ({_change(price.lower)} to {_change(price.upper)})"
    return f"{said}: {both}"


def _change(ratio: float) -> str:
    percent = round(100 * abs(ratio - 1))
    if ratio >= 2:
        return f"{rounding.measured(ratio, 2)} times as much"
    return f"{percent} % {'more' if ratio >= 1 else 'less'}" if percent else "the same"


def sentences(tuning: Tuning) -> list[str]:
    """Return the outcome: what passes and its price, or what is nearest, and how sure it is."""
    return [*_outcome(tuning), *_sure(tuning)]


def _outcome(tuning: Tuning) -> Iterator[str]:
    unchanged = tuning.settings[0]
    if tuning.chosen is not None:
        chosen, candidate = tuning.settings[tuning.chosen], tuning.candidates[-1]
        found = "every gate passes"
        if leak := candidate.leak or chosen.leak:
            found = _found(leak, leak.mean)
            most = _number(leak, max(leak.values))
            new = "new trainings" if candidate.leak else "trainings of the search"
            found += f" (at most {most} in {len(leak.values)} {new}"
            if tuning.chosen and unchanged.leak and unchanged.leak.rule == leak.rule:
                found += f"; {_number(leak, unchanged.leak.mean)} with yours"
            found += f"; the limit is {_number(leak, leak.limit)})"
        name = f"with {chosen.words}" if tuning.chosen else "with the settings as they are"
        yield f"{capitalised(name)} it is GO: {found}."
        for price in tuning.price if tuning.chosen else ():
            if not price.group:
                yield f"{price_words(tuning, price)}."
        return
    nearest = min(tuning.candidates, key=_beyond)
    setting = tuning.settings[nearest.setting]
    name = "the settings as they are" if not nearest.setting else setting.words
    count = len(tuning.candidates)
    said = f"none of {count} judged settings passes" if tuning.listed else "no setting passes"
    said = "the judged setting does not pass" if tuning.listed and count == 1 else said
    yield f"{capitalised(said)}; nearest: {name}, {_fate(tuning, nearest)}."


def _beyond(candidate: CandidateRecord) -> tuple[bool, float]:
    """Order candidates by how far they are beyond the limit; those that do not exceed first."""
    return candidate.fate in ("exceeded", "no trainings left"), candidate.largest


def _fate(tuning: Tuning, candidate: CandidateRecord) -> str:
    leak = candidate.leak
    if candidate.fate == "exceeded" and leak:
        beyond = (number for number, share in enumerate(leak.relative, 1) if share > 1)
        number = next(beyond, candidate.judged)
        return (
            f"which exceeded in training {number} of {tuning.judged} "
            f"({_beyond_words(leak, leak.values[number - 1])}; gate {leak.rule})"
        )
    if candidate.fate == "too weak":
        return (
            "for which no number of calibrating trainings that was tried lets attackers catch a "
            "planted leak: use more targets or a larger limit"
        )
    if candidate.fate == "no trainings left":
        return f"which was not judged, as {candidate.reason}: allow more than {tuning.trainings}"
    return f"which is {candidate.outcome.upper()}: {candidate.reason}"


def _beyond_words(leak: Leak, value: float) -> str:
    """Return a number beyond its limit, with so many digits that it is seen."""
    spelling = _spelling(leak, max(0.0, value))
    return f"{spelling.value(value)}; the limit is {spelling.limit(leak.limit)}"


def _sure(tuning: Tuning) -> Iterator[str]:
    count = len(tuning.settings)
    searched = f"{count} of {tuning.possible}" if count < (tuning.possible or 0) else f"{count}"
    judged = f"{len(tuning.candidates)} of at most {MOST_JUDGED} judged"
    yield f"{searched} searched, {judged}, with {tuning.used} of {tuning.trainings} trainings."
    each = false_go(MOST_JUDGED, tuning.judged) if tuning.level is None else tuning.level
    share = min(1.0, tuning.attempt * each)
    wrong = "say GO and see the next training exceed" if tuning.level is None else "say GO wrongly"
    most = f"{math.ceil(1000 * share - 1e-9) / 10:g} of 100"
    if tuning.attempt > 1:
        yield (
            f"It is search {tuning.attempt} in this folder on these data: together they {wrong} at "
            f"most {most} times."
        )
    else:
        yield f"At most {most} such searches {wrong}."
    if tuning.again is not None:
        again = round(100 * tuning.again)
        yield (
            f"In about {again} of 100 runs of the tuned config no training exceeds; GO also takes "
            "that attackers catch a planted leak again."
        )


def notes(tuning: Tuning) -> list[str]:
    """Return how the result is to be read."""
    judged = (
        f"A candidate is judged by {tuning.judged} new trainings with coins and seeds of its own, "
        "by the unchanged rule of the gates, and ends at the first that exceeds."
    )
    if tuning.level is not None:
        judged = (
            "A candidate is judged by a run with a seed of its own, whose targets are drawn anew; "
            "the candidates share the error probability of gates by an interval."
        )
    read = "only the gate on utility has read" if tuning.gated else "the search did not read"
    texts = [
        "The search decides nothing: all its trainings may calibrate attackers, and none is "
        f"judged. {judged}",
        "Leaks are compared at equal numbers of trainings: each is attacked with the help of the "
        "setting's others. Settings with one training are ranked by utility alone.",
        f"{_quantity(tuning)} of the settings is that on half of the held-out interactions; its "
        f"price that on the other half, of other users, which {read}. The interval "
        "is about these users and the trainings at hand (jackknife, 95 %).",
    ]
    if tuning.sampler != "listed":
        how = "TPE of Optuna" if tuning.sampler == "TPE" else "random draws"
        texts.append(f"The settings in ranges are found by {how}.")
    if tuning.claim is not None:
        texts.append(
            f"Not covered: the claim ε = {tuning.claim[0]:g} is about one training, and neither "
            "about a setting that was chosen on private data nor about this picture."
        )
        if tuning.covered:
            most = " or ".join(f"{rounding.at_most(e)} ({n})" for n, e in tuning.covered.items())
            texts.append(
                f"A private choice among such models would have ε at most {most}, by the mean "
                "of a secret random number of runs. Its settings are drawn at random, its score is "
                "computed from public data, and the best run's own model is released, nothing else "
                "(arXiv:2110.03620)."
            )
    return texts


def settings_table(tuning: Tuning) -> Table:
    """Return a row for each setting: what leaks, the utility, and what became of it."""
    leak = _common(tuning)
    limit = f" (limit {_number(leak, leak.limit)})" if leak else ", % of its limit"
    fates = {one.setting: _FATES[one.fate] for one in tuning.candidates}
    order = sorted(
        range(len(tuning.settings)),
        key=lambda one: (one != tuning.chosen, -tuning.settings[one].trainings,
                         tuning.settings[one].over if tuning.settings[one].relative else 0.0),
    )  # fmt: skip
    cells = [_row(tuning.settings[one], leak, fates.get(one, NONE)) for one in order]
    return Table(
        "Every setting",
        ["setting", "trainings", f"leak{limit}", _quantity(tuning), "passes by forecast", "judged"],
        cells,
    )


def _common(tuning: Tuning) -> Leak | None:
    """Return a leak if all that are shown have the same limit; else % of their limits are shown."""
    leaks = [*_known(tuning).values()]
    return leaks[0] if len({(leak.metric, leak.at, leak.limit) for leak in leaks}) == 1 else None


def _row(setting: SettingRecord, common: Leak | None, fate: str) -> list[str]:
    leak = NONE
    if setting.leak:
        mean, *ends = _range(setting.leak, common)
        low, high = (_number(common, end) if common else f"{100 * end:.0f}" for end in ends)
        leak = amount(common, mean) if common else f"{100 * mean:.0f}"
        leak += f" ({low} to {high})"
    chance = NONE if setting.chance is None else f"{round(100 * setting.chance)} of 100"
    gain = rounding.measured(setting.gain)
    return [setting.words, str(setting.trainings), leak, gain, chance, fate]


def _range(leak: Leak, common: Leak | None) -> tuple[float, float, float]:
    """Return the mean, the least and the largest leak in the trainings of a setting."""
    values = leak.values if common else leak.relative
    return sum(values) / len(values), min(values), max(values)


def judged_table(tuning: Tuning) -> Table:
    """Return a row for each candidate."""
    cells = [
        [
            str(number),
            tuning.settings[one.setting].words,
            str(one.seen),
            str(one.judged),
            _FATES[one.fate],
            "" if one.fate == "go" else _fate(tuning, one),
        ]
        for number, one in enumerate(tuning.candidates, 1)
    ]
    header = ["", "setting", "calibrating", "judged", "outcome", "why"]
    return Table("Judged, one after the other", header, cells)


def groups_table(tuning: Tuning) -> Table:
    """Return the price by group of users; empty without groups."""
    cells = [
        [one.group, rounding.measured(one.unchanged), rounding.measured(one.chosen),
         _change(one.ratio)]
        for one in tuning.price
        if one.group
    ]  # fmt: skip
    return Table(
        "The price by group of users (nDCG)", ["group", "yours", "chosen", "change"], cells
    )


def _known(tuning: Tuning) -> dict[int, Leak]:
    return {number: one.leak for number, one in enumerate(tuning.settings) if one.leak}


def frontier(tuning: Tuning) -> list[int]:
    """Return the settings with a known leak that none with a smaller one beats, by their leak."""
    sign = 1 if entry(tuning.utility).larger == "better" else -1
    best, front = -math.inf, []
    known = _known(tuning)
    for one in sorted(known, key=lambda one: known[one].over):
        gain = sign * tuning.settings[one].gain
        if gain > best:
            best = gain
            front.append(one)
    return front


def picture(tuning: Tuning) -> parts.Chart | None:
    """Return the chart of leak against utility: a dot for each setting with a known leak."""
    known = _known(tuning)
    if len(known) < 2:
        return None
    common = _common(tuning)
    data = [_datum(tuning, one, leak, common) for one, leak in known.items()]
    limit, what = 1.0, "leak in % of its limit"
    label: str | None = "round(100 * datum.value) + ' %'"
    if common:
        metric, counted = entry(common.metric), common.metric in _FOUND
        limit, what = common.limit, "recognised" if counted else metric.quantity or metric.name
        label = "round(100 * datum.value) + ' of 100'" if counted else None
    ends = [*parts.covered(data, "low", "high", "x"), limit, 0.0]
    x = parts.Axis(f"{what}: less is more private", 0.0, max(ends) * 1.05, label=label)
    y = parts.Axis.around(_quantity(tuning), parts.covered(data, "least", "most"))
    color = parts.color(_SERIES)
    base = parts.drawn_from("points").encode(color=color)
    by_leak = {datum["setting"]: datum for datum in data}
    front = [by_leak[one] for one in frontier(tuning)]
    named = [datum for datum in data if datum["series"] != _OTHERS]
    texts = [
        parts.Label(f"{datum['series']}: {datum['name']}", y.share(datum["y"]), parts.INK,
                    x.share(datum["x"]))
        for datum in named
    ]  # fmt: skip
    texts.append(parts.Label("limit", 1.0, parts.INK, x.share(limit)))
    label_layers, labels = parts.labels(texts)
    layers: list[Any] = [
        parts.drawn_from("limit").mark_rule(color=parts.INK, strokeWidth=2.5).encode(x=x.x()),
        parts.drawn_from("frontier").mark_line(color=parts.MUTED, strokeDash=[4, 3]).encode(
            x=x.x(), y=y.y(), order=vega.Order("x:Q")
        ),
        base.mark_rule(opacity=0.5).encode(x=x.x("low"), x2="high:Q", y=y.y()),
        base.mark_rule(opacity=0.5).encode(x=x.x(), y=y.y("least"), y2="most:Q"),
        base.mark_point(filled=True, size=60, opacity=1).encode(x=x.x(), y=y.y()),
        *label_layers,
    ]  # fmt: skip
    spec = parts.spec(layers, points=data, limit=[{"x": limit}], frontier=front, labels=labels)
    kept = sum(leak.over <= 1 for leak in known.values())
    left = len(tuning.settings) - len(known)
    note = f" {left} more were trained once, and their leak is not known." if left else ""
    return parts.Chart(
        "leak",
        "What leaks, and what it is worth",
        "A dot is a setting, its lines the range over its trainings. Left of the thick line is "
        "within the limit; higher is more useful; the dashed line joins those that none beats.",
        f"{kept} of {len(known)} settings with a known leak are within the limit on average.{note}",
        [parts.Panel("", spec)],
        settings_table(tuning),
    )  # fmt: skip


def _datum(tuning: Tuning, one: int, leak: Leak, common: Leak | None) -> parts.Datum:
    setting = tuning.settings[one]
    mean, low, high = (max(0.0, end) for end in _range(leak, common))
    series = _CHOSEN if one == tuning.chosen else _YOURS if not one else _OTHERS
    return {
        "setting": one,
        "series": series,
        "name": plain(setting.words),
        "x": mean,
        "low": low,
        "high": high,
        "y": setting.gain,
        "least": min(setting.utility),
        "most": max(setting.utility),
    }


def render_html(tuning: Tuning) -> str:
    """Render the result as one HTML file that loads nothing."""
    chart = picture(tuning)
    word = palette.RUN[tuning.outcome]
    return page.render(
        "tune.html.j2",
        charts=[chart] if chart else [],
        package="dpaudit.tuning",
        model=tuning.model,
        word=word,
        sentences=sentences(tuning),
        tables=[groups_table(tuning), judged_table(tuning)],
        settings=settings_table(tuning),
        notes=notes(tuning),
        command=next_command(tuning),
    )


def render_markdown(tuning: Tuning) -> str:
    """Render the result as GitHub Markdown."""
    said = " ".join(sentences(tuning))
    command = next_command(tuning)
    texts = [
        f"# Settings of {escape(tuning.model)}",
        f"**{tuning.outcome.upper()}** {escape(said)}",
        f"```console\n{command}\n```" if command else "",
        *(section(t.caption, [t]) for t in (settings_table(tuning), groups_table(tuning),
                                           judged_table(tuning))),
        "## How to read this\n\n" + "\n".join(f"- {escape(note)}" for note in notes(tuning)),
    ]  # fmt: skip
    return "\n\n".join(filter(None, texts)) + "\n"


def render_csv(tuning: Tuning) -> str:
    """Render the settings as CSV, a row each, with what each training showed."""
    keys = list(dict.fromkeys(key for one in tuning.settings for key in one.values))
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    fixed = ["trainings", "utility", "leak", "limit", "gate", "leak_of_limit", "chance", "fate"]
    rows.writerow(["setting", *keys, *fixed, "utilities", "leaks"])
    fates = {one.setting: one.fate for one in tuning.candidates}
    for number, one in enumerate(tuning.settings):
        leak = one.leak
        known: list[Any] = [None] * 5
        if leak:
            known = [leak.mean, leak.limit, leak.rule, leak.over, one.chance]
        values = [str(one.values[key]) if key in one.values else None for key in keys]
        trainings = [
            " ".join(map(repr, one.utility)),
            " ".join(map(repr, leak.values if leak else ())),
        ]
        cells = [one.trainings, one.gain, *known, fates.get(number)]
        rows.writerow([number, *values, *cells, *trainings])
    return text.getvalue()


def next_command(tuning: Tuning) -> str:
    """Return the command that follows; empty if there is none."""
    return f"dpaudit run {tuning.tuned}" if tuning.tuned else ""


def show(tuning: Tuning, console: Console) -> None:
    """Print the result."""
    said = sentences(tuning)
    say(" ".join(said), console, first=palette.RUN[tuning.outcome], indent=6)
    console.print()
    show_columns(settings_table(tuning).columns(), console, right=("trainings",))
    console.print()
    for price in tuning.price:
        if price.group:
            say(f"{price.group}: {price_words(tuning, price)}.", console)
    for one in tuning.candidates:
        if one.fate != "go":
            words = tuning.settings[one.setting].words
            say(f"Judged: {words}, {_fate(tuning, one)}.", console)
    if tuning.claim is not None:
        for note in notes(tuning)[-2:]:
            say(note, console)
