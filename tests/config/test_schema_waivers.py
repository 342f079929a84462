from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path

import pytest

from dpaudit.audits.on_demand.config import OnDemandConfig
from dpaudit.config import load as config_file
from dpaudit.config.schema import Config
from dpaudit.core.errors import ConfigError
from dpaudit.record.result import Waiver
from dpaudit.reports.render import toml

ONE = """[[waiver]]
id = "claim/slope-one published/1"
owner = "the team"
statement = "known"
expires = 2027-01-31
"""
WAIVER = Waiver(
    id="claim/slope-one published/1", owner="the team", statement="known", expires=date(2027, 1, 31)
)


def write(folder: Path, text: str) -> Path:
    path = folder / "waivers.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_waivers_stand_in_the_config_or_in_a_file(tmp_path: Path) -> None:
    assert config_file.load_waivers(write(tmp_path, ONE)) == [WAIVER]
    assert config_file.load_waivers(write(tmp_path, "")) == []
    path = tmp_path / "audit.toml"
    path.write_text(f"[model]\n{ONE}")
    assert config_file.load(path).waiver == [WAIVER]


def test_they_survive_the_record_and_the_config_in_a_report() -> None:
    config = OnDemandConfig(seed=1, waiver=[WAIVER])
    recorded = config.model_dump(mode="json")
    assert Config.model_validate(recorded) == config
    assert Config.model_validate(tomllib.loads(toml.render(recorded))) == config
    assert Config.model_validate_json(config.model_dump_json()) == config


@pytest.mark.cases(
    ("text", "line", "words"),
    [
        (ONE.replace('owner = "the team"\n', ""), 1, "waiver.0.owner"),
        (ONE + "until = 2027-01-31\n", 6, "waiver.0.until is not known"),
        (ONE.replace("2027-01-31", "20270131"), 5, "is no day: write it as 2027-01-31"),
        (ONE.replace("known", ""), 4, "waiver.0.statement"),
        (ONE + ONE, 1, "two [[waiver]] have the id 'claim/slope-one published/1'"),
        ("seed = 1\n" + ONE, 1, "seed"),
    ],
)
def test_an_error_names_the_file_the_line_and_the_key(
    tmp_path: Path, text: str, line: int, words: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        config_file.load_waivers(path)
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert words in str(caught.value)
