"""The contract of adapters whose libraries clash with our pins, in environments made here.

LensKit brings torch, which is not installed again where the environment of the tests has it.

What does not clash is taken from the environment of the tests. A minute each, and a package index
is needed: without one the tests are skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.parametrize(
    ("library", "module"),
    [("lenskit", "tests/recommenders/test_libraries_lenskit.py")],
    ids=["lenskit"],
)
def test_the_adapter_keeps_the_contract_in_its_own_environment(
    library: str, module: str, tmp_path: Path
) -> None:
    python = str(tmp_path / "bin" / "python")
    made = subprocess.run([sys.executable, "-m", "venv", tmp_path], check=False)
    assert made.returncode == 0
    # After its own packages, which so come first.
    own = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path)}))
    ours = [path for path in sys.path if Path(path).name in {"site-packages", "dist-packages"}]
    (own / "ours.pth").write_text("\n".join(ours), encoding="utf-8")
    # Our pins are what the library clashes with.
    environment = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = project["optional-dependencies"][library]
    install = [python, "-m", "pip", "install", "-q", "--no-compile", *wanted]
    installed = subprocess.run(
        install, env=environment, capture_output=True, text=True, check=False, timeout=900
    )
    if installed.returncode:
        pytest.skip(f"{library} cannot be installed here: {installed.stderr[-300:]}")
    tests = ["tests/contract/test_recommenders.py", module]
    found = subprocess.run(
        [python, "-m", "pytest", "-n", "0", "-q", "-k", library, *tests],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout[-3000:]
    assert "skipped" not in found.stdout.splitlines()[-1], found.stdout[-500:]
