"""What the models of the recommender `torch` read, and their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

Name = Literal["mf", "ncf", "two-tower", "lightgcn", "multvae", "sasrec", "gru4rec"]

# What DP-SGD clips as one.
Unit = Literal["interaction", "user"]
# The models that DP-SGD can train.
PRIVATE: tuple[Name, ...] = ("mf", "ncf")
# The models of what follows a user's last items.
SEQUENTIAL: tuple[Name, ...] = ("sasrec", "gru4rec")


@dataclass(frozen=True)
class Settings:
    """The parameters of a model; None where it does not read one.

    Attributes:
        dimensions: the number of factors of a user or item.
        epochs: how often the training goes through the records.
        sampling_rate: the share of the records in a step.
        learning_rate: of Adam.
        negatives: the number of negatives.
        layers: the number of layers or blocks.
        heads: the number of heads of self-attention.
        length: the number of last items that a user's state is computed from.
        dropout: the share of the units that a step leaves out.
    """

    dimensions: int
    epochs: int
    sampling_rate: float
    learning_rate: float
    negatives: int | None = None
    layers: int | None = None
    heads: int | None = None
    length: int | None = None
    dropout: float | None = None

    @property
    def steps(self) -> int:
        """The number of steps in which the training goes through the records once."""
        return max(1, round(1 / self.sampling_rate))


DEFAULTS: Mapping[Name, Settings] = {
    "mf": Settings(32, 10, 0.01, 0.003, negatives=4),
    "ncf": Settings(32, 5, 0.01, 0.003, negatives=4),
    "two-tower": Settings(32, 10, 0.01, 0.003, negatives=4),
    "lightgcn": Settings(32, 20, 0.02, 0.01, negatives=1, layers=3),
    "multvae": Settings(64, 50, 0.1, 0.003, dropout=0.5),
    "sasrec": Settings(32, 10, 0.02, 0.01, negatives=1, layers=2, heads=1, length=50, dropout=0.2),
    "gru4rec": Settings(32, 20, 0.02, 0.01, negatives=64, length=50, dropout=0.2),
}


def resolved(model: Name, given: Mapping[str, Any]) -> Settings:
    """Return the settings of a model.

    Args:
        model: the model.
        given: parameters; None for the model's default.

    Raises:
        ValueError: the model does not read one of those that are given, or heads do not divide
            the dimensions.
    """
    defaults = DEFAULTS[model]
    chosen = {name: value for name, value in given.items() if value is not None}
    known = [name for name, value in asdict(defaults).items() if value is not None]
    for name, value in chosen.items():
        if name not in known:
            raise ValueError(
                f"{name} = {value} is not read by model = {model!r}, which reads "
                f"{', '.join(known)}: remove it"
            )
    settings = replace(defaults, **chosen)
    if settings.heads and settings.dimensions % settings.heads:
        raise ValueError(
            f"heads = {settings.heads} does not divide dimensions = {settings.dimensions}: give a "
            "divisor"
        )
    return settings
