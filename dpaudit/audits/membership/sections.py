"""What reports show of membership inference: whose data were used for training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from dpaudit.audits.deletion import sections as deletion
from dpaudit.audits.membership import tables
from dpaudit.core.frequency import base_of, false_alarms, out_of, shares
from dpaudit.core.membership import OBSERVERS, SEEN, WITNESS
from dpaudit.record.metric import ATTACKS
from dpaudit.record.result import DataRecord, Measurement, ModelRecord
from dpaudit.reports import columns, digest, palette, words
from dpaudit.reports.chart_parts import Chart, Look
from dpaudit.reports.frequency import Frequency
from dpaudit.reports.sections.base import ACCOUNTS_UNTRIED, GAMES_UNTRIED, Printed, Sections
from dpaudit.reports.sections.charts import certified_chart
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
    "The blind baseline is how well coins are told by what remembers no target: the popularity of "
    "items, the activity of users, and, for the coins of one training, what another one shows (of "
    "the pair of trainings that tells most) and the strongest attack on others. It has to be at "
    "chance, an AUC of 0.5, which every interval of it includes in all but one of 1000 audits "
    "without a fault. Where one does not, no gate is decided. How popular a user's list is may "
    "tell the coin without a fault, and then explains an attack that finds no more.",
)

# What an observer sees, where there is little room.
_SHORT: Mapping[str, str] = {
    "scores": "own scores",
    "asked-rows": "rows of scores",
    "own-list": "own list",
    "others-lists": "others' lists",
    "nearest-items": "nearest items",
    "factors": "item factors",
    "asked-histories": "asked histories",
    WITNESS: "before and after",
}


class MembershipSections(Sections):
    """Rows are targets and observers, instead of values of ε."""

    shown: ClassVar[frozenset[str]] = Sections.shown | {
        ATTACKS,
        "exposure",
        "group utility",
        "curves",
        "reconstruction",
        "blind baseline",
    }
    beyond: ClassVar[Sequence[str]] = (ACCOUNTS_UNTRIED,)

    def tables(self) -> list[Table]:
        """Return the strongest attacks, utility, every attack, and who is hit hardest."""
        return tables.tables(self.result)

    def charts(self, look: Look) -> list[Chart | None]:
        """Return ROC curves, leaks against utility, who is exposed, and certified ε."""
        return [
            tables.curves(self.result, look),
            tables.against_utility(self.result, look),
            tables.exposed(self.result, look),
            certified_chart(digest.rows(self.result), look),
        ]

    def notes(self) -> list[str]:
        """Return the notes that explain the tables."""
        return [*_NOTES]

    def judged(self, model: ModelRecord) -> Iterator[tuple[palette.Word, str]]:
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
        most = tables.most_exposed(self.result).values()
        of_model = [rate for rate in most if rate.model == model.label]
        for unit in dict.fromkeys(rate.unit for rate in of_model):
            rates = (rate for rate in of_model if rate.unit == unit)
            yield self._exposed(max(rates, key=tables.sureness))

    def metered(self) -> Iterable[Measurement]:
        """Return the strongest attacks' true positives, at the largest false-positive rate."""
        return tables.surest(self.result)

    def frequency(self, measurement: Measurement) -> Frequency | None:
        """Return true positives, advantages, or right comparisons, of targets in the data."""
        target, observer = measurement.unit, measurement.observer or ""
        attacker = f"{_SHORT.get(observer, observer)}, for {target}s"
        kind = "deleted" if deletion.forgets(self.result, measurement.model) else "training"
        recognised = f"{kind} {target}s are recognised"
        if measurement.metric == "attack.tpr" and measurement.at is not None:
            return Frequency(measurement, attacker, recognised, measurement.at, measurement.at)
        if measurement.metric == "attack.advantage":
            return Frequency(measurement, attacker, f"{recognised} beyond false alarms", 0.0)
        if measurement.metric == "attack.auc":
            clause = f"comparisons of a {kind} {target} with another one are right"
            return Frequency(measurement, attacker, clause, 0.5)
        return None

    def attacker(self) -> str:
        """Return what the attackers of membership inference know."""
        return (
            "Each row is an attacker who knows all other data, can train the model on data like "
            "these, and sees what the row names."
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
        return tables.columns_of(self.result, model.label)

    def brief(self) -> list[Table]:
        """Return the table of utility."""
        return tables.utility(self.result)

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
        at = digest.swept_at(self.result, rate)
        which = f"{at[1:].capitalize()}, an" if at else "An"
        chance = rate.at or 0.0
        guess = out_of(chance, base_of(chance, chance, chance))
        several = rate.census is not None and len(rate.census.values) > 1
        what = "range" if rate.estimate.kind == "range" and several else "interval"
        inside = rate.estimate.lower <= chance <= rate.estimate.upper
        within = f", which the {what} includes" if inside else ""
        gone = deletion.forgets(self.result, rate.model)
        there = "were deleted" if gone else "are in the training data"
        return (
            f"{which} attacker who sees {sight} identifies {shares(rate.estimate)} of the "
            f"audited {rate.unit}s that {there}, with {false_alarms(chance)}; a guess identifies "
            f"{guess}{within}."
        )

    def _beside_claim(self, rate: Measurement) -> bool:
        """Return whether the model's claim is not about who finds most at this rate."""
        claim = digest.claims(self.result)[rate.model, rate.epsilon]
        bounds, place = digest.of(self.result, "epsilon"), tables.game_of(rate)
        games = [bound for bound in bounds if tables.game_of(bound) == place]
        return claim is not None and any(not game.tests(claim) for game in games)
