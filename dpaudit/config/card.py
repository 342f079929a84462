"""The config table `[card]`: what a privacy card says that only the owner of a model knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, StringConstraints

from dpaudit.config.model import Table

Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]


class Card(Table):
    """Which of the audited models is deployed, and the owner's statements in their own words.

    dpaudit checks no statement. The keys follow the public registry of deployments of differential
    privacy and NIST SP 800-226 (docs/guides/card.md).

    Attributes:
        model: the label of the deployed model; needed if several models are audited.
        epsilon: its ε; needed if it is audited at several ε.
        system: the name of the audited system.
        owner: who answers for the model: the data curator.
        version: the version of the model or of its release.
        contact: where questions go.
        intended_use: what the model is for.
        privacy_unit: whose data, or which part of them, one unit of the claim is.
        data_domain: which data sets the model may be trained on: source, region, period, filters.
        unprotected: what the guarantee does not cover, beside what the audited claims say.
        trust_model: `central`, `local`, `federated`, …, and who is trusted with what.
        actors: who sees data or releases, attackers included.
        release: what is released, how often, and until when.
        access: who has access to the releases, and by which interface.
        composition: other releases from the same data, and how the losses add up.
        mechanisms: the private mechanisms, and the libraries and versions that implement them.
        tuning: how data were explored and parameters chosen, and whether the claim counts that.
        correctness: proofs, reviews and tests of the implementation; its random numbers and its
            finite precision.
        side_channels: which side channels were considered: timing, memory, errors, logs.
        security: who can reach the raw data, and how they are protected.
        collection: which data are collected, how long they are kept, and what is not collected.
    """

    model: Words | None = None
    epsilon: Annotated[float, Field(gt=0)] | None = None
    system: Words | None = None
    owner: Words | None = None
    version: Words | None = None
    contact: Words | None = None
    intended_use: Words | None = None
    privacy_unit: Words | None = None
    data_domain: Words | None = None
    unprotected: Words | None = None
    trust_model: Words | None = None
    actors: Annotated[list[Words], Field(min_length=1, max_length=50)] | None = None
    release: Words | None = None
    access: Words | None = None
    composition: Words | None = None
    mechanisms: Words | None = None
    tuning: Words | None = None
    correctness: Words | None = None
    side_channels: Words | None = None
    security: Words | None = None
    collection: Words | None = None

    def deployed(self, audited: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
        """Return which of the audited models, each with an ε, is the deployed one.

        These are several if the table leaves open which.

        Args:
            audited: the label and the ε of each.

        Raises:
            ValueError: there is none; names the key and those that there are.
        """
        labels = dict.fromkeys(label for label, _ in audited)
        if self.model is not None and self.model not in labels:
            raise ValueError(
                f"card.model = {self.model!r} is no audited model: use one of {', '.join(labels)}"
            )
        of_model = [point for point in audited if self.model in (None, point[0])]
        left = [point for point in of_model if self.epsilon in (None, point[1])]
        if self.epsilon is not None and not left:
            values = ", ".join(dict.fromkeys(f"{epsilon:g}" for _, epsilon in of_model))
            raise ValueError(
                f"card.epsilon = {self.epsilon:g} is no audited ε of the deployed model: use one "
                f"of {values}"
            )
        return left


# The keys that are statements.
STATEMENTS = tuple(name for name in Card.model_fields if name not in ("model", "epsilon"))
