"""Every command and snippet of the pages is run, or says what it needs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from pydantic import TypeAdapter
from snippets import PAGES, ROOT, SHELL, WORDS, Block, blocks, missing  # type: ignore[import-not-found]

from dpaudit.auditor.plan import Plan
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.cli import main
from dpaudit.config.load import load
from dpaudit.core import registry
from dpaudit.reports.render import toml

NAMES = [path.relative_to(ROOT).as_posix() for path in PAGES]
# Pages are parsed by the tests, not by every worker.
WITH_BLOCKS = [name for name in NAMES if "\n```" in (ROOT / name).read_text(encoding="utf-8")]
# Pages that run several audits.
SEVERAL_RUNS = {
    "docs/guides/ci.md",
    "docs/guides/mechanisms.md",
    "docs/guides/membership.md",
    "docs/guides/waivers-and-baselines.md",
    "docs/methods/finite-precision.md",
    "docs/tutorial.md",
}
# What a page shows or configures, and does not run.
SHOWN = {"text", "json", "yaml", "groovy", "{toctree}", "{eval-rst}"}
# The length of a training where only the parts of its config matter.
FEW = {"epochs": 2, "rounds": 3, "steps": 1}
# Exit codes of a run that came to its end.
_JUDGED = {0, 1, 4}
_FILE = re.compile(r"[\w-]+\.\w+$")
_SHELL_SYNTAX = re.compile(r"[|<>;~&`$]")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reader's folder, with this environment's programs in reach; beside it the files of `given`.

    These stand for the reader's own, which commands get if they say that they need them.
    """
    work, given = tmp_path / "work", tmp_path / "given"
    for place in (work, given):
        place.mkdir()
        (place / "examples").symlink_to(ROOT / "examples")
    monkeypatch.setenv("COLUMNS", "94")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(sys, "path", [str(work), *sys.path])
    # Other tests and pages have modules of this name.
    monkeypatch.delitem(sys.modules, "model", raising=False)
    monkeypatch.chdir(given)
    rng = np.random.default_rng(7)
    pairs = rng.permutation(200 * 80)[:6000]
    stars = rng.integers(1, 6, len(pairs))
    rows = [f"u{p // 80},i{p % 80},{star}" for p, star in zip(pairs, stars, strict=True)]
    Path("interactions.csv").write_text("\n".join(["user_id,item_id,rating", *rows, ""]))
    rated = [f"{p // 80 + 1},{p % 80 + 1},{s},0" for p, s in zip(pairs, stars, strict=True)]
    Path("ratings.csv").write_text("\n".join(["userId,movieId,rating,timestamp", *rated, ""]))
    for name, centre in (("members", 1.0), ("others", 0.0), ("in", 1.0)):
        np.savetxt(f"{name}.csv", rng.normal(centre, 1, 2000))
    for name, share in (("m", 0.5), ("o", 0.6)):
        days = np.column_stack((rng.binomial(6, share, 2000), rng.integers(0, 24, 2000)))
        np.savetxt(f"{name}.csv", days, "%d", ",", header="weekday,hour", comments="")
    np.save("out.npy", rng.normal(0, 1, 2000))
    data = '[data]\nformat = "synthetic"\n'
    Path("audit.toml").write_text(f"seed = 7\n{data}[[model]]\n[[attack]]\n[audit]\ntrials = 200\n")
    all_observers = 'observers = ["scores", "own-list", "others-lists", "factors"]\n'
    Path("membership.toml").write_text(
        f'{data}[[recommender]]\nlibrary = "implicit"\n[membership]\n{all_observers}'
    )
    monkeypatch.chdir(work)
    return work


def _beside(base: Any, given: Any) -> Any:
    """Return a part of a config with the keys that it leaves out as another config has them."""
    return {**base, **given} if isinstance(base, dict) and isinstance(given, dict) else given


def _brief(config: dict[str, Any]) -> dict[str, Any]:
    """Return a config whose trainings are short: a plan runs the first of each stage to its end."""
    models = [_short(model) for model in config.get("model", [])]
    seen = {key: part for key, part in config.get("transcript", {}).items() if key != "rounds"}
    changed = {"model": models, "transcript": seen}
    return config | {key: part for key, part in changed.items() if key in config}


def _short(model: dict[str, Any]) -> dict[str, Any]:
    if "defense" not in model:
        return model
    names = TypeAdapter(registry.load("defenses", model["defense"])).json_schema()["properties"]
    few = {name: count for name, count in FEW.items() if name in names}
    few = {name: count for name, count in few.items() if name not in model.get("grid", {})}
    return model | {"params": model.get("params", {}) | few}


class Runner:
    """Runs the blocks of a page, one after the other."""

    def __init__(self, folder: Path, *, long: bool) -> None:
        self.long, self.given = long, folder.parent / "given"
        self.names: dict[str, Any] = {"__name__": "page"}

    def run(self, block: Block) -> None:
        """Run a block; what it gets wrong is an AssertionError that names its place."""
        if "skip" in block.notes or not self._supplied(block.needs):
            return
        if "long" in block.notes and not self.long:
            return
        if "file" in block.notes:
            Path(block.notes["file"]).write_text(block.text, encoding="utf-8")
        elif "append" in block.notes:
            with Path(block.notes["append"]).open("a", encoding="utf-8") as file:
                file.write(f"\n{block.text}")
        elif block.language in SHELL:
            self._commands(block)
        elif block.language == "python":
            self._python(block)
        elif block.language == "toml":
            with contextlib.chdir(self.given):
                self._config(block)
        elif block.language == "yaml":
            yaml.safe_load(block.text)
        else:
            assert block.language in SHOWN, f"{block.place}: nothing runs {block.language!r}"

    def _supplied(self, needs: list[str]) -> bool:
        """Copy the files that are needed; False if anything else is."""
        strange = [
            name for name in needs if _FILE.match(name) and not (self.given / name).is_file()
        ]
        assert not strange, f"the tests have no {strange}"
        if not all((self.given / name).is_file() for name in needs):
            return False
        for name in needs:
            shutil.copy(self.given / name, name)
        return True

    def _commands(self, block: Block) -> None:
        quick = None if self.long else block.notes.get("quick")
        last, _ = block.commands[-1]
        for command, shown in block.commands:
            expected = {int(block.notes.get("exit", 0)) if command == last else 0}
            said = self._shell(block, command, _JUDGED if quick else expected, quick or "")
            lost = [] if quick else missing(shown, said)
            assert not lost, f"{block.place} shows {lost} and the output is\n{said}"

    def _shell(self, block: Block, command: str, expected: set[int], options: str = "") -> str:
        words = shlex.split(command, comments=True)
        if words[:2] == ["dpaudit", "run"]:
            words += shlex.split(options)
        bare = command.partition(" #")[0]
        if words[0] == "dpaudit" and not _SHELL_SYNTAX.search(bare):
            found = CliRunner().invoke(main, words[1:])
            code, said = found.exit_code, found.output
        else:
            done = subprocess.run(
                ["/bin/bash", "-ec", command], capture_output=True, text=True, check=False
            )
            code, said = done.returncode, done.stdout + done.stderr
        assert code in expected, f"{block.place}: {command} ends with {code}\n{said}"
        return said

    def _python(self, block: Block) -> None:
        before = set(self.names)
        lines = "\n" * int(block.place.rpartition(":")[2])
        exec(compile(lines + block.text, block.place, "exec"), self.names)  # noqa: S102
        for name in set(self.names) - before:
            if name.startswith("test_"):
                self.names[name]()

    def _config(self, block: Block) -> None:
        """Check a config, or a part of one beside the tables of another."""
        if "setup" in block.notes:
            self._shell(block, block.notes["setup"], {0})
        given = tomllib.loads(block.text)
        if "onto" in block.notes:
            base = tomllib.loads(Path(block.notes["onto"]).read_text(encoding="utf-8"))
            given = {**base, **{key: _beside(base.get(key), part) for key, part in given.items()}}
        if "defense" not in given:  # a page may show a part without its data
            given.setdefault("data", {"format": "synthetic"})
        plain = json.loads(json.dumps(given, default=str))  # dates as texts
        Path("page.toml").write_text(toml.render(plain), encoding="utf-8")
        config = load(Path("page.toml"))
        Plan(config).check_gates()
        # What code costs can only be told by running it.
        if self.long and not (isinstance(config, MembershipConfig) and config.code):
            Path("page.toml").write_text(toml.render(_brief(plain)), encoding="utf-8")
            self._shell(block, "dpaudit plan page.toml", {0})


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if name in SEVERAL_RUNS else ())
        for name in WITH_BLOCKS
    ],
)
def test_what_a_page_shows_runs(name: str, folder: Path) -> None:
    runner = Runner(folder, long=False)
    for block in blocks(ROOT / name):
        runner.run(block)


def has_more(name: str) -> bool:
    """Whether a page has blocks that the test above leaves out, cuts short, or only reads."""
    return any(
        block.language == "toml" or not {"long", "quick"}.isdisjoint(block.notes)
        for block in blocks(ROOT / name)
        if "skip" not in block.notes
    )


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if name == "README.md" else pytest.mark.nightly)
        for name in filter(has_more, WITH_BLOCKS)
    ],
)
def test_all_that_a_page_shows_runs(name: str, folder: Path, real_data: Path) -> None:
    runner = Runner(folder, long=True)
    for block in blocks(ROOT / name):
        runner.run(block)


@pytest.mark.cases("name", NAMES)
def test_blocks_say_what_they_are_and_why_they_are_not_run(name: str) -> None:
    for block in blocks(ROOT / name):
        assert block.language in SHOWN | SHELL | {"python", "toml"}, block.place
        assert set(block.notes) <= WORDS, block.place
        assert block.notes.get("skip") != "", f"{block.place} does not say why it is skipped"
        hidden = block.language in SHELL and not {"skip", "setup"}.isdisjoint(block.notes)
        hidden |= block.language == "text" and bool(re.search(r"^(\$|dpaudit) ", block.text, re.M))
        assert not hidden, f"{block.place}: commands say '# needs …' in their first line"


def test_numbers_and_line_ends_of_an_output_are_not_compared() -> None:
    assert (
        missing("PASS  2 gates\nall 84\nintervals …", "PASS 3 gates\nall 12 intervals hold") == []
    )
    assert missing("PASS  2 gates\n", "FAIL 2 gates") == ["PASS  2 gates"]
    assert missing("a model…with 3", "a model with 4") == []


def test_ci_runs_the_first_command_of_the_readme_alone_and_the_tests_of_the_second() -> None:
    (audit, _), (tests, _) = next(blocks(ROOT / "README.md")).commands
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8").replace("--quiet ", "")
    assert audit.split(" -o")[0] in run.partition("== an environment for all the rest")[0]
    assert tests == "python3 -m pip install '.[test]' && python3 -m pytest"
    assert "python3 -m pip install '.[docs,test]'" in run
    assert "python3 ci/affected.py" in run
