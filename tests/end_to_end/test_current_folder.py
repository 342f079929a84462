"""Nothing that dpaudit starts runs a file of the current folder, whatever its name."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from own_class import CLASS  # type: ignore[import-not-found]
from poison import OPTIONAL, SITE, Poison, elsewhere, installed  # type: ignore[import-not-found]

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
WORKERS = ["processes:2", *(pytest.param(w, marks=pytest.mark.nightly) for w in ("2", "dask:2"))]
SYNTHETIC = "synthetic = { n_users = 60, n_items = 50, mean_per_user = 25 }"
CONFIG = """
seed = 1
[data]
{data}
[model]
[[attack]]
[audit]
trials = 100
"""
MECHANISM = """
seed = 1
[defense]
kind = "python"
target = "own_module_of_mine:own_sum"
isolate = "process"
d = [0.0]
d_prime = [1.0]
epsilon = 1.0
adjacency = "one rating"
[audit]
trials = 200
"""
CODE = f"""{CLASS}
def own_sum(data, rng):
    return sum(data) + rng.laplace()
"""
# It needs its own folder on the path, as Python gives it to a script.
COMMAND = """
import csv, json, sys
import neighbour_of_mine

task = json.load(open(sys.argv[1]))
with open(task["scores"], "w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["user", "item", "score"])
    for row in csv.DictReader(open(task["pairs"])):
        rows.writerow([row["user"], row["item"], neighbour_of_mine.SCORE])
"""
MEMBERSHIP = """
seed = 3
[data]
synthetic = { n_users = 60, n_items = 50, mean_per_user = 25 }
[membership]
trainings = 8
interactions = 120
held_out = 40
observers = ["scores"]
rates = [0.1]
[[recommender]]
"""


class Step:
    """A poisoned folder, and commands that run in it as a user has installed them."""

    def __init__(self, folder: Path, names: set[str]) -> None:
        self.folder, self.tools = folder / "checkout", folder / "bin"
        for made in (self.folder, self.tools):
            made.mkdir()
        self.poison = Poison(self.folder, names | {"own_plugin"})
        plugin = self.folder / "own_plugin-1.0.dist-info"
        plugin.mkdir()
        (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: own-plugin\nVersion: 1.0\n")
        (plugin / "entry_points.txt").write_text("[dpaudit.metrics]\nown = own_plugin:METRIC\n")
        self.write("audit.toml", CONFIG.format(data=SYNTHETIC))
        # As pip writes it. What pip would install is installed already.
        self.tool(
            "dpaudit",
            f"#!{sys.executable}\nimport sys\nfrom dpaudit.__main__ import main\n"
            "if __name__ == '__main__':\n    sys.exit(main())\n",
        )
        self.tool(
            "python",
            f"#!/bin/sh\nwords=$*\ncase \"$words\" in *'-m pip '*) exec {sys.executable} "
            f'${{words%%install*}} --version ;; esac\nexec {sys.executable} "$@"\n',
        )

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def tool(self, name: str, text: str) -> None:
        (self.tools / name).write_text(text, encoding="utf-8")
        (self.tools / name).chmod(0o755)

    def runs(self, *command: object, code: int = 0, **variables: str) -> str:
        """Run a command, which ends with this code, and no file of the folder; return its words."""
        done = subprocess.run(
            [*map(str, command)],
            cwd=self.folder,
            env={**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}", **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert self.poison.ran() == [], done.stderr
        assert done.returncode == code, done.stderr
        return done.stdout

    def audits(self, *arguments: object) -> None:
        """Run an audit to its report."""
        out = self.folder.parent / "out"
        self.runs("dpaudit", "run", *arguments, "-q", "-o", out, "--force")
        assert (out / "report.html").exists()


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Step:
    return Step(tmp_path_factory.mktemp("poisoned"), installed() | OPTIONAL | SITE)


@pytest.mark.parametrize("workers", WORKERS)
def test_workers(step: Step, workers: str) -> None:
    if workers == "dask:2":
        pytest.importorskip("distributed")
    step.audits("audit.toml", "--workers", workers)


@pytest.mark.parametrize("kind", ["parquet", "matlab"])
def test_readers(step: Step, kind: str) -> None:
    rng = np.random.default_rng(1)
    chosen = rng.permutation(60 * 50)[:1500]
    table = np.column_stack([chosen // 50, chosen % 50, rng.integers(1, 6, 1500)])
    if kind == "matlab":
        from scipy.io import savemat

        savemat(step.folder / "ratings", {"ratings": table.astype(float)})
        columns = "{ user = 0, item = 1, rating = 2 }"
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        pyarrow = pytest.importorskip("pyarrow")
        names = ["user", "item", "rating"]
        parquet.write_table(pyarrow.table([*table.T], names), step.folder / "ratings")
        columns = "{ user = 'user', item = 'item', rating = 'rating' }"
    scale = "{ minimum = 1, maximum = 5 }"
    data = f"path = 'ratings'\nformat = '{kind}'\ncolumns = {columns}\nscale = {scale}"
    step.write(f"{kind}.toml", CONFIG.format(data=data))
    step.audits(f"{kind}.toml")


def test_python_m(step: Step) -> None:
    step.runs(sys.executable, "-P", "-m", "dpaudit", "claims", "pa11")


def test_python_m_where_python_itself_has_loaded_no_file(tmp_path: Path) -> None:
    # Python has the current folder on its path before it finds dpaudit.
    code = "import runpy, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.check_output([sys.executable, "-I", "-c", code], text=True).split()
    names = (installed() | OPTIONAL | SITE) - {"dpaudit", *loaded}
    assert {"__future__", "typing", "secrets", "joblib", "numpy"} <= names
    step = Step(tmp_path, names)
    command = ("dpaudit", "run", "audit.toml", "-q", "--workers", "processes:2")
    step.runs(sys.executable, "-m", *command)


def test_an_empty_entry_of_the_path_names_no_folder(tmp_path: Path) -> None:
    code = "import dpaudit.core.processes, sys; print(*{n.partition('.')[0] for n in sys.modules})"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    step = Step(tmp_path, (installed() | OPTIONAL) - {"dpaudit", *loaded})
    command = ("dpaudit", "run", "audit.toml", "-q", "--workers", "processes:2")
    step.runs(*command, PYTHONPATH=f":{ROOT}:")


@pytest.mark.parametrize("workers", WORKERS)
def test_own_code_among_such_files(step: Step, tmp_path: Path, workers: str) -> None:
    if workers == "dask:2":
        pytest.importorskip("distributed")
    own = tmp_path / "own"
    own.mkdir()
    poison = Poison(own, installed() - elsewhere())
    (own / "own_module_of_mine.py").write_text(CODE, encoding="utf-8")
    for config in (MECHANISM, MEMBERSHIP + 'target = "own_module_of_mine:Model"\n'):
        (own / "audit.toml").write_text(config, encoding="utf-8")
        step.audits(own / "audit.toml", "--allow-code", "--workers", workers)
        assert poison.ran() == []


@pytest.mark.parametrize("workers", WORKERS[:2])
def test_a_command(step: Step, tmp_path: Path, workers: str) -> None:
    (tmp_path / "train.py").write_text(COMMAND, encoding="utf-8")
    (tmp_path / "neighbour_of_mine.py").write_text("SCORE = 1.5\n", encoding="utf-8")
    command = f'command = "{sys.executable} train.py {{task}}"\nparams = {{ shows = ["scores"] }}\n'
    (tmp_path / "command.toml").write_text(MEMBERSHIP + command, encoding="utf-8")
    step.audits(tmp_path / "command.toml", "--allow-code", "--workers", workers)


def test_the_step_of_github(step: Step) -> None:
    pytest.importorskip("pip")
    told = step.folder.parent / "told"
    printed = step.runs(
        "bash",
        ROOT / "ci" / "github.sh",
        GITHUB_ACTION_PATH=str(ROOT),
        GITHUB_STEP_SUMMARY=str(told),
        GITHUB_OUTPUT=str(told),
        AUDIT_CONFIG="audit.toml",
        AUDIT_OUTPUT=str(step.folder.parent / "github"),
    )
    assert printed.startswith("pip ")
    assert "outcome=no decision" in told.read_text()


def test_the_job_of_gitlab(step: Step) -> None:
    import yaml

    pytest.importorskip("pip")
    job = yaml.safe_load((ROOT / "ci" / "gitlab.yml").read_text())["dpaudit"]
    variables = {**job["variables"], "AUDIT_CONFIG": "audit.toml", "AUDIT_ARGS": "-q"}
    script = "\n".join(job["script"])
    step.runs("bash", "-ec", script, code=1, **variables)  # no index has what the job installs
    variables["AUDIT_PACKAGE"] = str(ROOT)
    assert step.runs("bash", "-ec", script, **variables).startswith("pip ")


def test_the_hooks_of_pre_commit(step: Step) -> None:
    import yaml

    step.write("dpaudit-plan.toml", CONFIG.format(data=SYNTHETIC))
    arguments = {"dpaudit-plan": "dpaudit-plan.toml", "dpaudit-claims": "pa11"}
    for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text()):
        step.runs(*shlex.split(hook["entry"]), arguments[hook["id"]])
