"""Errors about values given by options name the option and its value, and no line of the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from configs import load_as  # type: ignore[import-not-found]

from dpaudit.auditor.plan import Plan
from dpaudit.audits.on_demand.config import OnDemandConfig
from dpaudit.config import load as config_file
from dpaudit.core.errors import ConfigError
from dpaudit.core.messages import quoted

FILE = """
seed = 3
[[model]]
epsilon = [0.5, 1]
[[model]]
label = "second"
variant = "corrected"
[[attack]]
[[game]]
pair = "tight"
[[gate]]
metric = "attack.accuracy"
max = 0.9
"""
TRAINED = "[model]\ndefense = 'dpsgd-mf'\n[[game]]\npair = 'data'\n"
MEMBERSHIP = "[[recommender]]\nlibrary = 'most-popular'\n[membership]\ninteractions = 300\n"
DELIMITED = (
    "[data]\nformat = 'delimited'\npath = 'x.csv'\ncolumns = { user = 0, item = 1, rating = 2 }\n"
)


def refused(folder: Path, text: str, *overrides: str, seed: str | None = None) -> str:
    path = folder / "audit.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        config_file.load(
            path, overrides, seed=seed, checks=[lambda config: Plan(config).check_gates()]
        )
    said = str(caught.value)
    assert "\n" not in said
    return said


# The file, an option that makes it wrong, and words of what is said.
WRONG = [
    # Values.
    (FILE, "audit.trials=many", ": audit.trials = 'many': input should be a valid integer"),
    (FILE, "audit.trial=5", ": audit.trial is not known; did you mean 'trials'?"),
    (FILE, "model.0.epsilon=-1", ": model.0.epsilon.0 = -1: input should be greater than 0"),
    (FILE, "model.1.epsilon=-1", ": model.1.epsilon.0 = -1: "),
    (FILE, "seed=-1", ": seed = -1: input should be greater than or equal to 0"),
    (FILE, "seed=abc", ": seed = 'abc' is neither"),
    (FILE, "gate.0.where.epsilom=1", "gate.0.where.epsilom"),
    (FILE, "model.0.epsilon=[1,", ": model.0.epsilon.0 = '[1,': input should be a valid number"),
    # Checks of a table.
    (FILE, "model.0.epsilon=[1, 1]", ": model.0.epsilon contains a value twice"),
    (FILE, "gate.0.min=0.5", ": gate.0: give exactly one of max and min"),
    (FILE, "gate.0.metric=epsilon", ": gate.0: a gate on epsilon needs max and detectable"),
    (FILE, "game.0.details=true", ": game.0.details applies only to pairs in the audited data"),
    (FILE, "data.format=movielens-100k", ": data.path is missing"),
    (FILE, "data.path=u.data", ": data.format is missing"),
    (FILE, "data.synthetic.mean_per_user=1", "mean_per_user 1 lies outside"),
    (DELIMITED, "data.columns.rating=1", ": data.columns: user, item and rating must be different"),
    (DELIMITED, "data.columns.user=name", ": data: column 'name' is a name but header is false"),
    (DELIMITED, "data.scale.minimum=9", ": data.scale.minimum 9 lies above maximum 5"),
    (MEMBERSHIP, "membership.rates=[0.0001]", ": membership.rates = [0.0001] are too small for"),
    (MEMBERSHIP, "membership.draw=fake-users", ": membership.draw = 'fake-users'"),
    (MEMBERSHIP, "recommender.command=train", ": recommender.0.library and command given"),
    # A whole table.
    (FILE, 'gate={metric="epsilon", max="claim"}', ": gate.0: a gate on epsilon needs"),
    (FILE, "audit={trials=1}", ": audit.trials = 1: input should be greater than or equal to 2"),
    (FILE, "model=[{epsilon=[1, 1]}]", ": model.0.epsilon contains a value twice"),
    (FILE, "audit=3", ": audit = 3: input should be a table"),
    # Checks of the whole config.
    (FILE, "train.folds=3", ": [train] is of audits of"),
    (FILE, "convergence.users=5", ": [convergence] applies only to the Markov chain"),
    (FILE, "transcript.users=5", ": [transcript] needs "),
    (FILE, "model.0.label=second", ": two [[model]] have the label 'second'"),
    (FILE, "model.0.defense=dpsgd-mf", "is trained and model"),
    (FILE, "game.0.observe=iterates", "observe = 'iterates' is not an observer"),
    (FILE, "game.0.attack=canary", "'canary' reads nothing"),
    (FILE, "model.0.epsilon=inf", ": model.0.params: epsilon = inf is above 1e6"),
    (FILE, "keep_seed=false", ": keep_seed = false needs seed = 'entropy'"),
    (
        FILE,
        'defense={kind="python", target="a:b", epsilon=1, pairs="a:c"}',
        "a mechanism by its outputs alone",
    ),
    (TRAINED, "split.test_share=0.1", ": [split] is of audits of recommenders that serve"),
    (TRAINED, "train.against=nobody", ": train.against = 'nobody' is not a label"),
    (TRAINED, "game.pair=tight", ": [[game]] pair = 'tight' is not a pair of trained models"),
    (MEMBERSHIP, "train.folds=3", ": [train] is of audits of"),
    (MEMBERSHIP, "attack.name=linear-ideal", ": [[attack]] 'linear-ideal' infers no membership"),
    (MEMBERSHIP, "model.defense=slope-one", ": [membership] trains models, and model"),
    # Plug-ins and their parameters.
    (FILE, "model.0.defense=slope-on", ": model.0: there is no defense 'slope-on'; did you mean"),
    (FILE, "model.0.params.min_rating=3", ": model.0.params.min_rating is not known to defense"),
    (FILE, "model.1.params={min_ratings=0}", ": model.1.params.min_ratings = 0: input should be"),
    (FILE, "model.0.params.epsilon=3", ": model.0.params.epsilon does not belong there"),
    (FILE, "model.0.grid.top_k=[3]", ": model.0.grid applies only to trained models"),
    (FILE, "model.0.defense=top-k", "shows lists and no predictions"),
    (FILE, "attack.0.name=likelihood-ratio", ": attack.0: 'likelihood-ratio' cannot be used in"),
    (FILE, "attack.0.params.reader=rond", ": attack.0.params.reader = 'rond': input should be"),
    (FILE, "game.0.pair=tigt", ": game.0.pair = 'tigt' is none of model 'slope-one published'"),
    (FILE, "sybil.attack=linear-ideal", ": sybil.0.attack = 'linear-ideal' makes no accounts"),
    (MEMBERSHIP, "recommender.0.library=implict", ": recommender.0: there is no recommender"),
    (MEMBERSHIP, "recommender.params.x=1", ": recommender.0.params.x is not known to recommender"),
    (MEMBERSHIP, "attack=[{name='lira', params={x=1}}]", ": attack.0.params.x is not known"),
    # Gates on what is not measured.
    (FILE, "gate.0.metric=attack.auc", ": gate.0.metric = 'attack.auc' is not measured"),
    (FILE, "gate.0.metric=sybil.accuracy", ": gate.0.metric = 'sybil.accuracy' is not measured"),
    (
        FILE,
        "gate.0.where.epsilon=7",
        ": gate.0.where.epsilon = 7.0 is not measured; there is 0.5, 1",
    ),
    (FILE, "attack=[]", ": gate.0.metric = 'attack.accuracy' is not measured: it needs"),
    (FILE, "gate.0.where={model='second', epsilon=0.5}", ": gate.0.where picks no point"),
]


@pytest.mark.cases(("text", "option", "said"), WRONG, ids=[option for _, option, _ in WRONG])
def test_an_option_is_named_with_its_value(
    tmp_path: Path, text: str, option: str, said: str
) -> None:
    message = refused(tmp_path, text, option)
    assert message.startswith(f"the option --set {option}: ")
    assert "audit.toml" not in message
    assert said in message


@pytest.mark.cases("option", ["model.0.defense=\udcff", "\udcff=1", "data.x.\udcff=[1]"])
def test_bytes_of_a_command_line_that_are_no_text_are_refused(tmp_path: Path, option: str) -> None:
    said = refused(tmp_path, FILE, option)
    assert said.startswith(f"the option --set {quoted(option)}: ")
    assert "'\\udcff'" in said


@pytest.mark.cases(("text", "option", "said"), WRONG[1::7])
def test_options_that_are_right_are_not_named(
    tmp_path: Path, text: str, option: str, said: str
) -> None:
    message = refused(
        tmp_path, text, "audit.confidence=0.9", option, "audit.fail_on_false_claim=false"
    )
    assert message.startswith(f"the option --set {option}: ")
    assert said in message


@pytest.mark.cases(
    ("text", "options", "named"),
    [
        # The last value of a key counts.
        (FILE, ["audit.trials=few", "audit.trials=many"], ["audit.trials=many"]),
        (FILE, ["audit.trials=50", "audit.trials=many"], ["audit.trials=many"]),
        # Of two errors the first is reported.
        (FILE, ["model.0.epsilon=[1, 1]", "audit.trials=many"], ["audit.trials=many"]),
        (FILE, ["model.0.params.x=1", "gate.0.where.epsilon=7"], ["model.0.params.x=1"]),
        # Neither is wrong without the other.
        (
            "[[recommender]]\nlibrary = 'most-popular'\n",
            ["membership.rates=[0.001]", "membership.interactions=300"],
            ["membership.rates=[0.001]", "membership.interactions=300"],
        ),
        (
            FILE,
            ["model.0.params.x=1", "model.0.params.y=1"],
            ["model.0.params.x=1", "model.0.params.y=1"],
        ),
        # The table is right, and a value in it is replaced by a wrong one.
        (FILE, ["model=[{}]", "model.epsilon=[1, 1]"], ["model.epsilon=[1, 1]"]),
        (FILE, ["model=[{}, {}]", "model.1.epsilon=-1"], ["model.1.epsilon=-1"]),
    ],
)
def test_of_several_options_those_to_blame_are_named(
    tmp_path: Path, text: str, options: list[str], named: list[str]
) -> None:
    many = "options" if len(named) > 1 else "option"
    shown = " and ".join(f"--set {option}" for option in named)
    assert refused(tmp_path, text, *options).startswith(f"the {many} {shown}: ")


def test_the_seed_s_own_option_is_named(tmp_path: Path) -> None:
    said = refused(tmp_path, "keep_seed = false\nseed = 'entropy'\n", seed="5")
    assert said.startswith("the option --seed 5: keep_seed = false")


@pytest.mark.cases(
    ("text", "line"),
    [
        ("[[model]]\n[[model]]\nepsilon = [1, 1]\n", "line 3: model.1.epsilon"),
        ("[model]\nlabel = 'a'\nparams = { x = 1 }\n", "line 3: model.0.params.x is not"),
        ("[[attack]]\n[[gate]]\nmetric = 'epsilon'\nmax = 1\ndetectable = 2\n", "line 3: gate.0"),
        ("[train]\nfolds = 3\n", "line 1: [train]"),
    ],
)
def test_an_error_of_the_file_is_none_of_an_option(tmp_path: Path, text: str, line: str) -> None:
    message = refused(tmp_path, text, "audit.trials=50", "model.0.label=mine", seed="5")
    assert line in message
    assert "option" not in message


@pytest.mark.cases("key", ["model.0.epsilon", "model.epsilon"])
@pytest.mark.cases("text", ["[model]\nlabel = 'a'\n", "[[model]]\nlabel = 'a'\n", ""])
def test_the_only_table_has_the_index_0_or_none(tmp_path: Path, text: str, key: str) -> None:
    path = tmp_path / "audit.toml"
    path.write_text(text, encoding="utf-8")
    assert load_as(OnDemandConfig, path, [f"{key}=[3]"]).model[0].epsilon == [3.0]


def test_a_long_value_is_cut(tmp_path: Path) -> None:
    assert len(refused(tmp_path, FILE, f"audit.trials={'x' * 5000}")) < 500
