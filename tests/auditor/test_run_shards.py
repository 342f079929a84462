"""Shards of a run, merged, give the record of the whole run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, ClassVar

import pytest

from dpaudit.auditor.plan import Plan, RunFolder
from dpaudit.auditor.run import merge, run_audit, run_shard
from dpaudit.config.schema import Config
from dpaudit.core.errors import ConfigError, RunError
from dpaudit.execution.store import NAME, opened, read
from dpaudit.execution.tasks import Progress, Shard
from dpaudit.record.result import AuditResult

SMALL: dict[str, Any] = {
    "seed": 3,
    "data": {"synthetic": {"n_users": 40, "n_items": 50, "mean_per_user": 25}},
    "model": {"defense": "slope-one", "epsilon": [2, 20], "params": {"top_k": 5}},
    "attack": {"name": "linear-ideal"},
    "game": {"trials": 4000},
    "audit": {"trials": 3000},
}
TRAINED: dict[str, Any] = {
    "seed": 3,
    "data": {"synthetic": {"n_users": 30, "n_items": 40, "mean_per_user": 20}},
    "train": {"folds": 2, "trials": 20},
    "model": {
        "defense": "dpsgd-mf",
        "epsilon": [1],
        "params": {"epochs": 2, "dimensions": 2},
        "grid": {"learning_rate": [0.002, 0.004]},
    },
    "game": {"pair": "rating", "trials": 40},
}


def numbers(record: AuditResult) -> dict[str, Any]:
    return record.model_dump(exclude={"timing"})


def shards(config: Config, folder: Path, count: int, *, together: bool = False) -> list[Path]:
    """Run all shards, each in a folder of its own unless they are together."""
    places = [folder if together else folder / f"s{index}" for index in range(1, count + 1)]
    for index, place in enumerate(places, 1):
        run_shard(Plan(config, RunFolder(place)), Shard(index, count))
    return places


def merged_in_rounds(config: Config, folder: Path, count: int) -> tuple[AuditResult, int]:
    """Run shards in one folder and merge, until the record is there; also the rounds."""
    for turn in range(1, 10):
        shards(config, folder, count, together=True)
        try:
            return merge([folder], folder), turn
        except RunError as error:
            assert "follow from their results" in str(error)  # noqa: PT017
    raise AssertionError("no record after many rounds")


@pytest.mark.long
@pytest.mark.parametrize("values", [SMALL, TRAINED], ids=["on demand", "trained"])
def test_shards_that_share_a_folder_give_the_record_in_few_rounds(
    tmp_path: Path, values: dict[str, Any]
) -> None:
    config = Config.model_validate(values)
    record, rounds = merged_in_rounds(config, tmp_path, 3)
    assert numbers(record) == numbers(run_audit(config))
    # The grid, the models, and at most four mutants.
    assert rounds <= 5
    # Every task was run once.
    keys = [read(tmp_path / f"tasks-{index}-of-3.sqlite").keys for index in (1, 2, 3)]
    assert sum(map(len, keys)) == len(set.union(*keys)) == len(read(tmp_path / NAME).keys)


def test_a_shard_says_that_the_whole_run_beside_it_is_another(tmp_path: Path) -> None:
    class Told(Progress):
        notes: ClassVar[list[str]] = []

        def note(self, text: str) -> None:
            self.notes.append(text)

    with opened(tmp_path, {"code": "other"}) as store:
        store.put("key", "stage", 1, 0.5, "result")
    run_shard(
        Plan(Config.model_validate(TRAINED), RunFolder(tmp_path)), Shard(1, 2), progress=Told()
    )
    assert len(Told.notes) == 1
    assert f"{NAME} is of another run (other code of dpaudit or of a plug-in" in Told.notes[0]
    assert Told.notes[0].endswith("so it is not used")


def test_what_the_shards_leave_open_the_run_finishes(tmp_path: Path) -> None:
    config = Config.model_validate(TRAINED)
    places = shards(config, tmp_path, 2)
    with pytest.raises(RunError, match="finish here with"):
        merge(places, tmp_path / "all")

    class Told(Progress):
        known = 0

        def stored(self, trials: int) -> None:
            self.known += trials

    told = Told()
    record = run_audit(config, progress=told, folder=RunFolder(tmp_path / "all"))
    assert told.known >= 40
    assert numbers(record) == numbers(run_audit(config))


@pytest.mark.long
def test_a_missing_and_a_doubled_shard_are_named(tmp_path: Path) -> None:
    config = Config.model_validate(SMALL)
    places = shards(config, tmp_path, 4)
    with pytest.raises(ConfigError, match="missing shards: 2/4, 4/4; run them"):
        merge([places[0], places[2]], tmp_path / "all")
    copy = tmp_path / "copy"
    shutil.copytree(places[1], copy)
    with pytest.raises(ConfigError, match="shard 2/4 is there twice, in") as error:
        merge([*places, copy], tmp_path / "all")
    assert str(copy) in str(error.value)
    assert str(places[1]) in str(error.value)
    with pytest.raises(ConfigError, match="holds no shards"):
        merge([tmp_path / "none"], tmp_path / "all")
    assert not (tmp_path / "all").exists()


@pytest.mark.parametrize(
    ("change", "why"),
    [({"seed": 4}, "other config"), ({"audit": {"trials": 3001}}, "other config")],
)
def test_shards_of_different_runs_are_refused(
    tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    run_shard(Plan(Config.model_validate(SMALL), RunFolder(tmp_path / "1")), Shard(1, 2))
    run_shard(Plan(Config.model_validate(SMALL | change), RunFolder(tmp_path / "2")), Shard(2, 2))
    with pytest.raises(ConfigError, match=f"of different runs \\({why}"):
        merge([tmp_path / "1", tmp_path / "2"], tmp_path / "all")


def test_shards_of_other_counts_are_refused(tmp_path: Path) -> None:
    config = Config.model_validate(SMALL)
    run_shard(Plan(config, RunFolder(tmp_path)), Shard(1, 2))
    run_shard(Plan(config, RunFolder(tmp_path)), Shard(2, 3))
    with pytest.raises(ConfigError, match="other number of shards"):
        merge([tmp_path], tmp_path)


@pytest.mark.long
def test_an_unfinished_and_a_damaged_shard_are_named(tmp_path: Path) -> None:
    config = Config.model_validate(SMALL)
    shards(config, tmp_path, 2, together=True)
    path = tmp_path / "tasks-2-of-2.sqlite"
    good = path.read_bytes()
    path.write_bytes(good[: len(good) // 2])
    with pytest.raises(ConfigError, match="sqlite is damaged"):
        merge([tmp_path], tmp_path)
    path.write_bytes(good)
    with opened(tmp_path, read(path).identity, name=path.name) as store:
        store.set("finished", "no")
    with pytest.raises(ConfigError, match="sqlite has not finished"):
        merge([tmp_path], tmp_path)
    run_shard(Plan(config, RunFolder(tmp_path)), Shard(2, 2))
    assert numbers(merge([tmp_path], tmp_path)) == numbers(run_audit(config))


@pytest.mark.long
def test_shards_from_machines_of_other_types_are_merged_and_it_is_told(tmp_path: Path) -> None:
    config = Config.model_validate(SMALL)
    merged_in_rounds(config, tmp_path, 2)
    path = tmp_path / "tasks-2-of-2.sqlite"
    old = read(path)
    with opened(tmp_path, old.identity | {"instructions": "OTHER"}, name="new") as store:
        store.add([path])
        for name in ("shard", "config", "finished"):
            store.set(name, old.meta[name])
    (tmp_path / "new").replace(path)
    told: list[str] = []

    class Told(Progress):
        def note(self, text: str) -> None:
            told.append(text)

    record = merge([tmp_path], tmp_path, progress=Told())
    assert "ran on 2 types of machine" in told[0]
    assert numbers(record) == numbers(run_audit(config))


def test_a_shard_without_a_seed_and_a_black_box_are_refused(tmp_path: Path) -> None:
    values = {name: value for name, value in SMALL.items() if name != "seed"}
    for seed in ({}, {"seed": "entropy"}):
        with pytest.raises(ConfigError, match="shards share a seed"):
            run_shard(Plan(Config.model_validate(values | seed), RunFolder(tmp_path)), Shard(1, 2))
    box = {"target": "m:f", "d": 0, "d_prime": 1, "epsilon": 1.0, "kind": "python"}
    with pytest.raises(ConfigError, match="has no shards"):
        run_shard(Plan(Config.model_validate({"defense": box}), RunFolder(tmp_path)), Shard(1, 2))
    assert list(tmp_path.iterdir()) == []


def shard_of_others(folder: Path, **words: str) -> Path:
    """A finished shard without results, whose words somebody else wrote."""
    with opened(folder, {"code": "a"}, name="tasks-1-of-1.sqlite") as store:
        config = Config.model_validate(SMALL).model_dump_json()
        known = {"shard": "1/1", "finished": "yes", "config": config}
        for name, word in {**known, **words}.items():
            store.set(name, word)
    return folder


@pytest.mark.parametrize("kind", ["defense", "recommender"])
def test_a_merge_runs_no_code_that_a_shard_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    marker = tmp_path / "was imported"
    (tmp_path / "of_others.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(tmp_path)
    values = {name: SMALL[name] for name in ("seed", "data")}
    if kind == "defense":
        given = {"kind": "python", "target": "of_others:f", "d": [0], "d_prime": [1]}
        values = {"seed": 3, "defense": {**given, "epsilon": 1.0}}
    else:
        values |= {"recommender": [{"target": "of_others:Model", "label": "m"}], "membership": {}}
    config = Config.model_validate(values).model_dump_json()
    with pytest.raises(ConfigError, match="has no shards, as"):
        merge([shard_of_others(tmp_path / "shard", config=config)], tmp_path / "out")
    assert not marker.exists()


@pytest.mark.cases(
    ("words", "said"),
    [
        ({"shard": "x"}, "names no shard"),
        ({"shard": "[" * 50_000}, "names no shard"),
        ({"shard": "1/99999999"}, "names no shard"),
        ({"shard": "1/100000"}, "missing shards: 2/100000"),
        ({"config": "[" * 50_000}, "holds no config"),
        ({"origin": "[]"}, "holds no config"),
    ],
)
def test_words_that_no_shard_has_are_refused(
    tmp_path: Path, words: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        merge([shard_of_others(tmp_path / str(abs(hash(str(words)))), **words)], tmp_path / "out")
