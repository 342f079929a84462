"""A training of numpy in a loop of its own, run as it is and on other data beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dpsgd  # type: ignore[import-not-found]
import numpy as np
import pytest

import dpaudit
from dpaudit.audits.dp_training import recorder
from dpaudit.audits.dp_training.runs import Trainer
from dpaudit.audits.dp_training.verdict import Verdict
from dpaudit.core.errors import ConfigError, RunError
from dpaudit.data.ratings import Ratings, Scale

pytestmark = pytest.mark.long
USERS, ITEMS, ROWS = 60, 80, 600
RATE = 1 / 16


def ratings(seed: int = 0) -> Ratings:
    source = np.random.default_rng(seed)
    users, items = np.divmod(source.permutation(USERS * ITEMS)[:ROWS], ITEMS)
    values = source.integers(1, 6, ROWS).astype(np.float32)
    return Ratings.build(users, items, values, USERS, ITEMS, Scale())


def train(interactions: Any, seed: int, watch: Any, fault: str = "") -> Any:
    """Train a factorisation by DP-SGD."""
    source = np.random.default_rng(None if fault == "seed" else seed)
    table = interactions.table
    p, q = (source.normal(0, 0.01, (count, 8)) for count in interactions.shape)
    if fault != "unwatched":
        watch.own(noise_multiplier=1.0, max_grad_norm=1.0, sample_rate=RATE, weights=[p, q])
    for _ in range(32):
        rows = np.flatnonzero(source.random(len(table.user)) < RATE)
        users, items = table.user[rows], table.item[rows]
        error = 2 * ((p[users] * q[items]).sum(1) - table.rating[rows])[:, None]
        parts = error * q[items], error * p[users]
        norms = np.sqrt(sum((part**2).sum(1) for part in parts))
        factors = 1 / np.maximum(norms, 1) if fault != "clip" else np.ones(len(rows))
        sums = [np.zeros_like(p), np.zeros_like(q)]
        for total, index, part in zip(sums, (users, items), parts, strict=True):
            np.add.at(total, index, factors[:, None] * part)
        noise = [(fault != "noise") * source.normal(0, 1, part.shape) for part in sums]
        if fault == "nan":
            noise[0][0] = np.nan
        if fault == "unwatched":
            continue
        moves = watch.step(sums, noise, 40.0, rows=len(rows))
        p -= 0.5 * moves[0]
        q -= 0.5 * moves[1]
        if fault == "stop" and len(rows) and float((error**2).mean()) % 1 < 0.1:
            break  # what stops it is a loss on private rows
    return [p, q]


def with_fault(fault: str) -> Any:
    return lambda interactions, seed, watch: train(interactions, seed, watch, fault)


def verdicts(fault: str) -> dict[str, Verdict]:
    found = dpsgd.examined(with_fault(fault), ratings(), far=3)
    return {verdict.check: verdict for verdict in found.verdicts}


def test_an_honest_loop_keeps_every_check_that_can_be_made() -> None:
    found = verdicts("")
    outcomes = {name: verdict.outcome for name, verdict in found.items()}
    untested = {name for name, outcome in outcomes.items() if outcome == "not tested"}
    assert untested == {"clipping", "steps-counted"}
    assert "fails" not in outcomes.values()
    assert "1 C on its own coordinates" in found["sum"].text


def test_a_loop_that_does_not_clip_is_found_by_its_sums() -> None:
    found = verdicts("clip")["sum"]
    assert found.fails
    assert found.epsilon > 100
    assert found.place is not None
    assert found.place.file == __file__


def test_what_a_training_returns_counts_unless_no_training_repeats_it() -> None:
    def timed(interactions: Any, seed: int, watch: Any) -> Any:
        return {"model": train(interactions, seed, watch), "seconds": next(clock)}

    def told(interactions: Any, seed: int, watch: Any) -> Any:
        return train(interactions, seed, watch), float(interactions.table.rating.mean())

    clock = iter(np.arange(1000.0))
    for returning, outcome in ((timed, "holds"), (told, "fails")):
        found = dpsgd.examined(returning, ratings(), far=4)
        verdict = next(one for one in found.verdicts if one.check == "transcript")
        assert verdict.outcome == outcome


def test_a_loop_that_stops_by_its_loss_is_found_with_the_line() -> None:
    found = verdicts("stop")["transcript"]
    assert found.fails
    assert found.place is not None
    line = Path(__file__).read_text(encoding="utf-8").split("\n")[found.place.line - 1]
    assert 'fault == "stop"' in line


@pytest.mark.parametrize("kept", [0, 10])
def test_of_a_large_model_noise_stands_in_place_of_the_sums_that_are_not_kept(
    monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    def told(interactions: Any, seed: int, watch: Any) -> Any:
        return train(interactions, seed, watch), float(interactions.table.rating.mean())

    monkeypatch.setattr(recorder, "_MOST", kept * (USERS + ITEMS) * 8)
    honest, stopped = verdicts(""), verdicts("stop")["transcript"]
    assert {honest[check].outcome for check in ("transcript", "sum")} == {"holds"}
    assert f"in {kept} steps and the same noise" in honest["transcript"].text
    assert stopped.fails
    assert stopped.place is not None
    found = dpsgd.examined(told, ratings(), far=3)
    assert "transcript" in dpsgd.failing(found.verdicts)


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        ("unwatched", ConfigError, "calls no watch: add watch"),
        ("seed", ConfigError, "not repeated by its seed"),
        ("nan", ConfigError, "gradient of step 1 is not finite"),
    ],
)
def test_a_training_that_cannot_be_audited_is_refused_in_one_sentence(
    fault: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        verdicts(fault)


def test_an_exception_of_the_training_names_it() -> None:
    def broken(interactions: Any, seed: int, watch: Any) -> None:
        raise KeyError("user")

    with pytest.raises(RunError, match="train with seed 3 raised KeyError"):
        Trainer(broken, "train", 3, 1e-5).run(ratings())


def test_an_audit_from_python_stops_at_a_false_claim_and_goes_on_an_honest_one() -> None:
    options: dict[str, Any] = {"delta": 1e-5, "epsilon": 6.0, "far": 2, "seed": 5}
    honest = dpaudit.audit_dp_training(train, ratings(), **options)
    assert honest.record.outcome == "go"
    verdict = honest.record.verdicts[0]
    assert (verdict.verdict, verdict.claimed) == ("survived", 6.0)
    assert verdict.factor is not None
    assert 1 < verdict.factor < 1.3
    false = dpaudit.audit_dp_training(with_fault("clip"), ratings(), **options)
    assert (false.record.outcome, false.record.verdicts[0].verdict) == ("stop", "false")
    bare = dpaudit.audit_dp_training(with_fault("noise"), ratings(), **options)
    assert (bare.record.outcome, bare.record.verdicts[0].verdict) == ("stop", "false")
    finding = next(one for one in false.record.findings if one.about == "sum")
    assert "test_runs.py:" in finding.text
    assert "Checks of the steps of the training" in str(false)


def test_a_loop_without_an_accountant_needs_an_epsilon() -> None:
    with pytest.raises(ConfigError, match="give epsilon"):
        dpaudit.audit_dp_training(train, ratings(), delta=1e-5)
