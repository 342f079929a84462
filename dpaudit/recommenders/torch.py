"""Recommenders that are trained with PyTorch (https://pytorch.org)."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as parameters
from scipy.sparse import csr_array
from scipy.special import expit

from dpaudit.core.errors import ConfigError, installing
from dpaudit.core.knobs import Knob
from dpaudit.core.plugin import STRICT
from dpaudit.data.interactions import Interactions
from dpaudit.recommenders import base
from dpaudit.recommenders.forgetting import Pair, ascended, products
from dpaudit.recommenders.networks.settings import (
    DEFAULTS,
    PRIVATE,
    SEQUENTIAL,
    Name,
    Settings,
    Unit,
    resolved,
)

# Epochs of a training that goes on to forget.
_MORE = 3


@parameters(frozen=True, config=STRICT)
class Torch(base.Recommender):
    """Train a network on one thread.

    Every model is trained by Adam. In each epoch it goes through its records in a new random order,
    in steps of `sampling_rate` of them. Lists leave out what a user has seen. The models:

    - `mf`: factorisation with biases of items. `ncf`: neural collaborative filtering. `two-tower`:
      a network of each user's, and one of each item's own factors and features, which are numbers
      or one-hot. Their records are interactions, with `negatives` drawn uniformly from all items,
      whatever the user has rated, and the loss is the logistic one. A rating of 0 is a negative
      example, and every other a positive one.
    - `lightgcn`: factors averaged over the graph of interactions, with the loss of BPR on
      interactions and `negatives`, drawn likewise. Here and below a rating of 0 is no interaction.
    - `multvae`: a variational autoencoder, whose records are users.
    - `sasrec`: self-attention. `gru4rec`: a recurrent network. They predict from a user's last
      `length` items, in the order of time, then of items; of items alone if the data have no times.
      Their records are pieces of `length` items of a user.

    If `noise_multiplier` is above 0, the training of `mf` or `ncf` is DP-SGD by Opacus: each of
    `epochs / sampling_rate` steps takes every interaction with probability `sampling_rate`, clips
    the gradient of an interaction, together with its negatives, and adds Gaussian noise to the sum.
    Negatives, rates and the number of steps depend on no interaction. So one interaction more or
    less adds or removes one term of norm `max_grad_norm` or less in the sum of each step that takes
    it, and scores and factors are (`epsilon(δ)`, δ)-differentially private for the addition or
    removal of one interaction. This takes PyTorch's numbers, which are rounded and drawn from a
    seed of 31 bits, for exact and random, and the numbers of users and items for public. All
    interactions of a user together are not covered, unless `clip` is `user`: then a step takes
    every user with probability `sampling_rate`, and clips the gradient of all their interactions
    together, so that the guarantee is for the addition or removal of a user's whole history. Lists,
    which leave out what a user has seen, are not covered.

    A parameter has its model's own default; one that the model does not read is refused.

    Attributes:
        model: the model.
        dimensions: the number of factors of a user or item.
        epochs: how often the training goes through the records.
        sampling_rate: the share of the records in a step.
        learning_rate: of Adam.
        negatives: the number of negatives of an interaction in each step; `gru4rec` shares them.
        layers: of `lightgcn`, how often it propagates; of `sasrec`, its blocks.
        heads: of the self-attention of `sasrec`; a divisor of `dimensions`.
        length: the number of a user's last items that `sasrec` and `gru4rec` predict from.
        dropout: the share of the units that a step of `multvae`, `sasrec` or `gru4rec` leaves out.
        noise_multiplier: standard deviation of the noise in units of `max_grad_norm`; 0 for
            training without clipping and noise.
        max_grad_norm: the norm to which gradients are clipped, 1 by default; read with noise.
        clip: what a step with noise samples and clips as one: an `interaction`, or a `user`.
        device: where models without noise are trained.
    """

    model: Name = "mf"
    dimensions: Annotated[int, Field(ge=1, le=4096)] | None = None
    epochs: Annotated[int, Field(ge=1, le=100_000)] | None = None
    sampling_rate: Annotated[float, Field(ge=1e-6, le=1)] | None = None
    learning_rate: Annotated[float, Field(ge=1e-12, le=1)] | None = None
    negatives: Annotated[int, Field(ge=1, le=1000)] | None = None
    layers: Annotated[int, Field(ge=1, le=16)] | None = None
    heads: Annotated[int, Field(ge=1, le=64)] | None = None
    length: Annotated[int, Field(ge=1, le=1000)] | None = None
    dropout: Annotated[float, Field(ge=0, le=0.95)] | None = None
    noise_multiplier: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    max_grad_norm: Annotated[float, Field(ge=1e-12, le=1e6)] | None = None
    clip: Unit = "interaction"
    device: Literal["cpu", "cuda"] = "cpu"

    name: ClassVar[str] = "torch"
    title: ClassVar[str] = "Networks of PyTorch: factors, graphs, sequences, features; also DP-SGD"
    source: ClassVar[str] = (
        "He et al. 2017, arXiv:1708.05031, sections 2.1 and 3.4; Yi et al. 2019, "
        "doi:10.1145/3298689.3346996; He et al. 2020, arXiv:2002.02126, equations 7, 8 and 15; "
        "Liang et al. 2018, arXiv:1802.05814; Kang & McAuley 2018, arXiv:1808.09781; Hidasi et al. "
        "2016, arXiv:1511.06939; Hidasi & Karatzoglou 2018, arXiv:1706.03847; Abadi et al. 2016, "
        "arXiv:1607.00133; Yousefpour et al. 2021, arXiv:2109.12298"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Refuse a parameter that the model does not read.

        Raises:
            ValueError: there is one.
        """
        self.settings  # noqa: B018
        if self.noise_multiplier and self.model not in PRIVATE:
            raise ValueError(
                f"noise_multiplier = {self.noise_multiplier} is for {' and '.join(PRIVATE)}, and "
                f"model = {self.model!r} has no DP-SGD: remove it"
            )
        if self.max_grad_norm is not None and not self.noise_multiplier:
            raise ValueError(
                f"max_grad_norm = {self.max_grad_norm} is not read without noise_multiplier: "
                "remove it"
            )
        if self.clip != "interaction" and not self.noise_multiplier:
            raise ValueError(
                f"clip = {self.clip!r} is not read without noise_multiplier: remove it"
            )
        if self.noise_multiplier and self.device != "cpu":
            raise ValueError(
                f"device = {self.device!r} is not read with noise_multiplier: remove it"
            )
        return self

    @property
    def leaves_out(self) -> Collection[str]:
        """Factors, unless the score is a product of these."""
        return () if self.model in ("mf", "two-tower", "lightgcn") else ("factors",)

    @property
    def knobs(self) -> Mapping[str, Knob]:
        """Dimensions and epochs, dropout of models that read it, and the noise of DP-SGD."""
        knobs = {"dimensions": Knob(4, 64, log=True), "epochs": Knob(2, 50, log=True)}
        if DEFAULTS[self.model].heads:
            del knobs["dimensions"]  # heads have to divide it
        if DEFAULTS[self.model].dropout is not None:
            knobs["dropout"] = Knob(0.1, 0.9)
        if self.noise_multiplier:
            knobs["noise_multiplier"] = Knob(0.5, 4.0, log=True)
        return knobs

    @property
    def answers_histories(self) -> bool:
        """Whether the model predicts from items in order, and from no user of its own."""
        return self.model in SEQUENTIAL

    @property
    def settings(self) -> Settings:
        """What the model reads.

        Raises:
            ValueError: a parameter is given that it does not read.
        """
        given = {field.name: getattr(self, field.name) for field in fields(Settings)}
        return resolved(self.model, given)

    @property
    def steps(self) -> int:
        """The number of steps of a training with noise."""
        settings = self.settings
        return max(1, round(settings.epochs / settings.sampling_rate))

    def epsilon(self, delta: float) -> float:
        """Return the ε that Opacus' Rényi accountant states for the training; ∞ without noise.

        It depends on the parameters alone. What it covers stands in the docstring of the class.

        Args:
            delta: the δ, above 0 and below 1.

        Raises:
            ConfigError: Opacus is not installed.
        """
        if self.noise_multiplier == 0:
            return math.inf
        accountant = base.required(self.name, "opacus.accountants", "torch").RDPAccountant()
        accountant.history = [(self.noise_multiplier, self.settings.sampling_rate, self.steps)]
        return float(accountant.get_epsilon(delta))

    def fit(self, interactions: Interactions, seed: int, watch: Any = None) -> base.RowModel:
        """Train; arguments and errors as in `Recommender.fit`.

        Args:
            interactions: likewise.
            seed: likewise.
            watch: what `audit_dp_training` watches a training with noise by.
        """
        torch = base.required(self.name, "torch", "torch")
        if self.noise_multiplier:
            opacus = base.required(self.name, "opacus", "torch").__version__
            # Older ones take the gradient's norm of a layer with biases for another number.
            if tuple(int(part) for part in opacus.split(".")[:3]) < (1, 5, 4):
                raise ConfigError(
                    f"opacus {opacus} clips gradients wrongly, so no guarantee holds: "
                    f"{installing('torch')}"
                )
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ConfigError("params.device = 'cuda': PyTorch finds no GPU: use device = 'cpu'")
        from dpaudit.recommenders.networks.training import private_model, trained_model

        what = self.model, self.settings, interactions, seed
        with base.trained(f"torch ({self.model})"):
            if not self.noise_multiplier:
                return trained_model(*what, self.device)
            norm = self.max_grad_norm or 1.0
            return private_model(*what, self.steps, self.noise_multiplier, norm, self.clip, watch)

    def forgotten(self, fitted: Any, deletion: base.Deletion, seed: int) -> base.Fitted | None:
        """Return a trained model that has forgotten; see `Recommender.forgotten`.

        - `fine-tune`: a model without noise is trained on what stays for three more epochs.
        - `ascent`: the factors of `mf` follow the gradient of the logistic loss of what is
          forgotten upwards, without negatives; see `ascended`.
        """
        if deletion.method == "fine-tune" and not self.noise_multiplier:
            from dpaudit.recommenders.networks.training import trained_on

            return trained_on(fitted.state, deletion.kept, _MORE, seed)
        if deletion.method == "ascent" and self.model == "mf":
            return _ascended(fitted, deletion)
        return super().forgotten(fitted, deletion, seed)


def _ascended(fitted: base.FactorModel, deletion: base.Deletion) -> base.FactorModel:
    users, items = deletion.gone.T
    wanted = np.asarray(fitted.seen[users, items]).reshape(-1) != 0

    def slopes(factors: Pair) -> csr_array:
        # The loss of a pair with the score s is ln(1 + exp(-s)), or ln(1 + exp(s)) if not wanted.
        slope = expit(products(factors, users, items)) - wanted
        return csr_array((slope, (users, items)), shape=fitted.seen.shape)

    # The last factor of a user is 1, and that of an item its bias.
    trained_items = np.ones(fitted.items.shape[1], np.int32)
    trained_users = np.append(trained_items[:-1], 0)
    before = Pair(fitted.users.astype(np.float64), fitted.items.astype(np.float64))
    after = ascended(before, slopes, (trained_users, trained_items))
    return replace(
        fitted,
        seen=deletion.kept.matrix,
        users=after.users.astype(np.float32),
        items=after.items.astype(np.float32),
    )
