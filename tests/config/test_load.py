from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from configs import load_as  # type: ignore[import-not-found]
from hypothesis import given, settings
from hypothesis import strategies as st

from dpaudit.auditor.plan import Plan
from dpaudit.audits.on_demand.config import OnDemandConfig
from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.config import load as config_file
from dpaudit.config.gate import Gate
from dpaudit.config.load import Option
from dpaudit.config.schema import Config
from dpaudit.core.errors import ConfigError

SMALL = """
seed = 3
[model]
defense = "slope-one"
epsilon = [0.5, 1]
[[attack]]
name = "linear-ideal"
[[game]]
pair = "support-threshold"
"""

TRAINED = "[[model]]\ndefense = 'dpsgd-mf'\n"


def write(folder: Path, text: str, name: str = "audit.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refused(folder: Path, text: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        config_file.load(write(folder, text), overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    path = write(tmp_path, "\ufeffseed = 7\n[model]\nepsilon = -1\n")
    with pytest.raises(ConfigError, match=r"audit\.toml, line 3: "):
        config_file.load(path)
    assert config_file.load(write(tmp_path, "\ufeffseed = 7\n")).seed == 7


def test_defaults_are_filled_in(tmp_path: Path) -> None:
    config = load_as(OnDemandConfig, write(tmp_path, SMALL))
    assert config.seed == 3
    assert config.model[0].label == "slope-one published"
    assert config.model[0].epsilon == [0.5, 1.0]
    assert config.attack[0].label == "linear-ideal"
    assert config.split.test_share == 0.2
    assert config.audit.confidence == 0.95


def test_a_nonprivate_model_has_infinite_epsilon(tmp_path: Path) -> None:
    config = load_as(OnDemandConfig, write(tmp_path, "[model]\nvariant = 'nonprivate'\n"))
    assert config.model[0].epsilon == [float("inf")]


@pytest.mark.cases(
    ("text", "words"),
    [
        (
            "[data]\ncolumns = ['user', 'item']",
            ["line 2: data.columns", "write columns = { user = 'user', item = 'item' }"],
        ),
        (
            "[data.users]\npath = 'u'\ncolumns = ['age']",
            ["line 3: data.users.columns", "write columns = { age = 'age' }"],
        ),
        ("[attributes]\ncolumn = []", ["attributes.column = []: give at least 1 item"]),
        ("sed = 3", ["line 1", "sed", "did you mean 'seed'?"]),
        (SMALL + "[audit]\ntrial = 5", ["line 11", "audit.trial", "did you mean 'trials'?"]),
        ("[[model]]\nepsilonn = 1", ["line 2", "epsilonn", "did you mean 'epsilon'?"]),
        ("[model]\nepsilon = -1", ["line 2", "model.0.epsilon.0 = -1", "greater than 0"]),
        ("[model]\nepsilon = [1, 1]", ["epsilon contains a value twice"]),
        ("[model]\nepsilon = []", ["model.0.epsilon", "at least 1 item"]),
        ("[model]\ndefense = 'slope-on'", ["did you mean 'slope-one'?"]),
        ("[model]\nparams = { min_rating = 3 }", ["min_rating", "did you mean 'min_ratings'?"]),
        (
            "[model]\nparams = { min_ratings = 0 }",
            ["min_ratings = 0", "greater than or equal to 1"],
        ),
        ("[model]\nparams = { similarity = 'shrunk' }", ["use variant 'corrected'"]),
        ("[[gate]]\nmetric = 'attack.tpf'\nmax = 1", ["did you mean 'attack.tpr'?"]),
        ("[[gate]]\nmetric = 'epsilom'\nmax = 1", ["did you mean 'epsilon'?"]),
        ("[[gate]]\nmetric = 'ndcg'\nmin = 1", ["did you mean 'utility.ndcg'?"]),
        ("[[attack]]\nname = 'linear-idea'", ["did you mean 'linear-ideal'?"]),
        (
            "[[attack]]\nname = 'likelihood-ratio'",
            ["cannot be used in [[attack]] of this audit", "use 'linear-ideal' or 'list-ideal'"],
        ),
        ("[[attack]]\nparams = { reader = 'rond' }", ["reader = 'rond'", "round"]),
        (
            "[[attack]]\nname = 'reconstruction'\ndraw = 'ratings'",
            [
                "draw = 'ratings' applies only to attacks on hidden ratings ('linear-ideal'",
                "not to 'reconstruction'",
            ],
        ),
        ("[[attack]]\ndraw = 'rating'", ["attack.0.draw = 'rating'", "'users' or 'ratings'"]),
        ("[[game]]\npair = 'support-treshold'", ["did you mean 'support-threshold'?"]),
        ("[audit]\nconfidence = 1.5", ["audit.confidence = 1.5", "less than or equal to 0.99"]),
        ("[audit]\nconfidence = 95", ["audit.confidence = 95", "write 0.95 for 95 %"]),
        ("[audit]\ntrials = 'many'", ["audit.trials = 'many'", "integer"]),
        ("[[gate]]\nmetric = 'attack.acuracy'\nmax = 1", ["gate.0.metric", "attack.accuracy"]),
        ("[[gate]]\nmetric = 'utility.overlap'", ["exactly one of max and min"]),
        ("[[gate]]\nmetric = 'epsilon'\nmax = 'claim'", ["needs max and detectable"]),
        ("[[attack]]\n[[attack]]", ["two [[attack]]", "rename one"]),
        (
            "[[game]]\npair = 'support-threshold'\n[[game]]\nobserve = 'values'",
            ["two [[game]]", "pair and observer 'support-threshold'", "second config"],
        ),
        (
            "[[game]]\nattack = 'item-place'\nobserve = 'values'",
            ["'support-threshold'", "'item-place' does not read", "'likelihood-ratio'"],
        ),
        (
            "[[game]]\nobserve = 'list'\nattack = 'likelihood-ratio'",
            ["'support-threshold (list)'", "does not read", "'item-place'"],
        ),
        (
            "[[model]]\n[[model]]\ndefense = 'top-k'\n[[attack]]\nlabel = 'mine'",
            ["model 'top-k published' (top-k) shows lists", "'mine'", "by [[game]]"],
        ),
        (
            "[[model]]\n[[attack]]\nname = 'list-ideal'",
            ["'list-ideal' reads lists without values", "'slope-one published'", "'linear-ideal'"],
        ),
        (
            "[model]\ndefense = 'top-k'\n[[game]]\npair = 'data'",
            ["'top-k published'", "dpaudit show top-k", "'data'"],
        ),
        (
            "[model]\ndefense = 'top-k'\n[[game]]\npair = 'last-ranked'\nobserve = 'values'",
            ["'last-ranked'", "observe = 'values' is not an observer", "use one of list"],
        ),
        (
            "[model]\ndefense = 'top-k'\n[[game]]\npair = 'last-rankd'",
            ["did you mean 'last-ranked'?"],
        ),
        ("[convergence]\nusers = 5", ["[convergence]", "defense = 'top-k'"]),
        (
            "[model]\ndefense = 'top-k'\n[convergence]\nsteps = [3, 1]",
            ["line 4", "convergence.steps", "do not increase"],
        ),
        (
            "[train]\nfolds = 3",
            ["[train] is of audits of", "audits recommenders that serve on demand: remove it"],
        ),
        (
            TRAINED + "[split]\ntest_share = 0.1",
            ["[split] is of audits of", "this config audits trained recommenders: remove it"],
        ),
        (
            TRAINED + "[train]\nfiles = ['a', 'b']\n[data]\nformat = 'movielens-100k'\npath = 'u'\n"
            "least_raters = 3",
            ["train.files", "data.least_raters = 3 leaves out", "remove one"],
        ),
        (TRAINED + "[convergence]\nusers = 5", ["[convergence]", "remove it"]),
        (
            TRAINED + "[[attack]]\nlabel = 'mine'",
            [
                "[[attack]] 'mine'",
                "'dpsgd-mf published' (dpsgd-mf)",
                "use 'reconstruction' or 'submissions'",
            ],
        ),
        (TRAINED + "[[sybil]]", ["[sybil]", "'dpsgd-mf published' (dpsgd-mf)", "remove it"]),
        (
            TRAINED + "[[model]]\ndefense = 'cosine'",
            ["'dpsgd-mf published' is trained", "'cosine published' is not", "two configs"],
        ),
        (
            TRAINED + "[[game]]\npair = 'support-threshold'",
            ["pair = 'support-threshold'", "use 'data', 'rating', 'user'"],
        ),
        (TRAINED + "[[game]]", ["pair = 'support-threshold'", "'data'"]),
        (
            TRAINED + "[[game]]\npair = 'data'\nobserve = 'list'\nattack = 'item-place'",
            ["'data (list)'", "'item-place' does not read", "such as 'canary'"],
        ),
        (
            TRAINED + "[[game]]\npair = 'data'\nobserve = 'values'\nattack = 'likelihood-ratio'",
            ["'data'", "'likelihood-ratio' does not read", "such as 'canary'"],
        ),
        (
            TRAINED + "[[game]]\npair = 'data'\nobserve = 'iterates'\nattack = 'canary'",
            ["'data (iterates)'", "'canary' does not read", "such as 'likelihood-ratio'"],
        ),
        (
            TRAINED + "[[game]]\npair = 'data'\nattack = 'item-place'",
            ["'item-place' reads nothing", "such as 'likelihood-ratio'"],
        ),
        (
            TRAINED + "[[game]]\npair = 'data'\nattack = 'canery'",
            ["game.0", "did you mean 'canary'?"],
        ),
        (TRAINED + "[[game]]\npair = 'data'\nobserve = ['list']", ["game.0.observe"]),
        ("[[game]]\nobserve = ['list']", ["game.0.observe"]),
        (
            TRAINED + "[[game]]\npair = 'data'\nobserve = 'itrates'",
            ["observe = 'itrates'", "did you mean 'iterates'?"],
        ),
        (
            TRAINED + "[[game]]\npair = 'data'\nobserve = 'public'\nparams = { ridg = 1 }",
            ["ridg is not known", "did you mean 'ridge'?"],
        ),
        (
            "[[model]]\ndefense = 'dpsgd-pnbm'\n[[attack]]\nname = 'reconstruction'",
            ["'reconstruction' reads a released factorisation", "(dpsgd-pnbm) releases none"],
        ),
        (
            "[[model]]\ndefense = 'dpps-pnbm'\n[[attack]]\nname = 'submissions'",
            ["'submissions' reads a released factorisation", "(dpps-pnbm) releases none"],
        ),
        (TRAINED + "[train]\nfold = 5", ["train.fold", "did you mean 'folds'?"]),
        (TRAINED + "[train]\nfolds = 1", ["train.folds = 1", "greater than or equal to 2"]),
        (TRAINED + "[train]\ntrials = 0", ["train.trials = 0", "greater than or equal to 1"]),
        (TRAINED + "params = { epoch = 5 }", ["epoch", "did you mean 'epochs'?"]),
        (TRAINED + "params = { epochs = 0 }", ["epochs = 0", "greater than or equal to 1"]),
        (
            "[[game]]\nobserve = 'iterates'",
            [
                "observe = 'iterates'",
                "not an observer of model 'slope-one published'",
                "list, values",
            ],
        ),
        ("[[game]]\nobserve = 'public'", ["observe = 'public'", "use one of list, values"]),
        ("[[game]]\nattack = 'canary'", ["'canary' reads nothing", "such as 'likelihood-ratio'"]),
        ("[data\n", ["not valid TOML", "line 1"]),
        ("[data]\nformat = 'movielens-100k'", ["path is missing"]),
    ],
)
def test_a_bad_config_is_refused_in_one_sentence(
    tmp_path: Path, text: str, words: list[str]
) -> None:
    message = refused(tmp_path, text)
    assert "audit.toml" in message
    for word in words:
        assert word in message


DATA = (
    "seed = 1\n[data]\nformat = 'delimited'\npath = 'my seed.csv'\n"
    "columns = { user = 0, item = 1, rating = 2 }\n"
)
RANKING = "[model]\ndefense = 'privsr-ranking'\nparams = { triples = %s }\n"


@pytest.mark.cases(
    ("text", "end"),
    [
        (RANKING % 0, ": input should be greater than or equal to 1 or 'all'"),
        (RANKING % "'some'", " = 'some': input should be a valid integer or 'all'"),
        (RANKING % "[1]", "model.0.params.triples = [1]: input should be a valid integer or 'all'"),
        (
            "[model]\ndefense = 'top-k'\nparams = { u_s = 0 }",
            "params.u_s = 0: input should be greater than or equal to 0.000000000001 or "
            "'paper-rule' or 'largest-rate'",
        ),
        (
            DATA + "trust = { path = 'x', columns = { truster = -1, trustee = 0 } }",
            "line 6: data.trust.columns.truster = -1: input should be greater than or equal to 0 "
            "or a valid string",
        ),
        (
            DATA + "trust = { columns = { truster = '' } }",
            "truster = '': input should be a valid integer or string should have at least 1 "
            "character",
        ),
        (
            DATA + "sensitive = { categories = ['a', 1.5] }",
            "line 6: data.sensitive.categories.1 = 1.5: input should be a valid string or a valid "
            "integer",
        ),
        (DATA + "trust = 'x'", "line 6: data.trust = 'x': input should be a table"),
        (
            "[[gate]]\nmetric = 'epsilon'\nmax = 'clam'\ndetectable = 2",
            "line 3: gate.0.max = 'clam': input should be a valid number or 'claim'",
        ),
        *(
            (
                f"[[gate]]\nmetric = 'attack.accuracy'\n{side} = {value}",
                f"line 3: gate.0.{side} = {shown}: input should be a {kind} number{other}",
            )
            for side, other in (("max", " or 'claim'"), ("min", ""))
            for value, shown, kind in (
                ("true", "true", "valid"),
                ("'0.1'", "'0.1'", "valid"),
                ("nan", "nan", "finite"),
                ("inf", "inf", "finite"),
                ("[0.1]", "[0.1]", "valid"),
                ("{ a = 1 }", "{'a': 1}", "valid"),
            )
        ),
        (
            "[[gate]]\nmetric = 'epsilon'\nmax = 1\ndetectable = true",
            "line 4: gate.0.detectable = true: input should be a valid number",
        ),
        (
            "[[gate]]\nmetric = 'leak'\nmax = 0.1\nwhere = { epsilon = true }",
            "line 4: gate.0.where.epsilon = true: input should be a valid number or a valid string",
        ),
        (
            "[[gate]]\nmetric = 'epsilon'\nwhere = { epsilon = { a = 1 } }",
            "gate.0.where.epsilon = {'a': 1}: input should be a valid number or a valid string",
        ),
        (
            "[[gate]]\nmetric = 'epsilon'\nwhere = { bad = 1 }",
            "line 3: gate.0.where: bad is no key of epsilon; use one of attack, epsilon, model, "
            "observer, pair, unit",
        ),
        ("[[gate]]\nmax = 1", "line 1: gate.0.metric is missing: add it"),
    ],
)
def test_a_value_of_several_kinds_is_refused_in_words_of_the_config(
    tmp_path: Path, text: str, end: str
) -> None:
    assert refused(tmp_path, text).endswith(end)


@pytest.mark.cases(
    ("text", "line"),
    [
        (DATA + "sensitive = { share = 0.1, seed = -1 }", 6),
        (DATA + "# seed = 3\nsensitive.share = 0.1\nsensitive.seed = -1", 8),
        (DATA + "[data.sensitive]\nshare = 0.1\nseed = -1", 8),
        (DATA + "[data.trust]\npath = 't'\n[data.sensitive]\nshare = 2", 9),
        (DATA + "[data.sensitive]  # neither", 6),
        ("data.sensitive.share = 0.1\ndata.sensitive.seed = -1", 2),
        ("[[gate]]\nmetric = 'epsilon'\nmax = 1\ndetectable = 2\n[[gate]]\nmax = 1", 5),
        ("[[model]]\n[[model]]\n[model.params]\n[[model]]\nepsilon = -1", 5),
        (TRAINED + "[[model]]\nepsilon = 2\n[model.params]\n[train]\nfolds = 1", 7),
        ("model = [{ epsilon = 1 }, { epsilon = -1 }]\n[[attack]]\nname = 3", 1),
        ("[model]\nepsilon = [\n  1,\n  -1,\n]", 2),
        (DATA + "trust = { path = 'x', delimiter = ';' }\ndelimiter = 3", 7),
        ("[model]\nparams = { rate = 1 }\nlabel = 'a' # , epsilon = 3\nepsilon = -1", 4),
        ('[model]\nlabel = """\nepsilon = 3\n[[gate]]\n"""\nepsilon = -1', 6),
        ('[model]\n"epsilon" = -1', 2),
    ],
)
def test_an_error_names_the_line_of_its_own_key(tmp_path: Path, text: str, line: int) -> None:
    assert f"audit.toml, line {line}: " in refused(tmp_path, text)


def test_lines_in_a_project_file_are_those_of_its_own_table(tmp_path: Path) -> None:
    text = "[data]\nseed = 1\n[tool.dpaudit]\nseed = 1\n[tool.dpaudit.data.sensitive]\n"
    path = write(tmp_path, f"{text}share = 0.1\nseed = -1\n", "pyproject.toml")
    with pytest.raises(ConfigError, match=r"line 7: data\.sensitive\.seed = -1"):
        config_file.load(path)


def test_overrides_replace_any_value(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL)
    config = load_as(
        OnDemandConfig,
        path,
        ["seed=9", "audit.trials=50", "model.epsilon=[2]", "attack.0.label=mine"],
    )
    assert (config.seed, config.audit.trials, config.model[0].epsilon) == (9, 50, [2.0])
    assert config.attack[0].label == "mine"


@pytest.mark.cases("override", ["seed", "=3", "seed.deep=1"])
def test_a_bad_override_is_refused(tmp_path: Path, override: str) -> None:
    assert "--set" in refused(tmp_path, SMALL, override)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.text(min_size=1, max_size=12), st.text(max_size=12))
def test_no_override_ends_in_a_traceback(key: str, value: str) -> None:
    values: dict[str, object] = {"model": [{"epsilon": [1]}, {"epsilon": [2]}]}
    with contextlib.suppress(ConfigError):
        Option.parse(f"{key}={value}").apply(values)
        assert values != {"model": [{"epsilon": [1]}, {"epsilon": [2]}]}


def test_the_config_is_found_in_the_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="dpaudit init"):
        config_file.find(tmp_path)
    write(tmp_path, "[tool.other]\nx = 1\n", "pyproject.toml")
    with pytest.raises(ConfigError):
        config_file.find(tmp_path)
    project = write(tmp_path, "[tool.dpaudit]\nseed = 5\n", "pyproject.toml")
    assert config_file.find(tmp_path) == project
    assert config_file.load(project).seed == 5
    file = write(tmp_path, "seed = 6\n", "dpaudit.toml")
    assert config_file.find(tmp_path) == file


def test_a_config_survives_its_record() -> None:
    config = Config.model_validate({"model": {"variant": "nonprivate"}, "seed": 4})
    assert Config.model_validate(config.model_dump(mode="json")) == config


def test_what_is_seen_is_part_of_a_game_s_name() -> None:
    games = [{"pair": "support-threshold"}, {"pair": "support-threshold", "observe": "list"}]
    config = OnDemandConfig.model_validate({"game": games})
    assert [game.label for game in config.game] == ["support-threshold", "support-threshold (list)"]
    assert [game.attack for game in config.game] == ["likelihood-ratio", "item-place"]
    measured = {(key.metric, key.pair) for key in Plan(config).keys}
    assert {("epsilon", "support-threshold"), ("epsilon", "support-threshold (list)")} < measured
    assert Config.model_validate(config.model_dump(mode="json")) == config


def test_a_config_of_trained_models_survives_its_record() -> None:
    observed = ["public", "values", "list"]
    games = [{"pair": "data"}, *({"pair": "data", "observe": name} for name in observed)]
    models = [{"defense": "dpsgd-mf", "epsilon": [1, 2]}]
    values = {"model": models, "game": games, "train": {"folds": 2}}
    config = Config.model_validate(values)
    assert isinstance(config, TrainedConfig)
    labels = ["data", "data (public)", "data (values)", "data (list)"]
    assert [game.label for game in config.game] == labels
    assert [game.attack for game in config.game] == ["likelihood-ratio", *["canary"] * 3]
    # Errors over folds are no part of the family.
    assert [(key.metric, key.pair, key.epsilon) for key in Plan(config).keys if key.joint] == [
        ("epsilon", pair, epsilon) for epsilon in (1.0, 2.0) for pair in labels
    ]
    assert Config.model_validate(config.model_dump(mode="json")) == config


def test_an_error_in_a_policy_knows_its_file_and_line(tmp_path: Path) -> None:
    path = write(tmp_path, "\n[[gate]\n", "policy.toml")
    with pytest.raises(ConfigError, match="is not valid TOML") as caught:
        config_file.load_policy(path)
    assert caught.value.where == (path, 2)


def test_a_policy_holds_gates_only(tmp_path: Path) -> None:
    text = "[[gate]]\nmetric = 'utility.overlap'\nmin = 0.5\n"
    gates, origin = config_file.load_policy(write(tmp_path, text))
    assert gates == [Gate(metric="utility.overlap", min=0.5)]
    assert (origin.path, origin.gates) == ("audit.toml", (1,))
    with pytest.raises(ConfigError, match="seed"):
        config_file.load_policy(write(tmp_path, "seed = 1\n" + text))


def test_the_table_of_an_audit_that_is_not_installed_is_told_how_it_counts(tmp_path: Path) -> None:
    said = refused(tmp_path, "[zeppelins]\ncount = 3\n")
    assert "zeppelins is not known" in said
    assert "once its package is installed again" in said


# Configs of several audits, a wrong line that fits no other table or key, and what is named.
_RECOMMENDER = "[data]\nformat = 'synthetic'\n[[recommender]]\nlibrary = 'most-popular'\n"
_ON_FILES = _RECOMMENDER.replace("'synthetic'", "'movielens-100k'\npath = 'u.data'")
_MISPLACED = [
    (_RECOMMENDER + "[[recommender]]\nlibrary = 'most-popular'\n", 5, "'most-popular'"),
    (_RECOMMENDER + "[membership]\nk = 5\ncalibrating = 24\n", 7, "membership.calibrating = 24"),
    (_RECOMMENDER + "[membership]\nk = 5\nrates = [1e-9]\n", 7, "membership.rates = "),
    (_RECOMMENDER + "[membership]\nk = 5\nunits = ['user', 'user']\n", 7, "membership.units"),
    (_RECOMMENDER + "[membership]\nobservers = ['before-and-after']\n", 3, "'most-popular'"),
    (_RECOMMENDER + "[[attack]]\nname = 'linear-ideal'\n", 5, "[[attack]] 'linear-ideal'"),
    (_RECOMMENDER + "[[model]]\ndefense = 'top-k'\n", 5, "'top-k published'"),
    (_RECOMMENDER + "[membership]\n[[sybil]]\nefforts = [1]\n", 5, "[sybil]"),
    ("[data]\nformat = 'synthetic'\nbinarize = 3\nscale = 3\n", 4, "data.scale = 3"),
    ("[model]\nepsilon = 1\n[card]\n[audit]\ntrials = 9\n[train]\nfolds = 2\n", 6, "[train]"),
    ("keep_seed = true\nseed = 'x'\n[model]\n", 2, "seed = 'x'"),
    (
        _ON_FILES + "[data.users]\npath = 'a'\ncolumns = { sex = 1 }\n"
        "[attributes]\nk = 3\ncolumn = 'gender'\n",
        11,
        "attributes.column has 'gender'",
    ),
]


@pytest.mark.cases(("text", "line", "named"), _MISPLACED)
def test_tables_that_do_not_fit_together_have_a_line(
    tmp_path: Path, text: str, line: int, named: str
) -> None:
    said = refused(tmp_path, text)
    assert f"audit.toml, line {line}: " in said
    assert named in said


def test_a_value_alone_and_a_missing_key_have_a_remedy(tmp_path: Path) -> None:
    text = _RECOMMENDER + "[membership]\nobservers = 'scores'\n"
    assert "write observers = ['scores']" in refused(tmp_path, text)
    users = "[data.users]\npath = 'a'\ncolumns = { sex = 1 }\n[attributes]\n"
    assert "attributes.column is missing: add it" in refused(tmp_path, _ON_FILES + users)
    assert "membership.stop = true: " in refused(
        tmp_path, _RECOMMENDER + "[membership]\nstop = true\n"
    )


def test_an_index_of_no_table_is_answered_with_those_there_are(tmp_path: Path) -> None:
    two = "[[model]]\nlabel = 'a'\n[[model]]\nlabel = 'b'\n"
    assert "model.0 to model.1" in refused(tmp_path, two, "model.2.epsilon=3")
    assert "[[recommender]] are recommender.0:" in refused(
        tmp_path, _RECOMMENDER, "recommender.3.label=x"
    )
