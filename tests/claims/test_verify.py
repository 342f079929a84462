"""Verification on coins of known ε: error rates, verdicts, and resuming after a stop."""

from __future__ import annotations

import gc
import json
import math
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom

from dpaudit.auditor import games as certify
from dpaudit.bounds.planning import found_from
from dpaudit.claims import verify as module
from dpaudit.claims.record import Check, PublishedClaim, Verdict, Verification
from dpaudit.claims.verify import verify
from dpaudit.core.errors import ConfigError
from dpaudit.execution.store import NAME, read
from dpaudit.execution.tasks import Progress, environment
from dpaudit.execution.workers import Workers
from tests.support.coin_games import Coin, entry

# The probability that a stochastic test fails although the code is correct.
RARE = 1e-6
# Cached, since the tests ask for the same few plans and the same environment.
planned, described = cache(found_from), cache(environment)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certify, "found_from", planned)
    monkeypatch.setattr(module, "environment", described)
    # statsmodels collects garbage in every call, which takes long.
    monkeypatch.setattr(gc, "collect", lambda *_: 0)


def statuses(verification: Verification) -> list[tuple[str, str]]:
    return [(game.verdict, game.status) for judged in verification.entries for game in judged.games]


# Many games at once.


def test_p_values_are_adjusted_over_all_games_and_no_check() -> None:
    coins = [Coin(f"{k}", 1 + k / 8, trials=1500) for k in range(7)]
    entries = [
        entry("falsified", *coins[:4], Check("algebra", lambda seed: "it fails")),
        entry("falsified", coins[4], corrected=coins[5:], id_="bb12"),
    ]
    verification = verify(entries, seed=18)
    games = [game for judged in verification.entries for game in judged.games if game.mechanism]
    assert verification.size == len(games) == 7
    # Holm 1979, written out.
    order = sorted(games, key=lambda game: game.p_value)
    adjusted = 0.0
    for place, game in enumerate(order):
        adjusted = min(1.0, max(adjusted, (7 - place) * game.p_value))
        assert game.adjusted == pytest.approx(adjusted)
        assert (game.verdict == "falsified") == (adjusted <= 0.05)
        assert game.certified is not None
        assert game.certified.alpha == pytest.approx(0.05 / 7)
    assert any(7 * game.p_value > 0.05 and game.adjusted <= 0.05 for game in games)
    check = verification.entries[0].games[-1]
    assert (check.p_value, check.adjusted, check.verdict) == (0.0, 0.0, "falsified")


@pytest.mark.long
def test_true_claims_are_rarely_called_false_and_bounds_rarely_exceed_the_truth() -> None:
    repeats, alpha, games = 200, 0.2, 6
    accused = above = alone = 0
    coins = [Coin(f"{k}", 0.5, 0.5, trials=150) for k in range(games)]
    for seed in range(repeats):
        verification = verify([entry("holds", *coins)], confidence=1 - alpha, seed=seed)
        ran = verification.entries[0].games
        accused += any(game.verdict == "falsified" for game in ran)
        above += any(game.certified is not None and game.certified.lower > 0.5 for game in ran)
        alone += any(game.p_value <= alpha for game in ran)
    most = binom.isf(RARE, repeats, alpha)
    assert accused <= most
    assert above <= most
    # Unadjusted p-values reject more often, so the test has power.
    assert alone > most
    # Each claim equals the true ε: Holm's first step rejects exactly if a bound exceeds it.
    assert accused == above > 0


def test_real_data_count_among_the_games() -> None:
    first, second = Coin("a", 3.0), Coin("b", 3.0)
    entries = [entry("falsified", first)]
    verification = verify(entries, extra=[("aa11-thm1", second), ("cc13-thm1", Coin("c", 3.0))])
    assert [game.role for game in verification.entries[0].games] == ["published", "real data"]
    assert verification.size == 2


# Verdicts and statuses.


@pytest.mark.cases(
    ("recorded", "coin", "verdict", "status"),
    [
        ("falsified", Coin("a", 3.0), "falsified", "as recorded"),
        ("holds", Coin("a", 3.0), "falsified", "differs"),
        ("not falsified", Coin("a", 3.0), "falsified", "differs"),
        ("holds", Coin("a", 0.9), "holds", "as recorded"),
        ("not falsified", Coin("a", 0.9), "not falsified", "as recorded"),
        ("unprovable as stated", Coin("a", 0.9), "unprovable as stated", "as recorded"),
        # The exact ε is within the claim, however few the trials.
        ("falsified", Coin("a", 0.9), "not falsified", "differs"),
        ("falsified", Coin("a", 0.9, trials=4), "inconclusive", "differs"),
        # The exact ε is above the claim, which the trials do not show.
        ("holds", Coin("a", 1.02), "holds", "differs"),
        # With the game's own trials it must be detected; here the mechanism differs from its law.
        ("falsified", Coin("a", 0.5, law=5.0), "not falsified", "differs"),
        # The detected mutant leaks more than that.
        ("falsified", Coin("a", 0.5, law=2.5), "inconclusive", "too few trials"),
        # No exact ε is known, so the trials may be too few.
        ("falsified", Coin("a", 1.01, law=None), "inconclusive", "too few trials"),
        ("falsified", Coin("a", 1.01), "inconclusive", "too few trials"),
        ("holds", Coin("a", 0.9, trials=4), "inconclusive", "too few trials"),
        # A pair on which no mutant leaks has no power, however many trials there are.
        ("holds", Coin("a", 0.0), "inconclusive", "too few trials"),
        # Without a mutant there is no verdict.
        ("holds", Coin("a", 0.9, mutable=False), "inconclusive", "too few trials"),
        # Rounding to single precision may put the exact ε slightly above the claim.
        ("holds", Coin("a", 1.0, law=1.0000004), "holds", "as recorded"),
    ],
)
def test_a_game_has_the_verdict_and_the_status(
    recorded: Verdict, coin: Coin, verdict: str, status: str
) -> None:
    verification = verify([entry(recorded, coin)], seed=1)
    assert statuses(verification) == [(verdict, status)]
    assert (verification.entries[0].verdict, verification.entries[0].status) == (verdict, status)


def test_fewer_trials_than_the_games_own_never_contradict_the_catalogue() -> None:
    # The exact ε is infinite, but only a rare event may show it.
    coin = Coin("a", 0.5, law=math.inf, trials=2000)
    assert statuses(verify([entry("falsified", coin)], trials=1999)) == [
        ("inconclusive", "too few trials")
    ]
    assert statuses(verify([entry("falsified", coin)], trials=2000)) == [
        ("not falsified", "differs")
    ]


@pytest.mark.cases(
    ("recorded", "fails", "verdict", "status"),
    [
        ("falsified", True, "falsified", "as recorded"),
        ("holds", False, "holds", "as recorded"),
        ("falsified", False, "not falsified", "differs"),
        ("holds", True, "falsified", "differs"),
    ],
)
def test_a_check_has_the_verdict_and_the_status(
    recorded: Verdict, fails: bool, verdict: str, status: str
) -> None:
    check = Check("tried", lambda seed: f"not {seed}" if fails else None)
    verification = verify([entry(recorded, check)], seed=4)
    assert statuses(verification) == [(verdict, status)]
    assert verification.entries[0].games[0].event == ("not 4" if fails else "")
    assert verification.size == 0


def test_a_corrected_mechanism_must_keep_its_claim_whatever_is_recorded() -> None:
    kept = entry("falsified", Coin("a", 3.0), corrected=[Coin("b", 0.9)])
    broken = entry("falsified", Coin("a", 3.0), corrected=[Coin("b", 3.0)])
    verification = verify([kept])
    assert statuses(verification) == [
        ("falsified", "as recorded"),
        ("not falsified", "as recorded"),
    ]
    verification = verify([broken])
    assert statuses(verification) == [("falsified", "as recorded"), ("falsified", "differs")]
    # The entry's verdict is about the published mechanism.
    assert (verification.entries[0].verdict, verification.entries[0].status) == (
        "falsified",
        "differs",
    )


@pytest.mark.cases(
    ("recorded", "true", "trials", "verdict", "status"),
    [
        ("falsified", 3.0, 2000, "falsified", "as recorded"),
        ("falsified", 0.9, 2000, "not falsified", "as recorded"),
        ("falsified", 0.9, 4, "no power", "as recorded"),
        ("holds", 3.0, 2000, "falsified", "differs"),
    ],
)
def test_real_data_may_spare_a_false_claim(
    recorded: Verdict, true: float, trials: int, verdict: str, status: str
) -> None:
    about = entry(recorded, Coin("a", 3.0 if recorded == "falsified" else 0.9))
    verification = verify([about], extra=[("aa11-thm1", Coin("b", true, trials=trials))])
    assert statuses(verification)[1] == (verdict, status)


@dataclass(frozen=True, eq=False)
class OnData(Coin):
    """A coin of a variant."""

    variant: str = "corrected"

    @property
    def defense(self) -> OnData:
        return self


@pytest.mark.cases(
    ("recorded", "variant", "coin", "verdict", "status"),
    [
        # A correction that keeps its claim, one whose exact ε does not, and one that is refuted.
        ("falsified", "corrected", {"true": 0.9}, "not falsified", "as recorded"),
        ("falsified", "corrected", {"true": 0.9, "law": 5.0}, "not falsified", "differs"),
        ("falsified", "corrected", {"true": 3.0}, "falsified", "differs"),
        ("falsified", "published", {"true": 0.9, "law": 5.0}, "not falsified", "as recorded"),
        ("holds", "published", {"true": 0.9, "law": 5.0}, "not falsified", "differs"),
    ],
)
def test_what_must_keep_its_claim_must_keep_it_on_real_data_too(
    recorded: Verdict, variant: str, coin: dict[str, Any], verdict: str, status: str
) -> None:
    about = entry(recorded, Coin("a", 3.0 if recorded == "falsified" else 0.9))
    verification = verify([about], extra=[("aa11-thm1", OnData("b", variant=variant, **coin))])
    assert statuses(verification)[1] == (verdict, status)


def test_power_is_what_the_same_game_found_of_mutants() -> None:
    coin, blind, broken = Coin("a", 0.95), Coin("b", 0.2), Coin("c", 3.0)
    about = replace(
        entry("falsified", broken, corrected=[coin, blind]), weak={"b": "It shows a fifth."}
    )
    [judged] = verify([about]).entries
    first, second, third = judged.games
    assert (first.control, first.tried) == (None, ())
    assert second.control is not None
    assert (second.verdict, second.control.found) == ("not falsified", True)
    assert second.control.certified > 1
    assert second.control.factor in (1.25, 1.5)
    # Noise for 4 times ε does not make the pair's ε 4 times as large as the claim.
    assert third.control is not None
    assert (third.verdict, third.control.found, third.control.factor) == ("no power", False, 4.0)
    assert third.control.certified < 1
    assert third.weak == "It shows a fifth."
    assert (judged.verdict, judged.status) == ("falsified", "as recorded")


def test_an_entry_without_power_rests_on_its_derivation() -> None:
    silent = replace(entry("holds", Coin("a", 0.1)), weak={"a": "Hardly anything moves."})
    [judged] = verify([silent]).entries
    assert (judged.games[0].verdict, judged.verdict) == ("no power", "holds")
    assert judged.status == "as recorded"
    # A pair that is listed as weak can still refute the claim.
    broken = replace(entry("holds", Coin("a", 3.0)), weak={"a": "Hardly anything moves."})
    assert statuses(verify([broken])) == [("falsified", "differs")]


def test_one_false_pair_makes_a_claim_false() -> None:
    verification = verify([entry("falsified", Coin("a", 3.0), Coin("d", 1.01))], seed=1)
    assert statuses(verification)[1] == ("inconclusive", "too few trials")
    assert (verification.entries[0].verdict, verification.entries[0].status) == (
        "falsified",
        "too few trials",
    )


# Resuming after a stop.


def without_times(verification: Verification) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(verification.model_dump_json())
    del plain["timing"]
    for judged in plain["entries"]:
        for game in judged["games"]:
            del game["seconds"]
    return plain


def catalogue() -> list[PublishedClaim]:
    return [
        entry("falsified", Coin("a", 3.0), Coin("b", math.inf)),
        entry("holds", Coin("c", 0.9), id_="bb12"),
    ]


def runs(entries: Sequence[PublishedClaim]) -> int:
    return sum(
        len(experiment.ran)
        for about in entries
        for experiment in about.published
        if isinstance(experiment, Coin)
    )


def test_what_was_run_is_not_run_again_and_the_record_is_the_same(tmp_path: Path) -> None:
    first, again, never = catalogue(), catalogue(), catalogue()
    verification = verify(first, folder=tmp_path)
    assert runs(first) == 3
    assert without_times(verify(again, folder=tmp_path)) == without_times(verification)
    assert runs(again) == 0
    assert without_times(verify(never, seed=verification.seed)) == without_times(verification)
    assert len(read(tmp_path / NAME).keys) == 3


def test_a_stopped_verification_goes_on_where_it_was(tmp_path: Path) -> None:
    entries = catalogue()

    class Stopping(Progress):
        def stage(self, text: str) -> None:
            if text.startswith("bb12"):
                raise KeyboardInterrupt

    class Told(Progress):
        finished, known = 0, 0

        def advance(self, trials: int) -> None:
            self.finished += trials

        def stored(self, trials: int) -> None:
            self.known += trials

    with pytest.raises(KeyboardInterrupt):
        verify(entries, folder=tmp_path, progress=Stopping())
    assert runs(entries) == 2
    progress = Told()
    verify(entries, folder=tmp_path, progress=progress)
    assert runs(entries) == 3
    assert (progress.finished, progress.known) == (1, 2)


def test_an_outcome_that_was_changed_is_run_again(tmp_path: Path) -> None:
    verification = verify(catalogue(), folder=tmp_path)
    with closing(sqlite3.connect(tmp_path / NAME)) as file, file:
        file.execute("update results set value = '{}' where key = (select max(key) from results)")
    entries = catalogue()
    assert without_times(verify(entries, folder=tmp_path)) == without_times(verification)
    assert runs(entries) == 1


@pytest.mark.parametrize(
    "changes", [{"trials": 1000}, {"confidence": 0.9}], ids=lambda changes: next(iter(changes))
)
def test_other_options_take_no_outcome(tmp_path: Path, changes: dict[str, Any]) -> None:
    verify(catalogue(), folder=tmp_path)
    entries, fresh = catalogue(), catalogue()
    verification = verify(entries, folder=tmp_path, **changes)
    assert runs(entries) == 3
    assert without_times(verification) == without_times(
        verify(fresh, **{**changes, "seed": verification.seed})
    )


def test_another_seed_asks_before_outcomes_are_dropped(tmp_path: Path) -> None:
    verify(catalogue(), folder=tmp_path, seed=1)
    with pytest.raises(ConfigError, match=r"3 finished tasks .*\(other seed\): --fresh"):
        verify(catalogue(), folder=tmp_path, seed=2)
    entries = catalogue()
    assert verify(entries, folder=tmp_path, seed=2, fresh=True).seed == 2
    assert runs(entries) == 3


def test_another_number_of_games_takes_no_outcome_since_the_level_differs(tmp_path: Path) -> None:
    verify(catalogue(), folder=tmp_path)
    entries = catalogue()[:1]
    verify(entries, folder=tmp_path)
    assert runs(entries) == 2


@pytest.mark.cases(
    "other", [Coin("a", 3.0, about="other data"), Coin("a", 3.0, says=2.0), Coin("b", 3.0)]
)
def test_another_game_takes_no_outcome(tmp_path: Path, other: Coin) -> None:
    verify([entry("falsified", Coin("a", 3.0))], folder=tmp_path)
    verify([entry("falsified", other)], folder=tmp_path)
    assert len(other.ran) == 1


def test_other_code_or_libraries_take_no_outcome_and_no_drawn_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = verify(catalogue(), folder=tmp_path).seed
    monkeypatch.setattr(module, "identity_of", lambda: {"code": "other"})
    entries = catalogue()
    assert verify(entries, folder=tmp_path).seed != seed
    assert runs(entries) == 3


@pytest.mark.long
def test_outcomes_do_not_depend_on_the_workers() -> None:
    verification = verify(catalogue(), seed=3)
    for workers in (Workers(2), Workers(2, "processes")):
        assert without_times(verify(catalogue(), seed=3, workers=workers)) == without_times(
            verification
        )


def test_games_get_their_own_trials_unless_told(tmp_path: Path) -> None:
    coin = Coin("a", 3.0, trials=700)
    assert verify([entry("falsified", coin)], seed=5).entries[0].games[0].trials == 700
    assert verify([entry("falsified", coin)], seed=5, trials=300).entries[0].games[0].trials == 300
    assert coin.ran == [(700, 5), (300, 5)]


# An early end.


def test_a_false_claim_ends_its_game_early_and_certifies_nothing_more() -> None:
    coin = Coin("a", math.inf, trials=10_000)
    verification = verify([entry("falsified", coin)], seed=1, stop="when-decided")
    [game] = verification.entries[0].games
    assert statuses(verification) == [("falsified", "as recorded")]
    assert (game.early, game.certified, game.control) == (True, None, None)
    assert game.trials < 50
    assert game.p_value == game.adjusted <= 0.05
    assert sum(trials for trials, _ in coin.ran) < 500
    assert verification.stop == "when-decided"
    # What must keep its claim is accused of it early too.
    assert statuses(verify([entry("holds", coin)], stop="when-decided")) == [
        ("falsified", "differs")
    ]


def test_games_that_end_early_are_refuted_whatever_the_others_show() -> None:
    coins = [Coin(f"{k}", 4.0 if k == 3 else 0.9, trials=1000) for k in range(7)]
    games = verify([entry("holds", *coins)], seed=2, stop="when-decided").entries[0].games
    assert [game.early for game in games] == [k == 3 for k in range(7)]
    assert games[3].p_value <= 0.05 / 7
    assert [game.verdict == "falsified" for game in games] == [k == 3 for k in range(7)]


@pytest.mark.parametrize("trials", [40, 3000])
def test_a_game_that_is_not_ended_has_the_numbers_of_nine_tenths_of_the_error_probability(
    trials: int,
) -> None:
    coins = [Coin("a", 0.9, trials=trials), Coin("b", 1.1, trials=trials)]
    [judged] = verify([entry("holds", *coins)], seed=3, stop="when-decided").entries
    [whole] = verify([entry("holds", *coins)], seed=3, confidence=1 - 0.9 * 0.05).entries
    same = {"label", "truth", "event", "tried", "control", "trials", "early", "verdict", "status"}
    for game, other in zip(judged.games, whole.games, strict=True):
        assert game.model_dump(include=same) == other.model_dump(include=same)
        assert game.p_value == pytest.approx(min(1.0, other.p_value / 0.9), rel=1e-12)
        assert game.certified is not None
        assert other.certified is not None
        assert game.certified.lower == other.certified.lower
        assert (game.certified.n, game.certified.confidence) == (other.certified.n, 0.95)


@pytest.mark.long
def test_true_claims_are_rarely_called_false_by_bets_and_all_trials_together() -> None:
    repeats, alpha = 150, 0.2
    coins = [Coin(f"{k}", 0.5, 0.5, trials=400) for k in range(4)]
    accused = above = 0
    for seed in range(repeats):
        about = entry("holds", *coins)
        games = (
            verify([about], confidence=1 - alpha, seed=seed, stop="when-decided").entries[0].games
        )
        accused += any(game.verdict == "falsified" for game in games)
        above += any(game.certified is not None and game.certified.lower > 0.5 for game in games)
    # More than this has a probability of at most `RARE` where the level holds.
    most = binom.isf(RARE, repeats, alpha)
    assert 0 < accused <= most
    assert above <= most


def test_an_early_end_takes_no_outcome_of_whole_games_and_keeps_its_own(tmp_path: Path) -> None:
    verify(catalogue(), folder=tmp_path)
    entries, again = catalogue(), catalogue()
    ended = verify(entries, folder=tmp_path, stop="when-decided")
    assert [game.early for judged in ended.entries for game in judged.games] == [True, True, False]
    assert without_times(verify(again, folder=tmp_path, stop="when-decided")) == without_times(
        ended
    )
    assert runs(entries) > runs(again) == 0


@pytest.mark.long
def test_early_ends_do_not_depend_on_the_workers() -> None:
    verification = verify(catalogue(), seed=3, stop="when-decided")
    for workers in (Workers(2), Workers(2, "processes")):
        other = verify(catalogue(), seed=3, stop="when-decided", workers=workers)
        assert without_times(other) == without_times(verification)
