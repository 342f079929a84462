"""Oversized or deeply nested configs are refused quickly, in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpaudit.config import load as config_file
from dpaudit.core.errors import ConfigError

GRID = ", ".join(
    f"{name} = {list(range(1, 31))}" for name in ("learning_rate", "decay", "spread", "clip_norm")
)
GATES = '[[gate]]\nmetric = "epsilon"\nmax = 1\ndetectable = 2\n'
HOSTILE = {
    "a grid of 30^4": (
        f'[model]\ndefense = "dpsgd-mf"\ngrid = {{ {GRID} }}\n',
        "grid has 810000 combinations, more than the 1000 allowed: leave out values",
    ),
    "20 000 models": (
        "".join(f'[[model]]\nlabel = "{i}"\n' for i in range(20_000)),
        "at most 500 items",
    ),
    "3 000 gates": ("[[game]]\n" + GATES * 3000, "at most 500 items"),
    "a sweep of everything": (
        f"[model]\nepsilon = {list(range(1, 501))}\n"
        + "".join(f'[[game]]\npair = "{i}"\n' for i in range(100)),
        "500 values of ε over all models, with 102 measures each, exceed the limit of 10000",
    ),
    "a number of 6000 hexadecimal digits": (
        f"seed = 0x{'f' * 6000}\n",
        "seed = a value of thousands of digits",
    ),
    "keys nested by 100 000 parts": (
        f"a{'.a' * 100_000} = 1\n",
        "nests tables or lists more than 20",
    ),
    "keys nested in quotes": (
        "[a" + '."b"' * 1000 + "]\n",
        "nests tables or lists more than 20 deep",
    ),
    "keys nested": (f"{'.'.join('a' * 5000)} = 1\n", "nests tables or lists more than 20 deep"),
    "lists nested": (f"a = {'[' * 400}{']' * 400}\n", "nests tables or lists more than 20 deep"),
    "lists nested beyond Python": (f"a = {'[' * 9000}{']' * 9000}\n", "is not valid TOML"),
    "a number of 5000 digits": (f"seed = {'9' * 5000}\n", "is not valid TOML"),
    "a large number": (f"[audit]\ntrials = {10**400}\n", "audit.trials = 1000"),
    "a large value of a real parameter": (
        f"[model]\nparams = {{ min_ratings = {10**400} }}\n",
        "min_ratings = 1000",
    ),
    "a key of a million letters": (f'"{"k" * 10**6}" = 1\n', "is not known"),
    "a word of a million letters": (f'[model]\ndefense = "{"k" * 10**6}"\n', "there is no defense"),
    "a file without end": ("#" * (2**22 + 1), "has more than 4194304 characters"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_config_is_one_short_sentence_at_once(name: str, tmp_path: Path) -> None:
    path = tmp_path / "audit.toml"
    text, words = HOSTILE[name]
    path.write_text(text, encoding="utf-8")
    found = subprocess.run(
        [sys.executable, "-m", "dpaudit", "plan", str(path)],
        capture_output=True,
        text=True,
        timeout=60,  # only a hang takes longer
        check=False,
    )
    assert found.returncode == 2, found.stderr
    assert words in found.stderr
    assert len(found.stderr.splitlines()) == 1
    assert len(found.stderr) < 1200


def test_a_device_without_end_is_no_config() -> None:
    if not Path("/dev/zero").exists():
        pytest.skip("there is no device without end")
    with pytest.raises(ConfigError, match="a pipe or a device"):
        config_file.load(Path("/dev/zero"))


@pytest.mark.parametrize(
    "override", ["a" + ".a" * 5000 + "=1", f"model.params.a={'[' * 400}{']' * 400}"]
)
def test_an_option_cannot_nest_a_config_without_end(override: str, tmp_path: Path) -> None:
    path = tmp_path / "audit.toml"
    path.write_text("[model]\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"--set .* more than 20 deep"):
        config_file.load(path, [override])


def test_as_many_gates_as_are_allowed_are_checked_soon(tmp_path: Path) -> None:
    path = tmp_path / "audit.toml"
    games = "".join(
        f'[[game]]\npair = "support-threshold"\nobserve = "{o}"\n' for o in ("values", "list")
    )
    text = f"[model]\nepsilon = {list(range(1, 501))}\n{games}{GATES * 500}"
    path.write_text(text, encoding="utf-8")
    config = config_file.load(path)
    assert len(config.gate) == 500
    assert os.path.getsize(path) < 2**22
