from __future__ import annotations

from pathlib import Path

import pytest

from dpaudit.config import renamed
from dpaudit.config.load import load, load_policy
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError

TRAINED = "[[model]]\ndefense = 'dpsgd-mf'\n"
OLD = [
    ("[[campaign]]\n", "line 1: 'campaign' is now 'sybil': rename it"),
    (
        TRAINED + "[train]\nfolds = 3\nplay = 2\n",
        "line 5: 'play' is now 'evaluate_folds': rename it",
    ),
    (TRAINED + "[train]\nworlds = 2\n", "line 4: 'worlds' is now 'trials': rename it"),
    ("[transcript]\nworlds = 2\n", "line 2: 'worlds' is now 'trials': rename it"),
    ("[[game]]\npair = 'crossing'\n", "line 2: pair = 'crossing' is now 'support-threshold'"),
    ("[[sybil]]\nattack = 'list-watcher'\n", "attack = 'list-watcher' is now 'passive-lists'"),
    ("[[sybil]]\nparams = { helpers = 3 }\n", "line 2: 'helpers' is now 'fake_accounts'"),
    ("[model]\ndefense = 'dpsgd-mf'\nparams = { passes = 3 }\n", "'passes' is now 'epochs'"),
    (
        "[[model]]\n[[model]]\ndefense = 'privsr'\ngrid = { rate = [1] }\n",
        "line 4: 'rate' is now 'learning_rate'",
    ),
]


@pytest.mark.parametrize(("text", "words"), OLD)
def test_an_old_name_is_refused_with_the_new_one(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "audit.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert words in str(caught.value)


def test_another_package_s_pairs_may_have_old_names() -> None:
    assert [
        list(renamed.renamed({"model": [{"defense": name}], "game": {"pair": "first"}}))
        for name in ("noisy-popularity", "top-k")
    ] == [[], []]
    cosine: dict[str, object] = {"model": {"defense": "cosine"}}
    unnamed: dict[str, object] = {"model": [{}]}
    nothing: dict[str, object] = {}
    for models in (nothing, cosine, unnamed):
        [old] = renamed.renamed({**models, "game": {"pair": "first"}})
        assert old.place == ("game", "pair")


def test_an_option_is_named_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "audit.toml"
    path.write_text(TRAINED)
    with pytest.raises(ConfigError, match=r"the option --set train\.worlds=3: 'worlds' is now"):
        load(path, ["train.worlds=3"])


def test_a_policy_is_read_the_same_way(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("[[gate]]\nmetric = 'campaign.accuracy'\nmax = 0.5\n")
    with pytest.raises(ConfigError, match=r"'campaign\.accuracy' is now 'sybil\.accuracy'"):
        load_policy(path)


@pytest.mark.parametrize("values", [{"train": 3}, {"model": [1, "x"]}, {"model": {"params": 1}}])
def test_what_is_no_config_is_left_to_the_schema(values: dict[str, object]) -> None:
    assert list(renamed.renamed(values)) == []


def test_new_names_exist_and_old_ones_do_not() -> None:
    parts = registry.load_all("defenses") | registry.load_all("attacks")
    for name, names in renamed._PARAMS.items():
        known = set(parts[name].__dataclass_fields__)
        assert set(names.values()) <= known
        assert not set(names) & known
