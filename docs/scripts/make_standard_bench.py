"""Audit the field's standard mechanisms by their outputs alone.

The page is docs/results/standard-bench.md. Run it with `OMP_NUM_THREADS=1 python
docs/scripts/make_standard_bench.py`. With names of mechanisms it audits these alone and writes
nothing. The exit code is 1 if a wrong mechanism was not found, or a right one was.
"""

from __future__ import annotations

import math
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

# It stands beside this file.
from pages import ROOT, page, write

from dpaudit.attacks.black_box.prospects import prospect
from dpaudit.audits.mechanism.audit import BlackBoxAudit, audit_pairs, input_pairs
from dpaudit.reports.render.markdown import row

sys.path.insert(0, str(ROOT / "tests" / "support" / "standard_bench"))

from dp_sniper import CONFIDENCE, FINAL, PUBLISHED, Pair
from standard_laws import log_ratio
from standard_records import MECHANISMS, Mechanism

ERROR, SEED = 1e-4, 1
TRIALS = int(os.environ.get("TRIALS", "4400000"))
SEARCH = int(os.environ.get("SEARCH", "200000"))
PROCESSES = int(os.environ.get("PROCESSES", "2"))
BLOCK, DRAWN = min(50_000, TRIALS), min(1_000_000, TRIALS)
HEADER = (
    *("mechanism", "claimed ε", "true ε", "DP-Sniper", "their pair", "limit", "our pair", "claim"),
    *("certifying", "seconds"),
)
COMMAND = "docs/scripts/make_standard_bench.py"
HEAD = f"""Every mechanism is audited from its outputs alone,
with {TRIALS:,} of them; 400,000 train a score and the others certify an event. DP-Sniper's figures
are those of its authors' reference results, from {2 * FINAL:,} final outputs, on the pair of inputs
that it found best; *their pair* is dpaudit's on the same. *Our pair* is found by a search among
patterns of inputs ({SEARCH:,} outputs a pair at first). The *limit* is what the exact log-ratio of
the two laws, as the score, certifies on their pair with as many certifying outputs. All three are
bounds with {CONFIDENCE:.0%} confidence each, as DP-Sniper's are.

A claim is called false where our pair's event certifies more with the error {ERROR:g} for all
mechanisms together. The truths are derived beside the mechanisms in `tests/standard_bench`; ∞ means
that no ε holds. They are those of real numbers, so outputs are rounded to multiples of 2^-20: in
floating point, low bits show what noise was added to.

"""


@dataclass(frozen=True)
class Line:
    """What the audits of one mechanism found, and whether that is right."""

    text: str
    right: bool


def audited(mechanism: Mechanism) -> Line:
    """Audit one mechanism, on DP-Sniper's pair and on the most informative of ours."""
    clock = time.perf_counter()
    published, theirs = PUBLISHED.get(mechanism.name, (None, None))
    pairs = input_pairs(mechanism.neighbours, mechanism.length)
    found = _audit(mechanism, pairs)
    false = found.epsilon.lower > mechanism.claimed_epsilon
    same = limit = None
    if theirs is not None:
        same = _at(_audit(mechanism, [theirs]))
        limit = _limit(mechanism, theirs, found.epsilon.n)
    seconds = time.perf_counter() - clock
    cells = [
        mechanism.name,
        f"{mechanism.claimed_epsilon:.3f}",
        "∞" if math.isinf(mechanism.truth) else f"{mechanism.truth:.3g}",
        _shown(published),
        _shown(same),
        _shown(limit),
        _shown(_at(found)),
        "**false**" if false else "not refuted",
        f"{found.epsilon.n:,}",
        f"{seconds:.0f}",
    ]
    return Line(row(cells), false != mechanism.correct)


def _audit(mechanism: Mechanism, pairs: list[Pair]) -> BlackBoxAudit:
    return audit_pairs(
        mechanism.rounded,
        pairs,
        confidence=1 - ERROR / len(MECHANISMS),
        trials=TRIALS,
        search=SEARCH,
        batched=True,
        seed=SEED,
    )


def _at(found: BlackBoxAudit) -> float:
    """Return the bound of the same event with DP-Sniper's confidence; no label chose the event."""
    return found.event.epsilon(0.0, (1 - CONFIDENCE) * 0.98)


def _limit(mechanism: Mechanism, pair: Pair, count: int) -> float:
    """Forecast the bound of the exact log-ratio with so many outputs, by its best event.

    That event has the largest Clopper-Pearson limit, if its share of right guesses is that among
    `DRAWN` draws of either law, minus one standard error (its quantile of 16 %).
    """
    ratio = log_ratio(mechanism.name, *pair)
    scores = [
        ratio(mechanism.run(data, np.random.default_rng([SEED, trial, i]), BLOCK))
        for i in range(DRAWN // BLOCK)
        for trial, data in enumerate(pair)
    ]
    labels = np.repeat(np.arange(len(scores)) % 2, BLOCK)
    best = prospect(np.concatenate(scores), labels, count, believed=0.16, alpha=1 - CONFIDENCE)
    return best.epsilon


def _shown(value: float | None) -> str:
    return "" if value is None else f"{math.floor(value * 1000) / 1000:.3f}"


def main(names: list[str]) -> int:
    """Audit, print, and write the page where all were audited."""
    chosen = [each for each in MECHANISMS if not names or each.name in names]
    clock = time.perf_counter()
    lines = []
    with ProcessPoolExecutor(PROCESSES) as pool:
        for line in pool.map(audited, chosen):
            lines.append(line)
            print(line.text, "" if line.right else "WRONG", flush=True)
    minutes = (time.perf_counter() - clock) / 60
    rows = [row(HEADER), row(["---"] * len(HEADER)), *(line.text for line in lines)]
    right = sum(line.right for line in lines)
    tail = (
        f"\n{right} of {len(lines)} verdicts are right. {minutes:.1f} minutes in all with "
        f"{PROCESSES} processes; seconds are those of all three columns.\n"
    )
    if not names:
        text = HEAD + "\n".join(rows) + "\n" + tail
        write("standard-bench", page("The standard mechanisms of the field", COMMAND, text))
    return int(right < len(lines))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
