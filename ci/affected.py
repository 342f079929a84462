"""Run the tests, and of those that take long the ones that a change may touch.

    python ci/affected.py              the default tests, and of the long ones that are affected
                                       as many as take SECONDS
    python ci/affected.py --all        all of them: nightly, and before a release
    python ci/affected.py --list       say what runs and why, and run nothing
    python ci/affected.py --record     write into ci/green.json what has passed

Further arguments go to pytest. A module with tests that take long, or need an extra, is left out
if nothing that it may read has changed since it last passed. `ci/green.json` has, for each such
module, the digest of all that it may read, and the seconds that it took: the longest run first.
A module may read

- its helpers, what lies in its folder, and files and folders that these name;
- the modules of dpaudit that these name, in code or in text, and what those import (grimp);
- plug-ins: whole groups that this code loads whole, and those whose name one of the texts has;
- the command line, if it starts a process;
- the files in the rooms of this code that are not Python, and data sets, if it asks for them;
- the versions of packages, the options of pytest, and Python.

When in doubt, a module is affected. A change that touches all would take hours, so that of the
affected modules a random part runs, and the nightly job runs the others: those that are new, then
in the order of their digests, which no one chooses, as many as took `SECONDS` when they last ran.
"""

from __future__ import annotations

import argparse
import ast
import functools
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[1]
STATE = ROOT / "ci" / "green.json"
# Why an affected module is left out.
LATER = "as the nightly job runs them"
# What this program says to pytest and its workers: a variable of the environment.
PLAN = "DPAUDIT_AFFECTED"

# How long the long tests of a change took in all when they last ran, at most.
SECONDS = 500.0

# Folders whose modules tests import by their bare names, and folders that tests read by name.
HELPERS = ("tests/support", "tests/support/standard_bench", "tests/fuzz", "docs/scripts")
PYTEST_PLUGINS = ("tests/support/loops.py", "tests/support/records.py")
NAMED = ("examples", "docs", "bench", "ci", ".ci", ".github")
# Rooms whose tests all run if anything in the room changes: what they certify rests on each other.
TOGETHER = ("bounds",)
# Names of files that many folders have.
COMMON = {"conftest.py", "__init__.py", "cmd", "expect.toml", "config.toml", "audit.toml"}
LONG = re.compile(r"\bmark\.(?:long|fuzz)\b")
# What tests need beside the extra `test`.
EXTRAS = {
    "torch": re.compile(r"\btorch\b|\bopacus\b|recommenders\.networks"),
    "jax": re.compile(r"\bjax_privacy\b"),
}
PROCESS = re.compile(r"subprocess|sys\.executable|multiprocessing|Popen|os\.fork")
DATA = re.compile(r"real_data|DPAUDIT_DATA")
# Why a test is skipped that another environment would run; LensKit has one of its own.
LACKING = re.compile(r"import '(?!lenskit)|DPAUDIT_DATA|cannot be installed|is not there")
WHOLE = re.compile(r"""\b(?:every|load_all|names)\("(\w+)"\)""")
DOTTED = re.compile(r"\bdpaudit(?:\.\w+)+")
IMPORT = re.compile(r"\bfrom\s+([\w.]+)\s+import\s+(\([^)]*\)|[^\n]*)|^\s*import\s+([\w.]+)", re.M)
WORD = re.compile(r"[\w.-]+")


class Checkout:
    """The files of the project, and which of them a module of tests may read."""

    def __init__(self, root: Path) -> None:
        git = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(git, cwd=root, check=True, capture_output=True, text=True)
        self.root = root
        names = {*listed.stdout.splitlines()} - {STATE.relative_to(ROOT).as_posix()}
        self.files = sorted(name for name in names if (root / name).is_file())
        self.modules = {
            name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name
            for name in self.files
            if name.startswith("dpaudit/") and name.endswith(".py")
        }
        self.project = tomllib.loads(self.text("pyproject.toml"))
        sys.path.insert(0, str(root))  # the graph is of the checkout, whatever is installed
        self.graph = grimp.build_graph(
            "dpaudit", cache_dir=None, exclude_type_checking_imports=True
        )

    @functools.cache  # noqa: B019
    def text(self, name: str) -> str:
        """The text of a file."""
        return (self.root / name).read_text(encoding="utf-8", errors="replace")

    @functools.cache  # noqa: B019
    def digest(self, name: str) -> str:
        """The digest of a file."""
        return hashlib.sha256((self.root / name).read_bytes()).hexdigest()

    def below(self, folder: str) -> list[str]:
        """The files of a folder and of those in it."""
        return [name for name in self.files if name.startswith(f"{folder}/")]

    def long_modules(self) -> list[str]:
        """The test modules that a run may leave out."""
        tests = [name for name in self.below("tests") if re.search(r"/test_\w+\.py$", name)]
        return [name for name in tests if LONG.search(self.text(name)) or self.extras(name)]

    def extras(self, test: str) -> list[str]:
        """The extras that a test module needs beside `test`."""
        return [extra for extra, needs in EXTRAS.items() if needs.search(self.text(test))]

    def reads(self, test: str) -> set[str]:
        """The files of the project that a test module may read."""
        files = self._own(test)
        before: set[str] = set()
        while len(before) < len(files):
            before = files
            words = {word for name in files for word in WORD.findall(self.text(name))}
            named = {name for name in self.files if "/" not in name and name in words}
            named.update(*(self.below(folder) for folder in NAMED if folder in words))
            files = files | self._followed(named)
        texts = "\n".join(self.text(name) for name in sorted(files - {"pyproject.toml"}))
        shared = self._shared(test)
        texts += "\n".join(self._fixtures(name, files) for name in shared)
        files.update(shared)
        words = set(WORD.findall(texts))
        modules = self._modules(texts, words)
        files.update(self.modules[module] for module in modules)
        for room in (room for room in TOGETHER if test.startswith(f"tests/{room}/")):
            files.update(self.below(f"dpaudit/{room}"))
        rooms = {_room(self.modules[module]) for module in modules}
        files.update(name for name in self._unimported if _room(name) in rooms)
        # Whatever is imported of dpaudit runs this file, which imports nothing by itself.
        return {*files, "dpaudit/__init__.py"}

    @functools.cached_property
    def _unimported(self) -> list[str]:
        """The files of dpaudit that are read or started: templates, scripts and examples."""
        imported = {self.modules.get(module) for module in self.graph.modules}
        return [name for name in self.below("dpaudit") if name not in imported]

    def _own(self, test: str) -> set[str]:
        """A test module, its helpers, and what lies in its folder beside other test modules."""
        beside = self.below(Path(test).parent.as_posix())
        return self._followed({test, *(name for name in beside if not _is_module(name))})

    def _followed(self, names: Iterable[str]) -> set[str]:
        """Files with their helpers, and those of these."""
        waiting = list(names)
        files: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name not in files:
                files.add(name)
                waiting += self._helpers(name)
        return files

    @functools.cache  # noqa: B019
    def _helpers(self, name: str) -> list[str]:
        """What a file imports of the tests' helpers, or names of the files of the tests."""
        text = self.text(name)
        words, imported = set(WORD.findall(text)), _imports(text)
        named = [path for path in self.below("tests") if Path(path).name in words]
        return [path for path in named if Path(path).name not in COMMON] + [
            path
            for folder in HELPERS
            for path in self.below(folder)
            if imported & {Path(path).stem, path.removesuffix(".py").replace("/", ".")}
        ]

    def _shared(self, test: str) -> list[str]:
        """The conftest.py files of a test module, and the plug-ins of pytest that they name."""
        places = [f"{folder.as_posix()}/conftest.py" for folder in Path(test).parents]
        return [name for name in (*places, *PYTEST_PLUGINS) if name in self.files]

    def _fixtures(self, shared: str, files: Iterable[str]) -> str:
        """A file that all tests share, without the fixtures that nothing asks for."""
        asked = set().union(*(self._arguments(name) for name in files if name[-3:] == ".py"))
        body = ast.parse(self.text(shared)).body
        fixtures = [n for n in body if isinstance(n, ast.FunctionDef) and n.decorator_list]
        kept: list[ast.FunctionDef] = []
        while more := [node for node in fixtures if node.name in asked and node not in kept]:
            kept += more
            asked |= {argument.arg for node in more for argument in node.args.args}
        lines = self.text(shared).splitlines()
        for node in reversed([node for node in fixtures if node not in kept]):
            del lines[node.lineno - 1 : node.end_lineno]
        return "\n".join(lines) if kept else ""

    @functools.cache  # noqa: B019
    def _arguments(self, name: str) -> set[str]:
        """The names of arguments, and all texts: what may ask for a fixture."""
        nodes = list(ast.walk(ast.parse(self.text(name))))
        texts = {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
        return {node.arg for node in nodes if isinstance(node, ast.arg)} | texts

    def _modules(self, texts: str, words: set[str]) -> set[str]:
        """The modules of dpaudit that these texts name, import, or load as plug-ins."""
        starts = set(DOTTED.findall(texts))
        starts |= _imports(texts)
        if PROCESS.search(texts):
            starts |= {"dpaudit.__main__", "dpaudit.cli.main"}
        waiting = [self._named(start) for start in starts]
        groups = set(WHOLE.findall(texts))
        modules: set[str] = set()
        while waiting:
            modules.update(*map(self._imported, waiting))
            groups.update(*map(self._loads_whole, modules))
            named = words.union(*map(self._literals, modules))
            waiting = [
                module
                for group, name, module in self._plugins
                if "dpaudit.core.registry" in modules
                and module not in modules
                and (group in groups or name in named)
            ]
        return modules

    def _named(self, dotted: str) -> str:
        """The module of a dotted name that may end in a class or a function; else empty."""
        while dotted and dotted not in self.modules:
            dotted = dotted.rpartition(".")[0]
        return dotted

    @functools.cache  # noqa: B019
    def _imported(self, start: str) -> set[str]:
        """A module and all that it imports, also in its functions, with their packages."""
        modules: set[str] = set()
        waiting = [start]
        while waiting:
            module = waiting.pop()
            if module in self.modules and module not in modules:
                modules.add(module)
                waiting += self.graph.find_modules_directly_imported_by(module)
                waiting += self._named_in(module)
                package = module.rpartition(".")[0]
                # What the package of all offers it imports only when it is asked for.
                waiting += [package] if "." in package else []
        return modules

    @functools.cache  # noqa: B019
    def _named_in(self, module: str) -> list[str]:
        """The modules that the texts of a module name, which it may import or start."""
        package = module.rpartition(".")[0]
        texts = " ".join(self._literals(module))
        files = (word for word in WORD.findall(texts) if word.endswith(".py"))
        return [
            *(self._named(name) for name in DOTTED.findall(texts)),
            *(f"{package}.{file.removesuffix('.py')}" for file in files),
        ]

    @functools.cache  # noqa: B019
    def _literals(self, module: str) -> frozenset[str]:
        nodes = ast.walk(ast.parse(self.text(self.modules[module])))
        values = (node.value for node in nodes if isinstance(node, ast.Constant))
        return frozenset(value for value in values if isinstance(value, str))

    @functools.cache  # noqa: B019
    def _loads_whole(self, module: str) -> set[str]:
        return set(WHOLE.findall(self.text(self.modules[module])))

    @functools.cached_property
    def _plugins(self) -> list[tuple[str, str, str]]:
        """Group, name and module of each plug-in."""
        return [
            (group.removeprefix("dpaudit."), name, target.partition(":")[0])
            for group, points in self.project["project"]["entry-points"].items()
            for name, target in points.items()
        ]

    @functools.cached_property
    def _versions(self) -> list[str]:
        """What every test reads: Python, the versions of packages, and the options of pytest."""
        options = json.dumps(self.project["tool"]["pytest"], sort_keys=True)
        return [
            platform.python_version(),
            platform.machine(),
            options,
            self.digest("constraints.txt"),
        ]

    @functools.cached_property
    def _data(self) -> list[str]:
        folder = os.environ.get("DPAUDIT_DATA")
        files = sorted(path for path in Path(folder).rglob("*") if path.is_file()) if folder else []
        return [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]

    def state(self, test: str) -> str:
        """The digest of all that a test module may read."""
        files = sorted(self.reads(test))
        lines = [f"{name} {self.digest(name)}" for name in files] + self._versions
        asking = (name for name in files if not name.startswith("dpaudit/"))
        if any(DATA.search(self.text(name)) for name in asking if not name.endswith("conftest.py")):
            lines += self._data
        if "dpaudit/core/registry.py" in files:
            lines.append(json.dumps(self.project["project"]["entry-points"], sort_keys=True))
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _is_module(name: str) -> bool:
    """Whether a file is a module of tests, or of fixtures, which are looked at apart."""
    return bool(re.fullmatch(r"test_\w+\.py|conftest\.py", Path(name).name))


def _room(path: str) -> str:
    """The first two folders of a file, or the file itself."""
    folders = path.split("/")[:-1]
    return "/".join(folders[:2]) or path


def _imports(text: str) -> set[str]:
    """The dotted names that a text imports, as code or inside of a string."""
    names: set[str] = set()
    for module, members, alone in IMPORT.findall(text):
        names |= {module, alone, *(f"{module}.{member}" for member in WORD.findall(members))}
    return names


def load(path: Path) -> dict[str, Any]:
    """A file of JSON; empty if there is none."""
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}


def runs(why: str) -> bool:
    """Whether a reason is one to run a test module."""
    return why not in ("", LATER)


def reason(state: str, passed: list[Any] | None) -> str:
    """Why a test module runs; empty if nothing has changed since it passed."""
    if passed is None:
        return "as they have not passed yet"
    return "" if passed[0] == state else "as something that they may read has changed"


def postponed(
    affected: Iterable[str], states: Mapping[str, str], passed: Mapping[str, list[Any]]
) -> list[str]:
    """Return the affected test modules that a change leaves to the nightly job."""
    total, later = 0.0, []
    for name in sorted(affected, key=lambda name: (name in passed, states[name])):
        total += passed.get(name, ["", 0.0])[1]
        if total > SECONDS:
            later.append(name)
    return later


def main() -> int:
    """Say which modules run and why, and run them."""
    parser = argparse.ArgumentParser(description="Run the tests that a change may touch.")
    parser.add_argument("--all", action="store_true", help="leave nothing out")
    parser.add_argument("--list", action="store_true", help="run nothing")
    parser.add_argument("--record", action="store_true", help="write ci/green.json of what passes")
    parser.add_argument("--extras", action="store_true", help="only say which extras tests need")
    options, more = parser.parse_known_args()
    if options.record and more:
        parser.error(f"{' '.join(more)}: --record needs whole modules; leave it out")
    checkout, passed = Checkout(ROOT), load(STATE)
    states = {name: checkout.state(name) for name in checkout.long_modules()}
    reasons = {name: reason(state, passed.get(name)) for name, state in states.items()}
    if options.all:
        reasons = dict.fromkeys(states, "as all do")
    elif not options.record:
        later = postponed((name for name in reasons if reasons[name]), states, passed)
        reasons |= dict.fromkeys(later, LATER)
    if options.extras:
        running = [name for name, why in reasons.items() if runs(why)]
        needed = {extra for name in running for extra in checkout.extras(name)}
        print(",".join(sorted(needed)))
        return 0
    for why in sorted({*reasons.values()}):
        names = [name for name in reasons if reasons[name] == why]
        left = f"left out, {why or 'as nothing that they read has changed'}"
        head = f"run, {why}" if runs(why) else left
        print(f"{head}: {len(names)} modules", *names, sep="\n  ", flush=True)
    if options.list:
        return 0
    plan = {
        "state": str(STATE),
        "passed": passed,
        "left out": [name for name, why in reasons.items() if not runs(why)],
        "record": states if options.record else {},
    }
    marks = "not browser" if options.all else "not browser and not nightly"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        path.write_text(json.dumps(plan), encoding="utf-8")
        found = os.environ.get("PYTHONPATH")
        places = os.pathsep.join([str(ROOT / "ci"), *([found] if found else [])])
        command = [sys.executable, "-m", "pytest", "-p", "affected", "--durations=20", "-m", marks]
        return subprocess.call(
            [*command, *more], cwd=ROOT, env={**os.environ, PLAN: str(path), "PYTHONPATH": places}
        )


# The plug-in of pytest.


def _plan() -> dict[str, Any]:
    return load(Path(os.environ[PLAN]))


def _module(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what no change touches, and begin with the modules that take longest."""
    plan = _plan()

    def runs(item: pytest.Item) -> bool:
        slow = item.get_closest_marker("long") or item.get_closest_marker("fuzz")
        return not slow or _module(item.nodeid) not in plan["left out"]

    def seconds(item: pytest.Item) -> float:
        return float(plan["passed"].get(_module(item.nodeid), ["", 0.0])[1])

    config.hook.pytest_deselected(items=[item for item in items if not runs(item)])
    items[:] = sorted(filter(runs, items), key=seconds, reverse=True)


class Results:
    """What each module took, and which have tests that did not pass."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.lacking: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test; one that is skipped for lack of a package or of data has not passed."""
        self.seconds[_module(report.nodeid)] += report.duration
        # A loop over cases says in its properties which were skipped.
        reason = report.longrepr if report.skipped else report.user_properties
        if report.failed or LACKING.search(str(reason)):
            self.lacking.add(_module(report.nodeid))

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the state of the modules that passed, if that is asked for."""
        plan = _plan()
        if exitstatus > pytest.ExitCode.TESTS_FAILED or not plan["record"]:
            return
        # An older state is only of use where it is the present one, so that none is dropped.
        kept = plan["record"].keys() - self.lacking
        passed = {name: old for name, old in plan["passed"].items() if name in kept}
        for name in self.seconds.keys() & kept:
            if name not in plan["left out"]:
                passed[name] = [plan["record"][name], self.seconds[name]]
        lines = [
            f'"{name}": ["{state}", {took:.0f}]' for name, (state, took) in sorted(passed.items())
        ]
        Path(plan["state"]).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Count in the process that hands out the tests."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Results())


if __name__ == "__main__":
    sys.exit(main())
