"""Measure after how many outputs bets refute false claims, and how often they refute true ones.

The page is docs/results/sequential.md. Run it with `OMP_NUM_THREADS=1 python
docs/scripts/make_sequential.py FOLDER`: the folder keeps a record of each row, and what it lacks is
measured. `--runs` is the number of repetitions.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# It stands beside this file.
from pages import ROOT, page, write

from dpaudit.audits.mechanism.audit import input_pairs
from dpaudit.audits.mechanism.calls import OutputTrials
from dpaudit.audits.mechanism.game import SHARE, Bettor
from dpaudit.bounds.frequentist.labels import label_epsilon
from dpaudit.bounds.frequentist.sequential import CoinProcess, EProcess, block_ends
from dpaudit.claims.catalogue import catalogue
from dpaudit.claims.record import Check, ClaimGame
from dpaudit.core.files import write_text
from dpaudit.reports.render.markdown import row

sys.path.insert(0, str(ROOT / "tests" / "support" / "standard_bench"))

from dp_sniper import PUBLISHED
from standard_laws import LAWS, log_ratio
from standard_records import MECHANISMS, Mechanism

LEVEL = 0.05
BETS = SHARE * LEVEL
# The most outputs of a standard mechanism.
OUTPUTS = 2_048
# The most runs with the log-ratio, which is dear by quadrature.
SCORED = 20
# The most rounds of a claim's game, and those of a game whose own trials are fewer than `MANY`.
ROUNDS, FEW, MANY = 1_000, 250, 50_000
# Numbers of outputs of audits with a fixed number.
FIXED = [round(64 * 2 ** (step / 2)) for step in range(11)]
PROCESSES = int(os.environ.get("PROCESSES", "2"))
COMMAND = "docs/scripts/make_sequential.py FOLDER --runs"
STANDARD = (
    *("mechanism", "claimed ε", "true ε", "learned score, median", "90 %"),
    *("log-ratio, median", "90 %", "fixed number, median", "90 %", "runs"),
)
TRUE = ("mechanism", "ε", "stops", "highest wealth at least 20", "runs")
CLAIMS = ("claim", "game", "claimed ε", "median", "90 %", "fixed number, median", "90 %", "runs")


class Peeking(CoinProcess):
    """A process that notes its largest wealth after any trial, not after blocks alone."""

    highest = 0.0

    def update(self, values: ArrayLike, present: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Settle a block."""
        path = super().update(values, present)
        self.highest = max(self.highest, float(path.max()))
        return path


def standard(name: str, runs: int) -> dict[str, Any]:
    """Audit a mechanism of the standard bench so many times."""
    mechanism = next(one for one in MECHANISMS if one.name == name)
    pairs = input_pairs(mechanism.neighbours, mechanism.length)
    pair = PUBLISHED[name][1] if name in PUBLISHED else pairs[0]
    learned = [_learned(mechanism, pair, seed) for seed in range(runs)]
    known = name in LAWS and not mechanism.correct
    exact = [_exact(mechanism, pair, seed) for seed in range(min(runs, SCORED) if known else 0)]
    return {
        "learned": [outputs for outputs, _ in learned],
        "highest": [highest for _, highest in learned],
        "exact": [outputs for outputs, _ in exact],
        "fixed": [refuted for _, refuted in exact],
    }


def _learned(mechanism: Mechanism, pair: Any, seed: int) -> tuple[int | None, float]:
    process = Peeking(mechanism.claimed_epsilon, log_odds=True)
    bettor = Bettor(process, BETS, 1 - LEVEL, None, seed)
    outputs, present = _outputs(mechanism, pair, seed)
    calls = np.arange(OUTPUTS)
    bettor.watch(OutputTrials(outputs[:n], present[:n], calls[:n]) for n in block_ends(OUTPUTS))
    return bettor.outputs if bettor.certificate else None, process.highest


def _exact(mechanism: Mechanism, pair: Any, seed: int) -> tuple[int | None, list[bool]]:
    outputs, present = _outputs(mechanism, pair, seed)
    scores = log_ratio(mechanism.name, *pair)(outputs)
    process, start, decided = CoinProcess(mechanism.claimed_epsilon, log_odds=True), 0, None
    for end in block_ends(OUTPUTS):
        process.update(scores[start:end], present[start:end])
        start = end
        if process.p_value <= BETS:
            decided = end
            break
    refuted = [
        _refuted(scores[:n][~present[:n]], scores[:n][present[:n]], mechanism.claimed_epsilon, seed)
        for n in FIXED
    ]
    return decided, refuted


def _outputs(mechanism: Mechanism, pair: Any, seed: int) -> tuple[Any, NDArray[np.bool_]]:
    """Draw outputs, each from the data set that a fair coin chooses."""
    rng = np.random.default_rng([seed, *mechanism.name.encode()])
    present = rng.random(OUTPUTS) < 0.5
    absent, changed = (np.asarray(mechanism.rounded(data, rng, OUTPUTS)) for data in pair)
    return np.where(present.reshape(-1, *[1] * (absent.ndim - 1)), changed, absent), present


def _refuted(
    absent: NDArray[Any],
    present: NDArray[Any],
    claim: float,
    seed: int,
    *,
    delta: float = 0.0,
    coins: bool = True,
) -> bool:
    estimate, _ = label_epsilon(
        absent, present, delta=delta, alpha=LEVEL, coin_flipped=coins, log_odds=coins, seed=seed
    )
    return estimate.lower > claim


def games() -> dict[str, ClaimGame]:
    """Return the first game of each false claim of the catalogue, by the claim's name."""
    false = [entry for entry in catalogue() if entry.recorded == "falsified"]
    first = {
        entry.id: [game for game in entry.published if not isinstance(game, Check)][:1]
        for entry in false
    }
    return {name: game[0] for name, game in first.items() if game}


def claimed(name: str, runs: int) -> dict[str, Any]:
    """Play the game of a false claim so many times; each part of one long game is a repetition."""
    game = games()[name]
    epsilon, delta = game.claimed()
    rounds = ROUNDS if game.trials >= MANY else FEW
    parts = max(1, min(runs, game.trials // rounds))
    scores = game.run(parts * rounds, 1)
    decided, fixed = [], []
    for part in range(parts):
        chosen = slice(part * rounds, (part + 1) * rounds)
        absent, present = scores.absent[chosen], scores.present[chosen]
        path = EProcess(epsilon, delta, likelihood=True).update(absent, present)
        over = np.flatnonzero(path >= -math.log(BETS))
        decided.append(2 * (int(over[0]) + 1) if len(over) else None)
        fixed.append(
            [
                _refuted(
                    absent[: n // 2], present[: n // 2], epsilon, part, delta=delta, coins=False
                )
                for n in FIXED
                if n <= 2 * rounds
            ]
        )
    return {"decided": decided, "fixed": fixed, "most": 2 * rounds}


def recorded(folder: Path, kind: Callable[..., dict[str, Any]], runs: int, name: str) -> Any:
    """Return the record of a row, after measuring it if the folder has none."""
    place = folder / f"{kind.__name__}-{name}.json"
    if not place.is_file():
        write_text(place, json.dumps(kind(name, runs)) + "\n")
        print(place, flush=True)
    return json.loads(place.read_text(encoding="utf-8"))


def quantile(outputs: Sequence[int | None], share: float, most: int) -> str:
    """Return the number of outputs after which this share of the runs has ended."""
    ended = sorted(math.inf if count is None else count for count in outputs)
    number = ended[math.ceil(share * len(ended)) - 1] if ended else math.nan
    if math.isnan(number):
        return ""
    return f"> {most:,}" if math.isinf(number) else f"{number:,.0f}"


def needed(refuted: Sequence[Sequence[bool]], share: float) -> str:
    """Return the least fixed number of outputs that refutes in this share of the runs."""
    if not refuted:
        return ""
    shares = np.mean(refuted, axis=0)
    enough = np.flatnonzero(shares >= share)
    sizes = FIXED[: len(shares)]
    return f"{sizes[enough[0]]:,}" if len(enough) else f"> {sizes[-1]:,}"


def tables(folder: Path, runs: int) -> str:
    """Return the text of the page."""
    names, claims = [mechanism.name for mechanism in MECHANISMS], games()
    with ProcessPoolExecutor(PROCESSES) as pool:
        bench = list(pool.map(partial(recorded, folder, standard, runs), names))
        own = list(pool.map(partial(recorded, folder, claimed, runs), claims))
    false_rows, true_rows, stops, high, true_runs = [], [], 0, 0, 0
    for mechanism, record in zip(MECHANISMS, bench, strict=True):
        learned = record["learned"]
        truth = "∞" if math.isinf(mechanism.truth) else f"{mechanism.truth:.3g}"
        if mechanism.correct:
            ended = sum(count is not None for count in learned)
            above = sum(highest >= -math.log(LEVEL) for highest in record["highest"])
            stops, high, true_runs = stops + ended, high + above, true_runs + len(learned)
            true_rows.append([mechanism.name, truth, f"{ended}", f"{above}", f"{len(learned)}"])
            continue
        false_rows.append(
            [
                *(mechanism.name, f"{mechanism.claimed_epsilon:.3f}", truth),
                *(quantile(learned, share, OUTPUTS) for share in (0.5, 0.9)),
                *(quantile(record["exact"], share, OUTPUTS) for share in (0.5, 0.9)),
                *(needed(record["fixed"], share) for share in (0.5, 0.9)),
                f"{len(learned)}",
            ]
        )
    claim_rows = [
        [
            *(name, claims[name].label.replace("|", r"\|"), f"{claims[name].claimed()[0]:g}"),
            *(quantile(record["decided"], share, record["most"]) for share in (0.5, 0.9)),
            *(needed(record["fixed"], share) for share in (0.5, 0.9)),
            f"{len(record['decided'])}",
        ]
        for name, record in zip(claims, own, strict=True)
    ]
    soon = sum(_soon(record["decided"]) for record in own)
    return f"""{_HEAD}
## False claims of standard mechanisms

{_table(STANDARD, false_rows)}

## True claims of standard mechanisms

{stops} of {true_runs} runs stop, at a level of {BETS:.1%}. Had the whole level of {LEVEL:.0%} been
bet, and the wealth been looked at after every output, {high} would have stopped
({high / true_runs:.1%}).

{_table(TRUE, true_rows)}

## False claims of papers

Of {len(own)} false claims, {soon} are refuted within 300 outputs in at least half of the runs.

{_table(CLAIMS, claim_rows)}
"""


def _soon(decided: Sequence[int | None]) -> bool:
    return sum(count is not None and count <= 300 for count in decided) >= len(decided) / 2


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join([row(header), row(["---"] * len(header)), *map(row, rows)])


_HEAD = f"""After how many outputs, on both data sets together, is a false claim refuted? Bets on
the outputs as they come have a tenth of an error probability of {LEVEL:.0%}, as with
`stop = "when-decided"`; *fixed number* is the label test of so many outputs, at {LEVEL:.0%}. The
median and the 90 % quantile are over the runs. Of the fixed numbers {FIXED[0]}, {FIXED[1]},
{FIXED[2]}, … {FIXED[-1]:,} it is the least that refutes in so many of the runs: one has to know it
beforehand.

The mechanisms are those of [the standard bench](standard-bench.md), on the pair of inputs that
DP-Sniper found best, else on the first of dpaudit's; a run has at most {OUTPUTS:,} outputs. A
learned score begins with nothing, and is learned from the outputs before those that are bet on. The
log-ratio is the exact one of the two laws. Bets and fixed numbers read it, in {SCORED} runs; where
no law is known the columns are empty. A learned score would cost a fixed number half of its
outputs.

Of papers, the first game of each false claim of [the catalogue](../claims/index.md) is repeated:
parts of one game of the catalogue's own length, so that dear games have fewer runs. A round is a
trial on each data set, and the number of rounds is at most {ROUNDS:,}, or {FEW} where the catalogue
has fewer than {MANY:,} trials. Their scores are bet on in pairs, and looked at after every round.
`dpaudit claims --verify --stop when-decided` bets on the same scores, at the level of its many
games.

González et al. 2025 (arXiv:2509.07055) and, for f-DP, Kutta et al. 2026 (arXiv:2602.06518) also
bet against a claim as outputs come, so that their tests, too, may end at any output at the stated
level. Neither test was run here: whether theirs need fewer or more outputs is not known, and a
claim of f-DP, which is a whole curve, is none of the rows.
"""


def main() -> None:
    """Measure what the folder lacks, and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=200)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    text = tables(options.folder, options.runs)
    write("sequential", page("Outputs until decided", f"{COMMAND} {options.runs}", text))


if __name__ == "__main__":
    main()
