from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from dpaudit.core.errors import DataError
from dpaudit.data import (
    Columns,
    DataSource,
    RatingScale,
    Scale,
    SensitiveSource,
    SyntheticParams,
    TrustSource,
)

COLUMNS: dict[str, Any] = {"user": 0, "item": 1, "rating": 2}
PAIR: dict[str, Any] = {"user": 0, "item": 1}
ZERO = {"minimum": 0, "maximum": 0}
CATEGORY: dict[str, Any] = {"categories": ["health"]}


def test_default_is_synthetic() -> None:
    source = DataSource()
    assert source.format == "synthetic"
    assert source.synthetic == SyntheticParams()


def test_is_frozen() -> None:
    source = DataSource()
    with pytest.raises(ValidationError, match="frozen"):
        source.path = "x"  # type: ignore[misc]


@pytest.mark.cases(
    "source",
    [
        DataSource(synthetic=SyntheticParams(n_users=3, seed=7)),
        DataSource(format="movielens-csv", path="${HOME}/r.csv", binarize=4),
        DataSource(
            format="delimited",
            path="r",
            header=True,
            delimiter="::",
            columns=Columns(user="u", item=3),
        ),
        DataSource(format="filmtrust", path="f", trust=TrustSource(mutual=True)),
        DataSource(format="ciao", path="c", sensitive=SensitiveSource(categories=("7", 8))),
        DataSource(format="ciao", path="c", on_duplicate="error", outside_scale="error"),
    ],
)
def test_survives_a_dump(source: DataSource) -> None:
    assert DataSource.model_validate(source.model_dump()) == source
    assert DataSource.model_validate_json(source.model_dump_json()) == source


@pytest.mark.cases(
    ("options", "message"),
    [
        ({"format": "movielens-1m"}, "path is missing"),
        (
            {"format": "delimited", "path": "r", "columns": PAIR, "encoding": "base64"},
            "'base64' is no encoding of text: give one such as 'cp1252'",
        ),
        (
            {"format": "delimited", "path": "r", "columns": PAIR, "encoding": "utf-9"},
            "'utf-9' is no encoding of text",
        ),
        ({"format": "parquet", "path": "r", "columns": PAIR, "skip": 1}, "skip does not belong"),
        (
            {"format": "jsonl", "path": "r", "columns": PAIR},
            "column 0 is a position, and a record has none: give its key",
        ),
        ({"path": "r.csv"}, "format is missing: name the layout of 'r.csv'"),
        ({"on_duplicate": "last"}, "on_duplicate does not belong"),
        ({"format": "movielens-100k", "path": "r", "delimiter": ","}, "delimiter does not belong"),
        ({"format": "movielens-100k", "path": "r", "header": True}, "header does not belong"),
        ({"format": "movielens-100k", "path": "r", "columns": COLUMNS}, "columns does not belong"),
        (
            {"format": "parquet", "path": "r", "columns": COLUMNS, "variable": "x"},
            "variable does not belong",
        ),
        (
            {"format": "movielens-100k", "path": "r", "synthetic": {"seed": 1}},
            "synthetic does not belong",
        ),
        ({"format": "delimited", "path": "r"}, "columns is missing"),
        (
            {"format": "delimited", "path": "r", "columns": {"user": "u", "item": 1}},
            "'u' is a name but header is false",
        ),
        (
            {"format": "matlab", "path": "r", "columns": {"user": "u", "item": 1}},
            "'u' is a name: give its position",
        ),
        (
            {"format": "delimited", "path": "r", "columns": {"user": 1, "item": 1}},
            "must be different columns",
        ),
        (
            {"format": "delimited", "path": "r", "columns": {"user": 0, "item": 1}, "binarize": 3},
            "binarize = 3.0 needs a rating column",
        ),
        (
            {"format": "delimited", "path": "r", "columns": {"user": 0, "item": 1}, "scale": {}},
            "needs a rating column",
        ),
        (
            {"format": "matlab", "path": "r", "columns": COLUMNS, "scale": {"minimum": 6}},
            "minimum 6 lies above maximum 5",
        ),
        (
            {"format": "matlab", "path": "r", "columns": COLUMNS, "scale": {"step": 0.3}},
            "step 0.3 does not lead from minimum 1 to maximum 5",
        ),
        (
            {"format": "matlab", "path": "r", "columns": COLUMNS, "scale": ZERO},
            "minimum and maximum are both 0: give the range",
        ),
        (
            {
                "format": "matlab",
                "path": "r",
                "columns": COLUMNS,
                "scale": {"minimum": 1e6 - 1, "maximum": 1e6, "step": 0.01},
            },
            r"step 0\.01 is too small for ratings as large as 1e\+06: give a larger step",
        ),
        ({"synthetic": {"scale": ZERO}}, "minimum and maximum are both 0: give the range"),
        (
            {"synthetic": {"n_users": 10**7}},
            r"n_users × mean_per_user is 4\.5e\+08, more than 1e\+08",
        ),
        (
            {"synthetic": {"n_users": 10**6, "n_items": 10**5}},
            r"n_users × n_items is 1e\+11, more than 1e\+10: ask for fewer",
        ),
        (
            {"synthetic": {"n_items": 10**6, "rank": 10**4}},
            r"\(n_users \+ n_items\) × rank is 1e\+10",
        ),
        ({"synthetic": {"n_users": 10**6, "mean_friends": 1}}, r"n_users for friends is 1e\+12"),
        (
            {"synthetic": {"n_users": 10**5, "mean_friends": 9**5}},
            r"n_users × mean_friends is 5\.9",
        ),
        (
            {"format": "delimited", "path": "r", "columns": COLUMNS, "delimiter": "\n"},
            r"'\\n' cannot separate fields: give no line end and no quote",
        ),
        (
            {"format": "movielens-1m", "path": "r", "trust": {"path": "t", "delimiter": '"'}},
            "cannot separate fields",
        ),
        ({"format": "ciao", "path": "a\0b"}, "the text contains a NUL character: remove it"),
        ({"synthetic": {"mean_per_user": 10}}, "mean_per_user 10 lies outside minimum_per_user 20"),
        ({"synthetic": {"n_items": 10}}, "to n_items 10"),
        (
            {"synthetic": {"n_users": 5, "mean_friends": 4.5}},
            "mean_friends 4.5 is more than the 4 other",
        ),
        ({"trust": {"path": "t"}}, "trust does not belong to format 'synthetic'"),
        ({"outside_scale": "drop"}, "outside_scale does not belong to format 'synthetic'"),
        ({"format": "ciao", "path": "r", "columns": COLUMNS}, "columns does not belong"),
        ({"format": "ciao"}, "path is missing"),
        ({"format": "movielens-1m", "path": "r", "trust": {}}, r"trust\.path is missing"),
        (
            {"format": "ciao", "path": "r", "trust": {"path": "t"}},
            "trust of format 'ciao' is in its folder: set only trust.mutual",
        ),
        (
            {"format": "ciao", "path": "r", "trust": {"mutual": True, "header": True}},
            "set only trust.mutual",
        ),
        (
            {"format": "delimited", "path": "r", "columns": PAIR, "outside_scale": "drop"},
            "outside_scale = 'drop' needs a rating column",
        ),
        (
            {"format": "delimited", "path": "r", "columns": {**COLUMNS, "sensitive": 2}},
            "user, item, rating and sensitive must be different columns",
        ),
        (
            {
                "format": "delimited",
                "path": "r",
                "columns": {**COLUMNS, "sensitive": 3},
                "sensitive": {"share": 0.1},
            },
            r"sensitive and columns\.sensitive exclude each other: remove one",
        ),
        (
            {"format": "delimited", "path": "r", "columns": COLUMNS, "sensitive": CATEGORY},
            r"sensitive\.categories needs a column of categories: name columns\.category",
        ),
        (
            {"format": "filmtrust", "path": "r", "sensitive": CATEGORY},
            r"needs a column of categories: give sensitive\.share instead",
        ),
        ({"sensitive": CATEGORY}, r"give sensitive\.share instead"),
        ({"sensitive": {}}, "share and categories exclude each other and neither is given"),
        ({"sensitive": {"share": 0.1, **CATEGORY}}, "both are given: give one"),
        ({"sensitive": {"share": 0.1, "matched_random": True}}, "matched_random needs categories"),
        ({"format": "ciao", "path": "r", "sensitive": {**CATEGORY, "seed": 2}}, "seed has no"),
        (
            {"format": "movielens-1m", "path": "r", "trust": {"path": "t", "variable": "x"}},
            "variable does not belong to format 'delimited'",
        ),
        (
            {
                "format": "movielens-1m",
                "path": "r",
                "trust": {"path": "t", "format": "matlab", "header": True},
            },
            "header does not belong to format 'matlab'",
        ),
        (
            {
                "format": "movielens-1m",
                "path": "r",
                "trust": {"path": "t", "columns": {"truster": "who"}},
            },
            "'who' is a name but header is false",
        ),
        (
            {
                "format": "movielens-1m",
                "path": "r",
                "trust": {"path": "t", "columns": {"truster": 1}},
            },
            "truster and trustee must be different columns",
        ),
    ],
)
def test_contradictions_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        DataSource.model_validate(options)


@pytest.mark.cases(
    "options",
    [
        {"format": "netflix"},
        {"colour": 1},
        {"binarize": float("nan")},
        {"synthetic": {"noise": -1}},
        {"synthetic": {"noise": 1e300}},
        {"synthetic": {"rank": 10**5000}},
        {"synthetic": {"seed": 10**5000}},
        {"synthetic": {"minimum_per_user": 10**5000}},
        {"format": "delimited", "path": "r", "columns": {"user": 10**5000, "item": 1}},
        {"format": "delimited", "path": "r", "columns": COLUMNS, "scale": {"step": 1e-7}},
        {"format": "delimited", "path": "r" * 5000, "columns": COLUMNS},
        {"sensitive": {"share": 0.1, "seed": 2**64}},
        {"format": "ciao", "path": "r", "sensitive": {"categories": [10**5000]}},
        {"format": "delimited", "path": "r", "columns": {"user": -1, "item": 1}},
        {"format": "delimited", "path": "r", "columns": {"user": True, "item": 1}},
        {"format": "delimited", "path": "r", "columns": COLUMNS, "scale": {"step": 0}},
        {"format": "delimited", "path": "r", "columns": COLUMNS, "delimiter": ""},
        {"format": ["ciao"], "path": "r"},
        {"format": "ciao", "path": "r", "outside_scale": "mean"},
        {"sensitive": {"share": 1.1}},
        {"sensitive": {"share": -0.1}},
        {"sensitive": {"share": 0.1, "seed": -1}},
        {"format": "ciao", "path": "r", "sensitive": {"categories": []}},
        {"format": "ciao", "path": "r", "sensitive": {"categories": [1.5]}},
        {"format": "ciao", "path": "r", "trust": {"mutually": True}},
        {"synthetic": {"mean_friends": -1}},
    ],
)
def test_bad_values_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        DataSource.model_validate(options)


def test_path_expands_variables_on_use_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPAUDIT_DATA", "/some/where")
    source = DataSource(format="movielens-100k", path="${DPAUDIT_DATA}/ml-100k/u.data")
    assert source.file() == Path("/some/where/ml-100k/u.data")
    assert source.path == "${DPAUDIT_DATA}/ml-100k/u.data"


def test_only_variables_that_the_user_allows_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    monkeypatch.setenv("OTHER", "/other")
    source = DataSource(format="movielens-100k", path="${SECRET_TOKEN}/u.data")
    for allowed in (None, "", "OTHER", "SECRET_TOKENS"):
        if allowed is not None:
            monkeypatch.setenv("DPAUDIT_ALLOW_ENV", allowed)
        with pytest.raises(DataError, match=r"rename it to DPAUDIT_SECRET_TOKEN") as caught:
            source.file()
        assert "environment variable SECRET_TOKEN" in str(caught.value)
        assert "hunter2" not in str(caught.value)
    monkeypatch.setenv("DPAUDIT_ALLOW_ENV", "OTHER, SECRET_TOKEN")
    assert source.file() == Path("hunter2/u.data")


@pytest.mark.parametrize("value", [None, ""])
def test_unset_variable_names_the_remedy(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.delenv("DPAUDIT_DATA", raising=False)
    if value is not None:
        monkeypatch.setenv("DPAUDIT_DATA", value)
    source = DataSource(format="movielens-100k", path="${DPAUDIT_DATA}/ml-100k/u.data")
    with pytest.raises(DataError, match="set DPAUDIT_DATA"):
        source.file()


def scale(source: DataSource) -> Scale:
    stated = source.plain.scale
    assert stated is not None
    return stated.to_scale()


def test_scales_by_format() -> None:
    assert scale(DataSource(format="movielens-1m", path="r")) == Scale(1, 5, 1)
    assert scale(DataSource(format="movielens-csv", path="r")) == Scale(0.5, 5, 0.5)
    stated = DataSource(format="movielens-csv", path="r", scale=RatingScale(minimum=1))
    assert scale(stated) == Scale(1, 5, 1)
    delimited = DataSource(format="delimited", path="r", columns=Columns(user=0, item=1, rating=2))
    assert delimited.plain.scale is None


def test_folders_have_their_own_files_and_defaults() -> None:
    ciao = DataSource(format="ciao", path="${HOME}/c")
    assert (ciao.on_duplicate, ciao.outside_scale) == ("last", "drop")
    assert ciao.plain.path == "${HOME}/c/rating.mat"
    assert ciao.plain.trust == TrustSource(path="${HOME}/c/trustnetwork.mat", format="matlab")
    stated = DataSource(format="ciao", path="c", on_duplicate="mean", outside_scale="error")
    assert (stated.on_duplicate, stated.outside_scale) == ("mean", "error")
    film = DataSource(format="filmtrust", path="f", trust=TrustSource(mutual=True))
    assert (film.on_duplicate, film.outside_scale) == ("last", "error")
    assert scale(film) == Scale(0.5, 4, 0.5)
    assert film.plain.layout().delimiter == " "
    assert film.plain.trust == TrustSource(path="f/trust.txt", delimiter=" ", mutual=True)
    assert film.file() == Path("f/ratings.txt")
    plain = DataSource(format="movielens-1m", path="r").plain
    assert (plain.path, plain.trust, plain.on_duplicate) == ("r", None, "error")
    assert plain.plain is plain


def test_import_is_light() -> None:
    code = (
        "import sys, dpaudit.data; "
        "print({'pandas', 'scipy', 'pooch', 'pyarrow', 'requests', 'rich'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert result.stdout.strip() == b"set()"
