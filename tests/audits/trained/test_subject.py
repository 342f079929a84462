"""Audits of models that are trained, from config to record and reports."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from configs import load_as  # type: ignore[import-not-found]
from counted_progress import CountedProgress  # type: ignore[import-not-found]
from pydantic import ValidationError
from rich.console import Console
from scipy import stats

from dpaudit.auditor.run import run_audit
from dpaudit.audits.federated.config import FederatedConfig, Transcript
from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.audits.trained.subject import Grids, game_attacks, over_folds
from dpaudit.cli import main
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.streams import Streams
from dpaudit.data.folds import active, capped, random_folds
from dpaudit.data.readers.load import load
from dpaudit.data.source import DataSource
from dpaudit.defenses.factorization.sgd import SgdFactors
from dpaudit.execution.workers import Workers
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports.render import console, html, markdown

SYNTHETIC = {"n_users": 30, "n_items": 20, "mean_per_user": 8, "minimum_per_user": 4}
SMALL: dict[str, Any] = {"dimensions": 2, "epochs": 3, "learning_rate": 0.003}
BASE: dict[str, Any] = {
    "seed": 3,
    "data": {"synthetic": SYNTHETIC},
    "train": {"folds": 3, "trials": 4},
    "model": [
        {
            "label": "errors",
            "defense": "dpsgd-mf",
            "epsilon": [1, 30],
            "params": SMALL | {"error_bound": 1000.0},
        },
        {
            "label": "users",
            "defense": "dpsgd-mf",
            "variant": "corrected",
            "epsilon": 2,
            "params": {"dimensions": 2, "epochs": 2},
        },
        {"label": "exact", "defense": "dpsgd-mf", "variant": "nonprivate", "params": SMALL},
    ],
    "game": [
        {"pair": "data", "trials": 400},
        {"pair": "data", "observe": "public", "trials": 60, "params": {"calibration": 32}},
    ],
}
PNBM = {"defense": "dpsgd-pnbm", "params": {"steps": 2, "more_than": 3}}


def run(threads: int = 1, **changes: Any) -> AuditResult:
    return run_audit(TrainedConfig.model_validate(BASE | changes), workers=Workers(threads))


def numbers(result: AuditResult) -> str:
    return json.dumps(result.model_dump(mode="json", exclude={"timing"}))


def at(result: AuditResult, metric: str) -> dict[tuple[Any, ...], Measurement]:
    return {
        (measurement.model, measurement.epsilon, measurement.pair): measurement
        for measurement in result.measurements
        if measurement.metric == metric
    }


@pytest.fixture(scope="module")
def result() -> AuditResult:
    return run()


@pytest.mark.long
def test_the_record_holds_an_error_and_a_bound_for_every_epsilon(result: AuditResult) -> None:
    points = [("errors", 1.0), ("errors", 30.0), ("users", 2.0), ("exact", math.inf)]
    assert [(point.model, point.epsilon) for point in result.points] == points
    errors, bounds = at(result, "utility.rmse"), at(result, "epsilon")
    assert set(errors) == {(*point, None) for point in points}
    assert set(bounds) == {(*point, pair) for point in points for pair in ("data", "data (public)")}
    assert set(at(result, "utility.mae")) == set(errors)
    assert len(result.measurements) == 16
    # Only the bounds share the error probability; intervals of errors are not joint.
    assert result.family.size == 8
    assert result.family.alpha == pytest.approx(0.05 / 8)
    for measurement in bounds.values():
        assert measurement.estimate.kind == "frequentist"
        assert measurement.estimate.alpha == result.family.alpha
        assert (measurement.attack == "canary") is (measurement.pair == "data (public)")
        assert measurement.shift is None
        assert measurement.theory is None
        assert measurement.event
    assert result.outcome == "go"
    assert result.data is not None
    assert (result.data.users, result.data.items, result.data.trained) == (30, 20, 30)
    assert result.data.digest == load(TrainedConfig.model_validate(BASE).data).digest
    text = result.model_dump_json()
    assert AuditResult.model_validate_json(text).model_dump_json() == text


def test_claims_and_what_differs_are_recorded(result: AuditResult) -> None:
    claims = {point.model: point.claim for point in result.points}
    assert claims["exact"] is None
    for label, adjacency, delta in (
        ("errors", "rating-replace", 0.0),
        ("users", "user-add-remove", 1e-5),
    ):
        claim = claims[label]
        assert claim is not None
        assert (claim.adjacency, claim.observer, claim.delta) == (adjacency, "iterates", delta)
    summaries = {(pair.model, pair.pair): pair.summary for pair in result.pairs}
    assert len(summaries) == 6
    assert "(rating-replace, observer iterates)" in summaries["errors", "data"]
    assert "disappears (user-add-remove, observer public)" in summaries["users", "data (public)"]
    assert set(result.attacks) == {"likelihood-ratio", "canary"}
    assert result.attacks["canary"]["calibration"] == 32
    assert result.models[0].params["error_bound"] == 1000
    assert "epsilon" not in result.models[0].params


def test_bounds_keep_the_claims_and_say_what_could_be_found(result: AuditResult) -> None:
    for measurement in at(result, "epsilon").values():
        assert measurement.estimate.lower <= measurement.epsilon
        claim = {"errors": 0.0, "users": 1e-5}.get(measurement.model)
        if claim is None:
            assert measurement.control is None
            continue
        for control in measurement.controls:
            assert control.found == (control.certified > measurement.epsilon)
    certain = at(result, "epsilon")["exact", math.inf, "data"].estimate
    assert certain.value == math.inf
    assert certain.lower > 4


def test_the_error_is_the_mean_over_folds_of_the_mean_over_trials(result: AuditResult) -> None:
    config = TrainedConfig.model_validate(BASE)
    folds = random_folds(load(config.data), 3, 3)
    for label, defense in (
        ("errors", SgdFactors(30.0, **SMALL, error_bound=1000.0)),
        ("exact", SgdFactors(math.inf, "nonprivate", **SMALL)),
    ):
        errors, sizes = [], []
        for number, fold in enumerate(folds):
            models = defense.train(
                defense.prepare(fold.train), Streams.first(3, f"fold/{number}", 4)
            )
            away = models.predict(fold.users, fold.items).astype(float) - fold.values
            errors.append(float(np.sqrt((away**2).mean(1)).mean()))
            sizes.append(float(abs(away).mean()))
        absolute = at(result, "utility.mae")[label, defense.epsilon, None].estimate
        assert absolute.value == pytest.approx(np.mean(sizes))
        estimate = at(result, "utility.rmse")[label, defense.epsilon, None].estimate
        assert estimate.value == pytest.approx(np.mean(errors))
        low, high = stats.t.interval(0.95, 2, np.mean(errors), stats.sem(errors))
        assert [estimate.lower, estimate.upper] == pytest.approx([low, high])
        assert (estimate.n, estimate.kind) == (3, "assumes-law")
        assert estimate.alpha == pytest.approx(0.05)


@pytest.mark.cases("confidence", [0.5, 0.95, 0.999])
@pytest.mark.cases("n", [2, 3, 30])
def test_over_folds_is_students_interval(confidence: float, n: int) -> None:
    errors = np.random.default_rng(n).normal(1, 0.1, n).tolist()
    estimate = over_folds(errors, confidence)
    low, high = stats.t.interval(confidence, n - 1, np.mean(errors), stats.sem(errors))
    assert (estimate.value, estimate.lower, estimate.upper) == pytest.approx(
        (np.mean(errors), low, high)
    )
    same = over_folds([0.9] * n, confidence)
    assert same.lower == same.value == same.upper == pytest.approx(0.9)


@pytest.mark.long
def test_the_same_seed_gives_the_same_record_on_any_number_of_threads(result: AuditResult) -> None:
    assert numbers(run(threads=2)) == numbers(result)
    other = run(seed=4)
    for metric in ("utility.rmse", "epsilon"):
        values = [
            [measurement.estimate.value for measurement in at(record, metric).values()]
            for record in (result, other)
        ]
        assert values[0] != values[1]


MANY: dict[str, Any] = {
    "train": {"folds": 3, "trials": 20},
    "model": [
        PNBM
        | {
            "label": "rows",
            "epsilon": [1, 9],
            "grid": {"learning_rate": [0.1, 4], "sampling_rate": [1, 0.5]},
        },
        {"label": "cosine", "defense": "neighborhood", "variant": "nonprivate"},
        {"label": "drawn", "defense": "dpps-mf", "variant": "corrected", "params": {"cap": 30}},
        {
            "label": "searched",
            "defense": "dpsgd-mf",
            "variant": "nonprivate",
            "params": {"epochs": 300, "decay": 0.0},
            "grid": {"learning_rate": [1.0, 0.01]},
        },
    ],
    "game": [],
}


@pytest.mark.long
def test_folds_blocks_and_grids_give_the_same_record_on_any_number_of_threads() -> None:
    results = []
    for threads in (1, 2, 5):
        progress = CountedProgress()
        config = TrainedConfig.model_validate(BASE | MANY)
        results.append(run_audit(config, workers=Workers(threads), progress=progress))
        # 3 folds at every ε and every combination of the grids, 20 trials each.
        assert progress.done == progress.total == 20 * (5 * 3 + 2 * 4 + 2)
        stages = {stage for stage in progress.stages if "ε" in stage}
        assert len(stages) == 2 * 2 + 1 + 1 + 2
    assert numbers(results[0]) == numbers(results[1]) == numbers(results[2])
    assert [point.chosen for point in results[0].points][-1] == {
        "learning_rate": 0.01
    }  # 1.0 diverges


def test_ratings_that_chose_a_setting_are_tested_in_no_fold() -> None:
    searched = {"label": "searched", "defense": "dpsgd-mf", "variant": "nonprivate"}
    grid = {"params": {"dimensions": 2, "epochs": 3}, "grid": {"learning_rate": [0.001, 0.003]}}
    record = run(model=[BASE["model"][2], searched | grid], game=[])
    folds = random_folds(load(TrainedConfig.model_validate(BASE).data), 3, 3)
    chosen = random_folds(folds[0].train, 10, 3)[0]
    pairs = set(zip(chosen.users.tolist(), chosen.items.tolist(), strict=True))
    errors, dropped = [], 0
    for number, fold in enumerate(folds):
        spent = [pair in pairs for pair in zip(fold.users, fold.items, strict=True)]
        dropped += sum(spent)
        kept = ~np.array(spent)
        assert kept.all() == (number == 0)
        defense = SgdFactors(math.inf, "nonprivate", **SMALL)
        models = defense.train(defense.prepare(fold.train), Streams.first(3, f"fold/{number}", 4))
        shown = models.predict(fold.users[kept], fold.items[kept])
        errors.append(float(np.sqrt(((shown - fold.values[kept]) ** 2).mean(1)).mean()))
    assert dropped == len(pairs)
    # All models of the run have the same test ratings, also those without a grid.
    estimate = at(record, "utility.rmse")["exact", math.inf, None].estimate
    assert estimate.value == pytest.approx(np.mean(errors), rel=1e-6)


def test_a_fold_of_which_nothing_is_left_to_test_is_refused() -> None:
    config = TrainedConfig.model_validate(BASE | MANY)
    folds = random_folds(load(config.data), 3, 3)
    grids = Grids(config, folds[0])
    chosen = random_folds(folds[0].train, 10, 3)[0]
    with pytest.raises(DataError, match="test rating of fold 2"):
        grids.untouched([folds[0], replace(chosen, train=folds[1].train)])


def test_a_model_is_audited_alike_beside_others(result: AuditResult) -> None:
    # Two bounds in place of eight, each with the same share of the error probability.
    audit = {"confidence": 1 - 0.05 / 4}
    alone = run(model=[BASE["model"][0] | {"epsilon": [30]}], audit=audit)
    for metric in ("utility.rmse", "epsilon"):
        for key, measurement in at(alone, metric).items():
            assert measurement.estimate.value == at(result, metric)[key].estimate.value


def test_what_is_learned_from_is_filtered_then_capped() -> None:
    train = {"folds": 2, "evaluate_folds": 2, "trials": 1, "cap": 5, "more_than": 6}
    model = [PNBM | {"epsilon": 1}]
    game = {"pair": "data", "trials": 20, "details": True}
    record = run(train=train, model=model, game=[game])
    ratings = load(TrainedConfig.model_validate(BASE).data)
    kept = capped(active(ratings, 6), 5, 3)
    assert record.data is not None
    assert record.data.ratings == len(ratings) > len(kept)
    assert record.data.trained == (np.diff(kept.by_user.start) > 0).sum() < 30
    assert "of 5 ratings of one user" in record.pairs[0].summary
    [error] = at(record, "utility.rmse").values()
    assert error.estimate.n == 2


def test_a_record_tells_sizes_in_classes_and_no_values_unless_asked_for() -> None:
    train = {"folds": 2, "evaluate_folds": 2, "trials": 1}
    model = [PNBM | {"epsilon": 1}]
    summaries = [
        run(train=train, model=model, game=[{"pair": "data", "trials": 20} | asked])
        .pairs[0]
        .summary
        for asked in ({}, {"details": True})
    ]
    size = "(at most 10|11 to 100)"
    assert re.match(
        f"of {size} ratings of one user, .* {size} raters goes to the far end ", summaries[0]
    )
    assert re.match(r"of \d+ ratings of one user, .* \d+ raters goes from \d to \d ", summaries[1])


@pytest.mark.long
def test_denominators_below_the_one_that_is_assumed_are_counted_and_reported() -> None:
    # Users with more than three ratings and similarities of 0.1 times β = 1.
    short = {"steps": 2, "more_than": 3, "start": 0.1, "rescale": 1.0, "weight": 5.0}
    models = [
        {"defense": "dpsgd-pnbm", "label": label, "variant": variant, "params": short | changed}
        for label, variant, changed in (
            ("published", "published", {}),
            ("corrected", "corrected", {}),
            ("kept", "published", {"weight": 0.1, "steps": 1}),
        )
    ]
    record = run(model=models)
    measurements = [m for m in record.measurements if m.metric == "assumption.denominator"]
    assert [(m.model, m.step) for m in measurements] == [
        ("published", 1),
        ("published", 2),
        ("kept", 1),
    ]
    assert measurements[0].estimate.value > 0.2
    assert measurements[2].estimate.value == 0
    page = markdown.render(record)
    assert "| below C, step 1 | below C, step 2 |" in page
    assert page.count("'below C' is the share") == 1


@pytest.mark.parametrize("game", [{"pair": "data"}, {"pair": "many", "trials": 10}])
def test_steps_of_a_large_model_are_not_observed_and_nothing_is_trained(
    game: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def trained(*args: object) -> None:
        raise AssertionError(args)

    monkeypatch.setattr(SgdFactors, "train", trained)
    model = {"defense": "dpsgd-mf", "params": {"dimensions": 128}}
    with pytest.raises(ConfigError, match="dimensions = 128, and games with observe"):
        run(model=[model], game=[game])


def test_an_attack_stands_in_the_record_with_each_of_its_settings() -> None:
    settings = [("data", "values", {}), ("data", "list", {"top_k": 3}), ("user", "values", {})]
    games = [
        {"pair": pair, "observe": observe, "params": params} for pair, observe, params in settings
    ]
    config = TrainedConfig.model_validate({"model": [{"defense": "dpps-mf"}], "game": games})
    attacks = game_attacks(config.game)
    assert attacks["canary, data (list)"]["top_k"] == 3
    assert set(attacks) == {f"canary, {game.label}" for game in config.game}
    assert set(game_attacks(config.game[::2])) == {"canary"}


def test_observers_and_neighbours_that_a_claim_covers_are_run() -> None:
    params = {"dimensions": 2, "epochs": 2}
    replaced = {"defense": "dpsgd-mf", "variant": "corrected", "label": "replaced"}
    sampled = {"defense": "dpps-mf", "variant": "corrected", "label": "sampled"}
    record = run(
        model=[
            replaced | {"params": params | {"adjacency": "user-replace"}},
            sampled | {"params": params | {"cap": 30}},
        ],
        game=[
            {"pair": pair, "observe": observe, "attack": "canary", "trials": 20, "params": few}
            for few in ({"calibration": 16},)
            for pair in ("data", "rating", "user")
            for observe in ("public", "values")
        ],
    )
    said = {(pair.model, pair.pair): pair.summary for pair in record.pairs}
    assert len(said) == 12
    for (_, pair), summary in said.items():
        adjacency = "rating-replace" if pair.startswith("rating") else "user-replace"
        observer = "public" if "public" in pair else "values"
        assert f"({adjacency}, observer {observer})" in summary
    assert set(at(record, "epsilon")) == {
        (model, 1.0, pair)
        for model in ("replaced", "sampled")
        for pair in ("data", "rating", "user")
        for pair in (f"{pair} (public)", f"{pair} (values)")
    }


GATE = {"metric": "epsilon", "max": "claim", "where": {"model": "errors"}}


@pytest.mark.cases(
    ("changes", "outcomes"),
    [
        ({"detectable": 5, "where": {"model": "errors", "epsilon": 1}}, "pass"),
        ({"detectable": 1.01, "where": {"model": "errors", "epsilon": 1}}, "inconclusive"),
        ({"detectable": 2}, "inconclusive"),  # too few trials at ε = 30
        ({"max": 0.1, "detectable": 2, "where": {"model": "errors", "epsilon": 1}}, "fail"),
        ({"detectable": 2, "where": {"model": "exact"}}, "inconclusive"),
        ({"max": 1.0, "detectable": 2, "where": {"model": "exact"}}, "fail"),
    ],
)
def test_gates_judge_the_certified_bounds(changes: dict[str, Any], outcomes: str) -> None:
    models = [BASE["model"][0], BASE["model"][2]]
    record = run(model=models, game=BASE["game"][:1], gate=[GATE | changes])
    assert [gate.outcome for gate in record.gates] == [outcomes]
    assert record.outcome == {"pass": "go", "fail": "stop", "inconclusive": "undecided"}[outcomes]


@pytest.mark.long
def test_a_claim_that_is_broken_fails_its_gate() -> None:
    # Algorithm 1 bounds one coordinate of many, so what its steps show exceeds ε.
    model = PNBM | {"epsilon": 3, "params": {"steps": 1, "more_than": 3, "weight": 1000.0}}
    gate = {"metric": "epsilon", "max": "claim", "detectable": 2}
    game = {"pair": "data", "trials": 2000}
    record = run(train={"folds": 2, "trials": 1}, model=[model], game=[game], gate=[gate])
    [bound] = at(record, "epsilon").values()
    assert bound.estimate.lower > 3
    assert record.outcome == "stop"


def test_reports_mention_folds_and_claims(result: AuditResult) -> None:
    for text in (markdown.render(result), html.render(result)):
        for words in ("mean over the folds", "over folds", "rating-replace", "user-add-remove"):
            assert words in text
    shown = io.StringIO()
    console.show(result, Console(file=shown, width=160))
    claimed = "Claim: a user with all their ratings is added or removed"
    for words in ("rmse", "certified ε", claimed, "It makes no privacy claim"):
        assert words in shown.getvalue()


# What is refused.

STEPS = {"attack": "likelihood-ratio"}


@pytest.mark.cases(
    ("model", "game", "words"),
    [
        ("errors", {"pair": "user"}, ["'errors' claims nothing for it", "use pair = 'data'"]),
        ("users", {"pair": "rating"}, ["'users'", "user-add-remove", "use pair = 'data'"]),
        ("sampled", {"pair": "data", **STEPS}, ["reads nothing", "one such as 'canary'"]),
        ("sampled", {"pair": "data", "observe": "iterates"}, ["list, public, values"]),
        ("free", {"pair": "data", **STEPS}, ["'free'", "one such as 'canary'"]),
        ("PCC", {"pair": "data", "observe": "public"}, ["use one of list, values"]),
    ],
)
def test_games_that_no_claim_covers_are_refused(
    model: str, game: dict[str, Any], words: list[str]
) -> None:
    more = [
        {"label": "sampled", "defense": "dpps-mf", "params": {"cap": 30}},
        {"label": "free", "defense": "dpps-mf", "variant": "nonprivate"},
        {"label": "PCC", "defense": "neighborhood", "variant": "nonprivate"},
    ]
    chosen = [table for table in BASE["model"] + more if table["label"] == model]
    with pytest.raises((ConfigError, ValidationError)) as caught:
        run(model=chosen, game=[game | {"trials": 20}])
    for word in words:
        assert word in str(caught.value)


def test_a_game_is_refused_before_anything_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    def train(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(SgdFactors, "train", train)
    with pytest.raises(ConfigError, match="claims nothing"):
        run(game=[{"pair": "user", "trials": 20}])


def test_data_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DataError, match="more than 19 ratings"):
        run(train={"folds": 2, "more_than": 19})
    with pytest.raises(ConfigError, match=r"params\.more_than = 19"):
        run(model=[PNBM | {"params": {"more_than": 19}}], game=[])
    with pytest.raises(ConfigError, match=r"\d+ ratings and params\.cap = 2"):
        run(model=[{"defense": "dpps-mf", "params": {"cap": 2}}], game=[])


# From the command line.

TEXT = """
seed = 3
[data]
synthetic = { n_users = 30, n_items = 20, mean_per_user = 8, minimum_per_user = 4 }
[train]
folds = 2
trials = 1
[[model]]
label = "mine"
defense = "dpsgd-mf"
VARIANT
params = { dimensions = 2, epochs = 3, PARAMS }
[[game]]
pair = "PAIR"
trials = 40
"""


def call(folder: Path, text: str, *options: str) -> Result:
    path = folder / "audit.toml"
    path.write_text(text)
    return CliRunner().invoke(main, ["run", str(path), "-o", str(folder / "out"), *options])


def filled(variant: str = "", params: str = "learning_rate = 0.003", pair: str = "data") -> str:
    return TEXT.replace("VARIANT", variant).replace("PARAMS", params).replace("PAIR", pair)


def test_a_run_leaves_its_record_and_reports(tmp_path: Path) -> None:
    done = call(tmp_path, filled(), "-v")
    assert done.exit_code == 0, done.output
    assert "rmse" in done.output
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    files = [".tasks.sqlite.lock", "tasks.sqlite"]
    assert names == sorted([*files, "record.json", "report.html", "report.md"])
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert record["config"]["train"]["folds"] == 2
    assert "split" not in record["config"]


def test_a_recorded_config_is_run_again(result: AuditResult) -> None:
    assert TrainedConfig.model_validate(result.config) == TrainedConfig.model_validate(BASE)


@pytest.mark.cases(
    ("text", "code", "words"),
    [
        (filled(pair="user"), 2, "model 'mine' claims nothing for it"),
        (filled().replace("folds = 2", "files = ['u1.test']"), 2, "train.files names 1 file"),
        (
            filled().replace("folds = 2", "files = ['u1.test', 'no/u2.test']"),
            2,
            "train.files names u1.test, which is no file",
        ),
        (filled().replace("folds = 2", "folds = 100").replace("= 30", "= 6"), 2, "folds"),
        (filled().replace("trials = 40", "observe = 'iterate'"), 2, "did you mean 'iterates'"),
    ],
)
def test_what_fails_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, text: str, code: int, words: str
) -> None:
    done = call(tmp_path, text, "-q")
    assert done.exit_code == code, done.output
    assert words in done.output
    assert len(done.output.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


JUDGED = '[[gate]]\nmetric = "utility.rmse"\nmax = 3.5\n'


@pytest.mark.parametrize(("gate", "code"), [("", 0), (JUDGED, 4)])
def test_a_training_that_diverges_ends_with_a_report(tmp_path: Path, gate: str, code: int) -> None:
    text = filled('variant = "nonprivate"', "learning_rate = 1.0, decay = 0.0", pair="rating")
    done = call(tmp_path, text.replace("epochs = 3", "epochs = 300") + gate)
    assert done.exit_code == code, done.output
    assert "It diverged in 2 of 2 trainings" in " ".join(done.output.split())


def test_test_files_of_other_data_are_refused(tmp_path: Path) -> None:
    for name, rows in (
        ("u.data", "1\t1\t3\t0\n1\t2\t4\t0\n2\t1\t5\t0\n2\t2\t1\t0\n2\t3\t1\t0\n"),
        ("a.test", "1\t1\t3\t0\n"),
        ("b.test", "2\t2\t5\t0\n"),
    ):
        (tmp_path / name).write_text(rows)
    files = [str(tmp_path / name) for name in ("a.test", "b.test")]
    text = filled().replace("folds = 2", f"files = {files}")
    start = text.index("synthetic")
    where = f"format = 'movielens-100k'\npath = '{tmp_path / 'u.data'}'\n"
    text = text[:start] + where + text[text.index("[train]") :]
    done = call(tmp_path, text, "-q")
    assert done.exit_code == 2
    assert "b.test, line 1: " in done.output
    assert not (tmp_path / "out").exists()
    (tmp_path / "b.test").write_text("2\t2\t1\t0\n")
    assert call(tmp_path, text, "-q").exit_code == 0
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    errors = [
        measurement
        for measurement in record["measurements"]
        if measurement["metric"] == "utility.rmse"
    ]
    assert errors[0]["estimate"]["n"] == 2


EXAMPLES = Path(__file__).parents[3] / "examples"
TRAINED = [path for path in sorted(EXAMPLES.glob("*.toml")) if "[train]" in path.read_text()]


_ROUNDS = {"fake-gradients", "privsr", "privsr-ranking"}


QUICK = {"ml-100k-dpsgd-mf", "ml-100k-fake-gradients-delay", "filmtrust-privsr"}


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=() if path.stem in QUICK else pytest.mark.long, id=path.stem)
        for path in TRAINED
    ],
)
def test_every_example_that_trains_can_be_run(path: Path) -> None:
    config = load_as(TrainedConfig, path)
    small = [
        model.model_copy(
            update={
                "epsilon": model.epsilon[:1],
                "grid": {name: values[:2] for name, values in list(model.grid.items())[:1]},
                "params": {
                    **model.params,
                    **{name: values[0] for name, values in list(model.grid.items())[1:]},
                    **({"rounds": 3} if model.defense in _ROUNDS else {}),
                },
            }
        )
        for model in config.model
    ]
    synthetic = {"n_users": 25, "n_items": 40, "mean_per_user": 32, "minimum_per_user": 30}
    data: dict[str, Any] = {"synthetic": synthetic}
    if config.data.sensitive:
        data = {"synthetic": synthetic | {"mean_friends": 2}, "sensitive": {"share": 0.2}}
    if config.data.binarize:
        data["binarize"] = 3.0
    changes = {
        "data": DataSource.model_validate(data),
        "train": config.training.model_copy(update={"trials": 1, "files": [], "evaluate_folds": 2}),
        "model": small,
        "game": [game.model_copy(update={"trials": 20}) for game in config.game],
        "gate": [],
    }
    if isinstance(config, FederatedConfig):
        changes["transcript"] = Transcript(trials=1)
    # Without the lines of the file, whose gates are taken out.
    reduced = type(config).model_validate(config.model_copy(update=changes).model_dump())
    record = run_audit(reduced, workers=Workers(1))
    metric, least, most = "utility.rmse", 0.3, 3.0
    if any(model.ranks for model in small):
        metric, least, most = "utility.recall", 0.0, 1.0
    assert set(at(record, metric)) == {(m.label, m.epsilon[0], None) for m in small}
    assert all(least < m.estimate.value < most for m in at(record, metric).values())
