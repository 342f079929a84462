"""Small audits of each outcome, for tests of what a pipeline sees."""

from __future__ import annotations

from pathlib import Path

MODEL = """
import numpy as np

def kept(data, rng, n):
    return np.round(np.sum(data) + rng.laplace(scale=1.0, size=n), 2)

def broken(data, rng, n):
    return np.round(np.sum(data) + rng.laplace(scale=0.1, size=n), 2)

def crashed(data, rng, n):
    raise ValueError("no model")

def value(outputs):
    return outputs
"""
CONFIG = """
seed = 1
[defense]
kind = "python"
label = "sum"
target = "ending_model:{mechanism}"
score = "ending_model:value"
batched = true
d = [0.0]
d_prime = [1.0]
epsilon = 1.0
adjacency = "one rating"
observer = "the sum"
[audit]
trials = 2000
[[gate]]
metric = "epsilon"
max = "claim"
detectable = {detectable}
"""
WAIVERS = "".join(
    f"""[[waiver]]
id = "{name}"
owner = "the team"
statement = "replaced in the next release"
expires = 9999-12-31
"""
    for name in ("claim/sum/1", "gate/epsilon/max")
)
# The line of [defense] and of [[gate]].
CLAIM_LINE, GATE_LINE = 3, 16
# Mechanism, least violation that the gate must be able to find, and exit code.
CASES = {
    "good": ("kept", 3, 0),
    "broken": ("broken", 3, 1),
    "waived": ("broken", 3, 0),
    "inconclusive": ("kept", 1.1, 4),
    "crashed": ("crashed", 3, 3),
}


def write(folder: Path) -> None:
    """Write the mechanisms and a config of each case."""
    (folder / "ending_model.py").write_text(MODEL)
    for name, (mechanism, detectable, _) in CASES.items():
        text = CONFIG.format(mechanism=mechanism, detectable=detectable)
        waivers = WAIVERS if name == "waived" else ""
        (folder / f"{name}.toml").write_text(text + waivers)
