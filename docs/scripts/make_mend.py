"""Write docs/results/mending.md: what settings and views of a model leak, and what they cost.

Run it with `DPAUDIT_DATA=… python docs/scripts/make_mend.py FOLDER`, after
`python -m pip install '.[implicit,torch]'`. It audits every row on MovieLens-100K, keeps each
record in FOLDER/NAME, and audits none again whose record is there; without its library a row is
left out, and said.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# They stand beside this file.
from make_models import Model, own, picked, value
from pages import DATA_SETS, audited, page, write

from dpaudit.config import load as configs
from dpaudit.core.files import write_text
from dpaudit.core.frequency import counted
from dpaudit.record import storage
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports.frequency import Frequency
from dpaudit.reports.render import toml
from dpaudit.reports.render.markdown import table_text
from dpaudit.reports.table import NONE, Table

COMMAND = "docs/scripts/make_mend.py FOLDER"
OBSERVERS = {
    "scores": "own scores",
    "asked-rows": "rows of scores",
    "own-list": "own list",
    "others-lists": "others' lists",
}
MEMBERSHIP = {"trainings": 24, "interactions": 2500, "observers": list(OBSERVERS)}
# At which a number is the share of present targets that are recognised.
RATE = 0.01
# The attack that trains no model of its own.
WEAK = "global-threshold"
HEAD = """\
How many of 100 training interactions are recognised, with 1 false alarm in 100, by four attackers:
who sees the **scores** of these pairs, who asks for **rows** of further scores, who sees the
**list** of the target's user, and who sees the lists of other users. A guess finds 1. Each row is a
model that is trained 24 times on MovieLens-100K with the same 2500 targets and the same coins; five
trainings are the attacker's own, and a number is the mean over the other 19, with their range.

The AUC of a threshold is that of an attacker who reads the same scores and trains no model; the
other AUC is that of the strongest attacker on them. nDCG is that of 1000 held-out interactions, the
same in every row, on lists of ten unless the row says otherwise. Settings that are not named are
the library's own. [What to do with these numbers](../guides/mend.md).
"""


@dataclass(frozen=True)
class Part:
    """A table of the page.

    Attributes:
        title: its heading.
        text: what is changed.
        models: its rows.
    """

    title: str
    text: str
    models: Sequence[Model]


def als(factors: int, regularisation: float, iterations: int) -> Model:
    """Return alternating least squares of implicit."""
    settings = {"factors": factors, "regularization": regularisation, "iterations": iterations}
    label = f"{factors} factors, λ = {regularisation:g}, {iterations} iterations"
    return own("implicit", label, model="als", settings=settings)


def listed(k: int) -> Model:
    """Return ALS with lists of another length."""
    model = own("implicit", f"lists of {k}", model="als", settings={"factors": 64})
    return replace(model, tables={**model.tables, "membership": {**MEMBERSHIP, "k": k}})


def private(noise: float, stated: str) -> Model:
    """Return a factorisation by DP-SGD.

    Args:
        noise: its standard deviation.
        stated: the ε that the accountant states.
    """
    few: dict[str, Any] = {"dimensions": 8, "sampling_rate": 0.1, "learning_rate": 0.03}
    return own("torch", f"mf, {stated}", model="mf", noise_multiplier=noise, **few)


PARTS = (
    Part(
        "Alternating least squares",
        "`als` of `implicit`; λ is its `regularization`. The first row is the library's own, and "
        "the last one learns nothing of single users.",
        (
            als(100, 0.01, 15),
            als(64, 0.01, 15),
            als(64, 0.01, 5),
            als(64, 0.01, 3),
            als(64, 60, 15),
            als(32, 0.01, 15),
            als(32, 20, 5),
            als(16, 0.01, 15),
            als(16, 0.01, 5),
            als(16, 0.01, 3),
            als(16, 20, 5),
            als(16, 60, 15),
            als(8, 0.01, 15),
            als(8, 0.01, 5),
            own("most-popular", "most popular items", needs="numpy"),
        ),
    ),
    Part(
        "Networks",
        "Models of [`torch`](../guides/networks.md). The first row of each is its default.",
        (
            own("torch", "mf, 10 epochs, 32 dimensions", model="mf"),
            own("torch", "mf, 5 epochs", model="mf", epochs=5),
            own("torch", "mf, 20 epochs", model="mf", epochs=20),
            own("torch", "mf, 8 dimensions", model="mf", dimensions=8),
            own("torch", "multvae, 50 epochs, 64 dimensions, dropout 0.5", model="multvae"),
            own("torch", "multvae, 20 epochs", model="multvae", epochs=20),
            own("torch", "multvae, 10 epochs", model="multvae", epochs=10),
            own("torch", "multvae, 16 dimensions", model="multvae", dimensions=16),
            own("torch", "multvae, dropout 0.8", model="multvae", dropout=0.8),
        ),
    ),
    Part(
        "Differentially private training",
        "`mf` with 8 dimensions, in ten epochs of ten steps. The noise is that of DP-SGD; ε, at "
        "δ = 1e-5, is what its accountant states for one interaction, and is about scores: lists "
        "leave out what their user has seen.",
        (
            private(0.0, "no noise"),
            private(1.0, "noise 1, ε = 7.90"),
            private(2.0, "noise 2, ε = 2.59"),
        ),
    ),
    Part(
        "Length of the lists",
        "`als` with 64 factors, λ = 0.01 and 15 iterations. Scores are those of the same models, "
        "and nDCG is that of lists of this length.",
        tuple(listed(k) for k in (50, 20, 10, 5, 1)),
    ),
)


def main(folder: Path) -> None:
    """Audit what is missing, and write the page."""
    folder.mkdir(parents=True, exist_ok=True)
    parts, missing = [HEAD], []
    for part in PARTS:
        records = []
        for model in part.models:
            if find_spec(model.needs) or (folder / model.name / storage.NAME).is_file():
                records.append(audit(model, folder))
            else:
                missing.append(model.name)
        parts.append(f"## {part.title}\n\n{part.text}\n\n{table_text(leaks(records))}\n")
    if missing:
        parts.append(f"Not audited in this edition: {', '.join(missing)}.\n")
    needs = f"{DATA_SETS} and `python3 -m pip install '.[implicit,torch]'`"
    write("mending", page("What mends a leak", COMMAND, "\n".join(parts), needs))


def audit(model: Model, folder: Path) -> AuditResult:
    """Return the record of a model's audit."""
    config = folder / f"{model.name}.toml"
    tables = {"seed": 7, "data": model.data, "membership": MEMBERSHIP, **model.tables}
    write_text(config, toml.render(tables))
    return audited(configs.load(config), folder / model.name)


def leaks(records: Sequence[AuditResult]) -> Table:
    """Return who recognises how many interactions of each model, and its utility."""
    cells = [
        [
            record.models[0].label,
            *(
                recognised(picked(record, "attack.tpr", observer=observer, at=RATE))
                for observer in OBSERVERS
            ),
            value(picked(record, "attack.auc", observer="scores", attack=WEAK)),
            value(picked(record, "attack.auc", observer="scores")),
            value(picked(record, "utility.ndcg", attack=None)),
        ]
        for record in records
    ]
    aucs = ["AUC of a threshold", "AUC"]
    return Table("recognised of 100", ["model", *OBSERVERS.values(), *aucs, "nDCG"], cells)


def recognised(number: Measurement | None) -> str:
    """Return of 100 how many are recognised, with the range of trainings."""
    if number is None:
        return NONE
    shown = Frequency(number, "", "", RATE)
    return f"{counted(shown.value, 100)} ({shown.between.partition(' in ')[0]})"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
