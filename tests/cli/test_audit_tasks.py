"""Finished tasks of `dpaudit run`: resumed, listed, started afresh, divided and merged."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from dpaudit.execution.reporter import Reporter
from dpaudit.execution.store import NAME, opened, read, words_of
from tests.support.commands import call

SMALL = """
[data]
synthetic = { n_users = 60, n_items = 50, mean_per_user = 25 }
[model]
label = "m"
epsilon = [1, 30]
params = { top_k = 5 }
[[attack]]
[[sybil]]
efforts = [1, 2]
trials = 20
[audit]
trials = 2000
fail_on_false_claim = false
[[game]]
pair = "tight"
trials = 1000
"""


def record(folder: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    del values["timing"]
    return values


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "audit.toml"
    path.write_text(SMALL, encoding="utf-8")
    return path


def run(config: Path, out: Path, *options: object) -> Result:
    result = call("run", config, "-o", out, "-q", *options)
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.long
def test_a_drawn_seed_is_used_again_and_fresh_draws_another(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(config, out)
    first, keys = record(out), read(out / NAME).keys
    run(config, out)
    assert record(out) == first
    assert read(out / NAME).keys >= keys
    run(config, out, "--fresh")
    assert record(out)["config"]["seed"] != first["config"]["seed"]


CHANGES = [
    "sybil.0.efforts=[2,3]",
    "game.0.trials=1500",
    "model.0.epsilon=[1,30,40]",
    "seed=2",
    "audit.trials=2500",
    "game.0.pair=support-threshold",
    "sybil.0.trials=25",
    "model.0.params.top_k=4",
    "model.0.params.min_ratings=5",
    "model.0.variant=corrected",
    "attack.0.draw=ratings",
    "split.test_share=0.3",
    "data.synthetic.n_items=55",
    "audit.confidence=0.9",
]


@pytest.mark.long
@pytest.mark.parametrize("change", CHANGES)
def test_in_one_folder_a_changed_config_gives_its_own_record(
    config: Path, tmp_path: Path, change: str
) -> None:
    text = SMALL.replace("[model]", "[[model]]")
    config.write_text(f"seed = 1\n{text}", encoding="utf-8")
    out, alone = tmp_path / "out", tmp_path / "alone"
    run(config, out)
    run(config, out, "-s", change, "--force")
    run(config, alone, "-s", change)
    assert record(out) == record(alone)


@pytest.mark.long
def test_more_trials_extend_a_run(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(config, out, "--seed", 1, "-s", "sybil.trials=20", "-s", "game=[]")
    before = read(out / NAME)
    run(config, out, "--seed", 1, "-s", "sybil.trials=30", "-s", "game=[]")
    after = read(out / NAME)
    stage = "m: Sybil attack dynamic, values"
    assert after.stages[stage].trials > before.stages[stage].trials
    assert before.keys < after.keys


@pytest.mark.long
def test_another_seed_asks_before_anything_is_dropped(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(config, out, "--seed", 1)
    before, keys = record(out), read(out / NAME).keys
    for finished in (True, False):  # with a record, and with tasks of an interrupted run
        refused = call("run", config, "-o", out, "--seed", 2)
        assert refused.exit_code == 2
        [sentence] = refused.stderr.splitlines()
        assert f"{out} holds " in sentence
        assert "other seed" in sentence
        assert "--force" in sentence
        assert "-o names another folder" in sentence
        assert read(out / NAME).keys == keys
        if finished:
            assert record(out) == before
            (out / "record.json").unlink()
    said = run(config, out, "--seed", 2, "--force").stderr
    assert "another run (other seed)" in said
    assert record(out)["config"]["seed"] == 2
    run(config, out, "--seed", 3, "--fresh")
    assert record(out)["config"]["seed"] == 3


@pytest.mark.long
def test_a_merge_asks_too(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(config, out, "--seed", 1)
    few = ("-s", "game=[]", "-s", "sybil=[]")
    assert call("run", config, "-o", out, "--seed", 2, "--shard", "1/1", *few).exit_code == 0
    refused = call("merge", out)
    assert refused.exit_code == 2
    assert "other game, other seed, other sybil" in refused.stderr
    assert call("merge", out, "--force", "-q").exit_code == 0
    assert record(out)["config"]["seed"] == 2


@pytest.mark.long
def test_a_damaged_store_is_one_sentence(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(config, out, "--seed", 1)
    whole = record(out)
    with closing(sqlite3.connect(out / NAME)) as file, file:
        file.execute("update results set value = zeroblob(length(value)) where rowid = 2")
    result = run(config, out, "--seed", 1)
    assert len(result.stderr.splitlines()) == 1
    assert "is damaged: its" in result.stderr
    assert record(out) == whole


@pytest.mark.long
def test_of_a_secret_seed_no_store_is_left(config: Path, tmp_path: Path) -> None:
    config.write_text(f"seed = 'entropy'\n{SMALL}", encoding="utf-8")
    out = tmp_path / "out"
    run(config, out)
    assert not (out / NAME).exists()
    assert record(out)["config"]["seed"] == "entropy"


@pytest.mark.long
def test_a_run_with_a_secret_seed_goes_on_with_it(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text(f"seed = 'entropy'\n{SMALL}", encoding="utf-8")
    out = tmp_path / "out"

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("dpaudit.audits.on_demand.games.match_of", stopped)
        assert call("run", config, "-o", out, "-q").exit_code == 130
    assert words_of(out / NAME).get("secret", "") == "yes"
    listed = call("runs", out).output
    assert ", seed " not in listed
    assert json.loads(words_of(out / NAME)["identity"])["seed"] not in listed
    known: list[int] = []
    monkeypatch.setattr(Reporter, "stored", lambda _, trials: known.append(trials))
    run(config, out)
    assert sum(known) > 2000
    assert not (out / NAME).exists()


@pytest.mark.long
def test_runs_lists_what_is_there(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(config, out, "--seed", 7)
    text = call("runs", out).output
    assert f"{out / NAME}, " in text.replace("\n", "")
    assert "seed 7" in text
    assert "m: Sybil attack dynamic, values" in text
    refused = call("runs", tmp_path)
    assert refused.exit_code == 2
    assert "holds no finished tasks" in refused.stderr


@pytest.mark.long
def test_shards_are_merged_into_the_record_of_the_run(config: Path, tmp_path: Path) -> None:
    run(config, tmp_path / "whole", "--seed", 7)
    out = tmp_path / "out"
    for turn in range(6):
        for index in (1, 2):
            done = call("run", config, "-o", out, "--seed", 7, "--shard", f"{index}/2")
            assert done.exit_code == 0, done.output
            assert f"Shard {index}/2 is done" in done.output
        assert not (out / "record.json").exists()
        merged = call("merge", out, "-q")
        if merged.exit_code != 3:
            break
        assert "again with -o" in merged.stderr, turn
    assert merged.exit_code == 0, merged.output
    assert record(out) == record(tmp_path / "whole")
    assert (out / "report.html").exists()
    listed = call("runs", out).output
    assert "shard 2/2" in listed


# Runs the tasks of an array job one after the other, as `sbatch --wait` does elsewhere.
SBATCH = """#!/usr/bin/env bash
for option; do case $option in --array=1-*) last=${option#--array=1-} ;; esac; done
export SLURM_CPUS_PER_TASK=1
for ((task = 1; task <= last; task++)); do SLURM_ARRAY_TASK_ID=$task bash -c "${!#}" || exit 1; done
"""


@pytest.mark.long
def test_the_example_for_slurm_merges_its_shards(config: Path, tmp_path: Path) -> None:
    config.write_text(SMALL.partition("[[sybil]]")[0], encoding="utf-8")
    (tmp_path / "bin").mkdir()
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.write_text(SBATCH, encoding="utf-8")
    sbatch.chmod(0o755)
    path = os.pathsep.join(
        [str(sbatch.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    )
    script = Path(__file__).parents[2] / "examples" / "cluster" / "slurm.sh"
    command = ["bash", str(script), str(config), str(tmp_path / "out"), "2", "7"]
    ran = subprocess.run(
        command, env={**os.environ, "PATH": path}, check=False, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    run(config, tmp_path / "whole", "--seed", 7)
    assert record(tmp_path / "out") == record(tmp_path / "whole")


@pytest.mark.cases(
    ("options", "words"),
    [
        (("--shard", "3/2"), "the option --shard '3/2' is not i/n"),
        (("--shard", "1/2"), "shards share a seed"),
        (("--workers", "threads:2"), "the option --workers 'threads:2' is none of"),
        (("--workers", "0"), "the option --workers '0' is none of"),
    ],
)
def test_wrong_options_are_one_sentence_and_leave_nothing(
    config: Path, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    result = call("run", config, "-o", tmp_path / "out", *options)
    assert result.exit_code == 2
    assert words in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_merge_of_nothing_is_refused(tmp_path: Path) -> None:
    result = call("merge", tmp_path)
    assert result.exit_code == 2
    assert "holds no shards" in result.stderr


def test_runs_escapes_words_and_refuses_what_is_no_store(tmp_path: Path) -> None:
    with opened(tmp_path, {"tool": "\x1b[2Jx"}) as store:
        store.set("trials", "\x1b]0;title\x07")
        store.put("key", "stage \x1b[2J", 1, 0.5, "text")
    listed = call("runs", tmp_path)
    assert listed.exit_code == 0
    assert "trials planned" in listed.output
    assert "\x1b" not in listed.output
    (tmp_path / NAME).unlink()
    (tmp_path / NAME).mkdir()
    refused = call("runs", tmp_path)
    assert refused.exit_code == 2
    assert "a pipe or a device" in refused.stderr
    (tmp_path / NAME).rmdir()
    (tmp_path / NAME).write_bytes(b"no store at all")
    refused = call("runs", tmp_path)
    assert refused.exit_code == 2
    [sentence] = refused.stderr.splitlines()
    assert "is damaged, or no store" in sentence
