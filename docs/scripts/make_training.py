"""Write docs/results/training.md: errors of trained models, beside what their papers say.

Run it with `DPAUDIT_DATA=… python docs/scripts/make_training.py FOLDER`, after
`python -m pip install '.[bench]'`. It runs each example named here that FOLDER does not hold, as
FOLDER/NAME, and trains the peers (`make_peers.py`) unless FOLDER has peers.md. The judgement of a
paper's sentences is in `training_verdicts.py`, the texts are in `training_pages.py`.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

# They stand beside this file.
from pages import DATA_SETS, ROOT, audited, example, page, write
from training_pages import HARMLESS, PAGES, TYPICAL, Page
from training_verdicts import OPEN, Curve, Edge, edges_of, judged

from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.core.files import write_text
from dpaudit.record.result import AuditResult
from dpaudit.reports.render.markdown import escape, table_text
from dpaudit.reports.table import NONE, Table
from dpaudit.reports.words import epsilon, interval, listed, measured, number

HEAD = """Every number and every verdict comes from a record of
the named example. No copy at hand has the papers' figures: the quoted sentences are all that is
known of their curves. A cell is the root mean squared error on test ratings, a mean over folds and
trainings of each, with Student's interval over folds, which shows scatter and proves nothing. ε is
what the noise is scaled to: [the catalogue](../claims/index.md) says which of these claims are
true. Minutes are by the clock, on two cores that other work shared.

**Verdicts.** All that is quoted of a paper stands below a table with its verdict, from that table
alone. An error is smaller if its mean is, by 0.001 at least, a limit of ours; else a comparison is
**undecided**. † marks a model whose settings were chosen at an
end of a grid of ours: past that end its error may be smaller, so a comparison that it loses is
undecided. ‡ marks an end of the paper's own grid, which the paper does not pass either. Ends
that no setting can pass have no mark, nor have those past which nothing changes, which are named.
A sentence is **so** if all its comparisons are, and **not so** if one of them fails for each model
and with each COS; in between it is **undecided**. “Much”, “quickly”, “accurate” and “modest” have
no number in the papers; ours is 5 % of the error, where training without privacy gains 3 % to 7 %.
At 2 % or 10 % some of their verdicts are undecided, and none is the contrary.
All tuned models of a figure choose among equally many settings at each ε; what a grid leaves out
and its example fixes was chosen by hand before.
"""
PEERS = "## The field's own factorisation, MovieLens-100K\n"


def main(folder: Path) -> None:
    """Write the page."""
    record = cache(lambda name: audited(example(name), folder / name))
    figures = [written(figure, record(figure.example)) for figure in PAGES]
    text = "\n".join([HEAD, *figures, PEERS, peers(folder / "peers.md")])
    title = "Recommenders that are trained: results on MovieLens"
    needs = f"{DATA_SETS} and `python3 -m pip install '.[bench]'`"
    write("training", page(title, "docs/scripts/make_training.py FOLDER", text, needs))


def peers(place: Path) -> str:
    """Return the table of peers that a file holds, after training them if there is none."""
    if not place.is_file():
        write_text(place, importlib.import_module("make_peers").written())  # needs an extra
    return place.read_text(encoding="utf-8")


def settings_digest(name: str) -> str:
    """Return a digest of an example without its comments: the page shows which one it is from."""
    parsed = tomllib.loads((ROOT / "examples" / f"{name}.toml").read_text(encoding="utf-8"))
    return hashlib.sha256(json.dumps(parsed, sort_keys=True).encode()).hexdigest()[:12]


def written(page: Page, result: AuditResult) -> str:
    """The section of one figure."""
    data = f"data {result.data.digest[:12]}, " if result.data else ""
    lines = [
        f"## {page.title}\n",
        f"`dpaudit run examples/{page.example}.toml`, settings {settings_digest(page.example)}, "
        f"{data}{duration(result.timing.seconds)}.\n",
    ]
    curves, edges = curves_of(page, result), edges_of(page, result)
    lines += [f"**Ours.** {page.ours}\n"]
    lines += [table_text(table(curves, edges)) + "\n", *([page.note + "\n"] if page.note else [])]
    users = users_of(result) if page.users else {}
    lines += [table_text(users_table(users)) + "\n"] if users else []
    lines += [f"- {escape(line)}" for line in facts(page, result, curves, edges)]
    lines += [f"- Left out of the paper's grid: {page.left_out}"] if page.left_out else []
    lines += [f"- {judged(said, curves, edges)}" for said in page.said]
    lines += [f"- {typical(users)}"] if users else []
    return "\n".join(lines) + "\n"


def duration(seconds: float) -> str:
    """Return a time in minutes, a short one in seconds."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


# By model and ε, by metric: the quantiles over users, by name.
Users = Mapping[tuple[str, float], Mapping[str, Mapping[str, float]]]


def users_of(result: AuditResult) -> Users:
    """Return the ε of single users and their losses in draws."""
    found: dict[tuple[str, float], dict[str, dict[str, float]]] = {}
    for each in result.measurements:
        if each.metric.startswith("personal."):
            point = found.setdefault((each.model, each.epsilon), {})
            point.setdefault(each.metric, {})[each.part or ""] = each.estimate.value
    return found


def users_table(users: Users) -> Table:
    """Table of the quantiles over users, with a row for each model and ε."""
    return Table(
        caption="",
        header=["", "ε", "ε of a user: median / 90 % / largest", "loss of a user, in draws"],
        cells=[
            [label, epsilon(at), *(" / ".join(map(number, of.values())) for of in point.values())]
            for (label, at), point in users.items()
        ],
    )


def typical(users: Users) -> str:
    """Judge whether a typical user's loss is much smaller than ε."""
    verdicts: dict[str, dict[str, list[float]]] = {}
    for (label, at), point in users.items():
        verdict = "not so" if point["personal.loss"]["median"] > at / 10 else "so"
        verdicts.setdefault(escape(label), {}).setdefault(verdict, []).append(at)
    whole = {verdict for of in verdicts.values() for verdict in of}
    verdict = whole.pop() if len(whole) == 1 else "undecided"
    parts = [
        f"{label}: {', '.join(f'**{so}** at ε = {listed(at)}' for so, at in of.items())}"
        for label, of in verdicts.items()
    ]
    return (
        f"“{TYPICAL}”: **{verdict}**. Its number is lost; here, the median is at most a tenth of "
        f"ε, a limit of ours. {'. '.join(parts)}. This describes draws, and [what is proven]"
        "(../claims/lws15.md#budgets-of-users) needs more."
    )


def facts(
    page: Page, result: AuditResult, curves: Mapping[str, Curve], edges: Sequence[Edge]
) -> Iterator[str]:
    """Say how the models were tuned, at which ends of grids, and what a claim assumes in vain."""
    config = TrainedConfig.model_validate(result.config)
    yield tuning(config)
    shown = [edge for edge in edges if edge.model in curves]
    for words, of in (
        (f"{OPEN} At an end of its grid", [edge for edge in shown if edge.mark == OPEN]),
        ("At an end without harm", [e for e in shown if e.why in HARMLESS.values()]),
    ):
        if of:
            yield f"{words}: {'; '.join(ends(of))}"
    yield from short(result, curves)
    floors = {floor: curves[floor][math.inf].value for floor in page.floors if floor in curves}
    if floors:
        best = min(floors, key=lambda floor: floors[floor])
        yield f"Of the models without privacy {best} is the best: {measured(floors[best], 4)}"


def tuning(config: TrainedConfig) -> str:
    """Say how many settings each grid has, and how often each model was trained."""
    counts = {
        model.label: math.prod(len(values) for values in model.grid.values())
        for model in config.model
        if model.grid
    }
    train = config.training
    folds = len(train.files) or train.folds
    run = folds if train.evaluate_folds is None else train.evaluate_folds
    outcome = f"{folds} folds" if run == folds else f"{run} of {folds} folds"
    said = "Nothing is tuned: all settings stand in the example"
    if counts:
        said = (
            f"Each tuned model has {' or '.join(map(str, sorted(set(counts.values()))))} settings "
            "at each ε, chosen on a tenth of the first fold's training ratings, which no fold tests"
        )
    return f"{said}. {outcome}, {train.trials} trainings of each, seed {config.seed}"


def ends(edges: Sequence[Edge]) -> Iterator[str]:
    """Say which settings of each model were chosen at which ends, and at which ε."""
    models: dict[str, dict[str, list[float]]] = {}
    for edge in edges:
        words = f"{edge.name} = {edge.value:g}{f' ({edge.why})' if edge.why else ''}"
        models.setdefault(edge.model, {}).setdefault(words, []).append(edge.at)
    for model, settings in models.items():
        parts = [f"{words} at ε = {listed(sorted(at))}" for words, at in settings.items()]
        yield f"{model}: {', '.join(parts)}"


def short(result: AuditResult, curves: Mapping[str, Curve]) -> Iterator[str]:
    """Say how many denominators are below C, of which the claim of Algorithm 1 assumes none."""
    shares: dict[str, dict[float, str]] = {}
    for each in result.measurements:
        if each.metric == "assumption.denominator" and each.model in curves:
            points = shares.setdefault(each.model, {})
            share = f"{100 * each.estimate.value:.2g} %"
            first = points.get(each.epsilon)
            points[each.epsilon] = share if first is None else f"{first} ({share})"
    models = [
        f"{label}: {', '.join(f'{of} at ε = {epsilon(at)}' for at, of in sorted(points.items()))}"
        for label, points in shares.items()
    ]
    if models:
        yield (
            "Denominators below C in the first step (and in the last), of which the claim assumes "
            f"none: {'; '.join(models)}"
        )


def curves_of(page: Page, result: AuditResult) -> dict[str, Curve]:
    """Return the error of each model of a page by ε; the ε of some defenses is divided."""
    by = {
        model.label: page.shared.get(model.defense, 1)
        for model in result.models
        if not page.models or model.label in page.models
    }
    curves: dict[str, Curve] = {label: {} for label in by}
    for each in result.measurements:
        if each.metric == "utility.rmse" and each.model in by:
            curves[each.model][each.epsilon / by[each.model]] = each.estimate
    return curves


def table(curves: Mapping[str, Curve], edges: Sequence[Edge]) -> Table:
    """Table with a row for each ε and a column for each model; no privacy is ε = ∞."""
    rows = sorted({at for curve in curves.values() for at in curve})
    marks = {(edge.model, edge.at): f" {edge.mark}" for edge in edges if edge.mark}

    def cell(label: str, at: float) -> str:
        if at not in curves[label]:
            return NONE
        return interval(curves[label][at], 4) + marks.get((label, at), "")

    return Table(
        caption="",
        header=["ε", *curves],
        cells=[[epsilon(at), *(cell(label, at) for label in curves)] for at in rows],
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
