"""`dpaudit membership`: what is printed, and wrong input in one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from dpaudit.audits.scores.observational import WITHIN
from dpaudit.cli import main
from dpaudit.cli.scores import read_features, read_pairs
from dpaudit.core.errors import DataError


@pytest.fixture
def files(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    np.savetxt(tmp_path / "in.csv", rng.normal(1, 1, 400))
    np.save(tmp_path / "out.npy", rng.normal(0, 1, 400))
    np.savetxt(tmp_path / "a.csv", rng.normal(1, 1, (400, 2)), delimiter=",", header="x,y")
    np.save(tmp_path / "b.npy", rng.normal(0, 1, (400, 2)))
    return tmp_path


def call(folder: Path, *arguments: str) -> Result:
    scores = ["--scores-in", str(folder / "in.csv"), "--scores-out", str(folder / "out.npy")]
    command = ["membership", *scores, *arguments]
    return CliRunner().invoke(main, command, env={"COLUMNS": "160"})


def test_rates_are_printed_with_what_they_assume(files: Path) -> None:
    result = call(files)
    assert result.exit_code == 0
    assert "AUC" in result.output
    assert "TPR at 1 % FPR" in result.output
    assert "The blind baseline" in result.output
    assert result.output.splitlines()[-1].startswith("NO DECISION ")


def test_the_text_fits_80_columns(files: Path) -> None:
    scores = ["--scores-in", str(files / "in.csv"), "--scores-out", str(files / "out.npy")]
    shown = CliRunner().invoke(main, ["membership", *scores], env={"COLUMNS": "80"}).stdout
    assert len(shown.splitlines()) > 5
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.long
def test_groups_that_differ_are_told(files: Path) -> None:
    features = ["--features-in", str(files / "a.csv"), "--features-out", str(files / "b.npy")]
    assert "A classifier tells the two apart" in call(files, *features).output


def test_json_holds_every_estimate(files: Path) -> None:
    record = json.loads(call(files, "--format", "json", "--rate", "0.1").output)
    assert list(record["tpr"]) == ["0.1"]
    assert record["lacking"] == {}
    assert record["auc"]["lower"] < record["auc"]["value"] < record["auc"]["upper"]
    assert record["exchangeable"] is None
    assert record["corrected"] is None
    assert record["outcome"] == "no decision"


def test_corrected_numbers_are_judged(files: Path) -> None:
    rng = np.random.default_rng(1)
    for name in ("a.csv", "b.csv"):
        rows = "".join(f"{'DE' if k % 3 else 'FR'},{k % 2}\n" for k in rng.integers(0, 99, 400))
        (files / name).write_text(f"country,new\n{rows}", encoding="utf-8")
    features = ["--features-in", str(files / "a.csv"), "--features-out", str(files / "b.csv")]
    options = [*features, "--kind", "country=category", "--rate", "0.1"]
    result = call(files, *options, "--max-auc", "0.6", "--max-epsilon", "20")
    text = " ".join(result.output.split())
    assert result.exit_code == 1
    assert "blind baseline, AUC" in text
    assert "certified ε at least 0." in text
    assert "FAIL corrected AUC <= 0.6, " in text
    assert "INCONCLUSIVE ε <= 20" in text
    record = json.loads(call(files, *options, "--max-auc", "0.99", "--format", "json").output)
    assert (record["outcome"], record["exit_code"]) == ("go", 0)
    corrected = record["corrected"]
    assert corrected["auc"]["upper"] <= 0.99
    assert (corrected["equal"], corrected["gamma"]) == (True, WITHIN)
    assert corrected["pairs"] > 300
    assert corrected["explains"] == pytest.approx(
        WITHIN * np.exp(2 * corrected["epsilon"]["lower"])
    )


@pytest.mark.long
def test_without_equal_features_no_limit_is_judged_unless_gamma_is_named(files: Path) -> None:
    np.save(files / "a.npy", np.random.default_rng(1).normal(0, 1, (400, 2)))
    features = ["--features-in", str(files / "a.npy"), "--features-out", str(files / "b.npy")]
    result = call(files, *features, "--rate", "0.1", "--max-auc", "0.6", "--max-epsilon", "0.1")
    assert result.exit_code == 4
    assert "Nothing is corrected: 0 pairs" in " ".join(result.output.split())
    assert "certified" not in result.output
    named = call(files, *features, "--rate", "0.1", "--max-auc", "0.6", "--gamma", "1.3")
    assert named.exit_code == 1
    assert "ε, if Γ <= 1.3" in named.output
    assert "certified" not in named.output


def test_the_default_factor_is_that_of_the_help() -> None:
    shown = CliRunner().invoke(main, ["membership", "--help"], env={"COLUMNS": "200"}).output
    assert f"default: {WITHIN:g} between rows" in shown


@pytest.mark.cases(
    ("options", "words"),
    [
        (["--kind", "x"], "is not COLUMN=KIND"),
        (["--kind", "x=word"], "with one of number, category, time, group"),
        (["--kind", "z=time"], "has no column 'z', of which --kind speaks"),
        (["--kind", "x=group", "--kind", "1=group"], "all features are groups"),
        (["--gamma", "0.5"], "'--gamma'"),
    ],
)
def test_kinds_that_are_none_are_one_sentence(files: Path, options: list[str], words: str) -> None:
    features = ["--features-in", str(files / "a.csv"), "--features-out", str(files / "b.npy")]
    result = call(files, *features, *options)
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())
    assert call(files, *options).exit_code == 2


def test_a_limit_needs_features(files: Path) -> None:
    result = call(files, "--max-auc", "0.6")
    assert result.exit_code == 2
    assert "--max-auc needs --features-in and --features-out" in result.output


def test_an_attack_that_is_always_wrong_is_told_apart_from_one_that_finds_nothing(
    files: Path,
) -> None:
    def said(shift: float) -> tuple[str, bool]:
        np.savetxt(files / "in.csv", np.random.default_rng(1).normal(shift, 1, 400))
        record = json.loads(call(files, "--format", "json").output)
        return " ".join(call(files).output.split()), record["reversed"]

    text, reverse = said(-3)
    assert reverse
    assert "Non-members score above members" in text
    assert "tells members with AUC 0.98" in text
    for shift in (0.0, 3.0):
        text, reverse = said(shift)
        assert not reverse
        assert "reverse" not in text


def test_a_rate_that_cannot_be_measured_says_what_it_needs(files: Path) -> None:
    said = "TPR at 0.1 % FPR needs 1998 non-members, 400 were given"
    shown = " ".join(call(files, "--rate", "0.001", "--rate", "0.1").output.split())
    assert said in shown
    assert "TPR at 10 % FPR 0." in shown
    record = json.loads(call(files, "--rate", "0.001", "--format", "json").output)
    assert record["tpr"] == {"0.001": None}
    assert record["lacking"] == {"0.001": said}


@pytest.mark.parametrize("option", ["--rate", "--confidence"])
def test_nan_is_in_no_range(files: Path, option: str) -> None:
    result = call(files, option, "nan")
    assert result.exit_code == 2
    assert "nan is no number" in result.output


def test_wrong_input_is_one_sentence(files: Path) -> None:
    result = call(files, "--features-in", str(files / "a.csv"))
    assert result.exit_code == 2
    assert "give both" in result.output
    (files / "bad.csv").write_text("x,y\n1,two\n", encoding="utf-8")
    bad = str(files / "bad.csv")
    result = call(files, "--features-in", bad, "--features-out", bad)
    assert result.exit_code == 2
    assert "bad.csv, line 2, column 1 (counted from 0): 'two'" in result.output
    assert "Traceback" not in result.output


@pytest.mark.cases("rate", ["1e-300", "5e-324", "0", "1", "1_0", "٣"])
def test_rates_that_are_none_are_one_sentence(files: Path, rate: str) -> None:
    result = call(files, "--rate", rate)
    assert result.exit_code == 2
    assert "Invalid value for '--rate'" in result.output
    assert len(result.output) < 250


@pytest.mark.cases(
    ("text", "words"),
    [
        ("NA,1\n3,4\n", r"line 1, column 0 \(counted from 0\): 'NA' is not a number"),
        ("1_0,1\n3,4\n", "line 1, column 0"),
        ("x,y\n3,1_0\n", "line 2, column 1"),
        ("x,y\n3,4,5\n", "line 2: the line does not have the 2 fields of the first one"),
        ("", "is empty"),
        ('x,y\n1,2\n3,"4\n5,6\n', "line 3: a quote is never closed: complete or remove it"),
    ],
)
def test_features_that_are_no_numbers_are_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "features.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=words):
        read_features(path, path, {})


@pytest.mark.cases(
    ("text", "rows"),
    [
        ("1,2\n3,4\n", [[1, 2], [3, 4]]),
        ("\ufeff1.5,-2e3\n", [[1.5, -2000]]),
        ("x,y\n1,2\n", [[1, 2]]),
        ("1,y\n3,4\n", [[3, 4]]),
        ("7\n8\n", [[7], [8]]),
        ('"x, of y", "y"\n"1", "2"\n', [[1, 2]]),
    ],
)
def test_a_first_row_of_numbers_is_no_header(
    tmp_path: Path, text: str, rows: list[list[float]]
) -> None:
    path = tmp_path / "features.csv"
    path.write_text(text, encoding="utf-8")
    assert read_features(path, path, {})[0][0].tolist() == rows


def test_features_of_other_columns_are_refused(tmp_path: Path) -> None:
    members, others, unnamed = (tmp_path / name for name in ("m.csv", "o.csv", "u.csv"))
    members.write_text("time,count\n1,2\n", encoding="utf-8")
    others.write_text("count,time\n2,1\n", encoding="utf-8")
    unnamed.write_text("1,2\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"o\.csv .*'count, time', .*m\.csv"):
        read_features(members, others, {})
    assert read_features(members, unnamed, {})[0][1].tolist() == [[1, 2]]


def test_words_and_dates_become_numbers_by_the_kind_of_their_column(tmp_path: Path) -> None:
    members, others = tmp_path / "m.csv", tmp_path / "o.csv"
    members.write_text("who,land,at\nann,DE,2026-01-01\nbob,FR,1970-01-02\n", encoding="utf-8")
    others.write_text("who,land,at\ncid,FR,1970-01-01T01:00:00Z\n", encoding="utf-8")
    (first, second), kinds = read_features(
        members, others, {"who": "group", "land": "category", "2": "time"}
    )
    assert kinds == {0: "group", 1: "category", 2: "time"}
    assert first[0, 1] != first[1, 1] == second[0, 1]
    assert len({*first[:, 0], *second[:, 0]}) == 3
    assert first[1, 2] == 86400
    assert second[0, 2] == 3600
    others.write_text("who,land,at\ncid,,1\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"o\.csv, line 2, column 1 .*''"):
        read_features(members, others, {"who": "group", "land": "category", "at": "time"})


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    """A model whose members' scores stick out: `matrix.npy`, `in.csv` with a header, `out.csv`."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(80, 4)) @ rng.normal(size=(4, 100))
    scores += 0.3 * rng.normal(size=scores.shape)
    pairs = np.stack(np.divmod(rng.permutation(scores.size)[:1600], 100), axis=1)
    scores[tuple(pairs[:800].T)] += 0.6
    np.save(tmp_path / "matrix.npy", scores)
    for name, part, header in (("in", pairs[:800], "user,item"), ("out", pairs[800:], "")):
        path = tmp_path / f"{name}.csv"
        np.savetxt(path, part, fmt="%d", delimiter=",", header=header, comments="")
    np.save(tmp_path / "features.npy", rng.normal(size=(800, 1)))
    return tmp_path


def by_matrix(folder: Path, *more: str, scores: str = "matrix.npy", members: str = "in.csv") -> Any:
    files = ["--scores-in", members, "--scores-out", "out.csv", "--matrix", scores, *more]
    arguments = [str(folder / word) if "." in word else word for word in files]
    return CliRunner().invoke(main, ["membership", *arguments, "--format", "json"])


def test_all_scores_of_a_model_show_more_than_those_of_the_pairs(matrix: Path) -> None:
    scores = np.load(matrix / "matrix.npy")
    for name, skipped in (("in", 1), ("out", 0)):
        pairs = np.loadtxt(matrix / f"{name}.csv", int, delimiter=",", skiprows=skipped)
        np.save(matrix / f"{name}.npy", scores[tuple(pairs.T)])
    files = ["--scores-in", str(matrix / "in.npy"), "--scores-out", str(matrix / "out.npy")]
    plain = CliRunner().invoke(main, ["membership", *files, "--format", "json"])
    auc = [json.loads(result.stdout)["auc"] for result in (plain, by_matrix(matrix))]
    assert auc[0]["upper"] < auc[1]["lower"]
    assert (auc[0]["n"], auc[1]["n"]) == (1600, 800)


def test_features_are_those_of_the_judged_pairs(matrix: Path) -> None:
    both = ["--features-in", "features.npy", "--features-out", "features.npy"]
    result = by_matrix(matrix, *both)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["corrected"]["pairs"] <= 400
    np.save(matrix / "features.npy", np.zeros((799, 1)))
    short = by_matrix(matrix, *both)
    assert short.exit_code == 2
    assert "799 rows for 800" in short.stderr


@pytest.mark.cases(
    ("text", "words"),
    [
        ("3,100\n", r"row 0 .*\[3\.0, 100\.0\] is outside .*\(80, 100\)"),
        ("-1,0\n", "is outside"),
        ("1.5,0\n", "is outside"),
        ("nan,0\n", "is not a number"),
        ("1,2\n0,1\n1,2\n", "row 0 .* stands twice"),
        ("1\n", "1 columns"),
        ("", "is empty"),
    ],
)
def test_pairs_that_are_none_of_the_matrix_are_refused(matrix: Path, text: str, words: str) -> None:
    (matrix / "bad.csv").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=words):
        read_pairs(matrix / "matrix.npy", matrix / "bad.csv", matrix / "out.csv")


@pytest.mark.cases("values", [np.zeros(3), np.full((80, 100), 1e300), np.full((2, 2), np.inf)])
def test_a_matrix_that_holds_no_scores_is_refused(matrix: Path, values: Any) -> None:
    np.save(matrix / "bad.npy", values)
    result = by_matrix(matrix, scores="bad.npy")
    assert result.exit_code == 2
    assert "bad.npy" in result.stderr
