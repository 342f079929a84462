"""The config table `[card]`: what a privacy card says that only the owner of a model knows."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from dpaudit.config.model import Table

Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]


class Card(Table):
    """The owner's statements, in their own words; dpaudit checks none of them.

    The keys follow the public registry of deployments of differential privacy and NIST SP 800-226
    (docs/guides/card.md). What is left out reads "not stated" on the card.

    Attributes:
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
