"""Measure how often bounds are wrong and how tight they are.

The page is docs/results/statistics-tables.md. Run it with `python docs/scripts/make_statistics.py`;
`--audits 100` gives a quick look, and `--part default-seed` writes that part of the page alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor

from default_seed import CASES
from default_seed import false_claims as false_at_default
from pages import ROOT, page, write

# scenarios makes soundness_cases, which stands beside its test, importable.
from scenarios import ALPHA, ROWS, SCENARIOS, SEED, known_threshold_bound, rng_of, tightness
from scipy.special import betainccinv, betaincinv
from soundness_cases import MECHANISMS, METHODS

from dpaudit.reports.render.markdown import row

# Trials a class where false claims are counted.
TRIALS = 200
# Trials a class, and the share of --audits that a median rests on.
SIZES = {1_000: 1 / 20, 10_000: 1 / 40, 100_000: 1 / 130}
KINDS = ("frequentist", "assumes-gdp", "assumes-law")
PUBLIC = {
    "CP_bonferroni": ("Clopper-Pearson, Bonferroni over thresholds", "frequentist"),
    "CP_split": ("Clopper-Pearson, held-out threshold", "frequentist"),
    "one_run_steinke_bonferroni(m=2n)": ("one run (ε, δ), Bonferroni", "frequentist"),
    "GDP_bonferroni_head": ("Gaussian DP, Bonferroni over thresholds", "assumes-gdp"),
    "one_run_fdp_bonferroni(m=2n)": ("one run f-DP, Bonferroni", "assumes-gdp"),
}


def false_claims(method: int, mechanism: int, audits: int) -> int | None:
    """Count the audits that certify more than the truth; None where the method does not apply."""
    how, what = METHODS[method], MECHANISMS[mechanism]
    if not how.applies(what):
        return None
    rng = rng_of(how.name, what.name)
    return sum(what.false(how.audit(what, rng, TRIALS)) for _ in range(audits))


def rate_cell(count: int | None, audits: int, cells: int) -> str:
    """The rate with its upper 95 % limit in percent, bold where it exceeds 5 % significantly."""
    if count is None:
        return "–"
    upper = float(betainccinv(count + 1, audits - count, ALPHA)) if count < audits else 1.0
    lower = float(betaincinv(count, audits - count + 1, ALPHA / cells)) if count else 0.0
    text = f"{100 * count / audits:.1f} (≤ {100 * upper:.1f})"
    return f"**{text}**" if lower > ALPHA else text


def table(head: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """A Markdown table of some columns of words, the others of numbers."""
    lines = [head, ["---"] * words + ["---:"] * (len(head) - words), *rows]
    return "\n".join(map(row, lines)) + "\n"


def share(value: float | None) -> str:
    """A share of the truth."""
    return "–" if value is None else f"{value:.3f}"


def false_claims_text(audits: int, pool: ProcessPoolExecutor) -> str:
    """The tables of false claims, one a kind."""
    cells = [(i, j, audits) for i in range(len(METHODS)) for j in range(len(MECHANISMS))]
    counts = dict(
        zip(
            [cell[:2] for cell in cells],
            pool.map(false_claims, *zip(*cells, strict=True)),
            strict=True,
        )
    )
    outcome = sum(count is not None for count in counts.values())
    parts = [
        f"## False claims\n\nShare of {audits} audits, in percent, whose bound at level 5 % lies "
        f"above the true ε; in brackets its upper 95 % limit. {TRIALS} trials a class, or "
        f"{2 * TRIALS} coin flips. **Bold**: above 5 %, the {outcome} cells together at 95 %. "
        "–: the method does not apply (no δ > 0, or no known law).\n"
    ]
    for kind in KINDS:
        chosen = [i for i, how in enumerate(METHODS) if how.kind == kind]
        rows = [
            [
                f"{what.name} (ε = {what.epsilon:.3g})",
                *(rate_cell(counts[i, j], audits, outcome) for i in chosen),
            ]
            for j, what in enumerate(MECHANISMS)
        ]
        parts += [f"### {kind}\n", table(["mechanism", *(METHODS[i].name for i in chosen)], rows)]
    return "\n".join(parts)


def default_seed_text(pool: ProcessPoolExecutor) -> str:
    """The table of audits that draw their own seeds."""
    counts = list(pool.map(false_at_default, range(len(CASES))))
    rows = [
        [
            f"{case.name} (ε = {case.epsilon:.3g})",
            str(case.audits),
            rate_cell(count, case.audits, len(CASES)),
        ]
        for case, count in zip(CASES, counts, strict=True)
    ]
    head = """## False claims at the default seed

As above, of audits that are given no seed and draw one from the operating system's entropy, so that
a repetition differs by chance. 1000 calls (400 where scores read their batch or are learned) of
mechanisms that ignore their data, but keep a state between calls, share something among the outputs
of a call, or are scored by the batch: `tests/support/null_mechanisms.py`. And 400 calls (300 where
each has a process of its own) of mechanisms whose calls share noise or a state, of which one answer
alone has the stated ε: `tests/support/sharing_mechanisms.py`.
"""
    return head + "\n" + table(["audit", "audits", "false, %"], rows)


def tightness_text(audits: int, pool: ProcessPoolExecutor) -> str:
    """The tables of tightness, one a number of trials."""
    parts = [
        "## Tightness\n\nMedian certified ε over the true ε, 1 being the most that is true. "
        "Gaussian noise at δ = 1e-5, Laplace noise at δ = 0; the score is the log-likelihood "
        "ratio. n trials a class, 2n canaries for one run, n trials on D' for the likelihood form. "
        "The first row is what counting could do if threshold and split of α were known in "
        "advance. Public tools: the best found, the same scores; they were not measured on Laplace "
        "noise.\n"
    ]
    oracle = json.loads((ROOT / "tests/oracles/epsilon_bounds.json").read_text("utf-8"))
    for n, part in SIZES.items():
        runs = max(5, round(audits * part)) | 1
        known = list(pool.map(known_threshold_bound, SCENARIOS, [n] * len(SCENARIOS)))
        ideal = [best / s.mechanism.epsilon for s, best in zip(SCENARIOS, known, strict=True)]
        cells = [(i, s, n, runs) for i in range(len(ROWS)) for s in SCENARIOS]
        found = list(pool.map(tightness, *zip(*cells, strict=True)))
        name = "threshold known in advance, Clopper-Pearson with the best split"
        rows = [[name, "frequentist", *map(share, ideal)]]
        for i, how in enumerate(ROWS):
            shares = found[i * len(SCENARIOS) : (i + 1) * len(SCENARIOS)]
            rows.append([how.name, how.kind, *map(share, shares)])
        if n == oracle["tightness"][0]["n_per_class"]:
            for key, (tool, kind) in PUBLIC.items():
                shares = [one["median"][key] / one["true_eps"] for one in oracle["tightness"]]
                name = f"public tools, best found: {tool}"
                rows.append([name, kind, *map(share, shares), *["–"] * 3])
        names = [f"{s.name} (ε = {s.mechanism.epsilon:.3g})" for s in SCENARIOS]
        parts += [
            f"### n = {n}, medians of {runs} audits\n",
            table(["method", "kind", *names], rows, 2),
        ]
    return "\n".join(parts)


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audits", type=int, default=2000, help="audits of a cell of false claims")
    parser.add_argument("--processes", type=int, choices=(1, 2), default=2)
    parser.add_argument("--part", choices=("all", "default-seed"), default="all")
    args = parser.parse_args()
    if args.part == "default-seed":
        made = (ROOT / "docs" / "results" / "statistics-tables.md").read_text("utf-8")
        before, _, rest = made.partition("## False claims at the default seed")
        before, rest = (before, rest) if rest else before.split("## Tightness", 1)
        after = rest.rpartition("## Tightness")[2]
        with ProcessPoolExecutor(args.processes) as pool:
            text = default_seed_text(pool)
        write("statistics-tables", f"{before.rstrip()}\n\n{text}\n## Tightness{after}")
        return
    command = f"docs/scripts/make_statistics.py --audits {args.audits}"
    head = (
        f"Seed {SEED} and a cell's name make its stream. What the kinds mean and which bound to "
        "use: [statistics](../methods/statistics.md).\n"
    )
    with ProcessPoolExecutor(args.processes) as pool:
        parts = [
            head,
            false_claims_text(args.audits, pool),
            default_seed_text(pool),
            tightness_text(args.audits, pool),
        ]
    title = "How often bounds are wrong, and how tight they are"
    write("statistics-tables", page(title, command, "\n".join(parts)))


if __name__ == "__main__":
    main()
