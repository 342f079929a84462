"""The adapter to LightFM, as lightfm-next (https://making.lyst.com/lightfm/docs)."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic.dataclasses import dataclass as parameters
from scipy.sparse import coo_matrix, csr_array

from dpaudit.core.errors import ConfigError
from dpaudit.core.messages import show
from dpaudit.core.plugin import STRICT
from dpaudit.recommenders.base import (
    FactorModel,
    Library,
    built,
    required,
    trained,
    usable,
    with_biases,
)

_EPOCHS = 30


@parameters(frozen=True, config=STRICT)
class LightFM(Library):
    """Train LightFM without features, on one thread, as several would make its numbers vary.

    A rating above 0 is a purchase. A rating of 0 is a negative example for `logistic`, which draws
    none itself, and nothing for the other losses. A user or item without interactions keeps its
    initial factors.

    Attributes:
        model: the loss, `warp`, `bpr` or `logistic`.
        settings: arguments of the constructor, such as `no_components`, and `epochs` (30 if
            absent).
    """

    model: Literal["warp", "bpr", "logistic"] = "warp"

    name: ClassVar[str] = "lightfm"
    title: ClassVar[str] = "LightFM: factorisation with the WARP, BPR or logistic loss"
    source: ClassVar[str] = (
        "Kula 2015, arXiv:1507.08439; Weston, Bengio & Usunier, WSABIE: Scaling Up to Large "
        "Vocabulary Image Annotation, IJCAI 2011, section 3"
    )

    def fit(self, interactions: csr_array, seed: int) -> FactorModel:
        """Train; arguments and errors as in `Recommender.fit`."""
        factory = required(self.name, "lightfm", "lightfm").LightFM
        if (loss := self.settings.get("loss", self.model)) != self.model:
            raise ConfigError(
                f"recommender.params.settings.loss = {show(loss)} of {self.label}: "
                "params.model decides the loss: set that, and remove loss"
            )
        settings = usable(self.label, self.settings, factory, "epochs")
        chosen = {**settings, "loss": self.model, "random_state": seed}
        epochs = chosen.pop("epochs", _EPOCHS)
        model = built(self.label, factory, **chosen)
        with trained(self.label):
            model.fit(coo_matrix(interactions), epochs=epochs, num_threads=1)
            factors = model.user_embeddings, model.item_embeddings
            return with_biases(interactions, *factors, model.item_biases, model.user_biases)
