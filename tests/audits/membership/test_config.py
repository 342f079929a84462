"""Configs of membership audits: defaults, and one sentence for each mistake."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from configs import load_as  # type: ignore[import-not-found]
from membership_cases import half_judged  # type: ignore[import-not-found]
from pydantic import ValidationError

from dpaudit.attacks.base import MembershipInference
from dpaudit.auditor.plan import Plan
from dpaudit.audits.membership.calibration import Curve, Trials, rivals
from dpaudit.audits.membership.config import Membership, MembershipConfig
from dpaudit.audits.models.config import OwnRecommender, StatedClaim
from dpaudit.cli.main import main
from dpaudit.config import load as config_file
from dpaudit.config.gate import Gate
from dpaudit.config.schema import Config
from dpaudit.config.tables import battery
from dpaudit.core.errors import ConfigError
from dpaudit.core.membership import HISTORIES, OBSERVERS, OF_FACTORS, SEEN, WITNESS, covers
from dpaudit.data.source_parts import SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.record.result import Family
from dpaudit.record.storage import load

BATTERY = battery(MembershipInference)

DATA = """
[data.synthetic]
n_users = 40
n_items = 30
mean_per_user = 12
minimum_per_user = 5
"""
SMALL = """
[membership]
interactions = 50
held_out = 40
trainings = 8
rates = [0.5]
observed_users = 10
"""
LIBRARY = "[[recommender]]\nlibrary = 'implicit'\n"
GATE = "[[gate]]\nmetric = 'epsilon'\nmax = 1\ndetectable = 2\n"
OWN = "[[recommender]]\nlibrary = 'most-popular'\n"
TRAINED = "[[model]]\ndefense = 'dpsgd-mf'\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "audit.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        config_file.load(write(folder, text), checks=[lambda config: Plan(config).check_gates()])
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_recommender_alone_is_a_membership_audit(tmp_path: Path) -> None:
    config = load_as(MembershipConfig, write(tmp_path, OWN))
    assert config.membership == Membership()
    assert [model.label for model in config.audited] == ["most-popular"]
    assert config.audited[0].epsilon == [math.inf]
    assert config.inferring == BATTERY


def test_recommenders_come_before_models_and_named_attacks_replace_the_battery(
    tmp_path: Path,
) -> None:
    text = OWN + TRAINED + "[[attack]]\nname = 'rmia'\n"
    config = load_as(MembershipConfig, write(tmp_path, text))
    assert [model.label for model in config.audited] == ["most-popular", "dpsgd-mf published"]
    assert [attack.label for attack in config.inferring] == ["rmia"]


@pytest.mark.cases(
    ("params", "label"),
    [({}, "implicit"), ({"model": "bpr"}, "implicit bpr"), ({"model": 3}, "implicit 3")],
)
def test_the_label_names_the_library_and_its_model(params: dict[str, Any], label: str) -> None:
    assert OwnRecommender.model_validate({"library": "implicit", "params": params}).label == label
    recommender = {"library": "implicit", "params": params, "label": "mine"}
    assert OwnRecommender.model_validate(recommender).label == "mine"


def test_a_stated_claim_is_about_its_unit_and_observers() -> None:
    stated = StatedClaim(epsilon=2.0, delta=1e-6, adjacency="user-add-remove")
    claim = stated.claim()
    assert (claim.epsilon, claim.delta) == (2.0, 1e-6)
    # Who sees the user's own list sees what its filter leaves out, whatever was learned.
    # No claim is about who sees two models.
    assert {seen for seen in SEEN if covers(claim, "user", seen)} == {*SEEN} - {"own-list", WITNESS}
    assert not any(covers(claim, "interaction", seen) for seen in SEEN)
    wide = StatedClaim(epsilon=2.0, observers=list(OBSERVERS)).claim()
    assert all(covers(wide, "interaction", seen) for seen in {*SEEN} - {WITNESS})
    narrow = StatedClaim(epsilon=2.0, observers=["others-lists", "nearest-items"]).claim()
    seen = {o for o in OBSERVERS if covers(narrow, "interaction", o)}
    assert seen == {"others-lists", "nearest-items"}


def test_a_defense_publishes_no_factors() -> None:
    table = Membership(observers=["scores", "factors"])
    config = MembershipConfig.model_validate({"model": {"defense": "dpsgd-mf"}})
    assert table.observers_of(config.model[0]) == ["scores"]
    recommender = OwnRecommender.model_validate({"library": "most-popular"})
    assert table.observers_of(recommender) == ["scores", "factors"]
    named = recommender.model_copy(update={"observers": ["own-list"]})
    assert table.observers_of(named) == ["own-list"]


def test_everyone_who_sees_a_served_model_observes_it_by_default() -> None:
    served = ["scores", "own-list", "others-lists"]
    table = Membership()
    asking = ["scores", "asked-rows", *served[1:]]
    assert table.observers_of(OwnRecommender(library="most-popular")) == asking
    # Each score of theirs is a line of a file.
    assert table.observers_of(OwnRecommender(command="python train.py")) == served
    for shows, observers in (
        (["scores"], ["scores"]),
        (["lists"], ["own-list", "others-lists"]),
        (["scores", "lists", "factors"], [*served, *OF_FACTORS]),
    ):
        recommender = OwnRecommender(command="python train.py", params={"shows": shows})
        assert table.observers_of(recommender) == observers
    private = MembershipConfig.model_validate({"model": {"defense": "dpsgd-mf"}})
    assert table.observers_of(private.model[0]) == asking


def test_an_attack_that_reads_one_observer_is_tried_on_it_alone() -> None:
    def tried(**table: Any) -> set[str]:
        values = {"recommender": {"library": "most-popular"}, **table}
        return {attack.label for attack in MembershipConfig.model_validate(values).inferring}

    assert tried() - tried(membership={"observers": ["scores", "factors"]}) == {"low-rank"}
    assert tried(attack=[{"name": "low-rank"}]) == {"low-rank"}


def test_who_is_served_a_model_of_sequences_sends_histories() -> None:
    table, served = Membership(), ["scores", "asked-rows", "own-list", "others-lists"]
    for model in ("sasrec", "gru4rec"):
        recommender = OwnRecommender(library="torch", params={"model": model})
        assert table.observers_of(recommender) == [*served, HISTORIES]
        assert table.observers_of(recommender.model_copy(update={"shards": 3})) == served
    assert table.observers_of(OwnRecommender(library="torch", params={"model": "mf"})) == served
    shows = {"shows": ["lists", "histories"]}
    command = OwnRecommender(command="python train.py", params=shows)
    assert table.observers_of(command) == ["own-list", "others-lists", HISTORIES]


@pytest.mark.cases(
    ("recommender", "said"),
    [
        ({"library": "most-popular"}, "answers no histories: remove the observer"),
        ({"library": "torch", "params": {"model": "mf"}}, "answers no histories: remove the obse"),
        (
            {"library": "torch", "params": {"model": "sasrec"}, "shards": 2},
            "answers no histories: remove the observer",
        ),
        ({"command": "python train.py"}, "add 'histories' to its params.shows, or remove the obs"),
        ({"returned": "trainings"}, "add 'histories' to its params.shows, or remove the observer"),
    ],
)
def test_a_model_that_answers_no_histories_is_refused(
    recommender: dict[str, Any], said: str
) -> None:
    table = {"observers": [HISTORIES]}
    values = {"recommender": recommender, "membership": table}
    with pytest.raises(ConfigError, match=said):
        MembershipConfig.model_validate(values).check_plugins()
    defense = {"model": {"defense": "dpsgd-mf"}, "membership": table}
    with pytest.raises(ValidationError, match="answers no histories"):
        MembershipConfig.model_validate(defense)


def test_a_config_survives_json_with_all_its_tables() -> None:
    """Shards store it with every default."""
    config = Config.model_validate({"recommender": {"library": "most-popular"}, "seed": 3})
    assert Config.model_validate_json(config.model_dump_json()) == config


def shown(rate: float, targets: int) -> bool:
    """Whether half of the targets less 4σ absent ones show a false-positive rate."""
    return (targets / 2 - 2 * math.sqrt(targets) + 1) * rate >= 1


@pytest.mark.cases("rate", [0.0003, 0.001, 0.01, 0.05, 0.1, 0.2, 0.3])
def test_the_remedy_for_a_small_rate_names_the_least_number_of_targets(rate: float) -> None:
    with pytest.raises(ValidationError, match=r"too small for 20 .*'user'") as caught:
        Membership(units=["user"], users=20, rates=[rate])
    least = int(str(caught.value).partition("use ")[2].split()[0])
    assert Membership(units=["user"], users=least, rates=[rate]).rates_of("user") == [rate]
    assert shown(rate, least)
    assert not shown(rate, least - 1)


def test_rates_that_targets_cannot_show_are_left_out() -> None:
    table = Membership(units=["interaction", "user"], users=300, rates=[0.001, 0.01])
    assert table.rates_of("interaction") == [0.001, 0.01]
    assert table.rates_of("user") == [0.01]
    assert table.left_out("interaction") == []
    (said,) = table.left_out("user")
    assert said.startswith("TPR at 0.1 % FPR needs")
    assert Membership(units=["interaction"], interactions=300).left_out("interaction") == []


@pytest.mark.cases(
    ("text", "words"),
    [
        (OWN.replace("most", "mots"), ["recommender.0", "did you mean 'most-popular'"]),
        ("[[recommender]]\n", ["line 1", "name one of library, target, command and returned"]),
        (OWN + "params = {model = 'als'}\n", ["recommender.0.params.model is not known"]),
        (
            LIBRARY + "params = {model = 'svd'}\n",
            ["recommender.0.params.model = 'svd'", "'als', 'bpr', 'lmf' or 'item-item'"],
        ),
        (LIBRARY + "params = {settings = 'fast'}\n", ["recommender.0.params.settings = 'fast'"]),
        (
            LIBRARY + "params = {settings = {x = {y = {z = 1}}}}\n",
            ["recommender.0.params.settings.x"],
        ),
        (OWN + "observers = ['list']\n", ["recommender.0.observers.0 = 'list'", "'own-list'"]),
        (OWN + "observers = ['scores', 'scores']\n", ["observers contains a value twice"]),
        (OWN + "observers = []\n", ["recommender.0.observers"]),
        (OWN + OWN, ["two [[recommender]] have the label 'most-popular': rename one"]),
        (OWN + "[recommender.claim]\nepsilon = 0\n", ["recommender.0.claim.epsilon = 0"]),
        (OWN + "[recommender.claim]\nepsilon = inf\n", ["recommender.0.claim.epsilon = inf"]),
        (
            OWN + "[recommender.claim]\nepsilon = 1\nadjacency = 'user-replace'\n",
            ["claim.adjacency = 'user-replace'", "'rating-add-remove' or 'user-add-remove'"],
        ),
        (OWN + "[[game]]\npair = 'data'\n", ["[game] is of audits of", "remove it"]),
        (OWN + "[split]\ntest_share = 0.3\n", ["[split] is of audits of recommenders that serve"]),
        (OWN + "[train]\nfolds = 2\n", ["[train] is of audits of", "remove it"]),
        (OWN + "[transcript]\n", ["[transcript] audits", "[recommender]", "use two configs"]),
        (OWN + "[[sybil]]\n", ["[sybil]", "[recommender] audits", "use two configs"]),
        ("[membership]\n", ["nothing is audited: add a [[model]] or a [[recommender]]"]),
        (
            OWN + "[[model]]\ndefense = 'slope-one'\n",
            ["model 'slope-one published' (slope-one) computes predictions on demand"],
        ),
        (
            TRAINED + "grid = {learning_rate = [0.1, 0.2]}\n[membership]\n",
            ["takes one combination of settings"],
        ),
        (
            TRAINED + "[membership]\nobservers = ['factors']\n",
            ["publishes no factors", "name another observer in membership.observers"],
        ),
        (OWN + "[[attack]]\nname = 'linear-ideal'\n", ["'linear-ideal' infers no membership"]),
        (OWN + "[[attack]]\nname = 'lirra'\n", ["attack.0", "did you mean 'lira'"]),
        (
            OWN + "[[attack]]\nname = 'rmia'\nparams = {gamma = 0.5}\n",
            ["attack.0.params.gamma = 0.5"],
        ),
        (
            OWN + "[[attack]]\nname = 'lira'\nlabel = 'strongest'\n",
            ["has the label 'strongest'", "rename it"],
        ),
        (OWN + "[membership]\ntrainings = 0\n", ["membership.trainings = 0", "1"]),
        (
            OWN + "[membership]\ntrainings = 4\ncalibrating = 4\n",
            ["calibrating = 4 leaves none of 4 trainings", "lower it"],
        ),
        (
            OWN + "[membership]\nseen = 6\n",
            ["seen = 6 trainings may not be judged, and 5 calibrate", "set calibrating = 6"],
        ),
        (
            OWN + "[membership]\ntrainings = 4\ncalibrating = 1\n",
            ["targets of the 3 judged trainings choose", "2 or more"],
        ),
        (
            OWN + "[membership]\ntrainings = 1\n[[attack]]\nname = 'lira'\n",
            ["trainings = 1 leaves no training that calibrates", "'global-threshold'"],
        ),
        (
            OWN + "[membership]\nobservers = ['scores']\n[[attack]]\nname = 'low-rank'\n",
            ["no [[attack]] reads", "'scores'", "leave the observer out"],
        ),
        (OWN + "[membership]\nunits = []\n", ["membership.units"]),
        (OWN + "[membership]\nunits = ['item']\n", ["membership.units.0 = 'item'"]),
        (OWN + "[membership]\nrates = [0.01, 0.01]\n", ["rates contains a value twice"]),
        (OWN + "[membership]\nrates = [1.0]\n", ["membership.rates.0 = 1"]),
        (
            OWN + "[membership]\nunits = ['user']\nusers = 40\n",
            ["line 3", "too small for 40 targets of unit 'user': use 2", "or a larger rate"],
        ),
        (OWN + "[membership]\ntrials = 4\n", ["membership.trials is not known"]),
        (
            OWN + "[[gate]]\nmetric = 'attack.tpr'\nmax = 0.1\nwhere = {observer = 'factors'}\n",
            [
                "gate.0.where.observer = 'factors' is not measured; there is scores",
                "own-list, others-lists",
            ],
        ),
        (
            OWN + "[[gate]]\nmetric = 'attack.tpr'\nmax = 0.1\nwhere = {at = 0.05}\n",
            ["gate.0.where.at = 0.05 is not measured; there is 0.001, 0.01"],
        ),
        (
            OWN + "[[gate]]\nmetric = 'attack.auc'\nmax = 0.6\nwhere = {attack = 'lira'}\n",
            ["gate.0.where.attack = 'lira' is not measured; there is strongest"],
        ),
        (
            OWN + GATE + "where = {unit = 'user'}\n",
            ["gate.0.where.unit = 'user' is not measured; there is interaction"],
        ),
        (
            TRAINED + "[[gate]]\nmetric = 'attack.tpr'\nmax = 0.1\n",
            ["gate.0.metric = 'attack.tpr' is not measured: it needs [membership]"],
        ),
    ],
)
def test_a_mistake_is_one_sentence_with_place_and_remedy(
    tmp_path: Path, text: str, words: list[str]
) -> None:
    message = refused(tmp_path, text)
    for word in words:
        assert word in message


@pytest.mark.cases(
    ("text", "code", "words"),
    [
        (DATA + OWN, 2, ["ratings are too few for membership.held_out = 1000", "lower these"]),
        (
            DATA + OWN + SMALL + "units = ['user']\nusers = 30\n",
            2,
            ["too few for membership.users = 30", "lower it"],
        ),
        (
            DATA + OWN + SMALL + "observers = ['factors']\n",
            2,
            ["line 7: recommender.0: most-popular publishes no factors: remove the observer"],
        ),
        (
            DATA + OWN + "shards = 1000\n" + SMALL,
            2,
            ["line 9: recommender.0.shards = 1000", "40 users have some", "such as 4"],
        ),
        (
            DATA + LIBRARY + "params = {settings = {wings = 2}}\n" + SMALL,
            2,
            [
                "line 9: recommender.0.params.settings.wings",
                "implicit (als) refuses its settings",
                "correct params.settings",
            ],
        ),
        (
            DATA + LIBRARY + "params = {model = 'bpr', settings = {factors = 'many'}}\n" + SMALL,
            3,
            ["implicit (bpr) failed to train"],
        ),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_only_a_run_shows_is_one_sentence_and_nothing_is_written(
    tmp_path: Path, text: str, code: int, words: list[str]
) -> None:
    if "implicit" in text:
        pytest.importorskip("implicit")
    output = tmp_path / "out"
    result = CliRunner().invoke(main, ["run", str(write(tmp_path, text)), "-o", str(output)])
    assert result.exit_code == code, result.output
    for word in words:
        assert word in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.output
    assert not list(output.glob("*"))


def test_the_option_that_sets_a_value_is_to_blame_in_a_run_too(tmp_path: Path) -> None:
    path = write(tmp_path, DATA + OWN + OWN.replace("library", "label = 'b'\nlibrary") + SMALL)
    command = ["run", str(path), "-o", str(tmp_path / "out"), "-s", "recommender.1.shards=500"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert "the option --set recommender.1.shards=500: recommender.1.shards" in result.stderr
    for option, said in (
        ("recommender.1.forget=influence", "recommender.1.forget: most-popular does not forget"),
        # Of several keys that a message names, the option set one.
        ("membership.interactions=5000", "too few for membership.held_out = 40"),
    ):
        output = ["-o", str(tmp_path / option.partition("=")[0])]
        result = CliRunner().invoke(main, ["run", str(path), *output, "-s", option])
        assert result.exit_code == 2
        assert f"the option --set {option}: " in result.stderr
        assert said in result.stderr


@pytest.mark.cases("observer", ["factors", "nearest-items"])
def test_a_plan_refuses_an_observer_of_what_a_model_does_not_have(
    tmp_path: Path, observer: str
) -> None:
    path = write(tmp_path, DATA + OWN + SMALL + f"observers = ['scores', '{observer}']\n")
    result = CliRunner().invoke(main, ["plan", str(path), "--timing", "0.001"])
    assert result.exit_code == 2
    assert f"remove the observer '{observer}'" in result.stderr


def test_gates_name_the_metrics_of_membership() -> None:
    for metric in ("attack.auc", "attack.tpr", "attack.advantage", "leak", "utility.ndcg"):
        assert Gate.model_validate({"metric": metric, "max": 0.5}).metric == metric


# The attacks of a membership audit that names none.

T, M, P = 64, 400, 100


def test_the_battery_finds_targets_whose_spreads_differ() -> None:
    """With one standard deviation for all, the attacks find less than a tenth."""
    rng = np.random.default_rng(3)
    spread, present = np.geomspace(0.1, 2, M), rng.random((T, M)) < 0.5
    fit = rng.normal(size=(T, M)) * spread + present
    trials = Trials(fit[:, :, None], rng.normal(size=(T, P, 1)), present)
    family = Family(confidence=0.95, size=1, alpha=0.05)
    scored = {
        attack.label: half_judged(trials, attack.create("attack"), [0.02], family, 0.0, 1)
        for attack in BATTERY
    }
    best = scored[rivals(scored, "tpr 0.02", 1)[0]]
    assert Curve(best.scores, best.present).rates(0.02).mean() > 0.4


def test_a_tenth_of_the_interactions_are_targets_unless_the_config_names_a_number() -> None:
    config = MembershipConfig.model_validate(
        {"seed": 1, "data": {"format": "synthetic"}, "recommender": [{"library": "most-popular"}]}
    )
    data = generate(SyntheticParams(n_users=200, n_items=100, mean_per_user=40))
    fitted = config.fitted(data)
    assert fitted.membership.interactions == len(data) // 10
    # A rerun fits it again, so the record leaves it open.
    assert fitted.recorded().model_dump() == config.recorded().model_dump()
    assert fitted.recorded().membership.interactions is None
    named = MembershipConfig.model_validate(
        {**config.model_dump(mode="json"), "membership": {"interactions": 300}}
    )
    assert named.fitted(data).membership.interactions == 300
    assert config.fitted(None) is config


@pytest.mark.cases("trainings", [1, 24])
def test_rates_fit_few_targets_and_named_ones_are_refused(trainings: int) -> None:
    few = generate(SyntheticParams(n_users=40, n_items=30, mean_per_user=20))
    tables: dict[str, Any] = {"seed": 1, "recommender": [{"library": "most-popular"}]}
    table = {"trainings": trainings}
    fitted = MembershipConfig.model_validate({**tables, "membership": table}).fitted(few)
    assert min(fitted.membership.rates_of("interaction")) > 0.01
    named = MembershipConfig.model_validate({**tables, "membership": {**table, "rates": [0.01]}})
    with pytest.raises(ConfigError, match=r"rates = \[0.01\] are too small"):
        named.fitted(few)


def test_a_gate_on_a_rate_that_the_data_cannot_show_is_refused_before_any_training(
    tmp_path: Path,
) -> None:
    text = f"seed = 1\n{DATA}{OWN}{SMALL}".replace("interactions = 50\n", "")
    text = text.replace("rates = [0.5]\n", "")
    gate = "[[gate]]\nmetric = 'attack.tpr'\nwhere = { at = 0.01 }\nmax = 0.1\n"
    run = CliRunner().invoke(main, ["run", str(write(tmp_path, text + gate)), "-q"])
    assert run.exit_code == 2
    assert "gate.0.where.at = 0.01 is not" in run.stderr


def test_a_run_whose_targets_fit_the_data_may_be_repeated_in_its_folder(tmp_path: Path) -> None:
    text = f"seed = 1\n{DATA}{OWN}{SMALL}".replace("interactions = 50\n", "")
    words = ["run", str(write(tmp_path, text)), "-q", "-o", str(tmp_path / "out")]
    for _ in range(2):
        assert CliRunner().invoke(main, words).exit_code == 0
    record = load(tmp_path / "out" / "record.json")
    assert record.data is not None
    assert 30 <= record.data.attacked < 60


def test_surrogates_are_one_more_attack_of_a_config_that_names_none() -> None:
    def labels(**given: Any) -> list[str]:
        config = MembershipConfig.model_validate(
            {"recommender": {"library": "most-popular"}} | given
        )
        return [attack.label for attack in config.inferring]

    asked = {"membership": {"surrogates": True}}
    assert [one for one in labels(**asked) if one not in labels()] == ["regression-lira surrogates"]
    assert labels(**asked, attack={"name": "lira"}) == ["lira"]
