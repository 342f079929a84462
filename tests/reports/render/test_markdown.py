from __future__ import annotations

import math
import re
import tomllib
from itertools import pairwise

import pytest

from dpaudit.config.schema import Config
from dpaudit.core import rounding
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import AuditResult
from dpaudit.reports import digest, words
from dpaudit.reports.columns import left
from dpaudit.reports.render import markdown, toml
from tests.support.records import Make


def test_numbers_with_their_intervals(result: AuditResult) -> None:
    text = markdown.render(result)
    assert "**CLAIM FALSE** published" in text
    assert text.index("**STOP** epsilon") < text.index("**CLAIM FALSE**")
    assert "| 0.400 [0.360, 0.420] |" in text  # accuracy at ε = 1
    assert "| 0.500 [0, 0.510] |" in text  # difference: 1 − overlap
    assert "| 1.234 [1.100, 1.400] |" in text  # rmse
    assert "**≥ 2.718 (more than claimed)**" in text
    assert "| ≥ 2.718 |" in text  # at ε = 10 it is less than claimed
    assert re.search(r"claim is false at ε = 0\.1, 1: .* at least 27\.18 times", text)


def test_honest_footnotes(result: AuditResult) -> None:
    text = markdown.render(result)
    assert "All 10 intervals hold together with 95 %" in text
    assert "not a proof of privacy" in text
    # Where the game broke the claim itself no mutant is spoken of.
    assert re.findall(r"\| (–|none up to 4×) \|", text)[:3] == ["–", "–", "none up to 4×"]
    assert "seen: the predictions shown to one user; δ = 0" in text
    assert "who has ratings" in text
    assert "ten users agree" in text
    assert "score \\> 0.5, likelier in D' than in D" in text
    assert (
        "| 4000, on both data sets together | 0.005 | held-out clopper-pearson | frequentist |"
        in text
    )


def test_the_words_for_games_are_defined_where_there_are_games(make: Make) -> None:
    said = (
        "- D and D' are the two neighbouring data sets of a game",
        "- A mutant is a copy of the",
    )
    for text in said:
        assert text in markdown.render(make())
        assert text not in markdown.render(make(game=False))


def test_the_shift_of_predictions_is_left_out_where_no_game_has_one(
    result: AuditResult, lists: AuditResult
) -> None:
    shifted, other = markdown.render(result), markdown.render(lists)
    assert "shift of the noiseless prediction" in shifted
    assert "| point estimate (not certified) | shift | event |" in shifted
    assert "certify ε**\n" in other
    assert "| point estimate (not certified) | event |" in other


@pytest.mark.parametrize(("attacked", "said"), [(120, "120 are attacked"), (1, "1 is attacked")])
def test_users_of_the_data(result: AuditResult, attacked: int, said: str) -> None:
    assert result.data
    data = result.data.model_copy(update={"attacked": attacked})
    text = markdown.render(result.model_copy(update={"data": data}))
    assert f"| users | 480 train the models, {said} |" in text


def test_a_table_with_powers_says_below_it_what_they_mean(make: Make) -> None:
    before, _, after = markdown.render(make()).partition("\n\nPower: the least factor by which ")
    assert before.splitlines()[-1].startswith("| 10 | 10 |")
    assert "“none up to 4×”: " in after
    assert "Power: " not in markdown.render(make(game=False))


def test_lists_have_their_own_laws_and_no_noise(lists: AuditResult) -> None:
    text = markdown.render(lists)
    assert "ε by the list's law (last-ranked)" in text
    assert "noise's law" not in text
    assert "| Δf |" not in text
    assert "by the law of the list" in text
    assert "exact Laplace noise" not in text
    assert "Attack accuracy" not in text


def test_the_divergence_of_a_chain_is_a_table_of_its_own(lists: AuditResult) -> None:
    lines = markdown.render(lists).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| steps |"))
    columns = [cell.strip() for cell in lines[start].strip("|").split("|")]
    assert columns[:2] == ["steps", "ε = 0.1, explored states, at most 10"]
    assert len(columns) == 1 + 2 * 3
    assert lines[start + 2].startswith("| 0 | 1.000 | 1.000 | 1.000 | 4.000 |")
    assert lines[start + 4].startswith("| 1000 | 0.00100 |")
    method = "| divergence of the chain, all states | – | – | law of the chain, mean of 9 users |"
    assert any(line.startswith(method) for line in lines)


def test_games_of_values_and_of_lists_are_told_apart(result: AuditResult) -> None:
    more = [
        measurement.model_copy(
            update={"pair": "support-threshold (list)", "attack": "item-place", "shift": None}
        )
        for measurement in result.measurements
        if measurement.metric == "epsilon"
    ]
    both = result.model_copy(update={"measurements": result.measurements + more})
    text = markdown.render(both)
    assert "certified ε (support-threshold) |" in text
    assert "certified ε (support-threshold (list)) |" in text
    assert "power (support-threshold) |" in text
    assert "power (support-threshold (list)) |" in text
    assert "Power is measured" in text


def test_provenance(result: AuditResult) -> None:
    text = markdown.render(result)
    for part in ("b4adf500", "| seed | 7 |", "| numpy | 2.4.6 |", "26318 ratings by 600 users"):
        assert part in text


def test_provenance_of_social_data(result: AuditResult) -> None:
    plain = markdown.render(result)
    for part in ("| friends |", "| sensitive |", "| dropped, merged or in doubt |"):
        assert part not in plain
    assert result.data is not None
    repairs = {"repeated links": 3, "rows with a rating outside the scale": 34}
    known = {"links": 1632, "sensitive": 2632, "repairs": repairs}
    data = result.data.model_copy(update=known)
    text = markdown.render(result.model_copy(update={"data": data}))
    assert "| friends | 1632 links from a user to a friend |" in text
    assert "| sensitive | 2632 of the 26318 ratings |" in text
    said = "repeated links: 3; rows with a rating outside the scale: 34"
    assert f"| dropped, merged or in doubt | {said} |" in text


def test_every_table_row_has_its_header_s_cells(hard: AuditResult) -> None:
    lines = markdown.render(hard).splitlines()
    for line, following in pairwise(lines):
        if line.startswith("|") and following.startswith("|"):
            assert line.count("|") == following.count("|")


def test_labels_cannot_break_the_markup(make: Make) -> None:
    text = markdown.render(make(label="a|b\n# c", attack="[x](y) `z` <b>*", rule="**r**"))
    assert "a\\|b \\# c" in text
    assert "[x\\](y) \\`z\\` \\<b\\>\\*" in text
    assert "\\*\\*r\\*\\*" in text
    assert "\n# c" not in text


def test_same_record_same_text(hard: AuditResult) -> None:
    assert markdown.render(hard) == markdown.render(hard)


def test_without_gates_the_report_says_so(make: Make) -> None:
    free = markdown.render(make(gate=False, game=False))
    assert "no gate is set" in free


def test_without_games_the_claim_was_not_tested(make: Make) -> None:
    text = markdown.render(make(game=False))
    assert "**CLAIM NOT TESTED** published" in text
    assert "about what it covers" in text


def test_recorded_config_can_be_run_again() -> None:
    config = Config.model_validate(
        {
            "model": [
                {"label": 'a "b" \\ \x7f é', "epsilon": [0.1, 1]},
                {"variant": "nonprivate", "params": {"top_k": 5}},
            ],
            "attack": [{"params": {"observe": "list"}}],
            "gate": [{"metric": "attack.accuracy", "where": {"epsilon": 1}, "max": 0.5}],
        }
    )
    text = toml.render(config.model_dump(mode="json"))
    assert "epsilon = [inf]" in text
    assert Config.model_validate(tomllib.loads(text)) == config


@pytest.mark.cases(
    ("value", "shown"),
    [(0.01, "0.01"), (1000.0, "1000"), (math.inf, "∞"), (0.3, "0.3"), (1e6, "1e+06")],
)
def test_epsilon_as_the_config_gives_it(value: float, shown: str) -> None:
    assert words.epsilon(value) == shown


def test_bounds_are_rounded_outwards() -> None:
    def estimate(value: float, lower: float, upper: float) -> Estimate:
        rest = {"confidence": 0.95, "alpha": 0.05, "n": 9, "method": "any"}
        return Estimate.model_validate({"value": value, "lower": lower, "upper": upper, **rest})

    assert words.interval(estimate(0.12345, 0.1239, 0.1241)) == "0.123 [0.123, 0.125]"
    assert words.interval(estimate(0.29, 0.29, 0.29), 2) == "0.29 [0.29, 0.29]"
    assert words.interval(estimate(0.0, 0.0, 0.0018321)) == "0 [0, 0.0019]"
    assert rounding.at_least(0.99999) == "0.999"
    assert rounding.at_most(math.inf) == "∞"
    assert rounding.measured(math.nan) == "NaN"


def test_difference_turns_the_interval_round(result: AuditResult) -> None:
    row = digest.rows(result)["published"][1]
    kept = row.estimate("utility.overlap")
    assert kept is not None
    assert left(kept).value == 0.5
    assert (left(kept).lower, left(kept).upper) == (0.0, 0.51)
    assert row.strongest == "one prediction"
