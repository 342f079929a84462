"""What a `[[recommender]]` says of deletions, and how its models forget and are compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field, model_validator
from scipy.sparse import csr_array

from dpaudit.config.model import Table
from dpaudit.core.membership import Unlearning
from dpaudit.recommenders.base import Trainable
from dpaudit.recommenders.forgetting import Forgetting, Sharded


class Deletions(Table):
    """How each trained model forgets before it is asked.

    Attributes:
        forget: how each trained model forgets the targets that its coins put into the data, before
            it is asked: `own` by the model's method `forget` or the library's own means,
            `retrain` by a training without them, `filter` by leaving its parameters as they are,
            `drop-rows` by dropping the rows of users without interactions, `fine-tune` by going on
            with what stays, `influence` by a Newton step, `ascent` by ascending the loss of what
            is forgotten. None: it forgets nothing. The attackers then tell what was deleted from
            what was never there.
        requests: the number of requests, one after the other, in which it forgets them.
        shards: the number of models among which users are divided at random, by their index alone;
            a user's own one answers, and `own` trains anew those of whom something is forgotten.
    """

    forget: Unlearning | None = None
    requests: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    shards: Annotated[int, Field(ge=2, le=1000)] | None = None

    @property
    def traits(self) -> tuple[str, ...]:
        """The names of the traits of its models that decide which gates judge them."""
        return ("forget",) if self.forget else ()

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if self.requests > 1 and self.forget in (None, "retrain"):
            raise ValueError(
                f"requests = {self.requests} divides what a model forgets by itself: name a "
                "method other than 'retrain' as forget, or remove it"
            )
        if self.shards and self.forget not in (None, "own", "retrain"):
            raise ValueError(
                f"shards forget by 'own' or 'retrain', not by {self.forget!r}: name one of these, "
                "or remove shards"
            )
        return self

    def check_apart_from(self, keys: Mapping[str, Any]) -> None:
        """Refuse models that are not trained here, or are kept.

        Args:
            keys: the keys by which they would be, with their values.

        Raises:
            ValueError: one has a value.
        """
        for key, value in keys.items():
            if value and self.forget:
                raise ValueError(
                    f"forget = {self.forget!r} asks a model that is trained here and not kept: "
                    f"remove it, or {key}"
                )
            if value and self.shards:
                raise ValueError(
                    f"shards = {self.shards} are trained here and not kept: remove it, or {key}"
                )


def named(values: Mapping[str, Any]) -> str:
    """Return what the label of a recommender says of its deletions; empty if it has none."""
    words = f" in {values['shards']} shards" if values.get("shards") else ""
    if values.get("forget"):
        words += f", forgets by {values['forget']}"
        words += f" in {values['requests']} requests" if values.get("requests", 1) != 1 else ""
    return words


def forgetting(trainable: Trainable, table: Deletions, targets: csr_array | None) -> Trainable:
    """Return what is trained and then forgets, as its table says.

    Args:
        trainable: what is trained.
        table: its table of the config.
        targets: users × items, nonzero for what is forgotten; None if nothing is.
    """
    if not table.forget or targets is None:
        return trainable
    return Forgetting(trainable, table.forget, targets, table.requests)


def traits_of(trainable: Trainable) -> dict[str, str]:
    """Return the traits of a model: `forget`, with its method, if it forgets all targets."""
    return {"forget": trainable.method} if isinstance(trainable, Forgetting) else {}


def recorded(trainable: Trainable) -> tuple[dict[str, str | int], Trainable]:
    """Return how a model forgets, as its parameters are recorded, and what is trained inside."""
    params: dict[str, str | int] = {}
    if isinstance(trainable, Forgetting):
        params, trainable = {"forget": trainable.method}, trainable.trainable
    if isinstance(trainable, Sharded):
        params, trainable = {**params, "shards": trainable.shards}, trainable.trainable
    return params, trainable


def compared(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return what two runs must agree on in a recorded table of a recommender."""
    return {"forget": table.get("forget") is not None, "requests": table.get("requests")}
