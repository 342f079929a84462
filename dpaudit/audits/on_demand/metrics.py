"""What audits of recommenders that predict on demand measure."""

from __future__ import annotations

from dpaudit.record import shared
from dpaudit.record.fields import STEP, Field
from dpaudit.record.metric import Column, Metric

STATES = Field("states", "the states whose laws are compared")

METRICS = (
    shared.EPSILON.of("on_demand", "with [[game]]"),
    shared.ATTACK_ACCURACY.of("on_demand", "with [[attack]]"),
    Metric("utility.overlap", "ε-Utility: share of the noiseless list that the noised list keeps",
           "share", {"on_demand": ""}, larger="better", role="utility",
           columns=(Column("overlap@{top_k}"), Column("difference", "rest", brief=False)),
           quantity="overlap@k",
           note=("Overlap is ε-Utility, the share of the noiseless top-k list that the private "
                 "list keeps; difference = 1 − overlap.",)),
    shared.UTILITY_RMSE.of("on_demand", "that predict ratings"),
    shared.UTILITY_MAE.of("on_demand", "that predict ratings"),
    Metric("chain.divergence", "divergence of a published Markov chain from its stationary law "
           "after some steps, computed", "nats", {"on_demand": "with [convergence]"},
           (STEP, STATES), detail="states", section="chains", quantity="divergence of the chain,"),
    shared.ATTACK_ADVANTAGE.of("on_demand", "with [[game]]"),
    shared.LEAK.of("on_demand", "with [[game]]"),
)  # fmt: skip
