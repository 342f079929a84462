"""All numbers of a record as one table that programs and spreadsheets read."""

from __future__ import annotations

import io
import math

import pandas as pd
import pytest

from dpaudit.core.estimate import Estimate
from dpaudit.record.metrics import table
from dpaudit.record.result import AuditResult
from dpaudit.reports.render import csv
from tests.support.membership_records import record
from tests.support.records import Make, estimate, measured


def read(result: AuditResult) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(csv.render(result)))


def test_every_number_is_read_back_with_what_identifies_it(make: Make) -> None:
    result = record(make)
    frame = read(result)
    assert len(frame) == len(result.measurements)
    for number, (_, row) in zip(result.measurements, frame.iterrows(), strict=True):
        for name in Estimate.model_fields:
            assert row[name] == getattr(number.estimate, name), name
        assert (row["model"], row["metric"]) == (number.model, number.metric)
        for name in number.described.apart:
            value = getattr(number, name)
            assert pd.isna(row[name]) if value is None else row[name] == value, name
    assert not frame.duplicated(["model", "metric", "epsilon", *identifying()]).any()


def identifying() -> list[str]:
    fields = {field.name: field for metric in table().values() for field in metric.known}
    return [name for name, field in fields.items() if field.key and name != "kind"]


def test_records_of_all_kinds_have_the_same_columns(make: Make) -> None:
    header = csv.render(make()).partition("\n")[0]
    assert csv.render(record(make)).startswith(f"{header}\n")
    columns = header.split(",")
    assert columns[:3] == ["model", "metric", "epsilon"]
    assert columns[-len(Estimate.model_fields) :] == list(Estimate.model_fields)
    assert set(identifying()) < set(columns)
    assert len(set(columns)) == len(columns)


def test_what_has_no_end_is_infinite_and_what_is_missing_is_empty(make: Make) -> None:
    result = make(epsilons=(1.0, math.inf))
    [first, *_] = [row for row in csv.render(result).splitlines() if ",epsilon,inf," in row]
    assert ",inf,0.95," in first
    assert ",,," in first
    frame = read(result)
    assert math.inf in set(frame["epsilon"])
    assert set(frame[frame["metric"] == "epsilon"]["upper"]) == {math.inf}


@pytest.mark.cases("label", ["=1+1", "+1", "-1", "@SUM(A1)", " =1+1", "\t=1+1"])
def test_no_text_is_a_formula(make: Make, label: str) -> None:
    shown = set(read(make(label=label))["model"])
    assert shown == {f"'{label.replace(chr(9), ' ')}"}


def test_a_field_may_have_the_name_of_a_column_of_the_interval(result: AuditResult) -> None:
    compared = measured(
        "utility.difference", "published", 1.0, estimate(0.1, 0, 1), against="other", kind="rmse"
    )
    frame = read(result.model_copy(update={"measurements": [compared]}))
    assert list(frame["field.kind"]) == ["rmse"]
    assert list(frame["kind"]) == ["frequentist"]
