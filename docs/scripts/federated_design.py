"""The design of docs/scripts/make_federated.py: algorithms, settings, and what is said of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpaudit.defenses.federated.fake_gradients import FakeGradients

HALF, MOST = DENSITIES = (0.5, 0.75)
Value = float | int | str
Params = dict[str, Value]

# What each choice that the paper leaves open is varied over, one at a time; and, together with its
# default, what the further settings draw it from.
VARIED: dict[str, tuple[Value, ...]] = {
    "epsilon": (5.0, 20.0, 100.0, 500.0, 1e6),
    "truth": (0.55, 0.9, 1.0),
    "batch_size": (5, 20, 50, 200),
    "dimensions": (5, 32),
    "decay": (0.001, 0.01, 0.03, 0.3),
    "learning_rate": (0.1, 0.3, 3.0),
    "memory": (0.9, 0.99),
    "least_share": (0.01, 0.2),
    "fake_clip_norm": (1.0, 20.0),
    "spread": (0.01, 0.3),
}
ALONE: tuple[Params, ...] = ({"dimensions": 64}, {"offset": 3.5})
DRAWN, DRAWN_BY = 10, 1
# Of each algorithm, what its error does not depend on.
IDLE = {
    "zero": ("truth", "least_share", "fake_clip_norm"),
    "rating": ("truth", "least_share", "fake_clip_norm"),
    "delayed-mean": (),
}
ZERO: Params = {"fakes": "zero"}
DELAYED: Params = {"fakes": "delayed-mean"}
UNIFORM: Params = {"fakes": "rating"}
NORMAL: Params = {"fakes": "rating", "made_up_mean": 0.0}
ALGORITHMS = {
    "zero": ZERO,
    "delayed mean": DELAYED,
    "made up, uniform": UNIFORM,
    "made up, normal": NORMAL,
}
LAWS = {
    "uniform on 1 … 5, drawn once": UNIFORM,
    "uniform on 1 … 5, drawn in each round": UNIFORM | {"made_up": "each-round"},
    "normal, mean 0": NORMAL,
    "normal, mean 2": UNIFORM | {"made_up_mean": 2.0},
    "normal, mean 3.5": UNIFORM | {"made_up_mean": 3.5},
}
# Between zero fakes and the delayed mean: the latter, its F cut to nothing.
APART = {
    "zero, divided by the public 1 − q": ZERO,
    "zero, divided by the response's π̂": DELAYED | {"fake_clip_norm": 1e-12},
    "delayed mean": DELAYED,
}
# What every algorithm's best is chosen among.
GRID: dict[str, tuple[Value, ...]] = {"decay": (0.01, 0.03, 0.1), "memory": (0.95, 0.99)}
NEITHER = FakeGradients(epsilon=math.inf, variant="nonprivate")


@dataclass(frozen=True)
class Sentence:
    """A sentence about Table 2, as a number that is above a level.

    Attributes:
        words: the sentence, in ours.
        levels: what the number is held against.
        number: of the errors of `zero`, `delayed` and `made up` by density.
        most: whether the number is at most the level instead.
    """

    words: str
    levels: tuple[float, ...]
    number: Callable[[dict[str, dict[float, float]]], float]
    most: bool = False


SENTENCES = (
    Sentence(
        "zero fakes have the smallest error of the three at both densities",
        (0.0,),
        lambda at: min(min(at["delayed"][q], at["made up"][q]) - at["zero"][q] for q in DENSITIES),
    ),
    Sentence(
        "the delayed mean has a smaller error than zero fakes at both densities",
        (0.0,),
        lambda at: min(at["zero"][q] - at["delayed"][q] for q in DENSITIES),
    ),
    Sentence(
        "the delayed mean is “very close” to zero fakes: both densities apart by at most",
        (0.01, 0.02, 0.05),
        lambda at: max(abs(at["delayed"][q] - at["zero"][q]) for q in DENSITIES),
        most=True,
    ),
    Sentence(
        "the delayed mean is “much better” than ratings made up: at both densities by more than",
        (0.0, 0.02, 0.05, 0.1),
        lambda at: min(at["made up"][q] - at["delayed"][q] for q in DENSITIES),
    ),
    Sentence(
        "the error of ratings made up is “growing rapidly” from 50 % to 75 %: by more than",
        (0.0, 0.02, 0.05, 0.1),
        lambda at: at["made up"][MOST] - at["made up"][HALF],
    ),
    Sentence(
        "it grows by more than that of zero fakes: beyond it by more than",
        (0.0, 0.02, 0.05, 0.1),
        lambda at: (
            at["made up"][MOST] - at["made up"][HALF] - (at["zero"][MOST] - at["zero"][HALF])
        ),
    ),
)


def settings() -> dict[str, Params]:
    """The documented setting, one choice at a time, then some drawn together."""
    found: dict[str, Params] = {"as documented": {}}
    one = [{name: value} for name, values in VARIED.items() for value in values]
    found |= {said(params): params for params in (*one, *ALONE)}
    source = np.random.default_rng(DRAWN_BY)
    for number in range(DRAWN):
        drawn: Params = {}
        for name, values in VARIED.items():
            place = int(source.integers(len(values) + 1))
            if place < len(values):
                drawn[name] = values[place]
        found[f"{number + 1}: {said(drawn)}"] = drawn
    return found


def said(params: Params) -> str:
    """A setting in a paper's letters."""
    names = {
        "epsilon": "ε", "truth": "p", "batch_size": "B", "dimensions": "d", "decay": "λ",
        "learning_rate": "η",
        "memory": "ρ", "least_share": "floor of π̂", "fake_clip_norm": "cap of F", "offset": "b",
    }  # fmt: skip
    return ", ".join(f"{names.get(name, name)} = {value:g}" for name, value in params.items())


def defense(algorithm: Params, density: float, params: Params) -> FakeGradients:
    """An algorithm in a setting, without the parts of it that it does not read."""
    idle = IDLE[str(algorithm["fakes"])]
    used = {name: value for name, value in params.items() if name not in idle}
    given = {"epsilon": 50.0, **used, **algorithm, "density": density}
    return FakeGradients(**given)  # type: ignore[arg-type]
