"""What gates need of the data."""

from __future__ import annotations

from collections.abc import Sequence

from dpaudit.core.errors import ConfigError
from dpaudit.data.ratings import Scale
from dpaudit.record.metrics import MetricName

# The metrics that purchases do not have.
RATED: tuple[MetricName, ...] = ("utility.rmse", "utility.mae")


def check_rated(gated: Sequence[MetricName], scale: Scale) -> None:
    """Refuse gates on errors of ratings if the data are purchases, before anything is run.

    Args:
        gated: the metrics of the gates.
        scale: the rating scale of the data.

    Raises:
        ConfigError: names the gate and the remedy.
    """
    for index, metric in enumerate(gated):
        if metric in RATED and scale.width == 0:
            raise ConfigError(
                f"gate.{index}.metric = {metric!r} needs ratings, and all ratings of these data "
                f"are {scale.minimum:g}: remove the gate, or use other data"
            )
