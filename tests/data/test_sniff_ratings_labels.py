"""Which column says that a row is an interaction."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from dpaudit.core.errors import DataError
from dpaudit.data.interactions import given_ratings
from dpaudit.data.readers.load import load
from dpaudit.data.sniff import StatedLayout, sniff
from dpaudit.data.sniff_ratings import UnknownLabelError
from dpaudit.data.source_parts import Columns


def write(folder: Path, text: str) -> Path:
    path = folder / "data.csv"
    path.write_text(text)
    return path


def values(folder: Path, name: str, cells: Sequence[object]) -> Path:
    """Write a file with these cells in a column of this name."""
    rows = [f"{n % 7},{n},{cell}" for n, cell in enumerate(cells)]
    return write(folder, "\n".join([f"user,item,{name}", *rows]))


LABELS = "user_id,item_id,click,follow,like,share,gender"


@pytest.mark.cases(
    ("header", "cells", "columns"),
    [
        (LABELS, "{0},{1},{2},{2},0", "'click', 'like', 'follow' and 'share'"),
        ("user_id,video_id,is_click,is_like,long_view,tab", "{0},0,0,1", "'is_click', 'is_like'"),
        ("user,item,rating,click", "{0},{1}", "'click' and 'rating'"),
        ("user,item,cart,purchase", "{0},0", "'purchase' and 'cart'"),
        ("user,item,label,liked", "{2},True", "'liked' and 'label'"),
        ("user,item,click_bool,booking_bool", "{0},{1}", "'click_bool' and 'booking_bool'"),
        ("user,item,has_liked,listened", "{0},{1}", "'has_liked' and 'listened'"),
    ],
)
def test_several_labels_need_a_choice(
    tmp_path: Path, header: str, cells: str, columns: str
) -> None:
    rows = [f"{n % 7},{n},{cells.format(n % 2, n % 3 // 2, int(n == 5))}" for n in range(30)]
    path = write(tmp_path, "\n".join([header, *rows]))
    with pytest.raises(UnknownLabelError, match=f"{columns}.* of 0 and 1") as caught:
        sniff(path)
    assert caught.value.guess.rpartition("=")[2] in columns
    said = "of 0 and 1, and each may say which rows are interactions: give .* the right one alone"
    with pytest.raises(DataError, match=said):
        given_ratings(pd.read_csv(path))
    stated = Columns(user=0, item=1, rating=2)
    layout = sniff(path, StatedLayout(stated)).layout
    assert "rating = column 2, not used: " in layout
    assert "user" not in layout.partition("not used")[2]


@pytest.mark.cases(
    ("header", "cells", "taken"),
    [
        ("user,item,is_click,time_ms", "{1},17000000000", "is_click"),
        ("user,item,plays,purchase", "{0},{1}", "purchase"),
        ("user,item,rating,like", "{0},{1}", "rating"),
        ("user,item,value,click", "{0},{1}", "value"),
        ("user,item,like,share", "{1},{0}", "like"),
        ("user,item,hours,is_recommended", "{0},{1}", "is_recommended"),
        ("user,item,recommended", "{0}", None),
        ("user,item,comment", "{0}", None),
        ("user,item,is_rand", "{1}", None),
    ],
)
def test_one_label_is_the_interaction_unless_there_are_ratings(
    tmp_path: Path, header: str, cells: str, taken: str | None
) -> None:
    rows = [f"{n % 7},{n},{cells.format(1 + n % 5, n % 2)}" for n in range(30)]
    source = sniff(write(tmp_path, "\n".join([header, *rows]))).source
    assert source.columns is not None
    assert source.columns.rating == taken
    assert (source.binarize is not None) == (
        taken in {"is_click", "purchase", "like", "is_recommended"}
    )


def test_a_label_without_an_interaction_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="column 'like' holds 0 alone"):
        sniff(values(tmp_path, "like", [0, 0, 0]))


@pytest.mark.cases("name", ["event", "event_type", "Action", "behavior_type"])
def test_what_is_only_shown_is_no_interaction(tmp_path: Path, name: str) -> None:
    acts = ["click", "view", "impression"]
    path = values(tmp_path, name, [acts[n % 3] for n in range(30)])
    said = f"4, column '{name}': 'impression' is no interaction, as in 9 more rows: leave"
    with pytest.raises(DataError, match=f"line {said}"):
        sniff(path)
    with pytest.raises(DataError, match=r"row 3, column .* is no interaction"):
        given_ratings(pd.read_csv(path))
    assert len(load(sniff(path, StatedLayout(Columns(user=0, item=1))).source)) == 30
    assert len(load(sniff(values(tmp_path, name, acts[:2])).source)) == 2
    assert len(load(sniff(values(tmp_path, name, ["show"] * 2)).source)) == 2
    assert len(load(sniff(values(tmp_path, "type", ["show", "movie"])).source)) == 2


@pytest.mark.cases(("name", "words"), [("rating", "like dislike"), ("click", "VRAI FAUX")])
def test_two_words_are_to_be_numbers(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(DataError, match=f"column '{name}': .*'.*' and '.*': write 1"):
        sniff(values(tmp_path, name, words.split() * 5))
