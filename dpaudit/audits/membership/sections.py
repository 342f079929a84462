"""What reports show of membership inference: whose data were used for training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, TypeVar

from dpaudit.audits.deletion import sections as deletion
from dpaudit.audits.membership import charts
from dpaudit.core import rounding
from dpaudit.core.membership import OBSERVERS, SEEN, WITNESS
from dpaudit.record.metric import ATTACKS, MODELS
from dpaudit.record.metrics import entry
from dpaudit.record.result import STRONGEST, AuditResult, DataRecord, Measurement, ModelRecord
from dpaudit.reports import columns, digest, words
from dpaudit.reports.chart_parts import Chart, Look
from dpaudit.reports.digest import ABOVE
from dpaudit.reports.frequency import Frequency
from dpaudit.reports.palette import Word
from dpaudit.reports.sections.base import ACCOUNTS_UNTRIED, GAMES_UNTRIED, Printed, Sections
from dpaudit.reports.sections.certified_chart import certified_chart
from dpaudit.reports.table import NONE, Column, Table

_NOTES = (
    "Membership: in every training a coin decides for each target whether it is in the data. "
    "Some trainings calibrate the attacks and choose the strongest by each number; the others "
    "judge it. With fewer than three trainings a quarter of the targets chooses, and the others "
    "are judged.",
    "A range, such as [0.49, 0.52], is from the least to the largest number of the judged "
    "trainings. The next training lies beyond it with a probability of at most 2 in J + 1, for J "
    "judged trainings of any law that were not stopped early. The number of a single judged "
    "training has an interval for all the data that the training had, of which its targets are a "
    "random part. A gate judges the next training unless its of names another statement.",
    "TPR at 1 % FPR is the share of the present targets that score above all but 1 % of the "
    "absent ones; both rates are pooled over targets, and no single person's own. AUC is the "
    "probability that a present target scores above an absent one: 0.5 is chance. The advantage "
    "is the true- minus the false-positive rate at a threshold set beforehand: 0 is chance, and "
    "balanced accuracy is a half plus a half of it.",
    "The certified ε counts right guesses of the coins; it holds whatever the dependence "
    "between targets. A claim is compared with it only if it is about the same target and "
    "observer.",
    "The attacker knows all data but the targets' coins, and can train the model on data like "
    "these. Exposures by group say who is hit hardest; they name nobody.",
    "The blind baseline is how well coins are told by what no model can tell: the popularity of "
    "items, the activity of users, and, for the coins of one training, what another one shows (of "
    "the pair of trainings that tells most). It has to be at chance, an AUC of 0.5, which every "
    "interval of it includes in all but one of 1000 audits without a fault. Where one does not, no "
    "gate is decided.",
)

# Digits of a number in a report, and on a console.
_DIGITS, _FEW_DIGITS = 3, 2
Key = TypeVar("Key", bound=tuple[object, ...])
# The first columns of tables whose rows are of a target and an observer.
_WHERE = ("model", "ε", "target", "observer")
# The fields of measurements that have columns of their own.
_ROW = ("attack", "observer", "unit")
# What an observer sees, where there is little room.
_SHORT: Mapping[str, str] = {
    "scores": "own scores",
    "own-list": "own list",
    "others-lists": "others' lists",
    "nearest-items": "nearest items",
    "factors": "item factors",
    WITNESS: "before and after",
}


class MembershipSections(Sections):
    """Rows are targets and observers, instead of values of ε."""

    shown: ClassVar[frozenset[str]] = Sections.shown | {
        ATTACKS,
        "exposure",
        "group utility",
        "curves",
        "blind baseline",
    }
    beyond: ClassVar[Sequence[str]] = (ACCOUNTS_UNTRIED,)

    def tables(self) -> list[Table]:
        """Return the strongest attacks, utility, every attack, and who is hit hardest."""
        tables = [
            _strongest(self.result),
            *_utility(self.result),
            *(table(self.result) for table in (_group_utility, _attacks, _exposures, _blind)),
        ]
        return [table for table in tables if table.cells]

    def charts(self, look: Look) -> list[Chart | None]:
        """Return ROC curves, leaks against utility, who is exposed, and certified ε."""
        return [
            charts.curves(self.result, look),
            charts.against_utility(self.result, look),
            charts.exposed(self.result, look),
            certified_chart(digest.rows(self.result), look),
        ]

    def notes(self) -> list[str]:
        """Return the notes that explain the charts."""
        return [*_NOTES]

    def judged(self, model: ModelRecord) -> Iterator[tuple[Word, str]]:
        """Yield whether a model has forgotten what it was to forget, for each kind of target."""
        for unit in deletion.units(self.result, model.label):
            word = deletion.word(self.result, model.label, unit)
            yield word, deletion.sentence(self.result, model.label, unit)

    def printed(self) -> Printed:
        """Return what was deleted and how, what was tried, and what became of it."""
        return deletion.printed(self.result)

    def leaks(self, model: ModelRecord) -> Iterator[str]:
        """Yield whom the best placed observer identifies at any ε, for each kind of target."""
        yield from deletion.witnessed(self.result, model.label)
        most = charts.most_exposed(self.result).values()
        of_model = [rate for rate in most if rate.model == model.label]
        for unit in dict.fromkeys(rate.unit for rate in of_model):
            rates = (rate for rate in of_model if rate.unit == unit)
            yield self._exposed(max(rates, key=charts.sureness))

    def metered(self) -> Iterable[Measurement]:
        """Return the strongest attacks' true positives, at the largest false-positive rate."""
        return charts.surest(self.result)

    def frequency(self, measurement: Measurement) -> Frequency | None:
        """Return true positives, advantages, or right comparisons, of targets in the data."""
        target, observer = measurement.unit, measurement.observer or ""
        attacker = f"{_SHORT.get(observer, observer)}, for {target}s"
        kind = "deleted" if deletion.forgets(self.result, measurement.model) else "training"
        if measurement.metric == "attack.tpr" and measurement.at is not None:
            clause = f"{kind} {target}s are recognised"
            return Frequency(measurement, attacker, clause, measurement.at, measurement.at)
        if measurement.metric == "attack.advantage":
            clause = f"{kind} {target}s are recognised beyond false alarms"
            return Frequency(measurement, attacker, clause, 0.0)
        if measurement.metric == "attack.auc":
            clause = f"comparisons of a {kind} {target} with another one are right"
            return Frequency(measurement, attacker, clause, 0.5)
        return None

    def attacker(self) -> str:
        """Return what the attackers of membership inference know."""
        return (
            "Someone who knows all data but whether the target was in it, can train the model on "
            "data like these, and sees what its row names."
        )

    def untried(self) -> Iterator[str]:
        """Yield the observers and the targets that the run left out."""
        games = [measurement for measurement in self.result.measurements if measurement.unit]
        observers = {game.observer for game in games}
        deletes = any(deletion.forgets(self.result, model.label) for model in self.result.models)
        possible = (*OBSERVERS, WITNESS) if deletes else OBSERVERS
        missing = [SEEN[name] for name in possible if name not in observers]
        if missing:
            yield f"Observers who see {'; or '.join(missing)}."
        units = {game.unit for game in games}
        for unit, size in (("interaction", "single"), ("user", "whole")):
            if unit not in units:
                yield f"Whether a {size} {unit} was in the training data."
        if not columns.within(self.result, "games"):
            yield GAMES_UNTRIED

    def columns(self, model: ModelRecord) -> list[Column]:
        """Return the columns of one model's strongest attacks, the most important first."""
        table = _strongest(self.result, _FEW_DIGITS, brief=True)
        rows = [row for row in table.cells if row[0] == model.label]
        cells = {name: [row[at] for row in rows] for at, name in enumerate(table.header)}
        seen = map(", ".join, zip(cells["target"], cells["observer"], strict=True))
        other = {"model", "target", "observer"}
        if set(cells.get("claimed ε", ())) == {"none"}:
            other.add("claimed ε")
        first = [name for name in ("claimed ε", "certified ε") if name in cells]
        order = dict.fromkeys(name for name in (*first, *cells) if name not in other)
        return [("target, observer", list(seen)), *((name, cells[name]) for name in order)]

    def brief(self) -> list[Table]:
        """Return the table of utility."""
        return _utility(self.result)

    def remarks(self) -> list[str]:
        """Return what the brackets are."""
        shown = [m for m in self.result.measurements if m.estimate.kind == "range"]
        judged = max((len(m.census.values) for m in shown if m.census), default=0)
        if judged < 2:
            return super().remarks()
        about = f"Numbers are means over {judged} judged trainings, and brackets are their ranges."
        return [about, *super().remarks()]

    def attacked(self, data: DataRecord) -> tuple[str, str]:
        """Return the number of targets of each unit, e.g. `60 interactions and 40 users`."""
        sizes = self.result.config.get("membership")
        if not isinstance(sizes, dict):
            return "targets", NONE
        units = dict.fromkeys(m.unit for m in self.result.measurements if m.unit)
        return "targets", " and ".join(f"{sizes.get(f'{unit}s', NONE)} {unit}s" for unit in units)

    def _exposed(self, rate: Measurement) -> str:
        sight = words.observer(rate.observer or "")
        sight += ", which the claim is not about," if self._beside_claim(rate) else ""
        swept = digest.swept(self.result, rate.model)
        which = f"At ε = {words.epsilon(rate.epsilon)}, an" if swept else "An"
        guess = words.percent(rate.at or 0)
        several = rate.census is not None and len(rate.census.values) > 1
        what = "range" if rate.estimate.kind == "range" and several else "interval"
        inside = rate.estimate.lower <= (rate.at or 0) <= rate.estimate.upper
        within = f", which the {what} includes" if inside else ""
        gone = deletion.forgets(self.result, rate.model)
        there = "were deleted" if gone else "are in the training data"
        return (
            f"{which} attacker who sees {sight} identifies {words.shares(rate.estimate)} of the "
            f"audited {rate.unit}s that {there}, at a false-positive rate of {guess}; guessing "
            f"identifies {guess}{within}."
        )

    def _beside_claim(self, rate: Measurement) -> bool:
        """Return whether the model's claim is not about who finds most at this rate."""
        claims = {(point.model, point.epsilon): point.claim for point in self.result.points}
        claim = claims[rate.model, rate.epsilon]
        return claim is not None and any(
            not game.tests(claim)
            for game in digest.of(self.result, "epsilon")
            if charts.game_of(game) == charts.game_of(rate)
        )


def _utility(result: AuditResult) -> list[Table]:
    """Return the table of utility on held-out interactions, if it was measured."""
    caption = f"Utility on held-out interactions, lists of {columns.longest(result)}"
    table = columns.of_section(result, MODELS, caption, but=["unit"])
    return [table] if table else []


def _numbers(
    measurements: Iterable[Measurement], key: Callable[[Measurement], Key], *, surest: bool = False
) -> dict[Key, list[Measurement]]:
    """Return the numbers of a table by its rows, those at the lowest rate first, or at the highest.

    Certified bounds have a column of their own, and a derived number is one of the others again.
    """
    shown = [
        m
        for m in measurements
        if m.unit and entry(m.metric).section in (MODELS, ATTACKS) and not entry(m.metric).derived
    ]
    rows: dict[Key, list[Measurement]] = {}
    for m in sorted(shown, key=lambda m: (m.at or 0) * (-1 if surest else 1)):
        rows.setdefault(key(m), []).append(m)
    return rows


def _strongest(result: AuditResult, digits: int = _DIGITS, *, brief: bool = False) -> Table:
    claims = {(p.model, p.epsilon): p.claim for p in result.points}
    of_strongest = [m for m in result.measurements if m.attack == STRONGEST]
    bounds = {charts.game_of(m): m for m in of_strongest if m.metric == "epsilon"}
    at = _numbers(of_strongest, charts.game_of, surest=brief)
    # Observers of each model and kind of target by what they find, the most first.
    lower = {charts.game_of(rate): rate.estimate.lower for rate in charts.surest(result)}
    distinct = list(dict.fromkeys(map(charts.game_of, of_strongest)))
    targets = [game[:3] for game in distinct]
    games = sorted(distinct, key=lambda game: (targets.index(game[:3]), -lower.get(game, 0.0)))
    rows = [at.get(game, []) for game in games]
    shown = list(columns.columns(rows, digits=digits, brief=brief, but=_ROW))
    claimed = any(claims.values())
    cells, marked = [], set()
    for row, game in enumerate(games):
        claim, bound = claims.get(game[:2]), bounds.get(game)
        about = claim and bound and bound.tests(claim)
        stated = [words.epsilon(claim.epsilon) if claim and about else "none"] if claimed else []
        certified = f"≥ {rounding.at_least(bound.estimate.lower, digits)}" if bound else NONE
        if bound and claim and bound.exceeds(claim):
            certified += ABOVE
            marked.add((row, 3 + len(stated) + len(shown)))
        numbers = [column.cells[row] for column in shown]
        cells.append([game[0], *stated, *game[2:], *numbers, certified])
    header = ["model", *(["claimed ε"] if claimed else []), "target", "observer"]
    return Table(
        "Membership inference by the strongest attack: means and ranges of the judged trainings",
        [*header, *(column.name for column in shown), "certified ε"],
        cells,
        marked,
    )


def _attacks(result: AuditResult) -> Table:
    others = [m for m in result.measurements if m.attack != STRONGEST]
    at = _numbers(others, lambda m: (*charts.game_of(m), m.attack))
    shown = list(columns.columns(list(at.values()), but=_ROW))
    cells = [
        [model, words.epsilon(epsilon), *game, attack or NONE, *(of.cells[row] for of in shown)]
        for row, (model, epsilon, *game, attack) in enumerate(at)
    ]
    header = [*_WHERE, "attack", *(column.name for column in shown)]
    return Table("Every attack: means and ranges of the judged trainings", header, cells)


def _group_utility(result: AuditResult) -> Table:
    """Return the nDCG of the lists of each group of users."""
    return Table(
        "nDCG of lists on held-out interactions, by group of users",
        ["model", "ε", "group", "nDCG"],
        [
            [of.model, words.epsilon(of.epsilon), of.group or NONE, words.interval(of.estimate, 3)]
            for of in columns.within(result, "group utility")
        ],
    )


def _exposures(result: AuditResult) -> Table:
    """Return quantiles of exposure, and the rates of groups."""
    games = list(dict.fromkeys(map(charts.game_of, charts.joint(result, "attack.auc"))))

    def order(exposure: Measurement) -> tuple[int, bool]:
        game = charts.game_of(exposure)
        # Quantiles first, then groups.
        return games.index(game) if game in games else len(games), exposure.at is None

    return Table(
        "Who is hit hardest: how much more often a target is found when present than when absent",
        [*_WHERE, "of", "found"],
        [
            _row(m, m.group or f"{words.percent(m.at or 0)} of targets: at most")
            for m in sorted(columns.within(result, "exposure"), key=order)
        ],
    )


def _blind(result: AuditResult) -> Table:
    """Return how well coins are told by what no model can tell."""
    return Table(
        "Blind baseline: AUC for the coins of what no model can tell",
        [*_WHERE, "told by", "AUC"],
        [_row(m, m.attack or NONE) for m in columns.within(result, "blind baseline")],
    )


def _row(m: Measurement, of: str) -> list[str]:
    """Return a row of `_WHERE`, of what is measured, and of the number."""
    where = [m.model, words.epsilon(m.epsilon), m.unit or NONE, m.observer or NONE]
    return [*where, of, words.interval(m.estimate, _DIGITS)]
