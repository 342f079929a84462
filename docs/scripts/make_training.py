"""Write docs/results/training.md: errors of trained models, beside what their papers say.

Run it with `DPAUDIT_DATA=… python docs/scripts/make_training.py`, which runs every example named
here and takes hours on two cores. `python docs/scripts/make_training.py FOLDER` runs nothing: it
reads FOLDER/NAME as `dpaudit run examples/NAME.toml -o FOLDER/NAME` wrote it, and FOLDER/peers.md
from `docs/scripts/make_peers.py`, and says what is missing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

# It stands beside this file.
from training_pages import PAGES, Page, Said

from dpaudit.auditor.run import run_audit
from dpaudit.config.load import load
from dpaudit.config.schema import Config
from dpaudit.core.estimate import Estimate
from dpaudit.core.files import write_text
from dpaudit.execution.workers import Workers
from dpaudit.record import storage as record
from dpaudit.record.result import AuditResult
from dpaudit.reports.render.markdown import escape, table_text
from dpaudit.reports.table import NONE, Table
from dpaudit.reports.words import epsilon, interval, listed, measured

ROOT = Path(__file__).parents[2]
OUT = ROOT / "docs" / "results" / "training.md"
HEAD = """# Recommenders that are trained: results on MovieLens

Written by `docs/scripts/make_training.py`; every number comes from a record of the named example,
and so does each *so* and *not so* beside a sentence of a paper. No copy at hand has the papers'
figures: the quoted text is all that is known of their curves. A cell is the root mean squared error
on test ratings, a mean over folds and trainings of each, with Student's interval over folds, which
shows scatter and proves nothing. Below, an error is *smaller* if its mean is. Minutes are those of
a machine of two cores that did other work at the same time. ε is what the noise is scaled to: [the
catalogue](../claims/index.md) says which of these claims are true.
"""
PEERS = "## The field's own factorisation, MovieLens-100K\n"


def main() -> None:
    """Write the page."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    parts = [HEAD]
    for name, page in PAGES.items():
        result = found(name, folder)
        if result is None:
            print(f"missing: {name}")
        parts.append(written(name, page, result))
    parts.append(PEERS)
    peers = folder / "peers.md" if folder else None
    if peers and peers.is_file():
        parts.append(peers.read_text(encoding="utf-8"))
    else:
        print("missing: peers.md")
        parts.append("Not here yet: `docs/scripts/make_peers.py` makes it.\n")
    write_text(OUT, "\n".join(parts))


def found(name: str, folder: Path | None) -> AuditResult | None:
    """Return the record of an example, run if no folder is given; None if the folder lacks it."""
    if folder is None:
        return run_audit(load(ROOT / "examples" / f"{name}.toml"), workers=Workers(2))
    here = folder / name
    if not (here / record.NAME).is_file():
        return None
    result, config = record.load(here), load(ROOT / "examples" / f"{name}.toml")
    outcome = Config.model_validate(result.config)
    same = (outcome.seed, outcome.model, outcome.training) == (
        config.seed,
        config.model,
        config.training,
    )
    if not same:
        print(f"{here} was run from another config than examples/{name}.toml")
    return result if same else None


def written(name: str, page: Page, result: AuditResult | None) -> str:
    """The section of one example."""
    lines = [f"## {page.title}\n"]
    if result is None or result.data is None:
        lines.append(f"Not here yet: `dpaudit run examples/{name}.toml` runs it.\n")
        return "\n".join(lines)
    lines.append(
        f"`dpaudit run examples/{name}.toml`, data {result.data.digest[:12]}, "
        f"{result.timing.seconds / 60:.0f} min.\n"
    )
    curves = curves_of(result, page.shared or {})
    lines.append(f"{page.quoted} Why ours may differ: {page.differs}\n")
    lines += [table_text(table(curves)) + "\n", *([page.note + "\n"] if page.note else [])]
    lines.append(f"- {escape(tuning(Config.model_validate(result.config)))}")
    lines += [f"- {escape(line)}" for line in facts(page, curves)]
    lines += [f"- {judged(said, curves)}" for said in page.said]
    return "\n".join(lines) + "\n"


def tuning(config: Config) -> str:
    """Say how many settings each grid has, and how often each model was trained."""
    offered: dict[int, list[str]] = {}
    for model in config.model:
        if model.grid:
            count = math.prod(len(values) for values in model.grid.values())
            offered.setdefault(count, []).append(model.label)
    train = config.training
    folds = len(train.files) or train.folds
    outcome = (
        f"{folds} folds"
        if train.evaluate_folds in {None, folds}
        else f"{train.evaluate_folds} of {folds} folds"
    )
    said = [
        f"Tuned with {count} settings at each ε: {'; '.join(of)}" for count, of in offered.items()
    ]
    said.append(
        "Chosen on a tenth of the first fold's training ratings, which no fold tests"
        if offered
        else "Nothing is tuned: all settings stand in the example"
    )
    return f"{'. '.join(said)}. {outcome}, {train.trials} trainings of each, seed {config.seed}"


Curve = dict[float, Estimate]


def curves_of(result: AuditResult, shared: Mapping[str, int]) -> dict[str, Curve]:
    """Return the error of each model by ε; the ε of some defenses is divided."""
    by = {model.label: shared.get(model.defense, 1) for model in result.models}
    curves: dict[str, Curve] = {label: {} for label in by}
    for each in result.measurements:
        if each.metric == "utility.rmse":
            curves[each.model][each.epsilon / by[each.model]] = each.estimate
    return curves


def table(curves: Mapping[str, Curve]) -> Table:
    """Table with a row for each ε and a column for each model; no privacy is ε = ∞."""
    rows = sorted({at for curve in curves.values() for at in curve})
    return Table(
        caption="",
        header=["ε", *curves],
        cells=[
            [
                epsilon(at),
                *(interval(curve[at], 4) if at in curve else NONE for curve in curves.values()),
            ]
            for at in rows
        ],
    )


def facts(page: Page, curves: Mapping[str, Curve]) -> list[str]:
    """Name the best baseline and, for each private model, the ε from which it beats each one."""
    floors = {floor: level for floor in page.floors if (level := flat(curves, floor)) is not None}
    lines = []
    if floors:
        best = min(floors, key=lambda floor: floors[floor])
        lines.append(f"Of the baselines {best} is the best: {measured(floors[best], 4)}")
    for label, curve in curves.items():
        if math.inf in curve:
            continue
        beaten: dict[float | None, list[str]] = {}
        for floor, level in floors.items():
            beaten.setdefault(first_below(curve, level), []).append(floor)
        least, most = (measured(curve[at].value, 4) for at in (min(curve), max(curve)))
        parts = [f"{least} at the least ε, {most} at the largest"]
        for first, of in sorted(beaten.items(), key=lambda each: each[0] or math.inf):
            where = "at no ε" if first is None else f"from ε = {epsilon(first)} on"
            parts.append(f"{where} a smaller error than {' / '.join(of)}")
        lines.append(f"{label}: {'; '.join(parts)}")
    return lines


def flat(curves: Mapping[str, Curve], label: str) -> float | None:
    """The error of a model without privacy."""
    estimate = curves.get(label, {}).get(math.inf)
    return None if estimate is None else estimate.value


def first_below(curve: Mapping[float, Estimate], level: float) -> float | None:
    """Return the least ε at which, and at every larger ε, the error is below a level."""
    first = None
    for at in sorted(curve, reverse=True):
        if not curve[at].value < level:
            break
        first = at
    return first


def judged(said: Said, curves: Mapping[str, Curve]) -> str:
    """Judge a sentence of the paper by the record, and say where the two disagree."""
    against, looked = [], set[float]()
    for model in said.models:
        for other in said.others:
            points = compared(curves[model], curves[other], said)
            looked |= {at for at, _, _ in points}
            worse = sorted(at for at, mine, its in points if not mine < its)
            if worse:
                against.append(f"{model} does not beat {other} at ε = {listed(worse)}")
    where = f"at ε = {listed(sorted(looked))}" if looked else "no ε is shared"
    if not looked:
        verdict = f"not tested ({where})"
    elif against:
        verdict = f"**not so**: {escape('; '.join(against))}"
    else:
        verdict = f"**so**, {where}"
    return f"{said.by}: {escape(said.words)}. Here {verdict}."


def compared(mine: Curve, others: Curve, said: Said) -> Sequence[tuple[float, float, float]]:
    """List each ε with the errors of both models; a model without privacy has the same at all."""
    constant = others.get(math.inf)
    return [
        (at, estimate.value, other.value)
        for at, estimate in mine.items()
        if said.least <= at <= said.most and (other := constant or others.get(at))
    ]


if __name__ == "__main__":
    main()
