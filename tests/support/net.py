"""Keep what examples and catalogue entries say, and compare it after a change of the code.

`python tests/support/net.py keep FOLDER` runs every example on few generated ratings, every audit
of the browser tests and every catalogue entry. It keeps the record, the cells and texts of the
Markdown and the HTML report, and the console, without what depends on the day or on the machine.
`compare FOLDER` runs all again and prints what differs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from difflib import unified_diff
from fnmatch import fnmatch
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import click
from click.testing import CliRunner
from markdown_it import MarkdownIt
from reduced import shortest  # type: ignore[import-not-found]

from dpaudit.claims.catalogue import catalogue
from dpaudit.cli import main
from dpaudit.config.load import load
from dpaudit.config.tables import DataConfig
from dpaudit.execution.tasks import environment

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TRIALS = "200"  # of each game of the catalogue
SHOWN = 20  # lines of a difference
# What differs from day to day or from machine to machine: keys of records, and columns and rows.
VARYING = {"timing", "tool", "environment", "seconds"}
MACHINE = {"dpaudit", "started", "seconds", "took", *environment()}
DAY = re.compile(r"run \d{4}-\d\d-\d\d; dpaudit [\w.]+")
_INLINE = {"a", "code", "em", "span", "strong"}
_HEADINGS = {"caption", "h1", "h2", "h3", "p strong"}
_SKIPPED = {"pre", "script", "style", "title"}  # the config is compared as part of the record
# The lines of each part: `record`, `config`, `markdown`, `html`, `console`.
Parts = dict[str, list[str]]


class SkippedError(Exception):
    """A library is not installed that a config needs."""


def cases() -> dict[str, tuple[str, ...]]:
    """Return the command of each case by its name."""
    audits = [*EXAMPLES.glob("*.toml"), *(ROOT / "tests/browser/audits").glob("*.toml")]
    verify = ("--verify", "--trials", TRIALS, "--seed", "1", "--data", "examples/quickstart.toml")
    return {
        **{path.stem: ("run", str(path.relative_to(ROOT)), "--allow-code") for path in audits},
        **{f"claims-{entry.id}": ("claims", entry.id, *verify) for entry in catalogue()},
    }


def run(command: tuple[str, ...]) -> Parts:
    """Run a command, on reduced examples, and return what it says.

    Raises:
        SkippedError: a library is not installed.
    """

    def reduced(path: Path, *given: Any, **named: Any) -> Any:
        config = load(path, *given, **named)
        few = isinstance(config, DataConfig) and path.resolve().parent == EXAMPLES
        return shortest(config) if few else config

    with TemporaryDirectory() as place, patch("dpaudit.config.load.load", reduced):
        options = ("--workers", "1", "-o", place)
        ran = CliRunner().invoke(main, [*command, *options], env={"COLUMNS": "100"})
        if ran.exception and not isinstance(ran.exception, SystemExit):
            raise ran.exception
        if ran.exit_code > 128:  # stopped by a signal
            sys.exit(ran.exit_code)
        if "pip install" in ran.stderr:
            raise SkippedError(ran.stderr.strip())
        console = [f"exit {ran.exit_code}", *_said(ran.stdout, place)]
        if ran.exit_code in (2, 3):
            return {"console": [*console, *_said(ran.stderr, place)]}
        return {**reports(Path(place)), "console": console}


def _said(text: str, place: str) -> list[str]:
    return DAY.sub("run", text.replace(place, "FOLDER")).splitlines()


def reports(folder: Path) -> Parts:
    """Return what the record and the reports of a folder say."""
    (record,), (markdown,), (html,) = (
        [path.read_text(encoding="utf-8") for path in folder.glob(f"*.{ending}")]
        for ending in ("json", "md", "html")
    )
    values = json.loads(record)
    config = values.pop("config", {})
    values |= {entry["id"]: entry for entry in values.pop("entries", [])}
    return {
        "record": list(leaves(values)),
        "config": list(leaves(config)),
        "markdown": texts(MarkdownIt().enable("table").render(markdown)),
        "html": texts(html),
    }


def leaves(values: dict[str, Any], within: str = "") -> Iterator[str]:
    """Yield a line for each value of a record, and for each item of its lists."""
    for key in sorted(values.keys() - VARYING):
        value = values[key]
        if isinstance(value, dict):
            yield from leaves(value, f"{within}{key}.")
        else:
            items = value if isinstance(value, list) and value else [value]
            yield from (f"{within}{key}: {_leaf(item)}" for item in items)


def _leaf(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(leaves(value))
    return json.dumps(value, ensure_ascii=False)


def differences(before: Parts, after: Parts) -> list[str]:
    """Return the lines of each part that differ, shortened."""
    found = []
    for part in sorted(before.keys() | after.keys()):
        compared = unified_diff(before.get(part, []), after.get(part, []), n=0, lineterm="")
        lines = [line for line in list(compared)[2:] if not line.startswith("@@")]
        found += [f"  {part}: {line}" for line in lines[:SHOWN]]
        if len(lines) > SHOWN:
            found.append(f"  {part}: … {len(lines) - SHOWN} more")
    return found


def keep(folder: Path, parts: Parts) -> None:
    """Write the parts of a case, one a file, in place of those in the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for part, lines in parts.items():
        (folder / f"{part}.txt").write_text("\n".join(lines), encoding="utf-8")


def kept(folder: Path, *, config: bool) -> Parts:
    """Read the parts of a case; without that of its config unless it is asked for."""
    paths = [path for path in folder.glob("*.txt") if config or path.stem != "config"]
    return {path.stem: path.read_text(encoding="utf-8").split("\n") for path in paths}


def texts(page: str) -> list[str]:
    """Return the texts of a page: each cell with caption, row and column, each other text alone."""
    reader = _Page()
    reader.feed(page)
    reader.close()
    return reader.lines


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._tag = self._text = self._caption = ""
        self._header: list[str] = []
        self._row: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _INLINE:
            self._flush()
            self._tag = tag
            if tag == "table":
                self._header = []
            elif tag == "tr":
                self._row = []
        elif tag == "strong" and self._tag == "p" and not self._text.strip():
            self._tag = "p strong"

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag not in _INLINE:
            self._flush()
            self._tag = ""
        if tag == "thead":
            self.lines.append(f"{self._caption} | columns: {' | '.join(self._header)}")

    def _flush(self) -> None:
        text, self._text = DAY.sub("run", " ".join(self._text.split())), ""
        if self._tag == "th":
            self._header.append(text)
        elif self._tag == "td":
            self._row.append(text)
            column = self._header[len(self._row) - 1]
            if not {column, self._row[0]} & MACHINE:
                self.lines.append(f"{self._caption} | {self._row[0]} | {column}: {text}")
        elif text and self._tag not in _SKIPPED:
            self.lines.append(text)
            if self._tag in _HEADINGS:
                self._caption = text


@click.command()
@click.argument("action", type=click.Choice(["keep", "compare"]))
@click.argument("folder", type=click.Path(path_type=Path, resolve_path=True, file_okay=False))
@click.argument("names", nargs=-1)
@click.option("--config/--no-config", default=True, help="Whether records' configs are compared.")
def net(action: str, folder: Path, names: tuple[str, ...], config: bool) -> None:
    """Keep the outputs of all cases in FOLDER, or compare them with those in it.

    NAMES are patterns: 'ml-100k-*' for examples, 'claims-pa11*' for entries of the catalogue.
    """
    os.chdir(ROOT)
    commands, differing, began = cases(), 0, time.perf_counter()
    known = commands.keys() | {path.name for path in folder.glob("*") if action == "compare"}
    chosen = [name for name in sorted(known) if any(fnmatch(name, one) for one in names or ["*"])]
    with TemporaryDirectory() as place:
        target = folder if action == "keep" else Path(place)
        for name in chosen:
            clock, differs = time.perf_counter(), list[str]()
            try:
                word = "gone"
                if name in commands:
                    keep(target / name, run(commands[name]))
                    word = "kept"
                if action == "compare":
                    before, after = (kept(at / name, config=config) for at in (folder, target))
                    differs = differences(before, after)
                    word = "differs" if differs else "equal"
            except SkippedError as error:
                word = f"skipped: {error}"
            seconds = f"{time.perf_counter() - clock:6.1f} s"
            click.echo("\n".join([f"{seconds}  {name}: {word}", *differs]))
            differing += bool(differs)
    click.echo(f"{differing} of {len(chosen)} differ; {time.perf_counter() - began:.0f} s")
    sys.exit(differing > 0)


if __name__ == "__main__":
    net()
