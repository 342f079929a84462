"""Every page of results is what its command prints: text, columns, rows and formats of numbers.

The command that a page names is run on few generated ratings and with few trials.
"""

from __future__ import annotations

import difflib
import re
import runpy
import sys
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from reduced import small  # type: ignore[import-not-found]

from dpaudit.auditor import run
from dpaudit.auditor.run import run_audit
from dpaudit.config import load as configs
from dpaudit.config.load import load
from dpaudit.config.schema import Config
from dpaudit.core import files
from dpaudit.data.source_parts import SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.record.result import AuditResult

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "docs" / "scripts"
RESULTS = ROOT / "docs" / "results"
BENCH = ROOT / "bench"
PAGES = sorted(RESULTS.glob("*.md"))
COMMAND = re.compile(r"Written by `(?:python )?((?:docs/scripts|bench)/\w+\.py)([^`]*)`")
# What cuts short a command that measures without an example: its options, its environment, and
# what stands for parts of it.
SHORT = {"--runs": "1", "--audits": "1"}
FEW = {"TRIALS": "4000"}
_AUDIT = SimpleNamespace(
    epsilon=SimpleNamespace(lower=0.5, n=1), event=SimpleNamespace(epsilon=lambda *_: 0.5)
)
PARTS: dict[str, dict[str, Callable[..., Any]]] = {
    "speed": {
        "bench_peers.ml_1m_ratings": lambda: generate(SyntheticParams(seed=1)),
        "bench_peers.seconds": lambda _: 0.5,
    },
    "standard-bench": {"dpaudit.audits.mechanism.audit.audit_pairs": lambda *_, **__: _AUDIT},
    "federated": {
        "dpaudit.defenses.federated.training.FederatedTraining.run_round": lambda training: setattr(
            training, "done", training.done + 1
        )
    },
    "statistics-tables": {
        "default_seed.false_claims": lambda _: 0,
        "scenarios.tightness": lambda *_: 0.9,
        "scenarios.known_threshold_bound": lambda *_: 1.0,
    },
}
# Tables that another command makes, and pages whose rows depend on what is installed.
BESIDE = "## The field's own factorisation"
INSTALLED = {"libraries", "networks", "deletion", "mending"}
# Pages whose sections follow from numbers; `test_training` compares what does not.
FROM_NUMBERS = {"training"}
_NUMBER = re.compile(r"[-−+]?(?:\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?|∞)")
_FIXED = re.compile(r"\d+\.(\d+)(?!\d*e)")
# What follows from data: digests, what is said after a verdict or an example, libraries left out.
_FOLLOWS = re.compile(
    r"\b[0-9a-f]{12}\b|(?<=: )\*{0,2}(?:so|not so|undecided)\b.*|(?<=\.toml`)[:.] .*"
    r"| Not audited in this edition: .*"
)


class Grid(NamedTuple):
    """A table of a page: its place, its columns, the labels of its rows, and its other cells."""

    caption: str
    columns: list[str]
    labels: list[str]
    cells: list[list[str]]


def grids(text: str) -> Iterator[Grid]:
    """Yield a page's tables; the caption is the line before it that is bold or a heading."""
    caption, lines = "", text.splitlines()
    for place, line in enumerate(lines):
        if line.startswith(("#", "**")):
            caption = _NUMBER.sub("#", line)
        if line.startswith("|") and not lines[place - 1].startswith("|"):
            end = next((n for n in range(place, len(lines)) if not lines[n].startswith("|")), None)
            head, _, *rows = (_row(each) for each in lines[place:end])
            labels = [cells[0].rstrip(" †‡") for cells in rows]
            yield Grid(caption, head, labels, [cells[1:] for cells in rows])


def _row(line: str) -> list[str]:
    return [cell.strip().replace("*", "") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def shapes(cells: list[str]) -> set[str]:
    """Return how the cells of a column that hold numbers are written; both ends of a range.

    Without the marks of ends of grids, which depend on the numbers, and without the power of games
    that find nothing, as short ones do.
    """
    told = (cell for cell in cells if not cell.startswith("none"))
    ends = (end.rstrip(" †‡") for cell in told for end in cell.split(" to "))
    return {_NUMBER.sub("#", end) for end in ends if _NUMBER.search(end)}


def decimals(cells: list[str]) -> set[int]:
    """Return how many decimals the numbers of a column have that are at least 0.01."""
    numbers = (number for cell in cells for number in _FIXED.finditer(cell))
    return {len(number[1]) for number in numbers if float(number[0]) >= 0.01}


def stale(page: list[Grid], made: list[Grid], *, more: bool) -> list[str]:
    """Return what a page shows otherwise than its command.

    With `more`, the page may have rows of its own.
    """
    old, new = (
        [f"{grid.caption} {' | '.join(grid.columns)}" for grid in part] for part in (page, made)
    )
    if old != new:
        return list(difflib.unified_diff(old, new, "page", "command", n=0, lineterm=""))
    found = []
    for one, other in zip(page, made, strict=True):
        mine, theirs = one.labels, other.labels
        if more:
            mine = [label for label in mine if label in theirs]
        if mine != theirs:
            found.append(f"{one.caption}: rows {mine}, not {theirs}")
        for place, column in enumerate(one.columns[1:]):
            own, its = ([row[place] for row in grid.cells] for grid in (one, other))
            for what in (shapes, decimals):
                a, b = what(own), what(its)
                if a and b and not a & b:
                    found.append(f"{one.caption}, {column}: {what.__name__} {a}, not {b}")
    return found


def prose(text: str) -> list[str]:
    """Return the lines of a page outside its tables, without numbers and what follows from data.

    What stands before the first section is one line, since its numbers decide where it breaks.
    """
    first, *sections = re.split(r"\n(?=## )", text, maxsplit=1)
    intro = " ".join(" ".join(_outside(first)).split())
    lines = [intro, *(line for part in sections for line in _outside(part))]
    return [_NUMBER.sub("#", _FOLLOWS.sub("", line)) for line in lines]


def _outside(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if line and not line.startswith("|"))


class Serial:
    """Stands for the processes of a script."""

    def __init__(self, *_: Any) -> None:
        """Start nothing."""

    def __enter__(self) -> Serial:
        return self

    def __exit__(self, *_: Any) -> None:
        """Leave nothing."""

    def map(self, function: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
        """Call the function on each."""
        return map(function, *arguments)


PAGE = """## Figure 1

| ε | certified ε | overlap@20 |
| --- | --- | --- |
| 1 | **≥ 0.935 (more than claimed)** | 0.851 [0.802, 0.900] |
| 10 | ≥ 7.803 | 0 [0, 0.0049] |
"""


@pytest.mark.cases(
    ("now", "differs"),
    [
        (PAGE, False),
        (PAGE.replace("0.851 [0.802, 0.900]", "0.0071 [0.0062, 0.010]"), False),
        (PAGE.replace("**≥ 0.935 (more than claimed)**", "≥ 0"), False),
        (PAGE.replace("Figure", "Table"), True),
        (PAGE.replace("overlap@20", "overlap@10"), True),
        (PAGE.replace("| 10 |", "| 30 |"), True),
        (PAGE.replace("≥ ", "> "), True),
        (PAGE.replace("0.851 [0.802, 0.900]", "0.85 [0.80, 0.90]"), True),
        (PAGE.replace("0.851 [0.802, 0.900]", "0.851").replace("0 [0, 0.0049]", "0"), True),
        (PAGE + "\n## Figure 2\n\n| ε |\n| --- |\n", True),
    ],
)
def test_a_stale_page_is_noticed(now: str, differs: bool) -> None:
    assert bool(stale(list(grids(PAGE)), list(grids(now)), more=False)) == differs


@pytest.mark.parametrize(
    ("label", "differs"), [("| 10 |", False), ("| 30 |", True)], ids=["fewer", "another"]
)
def test_a_page_of_what_is_installed_has_all_rows_of_its_command(label: str, differs: bool) -> None:
    longer = PAGE + "| 20 | ≥ 7.803 | 0 [0, 0.0049] |\n"
    now = PAGE.replace("| 10 |", label)
    assert bool(stale(list(grids(longer)), list(grids(now)), more=True)) == differs


PROSE = """# Results

Of 10 runs
all end.

## Figure 1

`dpaudit run examples/a.toml`, data 712ec2dd4720, 189 users.

| ε |
| --- |

- MF errs more: not so (fails at x = 10 %).
"""


@pytest.mark.cases(
    ("old", "new", "differs"),
    [
        ("Of 10 runs\nall end", "Of 1,000\nruns all end", False),
        ("712ec2dd4720, 189", "48f1dc5fa367, 24", False),
        ("not so (fails at x = 10 %)", "**so**", False),
        ("all end", "none ends", True),
        ("## Figure", "## Table", True),
        ("users", "attacked users", True),
        ("MF errs", "SoReg errs", True),
        ("- MF errs more: not so (fails at x = 10 %).\n", "", True),
    ],
)
def test_stale_prose_is_noticed(old: str, new: str, differs: bool) -> None:
    assert old in PROSE
    assert (prose(PROSE) != prose(PROSE.replace(old, new))) == differs


@pytest.mark.cases("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_its_command(page: Path) -> None:
    title, nothing, head, *_ = page.read_text(encoding="utf-8").split("\n")
    assert title.startswith("# ")
    assert nothing == ""
    script = COMMAND.match(head)
    assert script, f"{page.name} begins with {head}"
    assert (ROOT / script[1]).is_file()


# `tests/bench` compares the page that is left out.
@pytest.mark.long
@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.stem != "membership-peers"], ids=lambda page: page.stem
)
def test_a_page_is_what_its_command_prints(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = page.read_text(encoding="utf-8")
    named = COMMAND.search(text)
    assert named
    words = [str(tmp_path) if word == "FOLDER" else word for word in named[2].split()]
    for option in SHORT.keys() & set(words):
        words[words.index(option) + 1] = SHORT[option]
    written: dict[str, str] = {}
    results: dict[str, AuditResult] = {}

    def write(path: Path, text: str) -> None:
        written[path.name] = text
        if tmp_path in path.resolve().parents:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def audit(config: Config, **_: Any) -> AuditResult:
        key = config.model_dump_json()
        if key not in results:  # shares of sensitive ratings are one here
            results[key] = run_audit(config)
        return results[key]

    monkeypatch.setattr(configs, "load", lambda *given: small(load(*given)))
    monkeypatch.setattr(run, "run_audit", audit)
    monkeypatch.setattr(files, "write_text", write)
    monkeypatch.setattr(futures, "ProcessPoolExecutor", Serial)
    monkeypatch.setattr(sys, "argv", [named[1], *words])
    # What the extra `bench` trains is kept in a file.
    (tmp_path / "peers.md").write_text("", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.syspath_prepend(str(BENCH))
    for name, value in FEW.items():
        monkeypatch.setenv(name, value)
    for script in SCRIPTS.glob("*.py"):
        monkeypatch.delitem(sys.modules, script.stem, raising=False)
    for name, part in PARTS.get(page.stem, {}).items():
        monkeypatch.setattr(name, part)
    with suppress(SystemExit):
        runpy.run_path(str(ROOT / named[1]), run_name="__main__")
    shown, printed = prose(text), prose(written[page.name])
    if page.stem in FROM_NUMBERS:
        shown, printed = (
            [line for line in part if line.startswith("#")] for part in (shown, printed)
        )
    assert shown == printed
    own = [grid for grid in grids(text) if not grid.caption.startswith(BESIDE)]
    assert not stale(own, list(grids(written[page.name])), more=page.stem in INSTALLED)
