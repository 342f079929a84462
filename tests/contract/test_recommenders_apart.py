"""The contract of adapters whose libraries clash with our pins, in environments made here.

A minute each, and a package index is needed: without one the tests are skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What the contract's tests need besides the library.
TESTED_WITH = ("pytest>=8.2", "pytest-xdist>=3.6", "hypothesis>=6.100")


@pytest.mark.long
@pytest.mark.parametrize("library", ["lenskit"])
def test_the_adapter_keeps_the_contract_in_its_own_environment(
    library: str, tmp_path: Path
) -> None:
    python = str(tmp_path / "bin" / "python")
    made = subprocess.run([sys.executable, "-m", "venv", tmp_path], check=False)
    assert made.returncode == 0
    # Our pins are what the library clashes with.
    environment = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    install = [python, "-m", "pip", "install", "-q", f"{ROOT}[{library}]", *TESTED_WITH]
    installed = subprocess.run(
        install, env=environment, capture_output=True, text=True, check=False, timeout=900
    )
    if installed.returncode:
        pytest.skip(f"{library} cannot be installed here: {installed.stderr[-300:]}")
    tests = ["tests/contract/test_recommenders.py", f"tests/recommenders/test_{library}.py"]
    found = subprocess.run(
        [python, "-m", "pytest", "-n", "0", "-q", "-k", library, *tests],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout[-3000:]
    assert "skipped" not in found.stdout.splitlines()[-1], found.stdout[-500:]
