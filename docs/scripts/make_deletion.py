"""Write docs/results/deletion.md: what is left of deleted data in models that forget.

Run it with `DPAUDIT_DATA=… python docs/scripts/make_deletion.py FOLDER [quick] [ml-1m]`, after
`python -m pip install '.[implicit,torch]'`. It audits every method of every model on
MovieLens-100K, keeps each record in FOLDER/NAME, and audits none again whose record is there;
without its library a model is left out, and said. `quick` has 8 trainings of each, and `ml-1m` adds
alternating least squares on MovieLens-1M, with 8.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# They stand beside this file.
from make_models import DATA, ML_1M, picked, value
from pages import DATA_SETS, audited, page, write

from dpaudit.config import load as configs
from dpaudit.core.files import write_text
from dpaudit.record.result import STRONGEST, AuditResult
from dpaudit.reports.render import toml
from dpaudit.reports.render.markdown import table_text
from dpaudit.reports.table import NONE, Table
from dpaudit.reports.words import at_least, measured

COMMAND = "docs/scripts/make_deletion.py FOLDER"
OBSERVERS = {
    "scores": "scores",
    "own-list": "own list",
    "others-lists": "others' lists",
    "factors": "factors",
}
UNITS = {"interaction": "Interactions", "user": "Whole users"}
SHARDS = 4
FEW = 8
HEAD = f"""\
Every number comes from a record. Each model is trained {{trainings}} times, and {FEW} times on
MovieLens-1M, with the targets that coins put into the data; then it forgets these in one request,
by [the method of the row](../guides/deletion.md), and attackers tell them from targets that were
never there. The advantage is TPR − FPR of the strongest attack, at a threshold, which calibrating
trainings chose both; it is the mean over the judged trainings. A guess has 0, and chance takes it
below. The certified ε (δ = 1e-5, 95 %
confidence jointly over the row's audit) is the largest of the observers: above 0, something is
**not forgotten**. nDCG@10 is that of held-out interactions after the deletion. Seconds are those of
one training and of the deletion after it by the clock, on one of two cores that other work shared;
where a deletion is a training, it has none of its own. Factors are 32; shards are {SHARDS}, and
publish no common factors.
"""


@dataclass(frozen=True)
class Audit:
    """One row: a model, and how it forgets.

    Attributes:
        model: the model's heading.
        label: the row's label.
        table: its table of the config.
        data: the data.
    """

    model: str
    label: str
    table: Mapping[str, Any]
    data: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name of its folder."""
        words = f"{self.model} {self.label}".replace(",", "").lower()
        return "-".join(words.split())

    @property
    def observers(self) -> list[str]:
        """Who observes it; shards have no common factors."""
        return [name for name in OBSERVERS if not ("shards" in self.table and name == "factors")]


def audits_of(
    model: str, table: Mapping[str, Any], methods: Sequence[str], data: Mapping[str, Any] = DATA
) -> list[Audit]:
    """Return a model before a deletion, after it by each method, and in shards."""
    rows = [
        Audit(model, "before the deletion", table, data),
        *(Audit(model, method, {**table, "forget": method}, data) for method in methods),
    ]
    sharded = {**table, "shards": SHARDS}
    return [
        *rows,
        Audit(model, "shards, before", sharded, data),
        Audit(model, "shards, own", {**sharded, "forget": "own"}, data),
    ]


def implicit(model: str) -> dict[str, Any]:
    """Return the table of a model of implicit."""
    return {"library": "implicit", "params": {"model": model, "settings": {"factors": 32}}}


COMMON = ("filter", "drop-rows", "ascent", "fine-tune", "retrain")
ALS = ("own", "influence", *COMMON)
MODELS = [
    *audits_of("implicit ALS", implicit("als"), ALS),
    *audits_of("implicit BPR", implicit("bpr"), COMMON),
    *audits_of("torch mf", {"library": "torch", "params": {"model": "mf"}}, COMMON),
]
LARGE = audits_of("implicit ALS on MovieLens-1M", implicit("als"), ALS, ML_1M)


def main(folder: Path, *options: str) -> None:
    """Audit what is missing, and write the page."""
    folder.mkdir(parents=True, exist_ok=True)
    trainings = FEW if "quick" in options else 24
    audits = [(audit, trainings) for audit in MODELS]
    if "ml-1m" in options:
        audits += [(audit, FEW) for audit in LARGE]
    missing = dict.fromkeys(
        audit.model for audit, _ in audits if not find_spec(audit.table["library"])
    )
    results = [
        (audit, _result(audit, folder, count))
        for audit, count in audits
        if audit.model not in missing
    ]
    parts = [HEAD.format(trainings=trainings)]
    if missing:
        parts.append(f"Not audited in this edition: {', '.join(missing)}.\n")
    for model in dict.fromkeys(audit.model for audit, _ in audits):
        parts.append(f"## {model}\n")
        for unit, heading in UNITS.items():
            rows = [(audit, result) for audit, result in results if audit.model == model]
            parts.append(f"**{heading}**\n\n{table_text(left(rows, unit))}\n")
    title = "What is left of deleted data"
    needs = f"{DATA_SETS} and `python3 -m pip install '.[implicit,torch]'`"
    write("deletion", page(title, " ".join([COMMAND, *options]), "\n".join(parts), needs))


def _result(audit: Audit, folder: Path, trainings: int) -> AuditResult:
    name = f"{audit.name}-{trainings}"
    membership = {"units": list(UNITS), "trainings": trainings, "observers": audit.observers}
    config = folder / f"{name}.toml"
    tables = {"seed": 7, "data": audit.data, "membership": membership}
    write_text(config, toml.render({**tables, "recommender": [dict(audit.table)]}))
    return audited(configs.load(config), folder / name)


def left(rows: Sequence[tuple[Audit, AuditResult]], unit: str) -> Table:
    """Return the advantages, the certified ε, the utility and the time of each method."""
    cells = []
    for audit, result in rows:
        advantages = [
            picked(result, "attack.advantage", observer=observer, unit=unit)
            for observer in OBSERVERS
        ]
        bounds = [
            m.estimate.lower
            for m in result.measurements
            if (m.metric, m.unit, m.attack) == ("epsilon", unit, STRONGEST)
        ]
        most = max(bounds, default=None)
        [label] = [model.label for model in result.models]
        alone = (result.timing.training or 0.0,)
        cells.append(
            [
                audit.label,
                *(measured(each.estimate.value) if each else NONE for each in advantages),
                NONE if most is None else f"≥ {at_least(most, 2)}",
                value(picked(result, "utility.ndcg", attack=None)),
                *(f"{part:.2f}" for part in result.timing.deletions.get(label, alone)),
                *([] if label in result.timing.deletions else [NONE]),
            ]
        )
    header = ["method", *OBSERVERS.values(), "certified ε", "nDCG@10", "training", "deletion"]
    return Table("", header, cells)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
