"""`dpaudit epsilon`: every method says what its bound says, and wrong input is one sentence."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from scipy.stats import binom

from dpaudit.bounds.frequentist.intervals import clopper_pearson_epsilon
from dpaudit.bounds.frequentist.labels import label_epsilon
from dpaudit.bounds.frequentist.likelihood import two_sample_epsilon
from dpaudit.bounds.frequentist.one_run import (
    balanced_grid,
    one_run_epsilon,
    one_run_scores_epsilon,
)
from dpaudit.bounds.gdp import gdp_epsilon, gdp_roc_epsilon, one_run_gdp_epsilon
from dpaudit.bounds.outcomes import Counts
from dpaudit.cli import main
from dpaudit.cli.scores import mixed, read_scores
from dpaudit.core.estimate import Estimate
from dpaudit.core.rounding import at_least

COUNTS = Counts(tp=80, fp=20, fn=20, tn=80)
OPTIONS: dict[str, Any] = {"delta": 1e-5, "alpha": 1 - 0.9}
ARGUMENTS = ("--delta", "1e-5", "--confidence", "0.9", "--seed", "0")


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["epsilon", *map(str, arguments)], env={"COLUMNS": "160"})


def trials(seed: int = 0, shift: float = 2.0, n: int = 120) -> tuple[Any, Any]:
    """Log-ratios of the Laplace mechanism, which every method for scores takes."""
    noise = np.random.default_rng(seed).laplace(size=(2, n))
    absent, present = (np.clip(2 * x - shift, -shift, shift) for x in (noise[0], noise[1] + shift))
    return absent, present


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """The same scores (present, absent) in every form that is read."""
    folder = tmp_path_factory.mktemp("scores")
    absent, present = trials()
    by_option = {}
    for name, (suffix, header, encoding) in {
        "csv": (".csv", "", "utf-8"),
        "header": (".txt", "score\n", "utf-8"),
        "spreadsheet": (".csv", "", "utf-8-sig"),
        "npy": (".npy", "", ""),
    }.items():
        pair = folder / f"{name}-in{suffix}", folder / f"{name}-out{suffix}"
        for path, values in zip(pair, (present, absent), strict=True):
            if suffix == ".npy":
                np.save(path, values)
            else:
                rows = "\n".join(map(repr, values.tolist()))
                path.write_text(f"{header}{rows}\n", encoding=encoding)
        by_option[name] = pair
    return by_option


def of_files(files: tuple[Path, Path], *arguments: object) -> Result:
    return call("--scores-in", files[0], "--scores-out", files[1], *arguments)


def direct(method: str, seed: int = 0) -> Estimate:
    """The bound itself, on the scores in the order in which the command hands them over."""
    absent, present = trials()
    if method == "label":
        return label_epsilon(absent, present, **OPTIONS, seed=seed)[0]
    if method == "gdp":
        return gdp_roc_epsilon(absent, present, **OPTIONS)
    scores, included = mixed(absent, present, seed)
    absent, present = scores[~included], scores[included]
    if method == "two-sample":
        return two_sample_epsilon(present, absent, **OPTIONS)
    grid = balanced_grid(len(scores))
    return one_run_scores_epsilon(scores, included, **OPTIONS, grid=grid, seed=seed)


CALLS: dict[str, tuple[tuple[str, ...], Estimate]] = {
    "counts": (("--counts", "80,20,20,80"), clopper_pearson_epsilon(COUNTS, **OPTIONS)),
    **{
        f"counts {name}": (("--counts", "80,20,20,80", "--method", name), bound(COUNTS, **OPTIONS))
        for name, bound in {"clopper-pearson": clopper_pearson_epsilon, "gdp": gdp_epsilon}.items()
    },
    "one run": (("--one-run", "100,40,35"), one_run_epsilon(100, 40, 35, **OPTIONS)),
    "one run gdp": (
        ("--one-run", "100, 40, 35", "--method", "one-run-gdp"),
        one_run_gdp_epsilon(100, 40, 35, **OPTIONS),
    ),
}


def assert_says(result: Result, expected: Estimate, seed: int | None = None) -> None:
    """The JSON of a result is that estimate, and is JSON for a reader that is strict."""
    assert result.exit_code == 0, result.output
    values = json.loads(result.stdout, parse_constant=pytest.fail)
    assert values.pop("event") is None or "D'" in result.stdout
    point = expected.value if math.isfinite(expected.value) else None
    assert values == {
        "epsilon_lower": expected.lower,
        "epsilon_point": point,
        "epsilon_lower_of_both_directions": None,
        "delta": OPTIONS["delta"],
        "confidence": 0.9,
        "method": expected.method,
        "kind": expected.kind,
        "n": expected.n,
        "seed": seed,
    }
    assert expected.lower > 0.1


@pytest.mark.cases("name", CALLS)
def test_numbers_give_the_bound_of_the_library(name: str) -> None:
    arguments, expected = CALLS[name]
    assert_says(call(*arguments, *ARGUMENTS, "--format", "json"), expected)


@pytest.mark.cases("method", ["label", "gdp", "two-sample", "one-run"])
def test_scores_give_the_bound_of_the_library(
    files: dict[str, tuple[Path, Path]], method: str
) -> None:
    result = of_files(files["csv"], "--method", method, *ARGUMENTS, "--format", "json")
    assert_says(result, direct(method), None if method == "gdp" else 0)


def test_every_form_of_file_gives_the_same(files: dict[str, tuple[Path, Path]]) -> None:
    expected = direct("label")
    for form in files.values():
        assert_says(of_files(form, *ARGUMENTS, "--format", "json"), expected, 0)


def test_classes_of_unequal_size_and_other_seeds(
    files: dict[str, tuple[Path, Path]], tmp_path: Path
) -> None:
    short = tmp_path / "short.csv"
    short.write_text("\n".join(map(repr, trials()[0][:90].tolist())))
    for method in ("label", "gdp", "two-sample", "one-run"):
        result = of_files((files["csv"][0], short), "--method", method, *ARGUMENTS)
        assert result.exit_code == 0, result.output
    assert_says(
        of_files(files["csv"], *ARGUMENTS, "--seed", 5, "--format", "json"), direct("label", 5), 5
    )
    assert direct("label", 5).lower != direct("label").lower


def test_text_fits_80_columns() -> None:
    for counts in ("20,80,20,80", "80,20,20,80", "20,20,20,20"):
        arguments = ["epsilon", "--counts", counts]
        shown = CliRunner().invoke(main, arguments, env={"COLUMNS": "80"}).stdout
        assert len(shown.splitlines()) > 2
        assert max(map(len, shown.splitlines())) <= 80


def test_text_says_the_same_rounded_down(files: dict[str, tuple[Path, Path]]) -> None:
    lines = of_files(files["npy"], *ARGUMENTS).stdout.splitlines()
    floor = math.floor(direct("label").lower * 1000) / 1000
    assert lines[0] == f"ε at least {floor:.3f} at δ = 1e-05 with 90 % confidence"
    assert lines[1] == f"method: label test, {direct('label').n} trials"
    assert lines[2].startswith("kind: frequentist")
    assert lines[3].startswith("event: score ")
    assert "smaller ε is false" in lines[4]
    assert lines[5:] == ["seed: 0"]
    sure = call("--counts", "80,20,20,80", "--confidence", "0.999").stdout
    assert "99.9 % confidence" in sure
    assert "no evidence of privacy" in call("--counts", "20,20,20,20").stdout
    assumed = call("--counts", "80,20,20,80", "--method", "gdp", *ARGUMENTS).stdout
    assert "Gaussian-DP" in assumed
    assert "is false" not in assumed


def test_a_perfect_attack_has_no_finite_point_and_is_json() -> None:
    result = call("--counts", "100,0,0,100", "--format", "json")
    values = json.loads(result.stdout, parse_constant=pytest.fail)
    assert values["epsilon_point"] is None
    # Both rates are bounded at level 0.025; the lower limit of 100 of 100 is 0.025^(1/100).
    share = 0.025**0.01
    assert values["epsilon_lower"] == pytest.approx(math.log(share / (1 - share)))


def test_a_sorted_file_certifies_what_its_scores_do() -> None:
    """Bets choose events on earlier scores, and in sorted scores all later ones lie above these."""
    from dpaudit.cli.epsilon import _bound_of_scores

    options: dict[str, Any] = {"delta": 0.0, "alpha": 0.05}
    for seed in range(4):
        absent, present = np.sort(np.random.default_rng([seed, 9]).normal(size=(2, 300)))
        assert (
            _bound_of_scores(absent, present + 1, method="two-sample", seed=0, **options)[0].lower
            > 0.4
        )
        assert two_sample_epsilon(present + 1, absent, **options).lower == 0


def test_equal_scores_of_one_run_are_ordered_anew_in_every_audit() -> None:
    """The position of a canary reveals its coin, so each audit must shuffle ties differently.

    58 canaries of equal score with fair coins: at most 5 % of the bounds may be above 0, whatever
    the seed. False-failure rate 1e-6; an order that depends only on the seed and the number of
    canaries fails.
    """
    from dpaudit.cli.epsilon import _bound_of_scores

    options: dict[str, Any] = {"delta": 0.0, "alpha": 0.05}
    rng, deceived, naive, runs = np.random.default_rng(4), 0, 0, 200
    for _ in range(runs):
        value, many = rng.normal(), int(rng.binomial(58, 0.5))
        absent, present = np.full(58 - many, value), np.full(many, value)
        deceived += (
            _bound_of_scores(absent, present, method="one-run", seed=0, **options)[0].lower > 0
        )
        listed = np.arange(58) >= 58 - many
        naive += one_run_scores_epsilon(np.full(58, value), listed, **options, seed=0).lower > 0
    limit = binom.isf(1e-6, runs, 0.05)
    assert deceived <= limit < naive


def test_a_seed_is_drawn_and_printed(files: dict[str, tuple[Path, Path]]) -> None:
    for method in ("label", "one-run"):
        first, second = (
            json.loads(of_files(files["csv"], "--method", method, "--format", "json").stdout)
            for _ in range(2)
        )
        assert first["seed"] != second["seed"]
        again = of_files(files["csv"], "--method", method, "--seed", first["seed"])
        assert again.stdout.splitlines()[-1] == f"seed: {first['seed']}"
        assert f"ε at least {math.floor(first['epsilon_lower'] * 1000) / 1000:.3f}" in again.stdout
    assert "seed" not in of_files(files["csv"], "--method", "gdp").stdout


@pytest.mark.cases("sizes", [(900, 100), (100, 900), (600, 430)])
def test_classes_that_fair_coins_do_not_give_are_refused(
    tmp_path: Path, sizes: tuple[int, int]
) -> None:
    rng = np.random.default_rng(1)
    paths = tmp_path / "in.npy", tmp_path / "out.npy"
    for path, size in zip(paths, sizes, strict=True):
        np.save(path, rng.normal(size=size))
    result = of_files(paths, "--method", "one-run")
    refused(result, f"{sizes[0]} scores with the record and {sizes[1]} without", "fair coin")
    # Methods with fixed sample sizes need no coins.
    for method in ("label", "two-sample"):
        assert of_files(paths, "--method", method).exit_code == 0


def test_coins_that_pass_for_fair_do_not_deceive_one_run() -> None:
    """Null scores, 560 against 440 by design: at most 5 % of the bounds may be above 0.

    False-failure rate 1e-6. Guesses of only one kind would profit from the unequal sizes.
    """
    from dpaudit.cli.epsilon import _bound_of_scores

    options: dict[str, Any] = {"delta": 0.0, "alpha": 0.05}
    rng, deceived, naive, runs = np.random.default_rng(5), 0, 0, 200
    for _ in range(runs):
        scores, included = rng.normal(size=1000), np.arange(1000) < 560
        parts = scores[~included], scores[included]
        deceived += _bound_of_scores(*parts, method="one-run", seed=0, **options)[0].lower > 0
        naive += one_run_scores_epsilon(scores, included, **options).lower > 0
    limit = binom.isf(1e-6, runs, 0.05)
    assert deceived <= limit < naive


def refused(result: Result, *words: str) -> None:
    """Exit code 2, one sentence on standard error, nothing on standard output, no traceback."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("dpaudit: ")
    assert len(result.stderr.splitlines()) == 1
    for word in words:
        assert word in result.stderr
    assert "defect" not in result.stderr


@pytest.mark.cases(
    ("arguments", "words"),
    [
        ((), ["nothing given", "--counts"]),
        (("--counts", "1,2,3,4", "--one-run", "3,2,1"), ["--counts and --one-run given"]),
        (("--counts", "80,20,20"), ["'80,20,20'", "TP,FP,FN,TN, integers"]),
        (("--counts", "80,20,20,80,1"), ["TP,FP,FN,TN, integers"]),
        (("--counts", ""), ["TP,FP,FN,TN, integers"]),
        (("--counts", "80,20,20,8.5"), ["TP,FP,FN,TN, integers"]),
        (("--counts", "80,20,20,nan"), ["TP,FP,FN,TN, integers"]),
        (("--counts", f"80,20,20,{10**400}"), ["tn is above 10^9"]),
        (("--counts", "80,-20,20,80"), ["fp = -20", "whole number"]),
        (("--counts", "0,20,0,80"), ["'present'", "at least one"]),
        (("--counts", "80,20,20,80", "--delta", 1), ["delta = 1.0", "[0, 1)"]),
        (("--counts", "80,20,20,80", "--delta", -0.1), ["delta = -0.1"]),
        (("--counts", "80,20,20,80", "--delta", "nan"), ["delta = nan"]),
        (("--counts", "80,20,20,80", "--confidence", 0), ["--confidence 0.0", "0.95"]),
        (("--counts", "80,20,20,80", "--confidence", 1), ["--confidence 1.0"]),
        (("--counts", "80,20,20,80", "--confidence", 95), ["--confidence 95.0"]),
        (("--counts", "80,20,20,80", "--confidence", "nan"), ["--confidence nan"]),
        (("--counts", "80,20,20,80", "--confidence", 1e-300), ["alpha = 1.0"]),
        (("--counts", "80,20,20,80", "--method", "gdp"), ["delta = 0"]),
        (("--counts", "80,20,20,80", "--method", "gpd"), ["did you mean 'gdp'?"]),
        (("--counts", "80,20,20,80", "--method", "label"), ["'label' does not fit"]),
        (("--one-run", "100,40"), ["M,R,V, integers"]),
        (("--one-run", "100,40,41"), ["correct = 41", "guesses = 40"]),
        (("--one-run", "100,101,40"), ["guesses = 101", "m = 100"]),
        (("--one-run", "0,0,0"), ["m = 0"]),
        (("--one-run", "-1,0,0"), ["m = -1"]),
        (("--one-run", "100,40,35", "--method", "one-run-gdp"), ["delta = 0.0"]),
        (("--one-run", "100,40,35", "--delta", 1), ["delta = 1.0"]),
    ],
)
def test_wrong_options_are_one_sentence(arguments: tuple[object, ...], words: list[str]) -> None:
    refused(call(*arguments), *words)


@pytest.mark.cases(
    ("content", "words"),
    [
        (None, ["does not exist"]),
        (b"", ["empty"]),
        (b"score\n", ["empty"]),
        (b"\n\n", ["empty"]),
        (b"1\nnan\n2\n", ["line 2: the score 'nan' is not a finite number"]),
        (b"inf\n1\n", ["line 1: the score 'inf' is not a finite number"]),
        (b"1\n1e400\n", ["line 2: the score '1e400' is not a finite number"]),
        (b"1\n\n2\n", ["line 2: the score '' is not a number"]),
        (b"score\n1\n2\nabc\n", ["line 4: the score 'abc' is not a number", "one column"]),
        *(
            (f"{text}\n1\n2\n".encode(), [f"line 1: the score {text!r} is not a"])
            for text in ("NA", "NaN", "null", "-", "1.2.3", "0,5", "1_0", "0x10", "٣", "−1", "#N/A")
        ),
        (b"1,2\n3,4\n", ["'1,2'", "one column"]),
        (b"a;b\n3\n4\n", ["'a;b'", "one column"]),
        (b"score\n1,2\n", ["one column"]),
        (b"\xff\xfe1\n", ["line 1: the score"]),
        (b"1\n\xe9\n", ["line 2: the byte 0xe9 is not UTF-8: save the file as UTF-8"]),
        ("1\n2\n".encode("utf-16-le"), ["holds NUL bytes: save it as text in UTF-8"]),
    ],
)
def test_wrong_scores_are_one_sentence(
    tmp_path: Path, content: bytes | None, words: list[str]
) -> None:
    bad, good = tmp_path / "bad.csv", tmp_path / "good.csv"
    if content is not None:
        bad.write_bytes(content)
    good.write_text("1\n2\n")
    refused(of_files((bad, good)), "bad.csv", *words)
    refused(of_files((good, bad)), "bad.csv", *words)


@pytest.mark.cases(
    "content",
    [
        b"score\n1\n2.5\n",
        b'"score"\n"1"\n"2.5"\n',
        b"# score\r\n1\r\n2.5",
        b"\n\n 1\r2.5\r",
        "1\n2.5\n".encode("utf-16"),
        gzip.compress(b"1\n2.5\n", mtime=0),
    ],
)
def test_scores_are_read_below_a_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "scores.csv"
    path.write_bytes(content)
    assert read_scores(path).tolist() == [1, 2.5]


@pytest.mark.cases(
    ("values", "words"),
    [
        (np.zeros((3, 2)), "shape (3, 2)"),
        (np.zeros(()), "shape ()"),
        (np.zeros(0), "empty"),
        (np.array([1, np.inf]), "[1] = inf"),
        (np.array([1j]), "complex128"),
        (np.array(["1"]), "<U1"),
        (np.zeros(3, "datetime64[s]"), "datetime64"),
        (np.zeros(3, [("score", "f8")]), "score"),
    ],
)
def test_wrong_arrays_are_one_sentence(tmp_path: Path, values: Any, words: str) -> None:
    bad, good = tmp_path / "bad.npy", tmp_path / "good.npy"
    np.save(bad, values)
    np.save(good, np.arange(3))
    refused(of_files((good, bad)), "bad.npy", words)


@pytest.mark.cases("content", [b"", b"garbage", b"\x93NUMPY\x01\x00"])
def test_what_is_no_npy_file_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    bad = tmp_path / "bad.npy"
    bad.write_bytes(content)
    refused(of_files((bad, bad)), "bad.npy", "npy")


def test_scores_belong_together_and_methods_are_suggested(
    files: dict[str, tuple[Path, Path]],
) -> None:
    refused(call("--scores-in", files["csv"][0]), "give both")
    refused(call("--scores-out", files["csv"][1]), "give both")
    refused(of_files(files["csv"], "--counts", "1,2,3,4"), "--counts given")
    refused(of_files(files["csv"], "--method", "two-samples"), "did you mean 'two-sample'?")
    refused(of_files(files["csv"], "--method", "gdp"), "delta = 0")


def test_help_is_tidy() -> None:
    result = CliRunner().invoke(main, ["epsilon", "--help"], terminal_width=80)
    lines = result.stdout.splitlines()
    assert "\\b" not in result.stdout
    assert "\b" not in result.stdout
    assert all(len(line) <= 85 for line in lines)
    rows = [line.split() for line in lines if line.startswith("  --")]
    methods = {row[0]: " ".join(row[1:]) for row in rows[-3:]}
    assert methods["--one-run"] == "one-run, one-run-gdp"
    assert methods["--counts"] == "clopper-pearson, gdp"
    assert methods["--scores-in,"].startswith("--scores-out label, gdp")


def both_directions(*arguments: object) -> tuple[str, float | None]:
    text = call(*arguments)
    record = json.loads(call(*arguments, "--format", "json").stdout)
    assert text.exit_code == 0
    assert record["epsilon_lower"] == 0
    reverse: float | None = record["epsilon_lower_of_both_directions"]
    return " ".join(text.output.split()), reverse


def test_an_attack_that_is_always_wrong_certifies_what_its_reverse_does_at_half_the_level() -> None:
    halved: dict[str, Any] = {"delta": 0.0, "alpha": (1 - 0.95) / 2}
    for arguments, expected in (
        (("--counts", "0,100,100,0"), clopper_pearson_epsilon(Counts(100, 0, 0, 100), **halved)),
        (("--counts", "30,60,70,40"), clopper_pearson_epsilon(Counts(70, 40, 30, 60), **halved)),
        (("--one-run", "100,40,5"), one_run_epsilon(100, 40, 35, **halved)),
    ):
        text, reverse = both_directions(*arguments)
        assert reverse == expected.lower > 0.1
        assert "Reversed it shows a leak" in text
        assert f"each at α/2, ε at least {at_least(expected.lower)}." in text
        assert "no leak" not in text


@pytest.mark.parametrize("method", ["two-sample", "one-run"])
def test_scores_of_the_wrong_sign_certify_what_their_reverse_does(
    tmp_path: Path, method: str
) -> None:
    absent, present = trials(n=400)
    files = tmp_path / "in.npy", tmp_path / "out.npy"
    for path, values in zip(files, (-present, -absent), strict=True):
        np.save(path, values)
    names = ("--scores-in", files[0], "--scores-out", files[1], "--method", method, "--seed", 0)
    text, reverse = both_directions(*names)
    assert reverse is not None
    assert 0.5 < reverse < 2
    assert "a large score" in text


@pytest.mark.cases(
    "arguments",
    [("--counts", "50,50,50,50"), ("--counts", "48,52,52,48"), ("--one-run", "100,40,20")],
)
def test_no_leak_is_said_of_outcomes_that_show_none_in_either_direction(
    arguments: tuple[str, str],
) -> None:
    text, reverse = both_directions(*arguments)
    assert reverse is None
    assert "no leak, nor would the reverse" in text
