"""Audits the field's standard mechanisms from their outputs alone; writes docs/standard-bench.md.

Run it with `OMP_NUM_THREADS=1 python docs/make_standard_bench.py`; names of mechanisms after it
audit these alone and write nothing. The exit code is 1 where a wrong mechanism was not found, or a
right one accused.
"""

from __future__ import annotations

import math
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from dpaudit.auditor.blackbox import audit_pairs
from dpaudit.auditor.patterns import input_pairs
from dpaudit.files import write_text

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "standard_bench"))

from standard_records import MECHANISMS, Mechanism  # noqa: E402

ERROR, TRIALS, SEARCH, SEED, PROCESSES = 1e-4, 6_000_000, 600_000, 1, 2
HEAD = f"""# The standard mechanisms of the field

Written by `docs/make_standard_bench.py`: every mechanism is audited from its outputs alone. The
pair of neighbouring inputs is searched for among the patterns of Ding et al. (2018)
({SEARCH:,} outputs a pair at first), a score is learned on 400,000 outputs, and an event is
certified on the rest of {TRIALS:,} fresh ones. All bounds hold together with probability
1 − {ERROR:g}: a claim is called broken only where the certified ε exceeds it. The truths are
derived beside the mechanisms in `tests/standard_bench`; ∞ means that no ε holds.

"""


@dataclass(frozen=True)
class Line:
    """What the audit of one mechanism found, and whether that is right."""

    text: str
    right: bool
    seconds: float


def audited(mechanism: Mechanism) -> Line:
    """Audit one mechanism on the most telling of its pairs."""
    clock = time.perf_counter()
    pairs = input_pairs(mechanism.neighbours, mechanism.length)
    found = audit_pairs(
        mechanism.run,
        pairs,
        confidence=1 - ERROR / len(MECHANISMS),
        trials=TRIALS,
        search=SEARCH,
        batched=True,
        seed=SEED,
    )
    seconds = time.perf_counter() - clock
    broken = found.epsilon.lower > mechanism.claimed_epsilon
    cells = [
        mechanism.name,
        f"{mechanism.claimed_epsilon:.3f}",
        "∞" if math.isinf(mechanism.truth) else f"{mechanism.truth:.3g}",
        f"≥ {math.floor(found.epsilon.lower * 1000) / 1000:.3f}",
        "**broken**" if broken else "not broken",
        f"{len(pairs)}",
        f"{found.epsilon.n:,}",
        f"{seconds:.0f}",
    ]
    return Line(f"| {' | '.join(cells)} |", broken != mechanism.correct, seconds)


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
    header = "mechanism | claimed ε | true ε | certified ε | claim | pairs | trials | seconds"
    rows = [f"| {header} |", "| --- " * 8 + "|", *(line.text for line in lines)]
    right = sum(line.right for line in lines)
    tail = (
        f"\n{right} of {len(lines)} verdicts are right. {minutes:.1f} minutes in all on two cores; "
        "trials are those of the certificate.\n"
    )
    if not names:
        write_text(ROOT / "docs" / "standard-bench.md", HEAD + "\n".join(rows) + "\n" + tail)
    return int(right < len(lines))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
