"""What reports show of a training by DP-SGD: its checks, and the ε that follows from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from dpaudit.core import rounding
from dpaudit.record.result import DataRecord, ModelRecord
from dpaudit.reports import digest, words
from dpaudit.reports.chart_parts import Chart, Look
from dpaudit.reports.sections.base import Sections
from dpaudit.reports.table import NONE, Table

# What each check asks, in words.
_ASKED = {
    "clipping": "Is S the sum of clipped gradients?",
    "sum": "Does a row change the sum by C at most?",
    "noise-missing": "Is there noise, everywhere?",
    "noise-repeated": "Has each coordinate noise of its own?",
    "noise-reused": "Has each step noise of its own?",
    "noise-scale": "Does its scale depend on the batch?",
    "noise-size": "Is it as large as stated?",
    "noise-shape": "Is it Gaussian?",
    "noise-seed": "Is it secret?",
    "batch-rate": "Are batches as small as counted?",
    "batch-shape": "Are rows drawn by themselves?",
    "steps-counted": "Is every step counted?",
    "transcript": "Does all follow from noised sums?",
    "number": "Is the number of rows hidden?",
}
_NOTES = (
    "Each check accuses a training that keeps its claim at most once in 100 000 trainings. ε by a "
    "check is what the fault implies for an observer of all steps, as a claim by composition has "
    "it; 0 where no number follows.",
    "The ε at the measured noise assumes Gaussian noise and batches that take each row by itself; "
    "both are tested above. The ε of a user is that of all their rows together, by a mixture of "
    "Gaussians; an accountant's ε is about one row.",
)
_UNTRIED = (
    "Whether the numbers behind the noise are random: a generator with a short seed, or one that "
    "is not secret, passes.",
    "Faults that these data and seeds do not show, such as a decision that is taken seldom.",
    "An attacker who sees the final model alone, who learns less than one who sees all steps.",
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
        checks = digest.of(self.result, "dp-training.check")
        failed = [one for one in checks if one.outcome == "fails"]
        untested = [one.check for one in checks if one.outcome == "not tested"]
        yield f"The training fails {len(failed)} of {len(checks)} checks of its steps."
        if untested:
            yield f"Not tested: {', '.join(map(str, untested))}."

    def attacker(self) -> str:
        """Return who observes."""
        return (
            "Someone who sees the noised sum of every step, and knows all data but one row, as the "
            "claims of DP-SGD assume."
        )

    def untried(self) -> Iterator[str]:
        """Yield what the checks do not see."""
        yield from _UNTRIED

    def brief(self) -> list[Table]:
        """Return the checks that the training does not keep, with all that was seen of them."""
        checks = self._checks()
        rows = [row[:4] for row in checks.cells if row[1] != "holds"]
        return [Table(checks.caption, checks.header[:4], rows)] if rows else []

    def attacked(self, data: DataRecord) -> tuple[str, str]:
        """Return the number of users."""
        return "users", f"{data.trained} train the model"

    def _checks(self) -> Table:
        checks = digest.of(self.result, "dp-training.check")
        order = {"fails": 0, "not tested": 1, "holds": 2}
        rows = sorted(checks, key=lambda one: order.get(str(one.outcome), 3))
        cells = [
            [
                _ASKED.get(str(one.check), str(one.check)),
                str(one.outcome),
                str(one.seen),
                _implied(one.estimate.value),
                str(one.least or NONE),
            ]
            for one in rows
        ]
        header = ["check", "outcome", "seen", "ε by it", "least fault that is caught"]
        return Table("Checks of the steps of the training", header, cells)

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


def _implied(epsilon: float) -> str:
    return f"≥ {rounding.at_least(epsilon)}" if epsilon else NONE
