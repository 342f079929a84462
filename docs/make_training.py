"""Writes docs/training-results.md: what trained models predict, beside what their papers say.

Run it with `DPAUDIT_DATA=… python docs/make_training.py`, which plays every example that is named
here, hours on two cores. `python docs/make_training.py FOLDER` plays nothing: it takes FOLDER/NAME
as `dpaudit run examples/NAME.toml -o FOLDER/NAME` left it, and FOLDER/peers.md from
`docs/make_peers.py`, and says what is missing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpaudit.auditor.result import AuditResult
from dpaudit.bounds.estimate import Estimate
from dpaudit.config import Config
from dpaudit.config_file import load
from dpaudit.files import write_text
from dpaudit.reports import record
from dpaudit.reports.markdown import escape, table_text
from dpaudit.reports.table import NONE, Table
from dpaudit.reports.words import epsilon, interval, listed, measured
from dpaudit.run import run_audit

ROOT = Path(__file__).parents[1]
OUT = "training-results.md"
HEAD = """# Recommenders that are trained: results on MovieLens

Written by `docs/make_training.py`; every number comes from a record of the example that is named,
and so does each *so* and *not so* beside a sentence of a paper. A cell is the root mean squared
error on test ratings, a mean over folds and 16 trainings of each, with Student's interval over
folds, which shows scatter and proves nothing. What a grid chose stands in the record; it is chosen
on ratings that four of five folds test, which flatters the models that have one. Below, an error is
*smaller* where the mean is. Minutes are those of a machine of two cores that did other work beside.
ε is what the noise is scaled to: [the catalogue](claims.md) says which of these claims are true.
"""
PEERS = "## The field's own factorisation, MovieLens-100K\n"


@dataclass(frozen=True)
class Said:
    """A sentence: a model has a smaller error than others in a range of ε.

    Attributes:
        by: who says so.
        words: the sentence, in ours.
        models: the models that it is about.
        others: what they are said to be better than.
        least: from this ε on,
        most: up to this ε.
    """

    by: str
    words: str
    models: tuple[str, ...]
    others: tuple[str, ...]
    least: float = 0.0
    most: float = math.inf


@dataclass(frozen=True)
class Page:
    """What is written of one example.

    Attributes:
        title: its heading.
        said: what the paper says of its figure.
        floors: models without privacy that the others are held against.
        shared: of defenses, the number of ratings of a user that their ε is divided by.
        note: what else is to be known.
    """

    title: str
    said: tuple[Said, ...] = ()
    floors: tuple[str, ...] = ("PCC", "COS")
    shared: Mapping[str, int] | None = None
    note: str = ""


PAPER, CLAIM = "The paper", "At temperature 1, which the claim needs"
BOTH = ("PCC", "COS")
COLD = "the paper's temperatures"
FIGURE_1 = (
    Said(PAPER, "from ε = 20 on DPSGD-MF beats PCC and COS", ("DPSGD-MF",), BOTH, least=20),
    Said(PAPER, "from ε = 1 on DPSGD-PNBM beats PCC and COS", ("DPSGD-PNBM",), BOTH, least=1),
    Said(PAPER, "at small ε DPSGD-PNBM beats DPSGD-MF", ("DPSGD-PNBM",), ("DPSGD-MF",), most=1),
)
FIGURE_2 = (
    Said(
        PAPER,
        "from ε = 0.1 · 200 on both samplers beat PCC and COS",
        (f"DPPS-PNBM, {COLD}", f"DPPS-MF, {COLD}"),
        BOTH,
        least=20,
    ),
    Said(
        CLAIM,
        "the same",
        ("DPPS-PNBM, temperature 1", "DPPS-MF, temperature 1"),
        BOTH,
        least=20,
    ),
    Said(
        PAPER,
        "at small ε DPPS-PNBM beats DPPS-MF",
        (f"DPPS-PNBM, {COLD}",),
        (f"DPPS-MF, {COLD}",),
        most=20,
    ),
)
COLD_NOTE = (
    "A temperature ϱ multiplies the true ε by 1/ϱ, and a chain of so few steps is not at its law: "
    "the ε of these columns are the papers' own, which nothing here certifies."
)
UNTRAINED = ("PCC", "COS", "DPSGD-PNBM, not trained")
FREE = ("MF, no privacy", "the sampler's descent, no privacy")

PAGES = {
    "ml-100k-wt17-figure-1": Page(
        "A rating's value protected, MovieLens-100K (Wang & Tang 2017, Figure 1)",
        FIGURE_1,
        UNTRAINED,
    ),
    "ml-1m-wt17-figure-1": Page(
        "A rating's value protected, MovieLens-1M (Wang & Tang 2017, Figure 1)",
        FIGURE_1,
        UNTRAINED,
    ),
    "ml-100k-wt17-figure-2": Page(
        "Users protected, MovieLens-100K (Wang & Tang 2017, Figure 2)", FIGURE_2, note=COLD_NOTE
    ),
    "ml-1m-wt17-figure-2": Page(
        "Users protected, MovieLens-1M (Wang & Tang 2017, Figure 2)", FIGURE_2, note=COLD_NOTE
    ),
    "ml-100k-wt17-figure-3": Page(
        "The two neighbourhood models at the same ε a rating (Wang & Tang 2017, Figure 3)",
        (
            Said(
                PAPER,
                "at the same ε a rating DPPS-PNBM seems to be more accurate",
                (f"DPPS-PNBM, {COLD}",),
                ("DPSGD-PNBM",),
            ),
            Said(
                CLAIM,
                "the same",
                ("DPPS-PNBM, temperature 1",),
                ("DPSGD-PNBM",),
            ),
            Said(
                PAPER,
                "with ε ≈ 1 both are quite accurate, better than PCC and COS",
                ("DPSGD-PNBM", f"DPPS-PNBM, {COLD}"),
                BOTH,
                least=1,
                most=1,
            ),
        ),
        shared={"dpps-pnbm": 200},
        note="The samplers' ε, a user's, is divided by τ = 200. " + COLD_NOTE,
    ),
    "ml-1m-lws15": Page(
        "Users protected, factorisation on MovieLens-1M (Liu, Wang & Smola 2015)",
        floors=FREE,
        note="The paper reads from its Netflix and Yahoo curves that “a modest decrease in "
        "accuracy affords a useful gain in privacy”; neither data set is to be had. "
        "With B = 1250 a user with m ratings has ε_u = ε · min(1, m/50).",
    ),
    "ml-100k-nonprivate": Page(
        "Without privacy, on the published divisions of MovieLens-100K",
        (
            Said(
                PAPER,
                "the learned neighbourhood model beats other neighbourhood models",
                ("PNBM",),
                BOTH,
            ),
            Said(
                PAPER,
                "where nothing is private, factorisation is the more accurate",
                ("MF",),
                (*BOTH, "PNBM"),
            ),
        ),
    ),
}


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
        parts.append("Not here yet: `docs/make_peers.py` makes it.\n")
    write_text(ROOT / "docs" / OUT, "\n".join(parts))


def found(name: str, folder: Path | None) -> AuditResult | None:
    """The record of an example, played if no folder of records is given; None if it lacks it."""
    if folder is None:
        return run_audit(load(ROOT / "examples" / f"{name}.toml"), threads=2)
    here = folder / name
    if not (here / record.NAME).is_file():
        return None
    result, config = record.load(here), load(ROOT / "examples" / f"{name}.toml")
    played = Config.model_validate(result.config)
    same = (played.seed, played.model, played.training) == (
        config.seed,
        config.model,
        config.training,
    )
    if not same:
        print(f"{here} was played from another config than examples/{name}.toml")
    return result if same else None


def written(name: str, page: Page, result: AuditResult | None) -> str:
    """The section of one example."""
    lines = [f"## {page.title}\n"]
    if result is None or result.data is None:
        lines.append(f"Not here yet: `dpaudit run examples/{name}.toml` plays it.\n")
        return "\n".join(lines)
    lines.append(
        f"`dpaudit run examples/{name}.toml`, data {result.data.digest[:12]}, "
        f"{result.timing.seconds / 60:.0f} min.\n"
    )
    curves = curves_of(result, page.shared or {})
    lines += [table_text(table(curves)) + "\n", *([page.note + "\n"] if page.note else [])]
    lines += [f"- {escape(line)}" for line in facts(page, curves)]
    lines += [f"- {judged(said, curves)}" for said in page.said]
    return "\n".join(lines) + "\n"


Curve = dict[float, Estimate]


def curves_of(result: AuditResult, shared: Mapping[str, int]) -> dict[str, Curve]:
    """The error of each model by ε, that of some defenses divided."""
    by = {model.label: shared.get(model.defense, 1) for model in result.models}
    curves: dict[str, Curve] = {label: {} for label in by}
    for each in result.measurements:
        if each.metric == "utility.rmse":
            curves[each.model][each.epsilon / by[each.model]] = each.estimate
    return curves


def table(curves: Mapping[str, Curve]) -> Table:
    """ε down, models across; models without privacy stand at ∞."""
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
    """For each private model from which ε on it is better than those without privacy."""
    floors = {floor: level for floor in page.floors if (level := flat(curves, floor)) is not None}
    lines = []
    for label, curve in curves.items():
        if math.inf in curve:
            continue
        parts = []
        for floor, level in floors.items():
            first = first_below(curve, level)
            found = "at no ε" if first is None else f"from ε = {epsilon(first)} on"
            parts.append(f"{found} a smaller error than {floor} ({measured(level, 4)})")
        best, worst = curve[max(curve)], curve[min(curve)]
        parts.append(
            f"{measured(worst.value, 4)} at the least ε, {measured(best.value, 4)} at the largest"
        )
        lines.append(f"{label}: {'; '.join(parts)}")
    return lines


def flat(curves: Mapping[str, Curve], label: str) -> float | None:
    """The error of a model without privacy."""
    estimate = curves.get(label, {}).get(math.inf)
    return None if estimate is None else estimate.value


def first_below(curve: Mapping[float, Estimate], level: float) -> float | None:
    """The least ε from which on, at every larger one too, the error is below a level."""
    first = None
    for at in sorted(curve, reverse=True):
        if not curve[at].value < level:
            break
        first = at
    return first


def judged(said: Said, curves: Mapping[str, Curve]) -> str:
    """A sentence of the paper, with whether the record agrees, and where it does not."""
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
    """ε with the errors of both models there; one without privacy is the same at every ε."""
    constant = others.get(math.inf)
    return [
        (at, estimate.value, other.value)
        for at, estimate in mine.items()
        if said.least <= at <= said.most and (other := constant or others.get(at))
    ]


if __name__ == "__main__":
    main()
