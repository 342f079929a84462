"""`dpaudit claims`: lists, explains, runs, and refuses wrong use in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dpaudit.claims.catalogue import PAPERS, catalogue
from dpaudit.claims.record import verdict_text
from dpaudit.claims.report import statement
from dpaudit.cli import main

CHEAP = "pa11-prop4.1"
GAME = "pa11-thm3.2"


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["claims", *map(str, arguments)], env={"COLUMNS": "160"})


def refused(result: Result, *words: str) -> None:
    """Exit code 2, one sentence on standard error and no traceback."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith("dpaudit: ")
    assert len(result.stderr.splitlines()) == 1
    for word in words:
        assert word in result.stderr


def verified(folder: Path, *arguments: object) -> Result:
    return call("--verify", "-o", folder, *arguments)


# Lists.


def test_without_an_id_the_papers_fit_a_screen() -> None:
    lines = CliRunner().invoke(main, ["claims"], env={"COLUMNS": "80"}).stdout.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    for key in PAPERS:
        assert any(line.startswith(f"{key} ") for line in lines)
    total = next(line for line in lines if line.startswith("all")).split()
    assert int(total[1]) == len(catalogue()) == sum(map(int, total[2:]))


def test_every_claim_of_a_paper_is_listed_with_its_verdict() -> None:
    for key in PAPERS:
        listed = call(key).stdout
        assert all(entry.id in listed for entry in catalogue() if entry.id.startswith(f"{key}-"))
    assert "falsified" in call("pa11").stdout


def test_part_of_the_catalogue_is_listed() -> None:
    result = call("pa11-thm3.1")
    assert result.exit_code == 0
    assert "pa11-thm3.1-own" in result.stdout
    assert "pa11-thm3.2" not in result.stdout


def test_every_id_is_explained_within_80_columns() -> None:
    """Also one that begins the ids of others, which are listed above it."""
    for entry in catalogue():
        shown = CliRunner().invoke(main, ["claims", entry.id], env={"COLUMNS": "80"}).stdout
        assert max(map(len, shown.splitlines())) <= 80, entry.id
        text = " ".join(shown.split())
        verdict = verdict_text(entry.recorded, entry.basis)
        parts = [f"{entry.id}: {verdict}", *(part for _, part in statement(entry)), entry.because]
        run = f"Held by {entry.held_by}" if entry.held_by else f"claims --verify {entry.id}"
        for part in (*parts, run):
            assert " ".join(part.split()) in text, entry.id


@pytest.mark.cases("key", PAPERS)
def test_the_claims_of_a_paper_fit_80_columns(key: str) -> None:
    shown = CliRunner().invoke(main, ["claims", key], env={"COLUMNS": "80"}).stdout
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("verify", [False, True])
def test_an_unknown_claim_is_refused_with_a_suggestion(tmp_path: Path, verify: bool) -> None:
    options = ("--verify", "-o", tmp_path / "out") if verify else ()
    refused(call("pa11-thm32", *options), "there is no claim 'pa11-thm32'", "'pa11-thm3.2'")
    assert not (tmp_path / "out").exists()


# Verifications.


@pytest.mark.long
def test_a_check_and_a_game_are_verified_and_reported(tmp_path: Path) -> None:
    result = verified(tmp_path, CHEAP, GAME, "--trials", 20_000)
    assert result.exit_code == 0, result.output
    assert {path.name for path in tmp_path.iterdir()} == {
        "claims.json", "claims.html", "claims.md", "tasks.sqlite", ".tasks.sqlite.lock"
    }  # fmt: skip
    record = json.loads((tmp_path / "claims.json").read_text(encoding="utf-8"))
    assert [entry["id"] for entry in record["entries"]] == [GAME, CHEAP]
    assert {entry["status"] for entry in record["entries"]} == {"as recorded"}
    assert "PASS" in result.stdout
    assert str(tmp_path) in result.stdout
    assert str(tmp_path) not in (tmp_path / "claims.html").read_text(encoding="utf-8")


def test_what_holds_by_algebra_names_its_test_and_passes_nothing(tmp_path: Path) -> None:
    assert "Held by tests/papers/test_park_acharya_2011.py" in call("pa11-thm2.2").stdout
    result = verified(tmp_path, "pa11-thm2.2")
    assert result.exit_code == 4, result.output
    assert "INCONCLUSIVE" in result.stdout
    assert "not tested" in result.stdout


@pytest.mark.long
def test_too_few_trials_exit_with_4(tmp_path: Path) -> None:
    result = verified(tmp_path, "pa11-thm3.1-above-threshold", "--trials", 100, "--seed", 0)
    assert result.exit_code == 4, result.output
    assert "INCONCLUSIVE" in result.stdout
    assert "too few trials" in result.stdout
    assert (tmp_path / "claims.html").is_file()


@pytest.mark.long
@pytest.mark.parametrize("trials", [100, 200, 400])
@pytest.mark.parametrize("seed", [0, 1])
def test_few_trials_never_contradict_the_catalogue(tmp_path: Path, trials: int, seed: int) -> None:
    options = ("--trials", trials, "--seed", seed, "-q")
    result = verified(tmp_path, "pa11-thm3.1-threshold-list", "pa11-s3.4-joint", *options)
    assert result.exit_code == 4, result.output


@pytest.mark.long
def test_a_verdict_that_differs_exits_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    entry = next(entry for entry in catalogue() if entry.id == GAME)
    altered = replace(entry, recorded="holds")
    monkeypatch.setattr("dpaudit.claims.catalogue.catalogue", lambda: (altered,))
    result = verified(tmp_path, GAME, "--trials", 20_000)
    assert result.exit_code == 1, result.output
    assert "FAIL" in result.stdout
    assert "DIFFERS" in result.stdout


@pytest.mark.long
def test_games_of_false_claims_end_early_where_asked(tmp_path: Path) -> None:
    result = verified(tmp_path, GAME, "--seed", 1, "--stop", "when-decided")
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "claims.json").read_text(encoding="utf-8"))
    assert record["stop"] == "when-decided"
    games = record["entries"][0]["games"]
    assert [game["early"] for game in games] == [game["role"] == "published" for game in games]
    assert f"after {2 * games[0]['trials']} outputs" in result.stdout


def test_another_word_for_the_end_is_refused(tmp_path: Path) -> None:
    result = verified(tmp_path / "out", GAME, "--stop", "soon")
    assert result.exit_code == 2
    assert "'soon' is not one of" in result.stderr
    assert not (tmp_path / "out").exists()


def test_quiet_prints_nothing_and_writes_all(tmp_path: Path) -> None:
    result = verified(tmp_path, CHEAP, "-q")
    assert (result.exit_code, result.output) == (0, "")
    assert (tmp_path / "claims.md").is_file()


@pytest.mark.long
def test_the_same_command_goes_on_and_fresh_starts_again(tmp_path: Path) -> None:
    options = (GAME, "--trials", 5000, "-q")
    place = tmp_path / "claims.json"

    def games() -> list[float]:
        record = json.loads(place.read_text(encoding="utf-8"))
        return [game["seconds"] for entry in record["entries"] for game in entry["games"]]

    verified(tmp_path, *options)
    first = games()
    verified(tmp_path, *options)
    assert games() == first  # with the seconds of the first run
    verified(tmp_path, *options, "--fresh")
    assert games() != first


# Wrong use.


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpaudit.claims import verify

    def never(*_: object, **__: object) -> None:
        raise AssertionError("it was run")

    monkeypatch.setattr(verify, "verify", never)
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    refused(verified(tmp_path / "file" / "below", GAME), "cannot be written", "name another place")


def config(path: Path, data: str) -> Path:
    path.write_text(
        f'[data]\n{data}\n[[model]]\ndefense = "slope-one"\nepsilon = [1]\n', encoding="utf-8"
    )
    return path


@pytest.mark.long
def test_data_that_cannot_be_used_are_refused_and_what_was_run_stays(tmp_path: Path) -> None:
    verified(tmp_path / "out", GAME, "--trials", 1000, "-q")
    place = tmp_path / "out" / "tasks.sqlite"
    kept = place.read_bytes()
    bad = config(tmp_path / "bad.toml", 'format = "movielens-100k"\npath = "nowhere.data"')
    options = (GAME, "--trials", 1000, "--fresh", "-q", "--data")
    refused(verified(tmp_path / "out", *options, bad), "nowhere.data")
    bad.write_text("[data", encoding="utf-8")
    refused(verified(tmp_path / "out", *options, bad))
    refused(verified(tmp_path / "out", *options, tmp_path / "none.toml"), "none.toml")
    assert place.read_bytes() == kept


def test_two_data_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    data = "synthetic = { n_users = 150, n_items = 120, mean_per_user = 35 }"
    first = config(tmp_path / "mine.toml", data)
    second = config(tmp_path / "a" / "mine.toml", data)
    result = verified(tmp_path / "out", GAME, "--data", first, "--data", second)
    refused(result, "two options --data", "rename")


@pytest.mark.long
def test_data_of_a_config_are_run_too(tmp_path: Path) -> None:
    data = "synthetic = { n_users = 150, n_items = 120, mean_per_user = 35 }"
    mine = config(tmp_path / "mine.toml", data)
    result = verified(tmp_path / "out", GAME, "--trials", 20_000, "--data", mine, "-q")
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "out" / "claims.json").read_text(encoding="utf-8"))
    roles = [(game["role"], game["label"]) for game in record["entries"][0]["games"]]
    assert ("real data", "mine") in roles
    assert str(tmp_path) not in json.dumps(record)


@pytest.mark.long
def test_a_drawn_seed_is_kept_until_everything_is_run_again(tmp_path: Path) -> None:
    def seed(*options: object) -> int:
        verified(tmp_path, CHEAP, "-q", *options)
        return int(json.loads((tmp_path / "claims.json").read_text(encoding="utf-8"))["seed"])

    first = seed()
    assert seed() == first
    assert seed("--fresh") != first
    assert seed("--seed", 5, "--fresh") == 5
    assert seed() == 5  # an interrupted run goes on


@pytest.mark.cases("option", [("--trials", 10), ("--confidence", 1), ("--seed", -1)])
def test_options_out_of_range_are_refused(tmp_path: Path, option: tuple[object, ...]) -> None:
    result = verified(tmp_path / "out", GAME, *option)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()
