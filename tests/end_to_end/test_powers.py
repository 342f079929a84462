"""The catalogue's games measure their power with mutants, on the same pair and by the same game."""

from __future__ import annotations

import re

import pytest

from dpaudit.auditor.games import control_seed
from dpaudit.bounds.frequentist.labels import label_epsilon
from dpaudit.claims import report as reports
from dpaudit.claims.catalogue import catalogue, chosen
from dpaudit.claims.record import Check, ClaimGame, PublishedClaim, Verification
from dpaudit.claims.verify import verify

# These tests run the catalogue's games with all their mutants.
pytestmark = pytest.mark.long

ROWS = [
    (entry, game)
    for entry in catalogue()
    for game in (*(entry.published if entry.recorded != "falsified" else ()), *entry.corrected)
    if not isinstance(game, Check)
]
every_row = pytest.mark.parametrize(
    ("entry", "game"), ROWS, ids=[f"{entry.id}/{game.label}" for entry, game in ROWS]
)


@every_row
def test_every_row_has_mutants_on_the_same_pair(entry: PublishedClaim, game: ClaimGame) -> None:
    mutant = game.mutant(1.5)
    assert (mutant.digest(), mutant.pair()) == (game.digest(), game.pair())
    assert (mutant.label, mutant.trials) == (game.label, game.trials)
    assert mutant.mechanism() != game.mechanism()
    epsilon, delta = game.claimed()
    # Some games test an ε of their own, which a mutant keeps.
    assert mutant.claimed() in ((pytest.approx(1.5 * epsilon), delta), (epsilon, delta))


@pytest.mark.parametrize("entry", catalogue(), ids=lambda entry: entry.id)
def test_a_weak_pair_is_one_of_the_entry_and_says_what_carries_its_verdict(
    entry: PublishedClaim,
) -> None:
    labels = [game.label for each, game in ROWS if each is entry]
    for label, why in entry.weak.items():
        assert labels.count(label) == 1
        assert why.endswith(".")
    powerful = [game.label for game in entry.corrected if game.label not in entry.weak]
    if entry.corrected and not powerful:
        # Another entry measures the power of the corrected form.
        named = re.findall(r"measured (?:on these, )?in ([\w.-]+)\.", " ".join(entry.weak.values()))
        bounded = "half of the claim" in " ".join(entry.weak.values())
        assert named or bounded
        for other in chosen(named) if named else []:
            assert any(game.label not in other.weak for game in other.corrected)


@pytest.fixture(scope="module")
def found() -> Verification:
    ids = ["pa11-thm3.1-threshold", "pa11-thm3.1-replaced", "pa11-s3.4-joint-list", "wt17-eq6-raw"]
    return verify([entry for entry in catalogue() if entry.id in ids])


def test_a_row_with_a_verdict_has_a_control_that_was_run_and_found(found: Verification) -> None:
    games = [game for entry in found.entries for game in entry.games if game.certified]
    assert {game.verdict for game in games} == {"falsified", "not falsified", "holds", "no power"}
    for game in games:
        assert game.claimed is not None
        assert game.certified is not None
        if game.verdict == "falsified":
            assert game.control is None
            continue
        assert game.control in game.tried
        assert game.control is not None
        assert game.control.found == (game.verdict != "no power")
        assert (game.control.certified > game.claimed) == game.control.found
        assert all(not each.found for each in game.tried if each.factor < game.control.factor)
    assert all(entry.status == "as recorded" for entry in found.entries)


def test_reports_print_what_was_measured(found: Verification) -> None:
    text = reports.render_markdown(found)
    rows = [line for line in text.splitlines() if "corrected: damped |" in line]
    cells = [cell.strip() for cell in rows[0].strip("|").split("|")]
    assert cells[5:7] == ["no power", "none up to 4×"]
    worst = next(
        line for line in text.splitlines() if "corrected: damped, its worst pair |" in line
    )
    assert [cell.strip() for cell in worst.strip("|").split("|")][5:7] == ["not falsified", "1.25×"]
    assert "power" in " ".join(reports.footnotes(found))
    assert "95 % power" not in text


@pytest.mark.parametrize(
    ("id_", "label", "factor"),
    [
        ("wt17-thm1-amplification", "one user of ten, their worst pair", 4.0),
        ("wt17-thm1-sensitivity", "whole users, their worst pair", 1.5),
    ],
)
def test_opposite_gradients_show_noise_that_is_too_small(
    id_: str, label: str, factor: float
) -> None:
    """On a pair with twelve coordinates, noise for 4 times the claim was certified as nearly 0."""
    [game] = [game for game in chosen([id_])[0].corrected if game.label == label]
    seen = game.mutant(factor).run(game.trials, control_seed(0, factor))
    estimate, _ = label_epsilon(seen.absent, seen.present, alpha=0.05 / 130)
    assert estimate.lower > game.claimed()[0]
