"""What audits of trainings by DP-SGD measure."""

from __future__ import annotations

from dpaudit.record import shared
from dpaudit.record.fields import Field
from dpaudit.record.metric import Metric
from dpaudit.record.values import Count

CHECK = Field("check", "what is checked", place="{check}")
OUTCOME = Field("outcome", "whether the training `fails`, `holds`, or was `not tested`", key=False)
SEEN = Field("seen", "what was seen, in a sentence", key=False)
LEAST = Field("least", "the least fault that the check catches", key=False)
ROWS = Field("rows", "how many rows the user has", Count, labelled=True)
_MADE = {"dp_training": ""}

METRICS = (
    shared.EPSILON.of("dp_training"),
    Metric("dp-training.faults", "number of checks that a training by DP-SGD fails; the upper end "
           "counts those that could not be made and that its claim needs", "checks", _MADE,
           larger="worse", section="dp-training",
           quantity="checks that the training fails"),
    Metric("dp-training.epsilon", "ε of a training by DP-SGD at the measured noise and the "
           "accountant's rate", "ε", _MADE, larger="worse",
           assumes=" if the noise is Gaussian and each batch takes rows by themselves, as tested",
           section="dp-training", quantity="ε at the measured noise"),
    Metric("dp-training.check", "ε that follows from what a check saw; 0 if it follows from none",
           "ε", _MADE, (CHECK,), optional=(OUTCOME, SEEN, LEAST), section="dp-training",
           quantity="ε by the check", places=("{check}",)),
    Metric("dp-training.user-epsilon", "ε of a user with so many rows, where each row is clipped "
           "by itself", "ε", _MADE, (ROWS,), section="dp-training",
           quantity="ε of a user", places=("{rows} rows",)),
)  # fmt: skip
