"""What audits of mechanisms measure."""

from __future__ import annotations

from dpaudit.record import shared

METRICS = (
    shared.EPSILON.of("mechanism"),
)  # fmt: skip
