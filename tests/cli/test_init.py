"""`dpaudit init`: every written config can be loaded, and fits the data so that it can be run."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result
from configs import load_as  # type: ignore[import-not-found]

from dpaudit.auditor.plan import Plan
from dpaudit.audits.dp_training.config import DPTrainingConfig
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.cli import main
from dpaudit.cli.draft import defense_sizes, least_raters
from dpaudit.config.tables import DataConfig
from dpaudit.core import registry
from dpaudit.core.errors import DataError
from dpaudit.core.membership import RELEASED
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.data.source_parts import SyntheticParams
from dpaudit.data.synthetic import generate

FEW = (
    *("-s", "audit.trials=500", "-s", "game.0.trials=2000", "-s", "game.1.trials=2000"),
    *("-s", "model.0.epsilon=[1]", "-s", "model.1.epsilon=[1]"),
)


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)], env={"COLUMNS": "400"})


def write(folder: Path, ratings: object, users: int = 120, items: int = 60) -> Path:
    """Write a table of ratings drawn from these values, or of interactions if there is None."""
    rng = np.random.default_rng(1)
    user, item = np.nonzero(rng.random((users, items)) < 0.3)
    frame = pd.DataFrame({"user_id": user, "item_id": item})
    if ratings is not None:
        frame["rating"] = rng.choice(np.asarray(ratings), len(frame))
    path = folder / "interactions.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path, [1, 2, 3, 4, 5])


@pytest.mark.cases("name", registry.names("recommenders"))
def test_the_config_of_every_library_can_be_loaded(name: str, tmp_path: Path) -> None:
    config = tmp_path / "dpaudit.toml"
    assert call("init", "--recommender", name, config).exit_code == 0
    assert load_as(MembershipConfig, config).recommender[0].library == name


def test_the_claim_of_the_template_names_the_observers_of_the_released_model(
    tmp_path: Path,
) -> None:
    config = tmp_path / "dpaudit.toml"
    assert call("init", "--recommender", "most-popular", config).exit_code == 0
    config.write_text(config.read_text().replace("# claim = ", "claim = "))
    claim = load_as(MembershipConfig, config).recommender[0].claim
    assert claim is not None
    assert "observers" in claim.model_fields_set
    assert claim.observers == list(RELEASED)


@pytest.mark.cases(
    ("words", "forget"),
    [
        ((), "own"),
        *(
            (("--recommender", name), "retrain")
            for name in (*registry.names("recommenders"), "recbole", "rectools")
            if name != "implicit"
        ),
    ],
)
def test_an_audit_of_deletion_has_the_model_before_and_after(
    words: tuple[str, ...], forget: str, tmp_path: Path
) -> None:
    path = tmp_path / "dpaudit.toml"
    assert call("init", path, "--audit", "deletion", *words).exit_code == 0
    config = load_as(MembershipConfig, path)
    assert [table.forget for table in config.recommender] == [None, forget]
    config.check_plugins()
    assert "does your recommender forget" in path.read_text().partition("\n")[0]
    [gate] = config.gate
    assert gate.metric == "deletion.advantage"
    judged = {key.model for key in Plan(config).keys if gate.picks(key.picked_by, key.traits)}
    assert judged == {config.recommender[1].label}


@pytest.mark.cases(
    ("audit", "said"),
    [
        ("attributes", "none of attributes: write one with [attributes] by hand"),
        ("trained", "none of trained: write one by hand"),
        ("attribute", "'attribute' is not one of 'membership', 'deletion'"),
    ],
)
def test_an_audit_that_init_does_not_write_is_one_sentence(
    audit: str, said: str, tmp_path: Path
) -> None:
    result = call("init", tmp_path / "dpaudit.toml", "--audit", audit)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert not (tmp_path / "dpaudit.toml").exists()


def test_the_config_without_data_is_that_of_the_first_audit(tmp_path: Path) -> None:
    config = tmp_path / "dpaudit.toml"
    assert call("init", config).exit_code == 0
    loaded = load_as(DataConfig, config)
    assert loaded.data.format == "synthetic"
    assert [model.params["min_ratings"] for model in loaded.model] == [20, 20]


def test_the_config_of_a_file_runs(data: Path, tmp_path: Path) -> None:
    config, out = tmp_path / "dpaudit.toml", tmp_path / "out"
    said = call("init", "--recommender", "most-popular", "--data", data, config)
    assert said.exit_code == 0, said.output
    assert "users with 60 items" in said.output
    result = call("run", config, "-o", out, "-s", "membership.trainings=8", "-q")
    assert result.exit_code == 4, result.output
    record = json.loads((out / "record.json").read_text(encoding="utf-8"))
    assert {measurement["metric"] for measurement in record["measurements"]} >= {
        "attack.tpr",
        "epsilon",
    }
    assert [gate["outcome"] for gate in record["gates"]] == ["inconclusive"]


@pytest.mark.cases(
    ("users", "items", "rate", "limit"),
    [(30, 15, 0.3, 0.5), (60, 40, 0.1, 0.5), (120, 60, 0.03, 0.3), (300, 60, 0.01, 0.1)],
)
def test_the_gate_allows_ten_times_a_guess_at_the_usual_rate_that_its_targets_show(
    users: int, items: int, rate: float, limit: float, tmp_path: Path
) -> None:
    path = tmp_path / "dpaudit.toml"
    data = write(tmp_path, None, users, items)
    assert call("init", "--recommender", "most-popular", "--data", data, path).exit_code == 0
    config = load_as(MembershipConfig, path)
    [gate] = config.gate
    assert (gate.metric, gate.where["at"], gate.max) == ("attack.tpr", rate, limit)
    assert rate in config.membership.rates_of("interaction")
    assert [key for key in Plan(config).keys if gate.picks(key.picked_by, key.traits)]


@pytest.mark.long
def test_the_gate_can_pass_with_the_trainings_of_the_config(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "dpaudit.toml"
    call("init", "--recommender", "most-popular", "--data", data, config)
    result = call("run", config, "-o", tmp_path / "out", "-q")
    assert result.exit_code == 0, result.output


def test_what_the_data_lost_is_said_before_and_after_the_run(data: Path, tmp_path: Path) -> None:
    lines = data.read_text().splitlines()
    data.write_text("\n".join([*lines, lines[0], *lines[-2:]]) + "\n")
    config = tmp_path / "dpaudit.toml"
    said = call("init", "--recommender", "most-popular", "--data", data, config).output
    result = call("run", config, "-o", tmp_path / "out", "-s", "membership.trainings=3")
    assert result.exit_code in {0, 4}, result.output
    for output in (said, result.output):
        assert "names of the columns again: 1" in output
        assert "an item and their rating: 2" in output


@pytest.mark.long
@pytest.mark.parametrize(
    ("values", "users", "items"),
    [
        ([1, 2, 3, 4, 5], 120, 60),
        ([-1, 0, 1], 120, 60),
        ([*range(101)], 60, 30),
        ([1, 2, 3], 30, 15),
    ],
)
def test_ratings_are_audited_with_private_recommenders_that_fit(
    tmp_path: Path, values: list[int], users: int, items: int
) -> None:
    config = tmp_path / "dpaudit.toml"
    said = call("init", "--data", write(tmp_path, values, users, items), config)
    assert said.exit_code == 0, said.output
    assert "Private recommenders are audited" in said.output
    text = config.read_text(encoding="utf-8")
    assert "separator ',', header, user = 'user_id', item = 'item_id'" in text
    result = call("run", config, "-o", tmp_path / "out", *FEW, "-q")
    assert result.exit_code in {0, 4}, result.output
    record = json.loads((tmp_path / "out" / "record.json").read_text(encoding="utf-8"))
    assert all(gate["outcome"] != "fail" for gate in record["gates"])
    assert [model["label"] for model in record["models"]] == ["published", "corrected"]


@pytest.mark.long
@pytest.mark.parametrize(("values", "keys"), [(None, set()), ([0, 1], {"binarize"})])
def test_interactions_are_audited_for_membership_inference(
    tmp_path: Path, values: list[int] | None, keys: set[str]
) -> None:
    config = tmp_path / "dpaudit.toml"
    said = call("init", "--data", write(tmp_path, values), config)
    assert said.exit_code == 0, said.output
    assert "Membership inference" in said.output
    written = tomllib.loads(config.read_text(encoding="utf-8"))
    assert written["data"].keys() & {"binarize", "scale"} == keys
    assert written["recommender"][0]["library"] in {"implicit", "most-popular"}
    result = call("run", config, "-o", tmp_path / "out", "-s", "membership.trainings=8", "-q")
    assert result.exit_code in {1, 4}, result.output


def test_without_implicit_the_most_popular_items_are_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "implicit", None)
    config = tmp_path / "dpaudit.toml"
    assert call("init", "--data", write(tmp_path, None), config).exit_code == 0
    assert load_as(MembershipConfig, config).recommender[0].library == "most-popular"


def test_many_items_are_cut_to_the_most_rated(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = {(int(u), int(i)) for u, i in zip(*rng.zipf(1.3, (2, 60_000)) % 9000, strict=True)}
    lines = [f"{user},{item},{1 + (user + item) % 5}" for user, item in sorted(rows)]
    data = tmp_path / "many.csv"
    data.write_text("user,item,rating\n" + "\n".join(lines) + "\n", encoding="utf-8")
    config = tmp_path / "dpaudit.toml"
    assert call("init", "--data", data, config).exit_code == 0
    source = load_as(DataConfig, config).data
    assert source.least_raters > 1
    assert f"# keeps {_items(rows, source.least_raters)} of " in config.read_text(encoding="utf-8")


def _items(rows: set[tuple[int, int]], least: int) -> int:
    kept = int((np.bincount([item for _, item in rows]) >= least).sum())
    assert 2000 < kept <= 4000
    return kept


def test_a_path_stands_in_the_config_as_it_is(tmp_path: Path) -> None:
    data = write(tmp_path, [1, 2, 3]).rename(tmp_path / 'a  # "b".csv')
    config = tmp_path / "dpaudit.toml"
    assert call("init", "--data", data, config).exit_code == 0
    assert load_as(DataConfig, config).data.path == str(data)


def test_what_is_found_out_fits_80_columns(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data.parent)
    result = CliRunner().invoke(main, ["init", "--data", data.name], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) > 3
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_a_name_with_spaces_can_be_copied_from_the_output(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "my audit.toml"
    said = call("init", "--data", data, config).output
    assert said.endswith(f": dpaudit run '{config}'\n")


@pytest.mark.cases(
    ("text", "said"),
    [
        (
            "user,item,rating\n1,2,3\n1,3,4\n2,2,\n",
            "line 4, column 'rating': the rating is missing",
        ),
        ("user,item,rating\n1,2,3\n1,3,4\n2,2,5\n", "of 2 users, 0 can be attacked"),
        ("user,item\n1,2\n1,3\n2,2\n", "too few interactions (3) or users (2) to audit"),
        ("user,item,like\n1,2,0\n1,3,1\n2,2,1\n", "item = 'item', rating = 'like': give some"),
        ("a,b\n1,2\n", "rename two to user_id and item_id"),
    ],
)
def test_what_cannot_be_audited_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    data, config = tmp_path / "data.csv", tmp_path / "dpaudit.toml"
    data.write_text(text, encoding="utf-8")
    result = call("init", "--data", data, config)
    assert result.exit_code == 2
    assert said in result.output
    assert str(data) in result.output
    assert result.output.count("\n") == 1
    assert not config.exists()


def test_nothing_is_overwritten_or_half_written(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "dpaudit.toml"
    assert call("init", "--recommender", "implict", config).exit_code == 2
    assert not config.exists()
    config.write_text("x", encoding="utf-8")
    for options in (("--data", data), ("--recommender", "most-popular"), ()):
        result = call("init", *options, config)
        assert result.exit_code == 2
        assert "already exists" in result.output
    assert config.read_text(encoding="utf-8") == "x"


def drawn(users: int, items: int, share: float, values: tuple[float, ...] = (1, 2, 3)) -> Ratings:
    rng = np.random.default_rng(2)
    user, item = np.nonzero(rng.random((users, items)) < share)
    scale = Scale(min(values), max(values), 1)
    return Ratings.build(user, item, rng.choice(values, len(user)), users, items, scale)


def test_the_sizes_of_the_generated_ratings_are_the_usual_ones() -> None:
    sizes = defense_sizes(generate(SyntheticParams()), "")
    assert (sizes.min_ratings, sizes.min_co_ratings, sizes.top_k) == (20, 10, 20)


@pytest.mark.cases(("users", "items", "share"), [(60, 30, 0.3), (200, 12, 0.4), (90, 400, 0.02)])
def test_sizes_leave_users_to_attack(users: int, items: int, share: float) -> None:
    ratings = drawn(users, items, share)
    sizes = defense_sizes(ratings, "")
    counts = np.diff(ratings.by_user.start)
    served = (counts > sizes.min_ratings) & (counts < items - sizes.top_k)
    assert served.mean() > 0.2
    assert 2 <= sizes.min_co_ratings <= sizes.min_ratings


def test_the_gate_is_above_the_best_constant_guess() -> None:
    ratings = drawn(80, 40, 0.3, (1, 2, 3, 3, 3, 3))
    most = (ratings.value == 3).mean()
    assert most + 0.05 < defense_sizes(ratings, "").accuracy < most + 0.25


def test_few_enough_items_are_left() -> None:
    assert least_raters(drawn(20, 500, 0.1)) == 1
    ratings = drawn(30, 6000, 0.3)
    least = least_raters(ratings)
    left = int((np.diff(ratings.by_item.start) >= least).sum())
    assert 1000 < left <= 4000


@pytest.mark.cases(("users", "items", "share"), [(1, 50, 0.5), (20, 30, 0.5), (60, 5, 1.0)])
def test_too_few_data_are_refused(users: int, items: int, share: float) -> None:
    with pytest.raises(DataError, match=r"^here: of \d+ users, [0-4] can "):
        defense_sizes(drawn(users, items, share), "here: ")


@pytest.mark.cases("library", ["own", "opacus", "jax-privacy"])
def test_a_training_by_dp_sgd_is_written_with_a_script_to_fill_in(
    library: str, tmp_path: Path, data: Path
) -> None:
    config = tmp_path / f"{library}.toml"
    options = ("--audit", "dp-training", "--recommender", library, "--data", data)
    written = call("init", *options, config)
    assert written.exit_code == 0
    assert "--allow-code" in written.output
    loaded = load_as(DPTrainingConfig, config)
    module = f"{library}_training".replace("-", "_")
    assert loaded.training.target == f"{module}:train"
    Plan(loaded).check_gates()
    assert "watch" in (tmp_path / f"{module}.py").read_text(encoding="utf-8")


def test_another_library_has_no_training_to_write(tmp_path: Path) -> None:
    said = call("init", "--audit", "dp-training", "--recommender", "surprise", tmp_path / "a.toml")
    assert said.exit_code == 2
    assert "audited with opacus, jax-privacy, or own" in said.output
