"""The chart of Sybil attacks: accuracy against effort."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpaudit.core.messages import plain
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports import columns, words
from dpaudit.reports.chart_parts import Axis, Chart, Datum, Look, extremes
from dpaudit.reports.frequency import COIN, Guess, rating_guess
from dpaudit.reports.sections.line_chart import Lines, level, lines_chart

# The accuracy that an attacker is to reach.
LEVEL = 0.9


def efforts(result: AuditResult, look: Look) -> Chart | None:
    """Return the chart of accuracy against effort, if there are Sybil attacks."""
    data = [_datum(accuracy) for accuracy in columns.within(result, "sybil")]
    if not data:
        return None
    tried = sorted({datum["x"] for datum in data})
    x = Axis.over("accounts, changes or observed lists", tried, values=tried, units=True)
    baselines = [*_guesses(result), (words.percent(LEVEL), LEVEL)]
    return lines_chart(
        Lines(
            "sybil",
            "How many accounts, changes or lists an attacker needs",
            "How often the attacker reads a hidden rating, by the number of accounts that they "
            "create (those created before training included), changes that they make, or lists "
            f"that they observe. Dashed lines: what a guess reaches, and {words.percent(LEVEL)}.",
            extremes("accuracy", data),
            x=x,
            y=Axis("accuracy", 0, 1),
            data=data,
            columns={"series": "model, attack", "x": "effort", "words": "accuracy"},
            series=look.series(data, "value"),
            baselines=[level(label, share, x) for label, share in baselines],
        )
    )


def guess(result: AuditResult, attack: Mapping[str, Any]) -> Guess:
    """Return how often a guess is right; who observes lists only tells one user from another."""
    return rating_guess(result) if "category" in attack else COIN


def _guesses(result: AuditResult) -> list[Guess]:
    return list(dict.fromkeys(guess(result, attack) for attack in result.sybil_attacks.values()))


def _datum(accuracy: Measurement) -> Datum:
    series = plain(f"{accuracy.model}, ε = {words.epsilon(accuracy.epsilon)}, {accuracy.attack}")
    return {
        "series": series,
        "model": plain(accuracy.model),
        "attack": accuracy.attack,
        "name": f"{series}, effort {accuracy.effort}",
        "x": accuracy.effort,
        "y": accuracy.estimate.value,
        "value": accuracy.estimate.value,
        "lower": accuracy.estimate.lower,
        "upper": accuracy.estimate.upper,
        "words": words.interval(accuracy.estimate),
    }
