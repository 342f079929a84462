from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dpaudit.config import load as config_file
from dpaudit.config.schema import Card, Config
from dpaudit.core.errors import ConfigError

STATED = """
seed = 3
[card]
owner = "  Film shop  "
version = "2026.1"
actors = ["the shop", "other users"]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "audit.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_statements_are_kept_and_all_are_optional(tmp_path: Path) -> None:
    card = config_file.load(written(tmp_path, STATED)).card
    assert card == Card(owner="Film shop", version="2026.1", actors=["the shop", "other users"])
    assert config_file.load(written(tmp_path, "seed = 3\n[card]\n")).card == Card()
    assert config_file.load(written(tmp_path, "seed = 3\n")).card is None


@pytest.mark.cases(
    ("line", "words"),
    [
        ("owner = '  '", "line 5: card.owner"),
        ("actors = []", "line 5: card.actors"),
        ("curator = 'me'", "line 5: card.curator"),
        (f"release = '{'x' * 2001}'", "line 5: card.release"),
    ],
)
def test_wrong_statements_are_one_sentence(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        config_file.load(written(tmp_path, f"seed = 3\n\n\n[card]\n{line}\n"))
    assert "\n" not in str(caught.value)


@pytest.mark.cases(
    "table",
    [
        {"recommender": {"library": "most-popular"}},
        {"defense": {"kind": "python", "target": "a:b", "d": 0, "d_prime": 1, "epsilon": 1.0}},
        {"model": {"defense": "dpsgd-mf"}},
    ],
)
def test_every_audit_may_have_a_card(table: dict[str, Any]) -> None:
    assert Config.model_validate({**table, "card": {"owner": "x"}}).card == Card(owner="x")


def test_the_page_on_cards_has_every_key_and_its_example_loads(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "card.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall("`([a-z_]+)`", row)} == set(
        Card.model_fields
    )
    example = page.partition("```toml\n")[2].partition("```")[0]
    assert config_file.load(written(tmp_path, example)).card is not None


AUDITED = [("a", 1.0), ("a", 10.0), ("b", 1.0), ("c", float("inf"))]


@pytest.mark.cases(
    ("card", "left"),
    [
        (Card(), AUDITED),
        (Card(model="a"), AUDITED[:2]),
        (Card(model="a", epsilon=10.0), AUDITED[1:2]),
        (Card(epsilon=10.0), AUDITED[1:2]),
        (Card(epsilon=1.0), [("a", 1.0), ("b", 1.0)]),
        (Card(model="c"), AUDITED[3:]),
    ],
)
def test_the_deployed_model_is_one_of_the_audited(
    card: Card, left: list[tuple[str, float]]
) -> None:
    assert card.deployed(AUDITED) == left


@pytest.mark.cases(
    ("line", "words"),
    [
        ("model = 'c'", "card.model = 'c' is no audited model: use one of a, b"),
        ("epsilon = 3", "card.epsilon = 3 is no audited ε of the deployed model: use one of 1, 10"),
        ("model = 'b'\nepsilon = 10", "is no audited ε of the deployed model: use one of 1"),
        ("epsilon = 0", "line 11: card.epsilon"),
    ],
)
def test_a_deployed_model_that_is_not_audited_is_refused_before_a_run(
    tmp_path: Path, line: str, words: str
) -> None:
    models = """
[[model]]
label = "a"
defense = "slope-one"
epsilon = [1, 10]
[[model]]
label = "b"
defense = "slope-one"
epsilon = 1
[card]
"""
    with pytest.raises(ConfigError, match=re.escape(words)):
        config_file.load(written(tmp_path, f"{models}{line}\n"))
