"""What reports show of a training by DP-SGD: its checks, and the ε that follows from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from dpaudit.core import rounding
from dpaudit.record.result import ModelRecord
from dpaudit.reports import digest, words
from dpaudit.reports.chart_parts import Chart, Look
from dpaudit.reports.sections.base import Sections
from dpaudit.reports.table import NONE, Table

_NOTES = (
    "Each check accuses a training that keeps its claim at most once in 100 000 trainings. ε by a "
    "check is what the fault implies for an observer of all steps, as a claim by composition has "
    "it; 0 where no number follows.",
    "The ε at the measured noise assumes Gaussian noise and batches that take each row by itself; "
    "both are tested above. The ε of a user is that of all their rows together, by a mixture of "
    "Gaussians; an accountant's ε is about one row.",
)


class DPTrainingSections(Sections):
    """Rows are checks, instead of values of ε."""

    shown: ClassVar[frozenset[str]] = Sections.shown | {"dp-training"}
    beyond: ClassVar[tuple[str, ...]] = ()

    def tables(self) -> list[Table]:
        """Return the tables of checks, and of ε."""
        return [self._checks(), self._epsilons()]

    def charts(self, look: Look) -> list[Chart | None]:
        """Return no charts."""
        return []

    def notes(self) -> list[str]:
        """Return the notes that explain the tables."""
        return [*_NOTES]

    def leaks(self, model: ModelRecord) -> Iterator[str]:
        """Yield how many checks the training fails."""
        outcomes = [one.outcome for one in digest.of(self.result, "dp-training.check")]
        fails, untested = outcomes.count("fails"), outcomes.count("not tested")
        yield f"Of {len(outcomes)} checks it fails {fails}, and {untested} could not be made."

    def attacker(self) -> str:
        """Return who observes."""
        return (
            "Someone who sees the noised sum of every step, and knows all data but one row, as the "
            "claims of DP-SGD assume."
        )

    def untried(self) -> Iterator[str]:
        """Yield what the checks do not see."""
        yield (
            "Whether the numbers behind the noise are random: a generator with a short seed, or "
            "one that is not secret, passes."
        )
        yield "Faults that these data and seeds do not show, such as a decision taken seldom."
        yield "An attacker who sees the final model alone, and learns less than one of all steps."

    def brief(self) -> list[Table]:
        """Return the checks that the training does not keep, with all that was seen of them."""
        checks = self._checks()
        rows = [row[:4] for row in checks.cells if row[1] != "holds"]
        return [Table(checks.caption, checks.header[:4], rows)] if rows else []

    def _checks(self) -> Table:
        checks = digest.of(self.result, "dp-training.check")
        rows = [
            [
                str(one.check),
                str(one.outcome),
                str(one.seen),
                f"≥ {rounding.at_least(one.estimate.value)}" if one.estimate.value else NONE,
                str(one.least or NONE),
            ]
            for outcome in ("fails", "not tested", "holds")
            for one in checks
            if one.outcome == outcome
        ]
        header = ["check", "outcome", "seen", "ε by it", "least fault that is caught"]
        return Table("Checks of the steps of the training", header, rows)

    def _epsilons(self) -> Table:
        cells = [
            [f"claimed, δ = {point.claim.delta:g}", words.epsilon(point.claim.epsilon)]
            for point in self.result.points
            if point.claim
        ]
        cells += [
            ["at the measured noise", words.interval(one.estimate)]
            for one in digest.of(self.result, "dp-training.epsilon")
        ]
        cells += [
            [f"of a user with {one.rows} rows", rounding.measured(one.estimate.value)]
            for one in digest.of(self.result, "dp-training.user-epsilon")
        ]
        return Table("ε of the training", ["ε", "value"], cells)
