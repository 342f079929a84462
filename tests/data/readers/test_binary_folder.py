"""Folders of Parquet files."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from dpaudit.core.errors import DataError
from dpaudit.data import DataSource, load
from dpaudit.data.readers.binary import parquet_files, unread_parts
from dpaudit.data.sniff import sniff

SOURCE = {"format": "delimited", "header": True, "columns": {"user": "user", "item": "item"}}


def written(folder: Path, *frames: pd.DataFrame) -> Path:
    path = folder / "ratings"
    path.mkdir()
    for number, frame in enumerate(frames):
        frame.to_parquet(path / f"part-{number}.snappy.parquet")
    (path / "_SUCCESS").touch()
    (path / ".part-0.snappy.parquet.crc").touch()
    return path


def frame(users: list[object], items: list[object], ratings: list[object]) -> pd.DataFrame:
    return pd.DataFrame({"user_id": users, "item_id": items, "rating": ratings})


@pytest.mark.long
def test_the_files_of_a_folder_are_one_table(tmp_path: Path) -> None:
    path = written(tmp_path, frame([1, 2], ["a", "b"], [1, 5]), frame([2, 3], ["c", "a"], [2, 3]))
    sniffed = sniff(path)
    assert sniffed.layout.startswith("2 Parquet files, user = 'user_id'")
    ratings = load(sniffed.source)
    assert ratings.user.tolist() == [0, 1, 1, 2]
    assert ratings.item.tolist() == [0, 1, 2, 0]
    assert ratings.value.tolist() == [1, 5, 2, 3]


@pytest.mark.long
def test_a_wrong_row_is_named_with_its_file(tmp_path: Path) -> None:
    path = written(tmp_path, frame([1, 2], [1, 2], [1, 5]), frame([2, None], [3, 4], [2, 3]))
    source = {
        "format": "parquet",
        "path": str(path),
        "columns": {"user": "user_id", "item": "item_id"},
    }
    with pytest.raises(DataError, match=r"row 2 of part-1\.snappy\.parquet"):
        load(DataSource.model_validate(source))


@pytest.mark.long
def test_every_file_has_the_columns(tmp_path: Path) -> None:
    other = frame([2], [3], [2]).rename(columns={"rating": "stars"})
    with pytest.raises(DataError, match=r"part-1\.snappy\.parquet has no column 'rating'"):
        sniff(written(tmp_path, frame([1, 2], [1, 2], [1, 5]), other))


@pytest.mark.cases(
    ("name", "words"),
    [
        ("year=2020/part-0.parquet", "partitions by folders are not read: write all rows"),
        ("more/part-0.parquet", "holds the folder 'more'"),
        ("_delta_log/0.json", "is a Delta table, which may hold deleted rows"),
        (".hoodie/hoodie.properties", "is a Hudi table"),
        ("_temporary/0/part-1.parquet", "holds '_temporary', so the job that writes it has not"),
        ("_started_42", "holds '_started_42', so the job"),
        (".spark-staging-42/a", "holds '.spark-staging-42', so the job"),
        (".part-0.inprogress.42", "holds '.part-0.inprogress.42', so the job"),
        (".part-0.parquet.Ab12Cd", "holds '.part-0.parquet.Ab12Cd', so the job"),
        (".part-1.parquet.crc", "lacks 'part-1.parquet', whose checksum it holds"),
        ("train-00001-of-00003.parquet", "lacks some of the 3 parts of 'train'"),
        ("metadata/v1.metadata.json", "is an Iceberg table"),
        ("ratings.csv", "is a folder without Parquet files: name the file of ratings inside it"),
        (".hoodie_partition_metadata", "is a Hudi table"),
        ("_metadata", "is a folder without Parquet files"),
    ],
)
def test_what_is_no_folder_of_one_table_is_refused(tmp_path: Path, name: str, words: str) -> None:
    inside = tmp_path / name
    inside.parent.mkdir(exist_ok=True, parents=True)
    inside.touch()
    with pytest.raises(DataError, match=words):
        parquet_files(tmp_path)
    with pytest.raises(DataError, match=words):
        sniff(tmp_path)


def test_parts_of_text_are_to_be_joined(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"part-0000{number}.csv").touch()
    with pytest.raises(DataError, match=r"a folder of parts, .* join them"):
        sniff(tmp_path)


def test_a_file_inside_a_table_with_versions_is_refused(tmp_path: Path) -> None:
    inside = tmp_path / "data" / "day=1" / "part-0.parquet"
    for folder in (inside.parent, tmp_path / "metadata"):
        folder.mkdir(parents=True)
    frame([1, 2], [1, 2], [1, 5]).to_parquet(inside)
    assert parquet_files(inside.parent) == [inside]
    (tmp_path / "metadata" / "0.metadata.json").touch()
    for path in (inside, inside.parent, tmp_path / "data"):
        with pytest.raises(DataError, match="is of an Iceberg table"):
            sniff(path)


def test_a_finished_folder_is_read(tmp_path: Path) -> None:
    names = ["_started_4", "_committed_4", "_SUCCESS", "_metadata", "._SUCCESS.crc", "_committed_5"]
    parts = [f"train-{k:05}-of-00003.parquet" for k in range(3)]
    for name in (*names, *parts, ".train-00000-of-00003.parquet.crc"):
        (tmp_path / name).touch()
    assert [file.name for file in parquet_files(tmp_path)] == parts


@pytest.mark.cases(
    ("names", "read", "count"),
    [
        (["part-00000-a.csv", "part-00001-a.csv", "part-00002-b.csv"], "part-00001-a.csv", 2),
        (["part-00000.csv", "part-00001.parquet", "_SUCCESS"], "part-00000.csv", 0),
        (["clicks-000000000000.csv", "clicks-000000000001.csv"], "clicks-000000000000.csv", 1),
        (["train-00000-of-00003.csv"], "train-00000-of-00003.csv", 2),
        (["ratings_1.csv", "ratings_2.csv", "ratings_2.txt"], "ratings_2.csv", 1),
        (["r.csv.00", "r.csv.01", "r.csv"], "r.csv.00", 1),
        (["xaa", "xab", "xac", "xabc", "yab"], "xab", 2),
        (["u1.base", "u2.base"], "u1.base", 0),
        (["r-2019.csv", "r-2020.csv", "part-0.csv"], "r-2019.csv", 0),
        (["party1.csv", "party2.csv"], "party1.csv", 0),
        (["part-0.parquet", "part-2.parquet"], "", 1),
        (["part.1.parquet", "part.2.parquet"], "", 0),
        (["a.parquet", "b.parquet"], "", 0),
    ],
)
def test_parts_that_are_not_read_are_counted(
    tmp_path: Path, names: list[str], read: str, count: int
) -> None:
    for name in names:
        (tmp_path / name).touch()
    assert unread_parts(tmp_path / read).count == count


@pytest.mark.cases("inside", ["_temporary/0/x", "_started_4", ".spark-staging-4/y=1"])
def test_a_part_of_a_folder_that_is_not_finished_is_refused(tmp_path: Path, inside: str) -> None:
    part = tmp_path / "part-00000.csv"
    within = tmp_path / inside / "part-00000.csv"
    within.parent.mkdir(parents=True)
    for path in (part, within)[: 1 + inside.startswith("_temp")]:
        path.write_text("user,item\n1,2\n1,3\n2,2\n")
        with pytest.raises(DataError, match="has not finished"):
            load(DataSource.model_validate(SOURCE | {"path": str(path)}))
    (tmp_path / "ratings.csv").write_text("user,item\n1,2\n1,3\n2,2\n")
    load(DataSource.model_validate(SOURCE | {"path": str(tmp_path / "ratings.csv")}))


def test_unread_parts_stand_in_the_repairs(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"part-{number}.csv").write_text("user,item\n1,2\n1,3\n2,2\n")
    ratings = load(sniff(tmp_path / "part-1.csv").source)
    assert [repair.count for repair in ratings.repairs] == [2]
    assert "are not read" in ratings.repairs[0].what


def test_other_files_are_not_left_out_silently(tmp_path: Path) -> None:
    for name in ("part-0.parquet", "readme.txt"):
        (tmp_path / name).touch()
    with pytest.raises(DataError, match=r"holds 'readme\.txt' beside"):
        parquet_files(tmp_path)


def test_a_file_stands_for_itself(tmp_path: Path) -> None:
    assert parquet_files(tmp_path / "r.parquet") == [tmp_path / "r.parquet"]
