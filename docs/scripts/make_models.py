"""Write docs/results/libraries.md or networks.md: membership inference on public recommenders.

Run it with `DPAUDIT_DATA=… python docs/scripts/make_models.py FOLDER PAGE`, which audits every
model of the page on MovieLens-100K and keeps its record in FOLDER/NAME. A model whose record is
there is not run again, so libraries that need environments of their own are audited by running it
in each; a model without record whose library is not installed is left out, and said. RecBole is
installed as FOLDER/recbole-venv, as the head of dpaudit/cli/scripts/recbole_model.py says, whose
copies with the settings below are written to FOLDER.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# It stands beside this file.
from pages import DATA_SETS, audited, page, write

from dpaudit.cli import init
from dpaudit.config import load as configs
from dpaudit.core.files import write_text
from dpaudit.record import storage
from dpaudit.record.result import STRONGEST, AuditResult, Measurement
from dpaudit.reports.render import toml
from dpaudit.reports.render.markdown import table_text
from dpaudit.reports.table import NONE, Table
from dpaudit.reports.words import at_least, epsilon, interval, measured

COMMAND = "docs/scripts/make_models.py FOLDER"
DATA: Mapping[str, Any] = {"format": "movielens-100k", "path": "${DPAUDIT_DATA}/ml-100k/u.data"}
USERS = {
    "format": "delimited",
    "path": "${DPAUDIT_DATA}/ml-100k/u.user",
    "delimiter": "|",
    "id": 0,
    "columns": {"age": 1, "gender": 2, "occupation": 3},
}
TIMED: Mapping[str, Any] = {**DATA, "timed": True, "users": USERS}
ML_1M: Mapping[str, Any] = {
    "format": "delimited",
    "path": "${DPAUDIT_DATA}/ml-1m/ratings_no_timestamp.tsv.gz",
    "delimiter": "\t",
    "columns": {"user": 0, "item": 1, "rating": 2},
    "scale": {"minimum": 1, "maximum": 5, "step": 1},
}
OBSERVERS = ["scores", "own-list"]
MEMBERSHIP = {"observers": OBSERVERS, "trainings": 24}
# The script and settings of RecBole: the steps of our MultVAE, and a SASRec small enough for eight.
SCRIPT = Path(init.__file__).parent / "scripts/recbole_model.py"
SHOWS = ["scores", "lists", "histories"]
STEPS = {"epochs": 50, "train_batch_size": 94, "learning_rate": 0.003, "latent_dimension": 64}
SMALL = {"epochs": 3, "n_layers": 1, "hidden_size": 32, "MAX_ITEM_LIST_LENGTH": 10}
FEW = {**MEMBERSHIP, "trainings": 8}
HEAD = """\
Every number comes from a record. Each model is trained 24 times on MovieLens-100K. In each training
a coin decides for each of 2500 interactions whether it is in the data; 1000 further ones are held
out, and utility is measured on them. Some of the trainings calibrate the attacks and choose the
strongest for each number, the others judge it.

The attacker sees the **scores** of the target's own pairs, or the **list** of ten items that the
target's user is shown. All of them know the other interactions and can train the same library on
data like these. TPR is the share of present targets that score above all but 0.1 % or 1 % of the
absent ones; a guess finds as many. A number is the mean over the judged trainings, with the range
of these: the next training has more than the largest of 19 with a probability of at most 1/20,
whatever the law of its trainings. The certified ε (δ = 1e-5, 95 % confidence) is a lower bound on
the ε of the presence of one interaction.

Five trainings calibrate the attacks here. More of them find more: with 16, of 64 trainings, the TPR
of implicit als at 1 % FPR is 0.65.

Settings are the libraries' own, so a row is no verdict on a library:
[which others leak less](mending.md) is measured, and more regularisation of als leaks more. A list
that leaves out what its user has seen tells with certainty that an item on it is not in the
history, which no training can mend.
"""
NETWORKS_HEAD = """\
Each model is trained 8 times on MovieLens-100K with 2500 target interactions, and meets the same
attackers as on [the page of libraries](libraries.md). Two of the trainings calibrate the attacks,
and a number is the mean over the other six, with their range. With so few calibrating ones attacks
find less than there is to be found. Utility is measured as these models are judged: on the last
interaction of 900 users, which no training has, against all items.

Models of sequences are also **asked** what comes next after
[histories that the attacker sends](../guides/membership.md#models-of-sequences).

The models of [`torch`](../guides/networks.md) have their default settings, and those of sequences
are also trained for 30 epochs. They get the times of MovieLens-100K, and `two-tower` the age,
gender and occupation of users. MovieLens-1M has no times here, so 1000 interactions drawn at random
are held out. RecBole 1.2.1 trains in an environment of
its own by the [script of `init`](../guides/own-models.md#recbole-lightgcn-sasrec-and-others),
LightGCN for 5 epochs, MultiVAE for 50 with steps as ours, and a small SASRec for three.

The ε that DP-SGD states is about the scores. A list that leaves out what its user has seen tells
with certainty that an item on it is not in the history, which no training can mend. Seconds are
those of one training.
"""


@dataclass(frozen=True)
class Model:
    """A model to audit: its tables of the config, what it needs, and its script's settings."""

    name: str
    tables: Mapping[str, Any]
    needs: str
    data: Mapping[str, Any] = field(default_factory=lambda: DATA)
    settings: Mapping[str, Any] = field(default_factory=dict)


def own(library: str, label: str, needs: str = "", **params: Any) -> Model:
    """Return a model of a library."""
    table = {"label": label, "library": library, "params": params}
    return Model(label.replace(" ", "-"), {"recommender": [table]}, needs or library)


def private() -> Model:
    """Return neural filtering by DP-SGD, with the ε that its accountant states for scores."""
    params = {"model": "ncf", "epochs": 2, "noise_multiplier": 1.0}
    table = {"label": "ncf, DP-SGD", "library": "torch", "params": params}
    claim = {"epsilon": 1.341, "delta": 1e-5, "observers": ["scores"]}
    return Model("torch-ncf-dpsgd", {"recommender": [{**table, "claim": claim}]}, "torch")


def network(model: str) -> Model:
    """Return a network of PyTorch."""
    return replace(own("torch", model, model=model), data=TIMED)


def sequential(model: str, epochs: int | None = None) -> Model:
    """Return a network of sequences, with its own number of epochs or another."""
    longer = {} if epochs is None else {"epochs": epochs}
    label = model if epochs is None else f"{model}, {epochs} epochs"
    return asked(replace(own("torch", label, model=model, **longer), data=TIMED))


def asked(model: Model) -> Model:
    """Return a model that is sent histories too."""
    (table,) = model.tables["recommender"]
    asking = {**table, "observers": [*OBSERVERS, "asked-histories"]}
    return replace(model, tables={**model.tables, "recommender": [asking]})


def larger(model: str) -> Model:
    """Return a network of PyTorch that is trained on MovieLens-1M."""
    of = own("torch", f"{model}, MovieLens-1M", model=model)
    return replace(of, tables={**of.tables, "membership": FEW}, data=ML_1M)


def recbole(model: str, shows: Sequence[str] = ("scores", "lists"), **settings: Any) -> Model:
    """Return a model of RecBole, which a script trains in FOLDER."""
    label = f"RecBole {model}"
    command = f"recbole-venv/bin/python {label.replace(' ', '-')}.py {{task}}"
    params = {"env": {"OMP_NUM_THREADS": "1"}, "shows": list(shows)}
    table = {"label": label, "command": command, "params": params}
    tables, name = {"recommender": [table]}, label.replace(" ", "-")
    return Model(name, tables, "recbole", TIMED, {"MODEL": model, "SETTINGS": settings})


def script(settings: Mapping[str, Any]) -> str:
    """Return the script of `dpaudit init` for RecBole, with these values of its settings."""
    text = SCRIPT.read_text(encoding="utf-8")
    for name, chosen in settings.items():
        text = re.sub(rf"^{name} = .*$", f"{name} = {chosen!r}", text, flags=re.MULTILINE)
    return text


LIBRARIES = (
    own("implicit", "implicit als", model="als", settings={"factors": 64}),
    own("implicit", "implicit bpr", model="bpr", settings={"factors": 64}),
    own("implicit", "implicit lmf", model="lmf"),
    own("implicit", "implicit item-item", model="item-item"),
    own("cornac", "cornac MF", model="MF"),
    own("cornac", "cornac BPR", model="BPR"),
    own("lenskit", "lenskit ImplicitMF", model="ImplicitMFScorer"),
    own("lenskit", "lenskit BiasedMF", model="BiasedMFScorer"),
    own("surprise", "surprise SVD", model="SVD"),
    own("lightfm", "lightfm warp", model="warp"),
    own("most-popular", "most popular", needs="numpy"),
    Model(
        "dpsgd-mf-nonprivate",
        {"model": [{"label": "dpsgd-mf", "defense": "dpsgd-mf", "variant": "nonprivate"}]},
        "numpy",
    ),
)
NETWORKS = (
    replace(own("most-popular", "most popular", needs="numpy"), data=TIMED),
    network("mf"),
    network("ncf"),
    replace(private(), data=TIMED),
    network("two-tower"),
    network("lightgcn"),
    recbole("LightGCN", epochs=5, learning_rate=0.01),
    network("multvae"),
    recbole("MultiVAE", train_neg_sample_args=None, **STEPS),
    sequential("sasrec"),
    sequential("sasrec", 30),
    asked(recbole("SASRec", SHOWS, train_neg_sample_args=None, **SMALL)),
    sequential("gru4rec"),
    sequential("gru4rec", 30),
    larger("mf"),
)
SEEN = {
    "scores": "Scores",
    "own-list": "The user's own list",
    "asked-histories": "What comes next after histories that are sent",
}
PAGES = {
    "libraries": (
        "Membership inference on recommenders of public libraries",
        MEMBERSHIP,
        HEAD,
        LIBRARIES,
    ),
    "networks": (
        "Membership inference on neural networks",
        {**FEW, "hold": "last", "held_out": 900},
        NETWORKS_HEAD,
        NETWORKS,
    ),
}


def main(folder: Path, name: str) -> None:
    """Audit what is missing, and write the page."""
    folder.mkdir(parents=True, exist_ok=True)
    title, membership, head, models = PAGES[name]
    found, missing = [], []
    for model in models:
        record, venv = folder / model.name / storage.NAME, folder / f"{model.needs}-venv"
        if find_spec(model.needs) or record.is_file() or venv.is_dir():
            if model.settings:
                write_text(folder / f"{model.name}.py", script(model.settings))
            config = folder / f"{model.name}.toml"
            tables = {"seed": 7, "data": model.data, "membership": membership} | model.tables
            write_text(config, toml.render(tables))
            result = audited(configs.load(config), folder / model.name, allow_code=True)
            found.append(result)
        else:
            missing.append(model.name)
    parts = [head]
    if missing:
        parts.append(f"Not audited in this edition: {', '.join(missing)}.\n")
    for observer, seen in SEEN.items():
        if table := leaks(found, observer):
            parts.append(f"## {seen}\n\n{table_text(table)}\n")
    timed = name == "networks"
    parts.append(f"## Utility\n\n{table_text(useful(found, timed=timed))}\n")
    needs = f"{DATA_SETS} and the library of each model that is not to be left out"
    write(name, page(title, f"{COMMAND} {name}", "\n".join(parts), needs))


def leaks(found: Sequence[AuditResult], observer: str) -> Table | None:
    """Return the strongest attacks of one observer; None if nobody is it."""
    cells = []
    for result in found:
        if not picked(result, "attack.auc", observer=observer):
            continue
        point = result.points[0]
        stated = epsilon(point.claim.epsilon) if point.claim else NONE
        bound = picked(result, "epsilon", observer=observer)
        cells.append(
            [
                result.models[0].label,
                stated,
                shown(picked(result, "attack.auc", observer=observer)),
                shown(picked(result, "attack.tpr", observer=observer, at=0.001)),
                shown(picked(result, "attack.tpr", observer=observer, at=0.01)),
                f"≥ {at_least(bound.estimate.lower, 2)}" if bound else NONE,
            ]
        )
    header = ["model", "stated ε", "AUC", "TPR at 0.1 % FPR", "TPR at 1 % FPR", "certified ε"]
    return Table(f"{observer}", header, cells) if cells else None


def useful(found: Sequence[AuditResult], *, timed: bool) -> Table:
    """Return utility on held-out interactions, and the seconds of a training or the RMSE."""
    cells = [
        [
            result.models[0].label,
            *(value(picked(result, f"utility.{name}", attack=None)) for name in ("ndcg", "recall")),
            f"{result.timing.training or 0:.1f}"
            if timed
            else value(picked(result, "utility.rmse", attack=None)),
        ]
        for result in found
    ]
    header = ["model", "nDCG@10", "recall@10", "seconds" if timed else "rmse"]
    return Table("utility", header, cells)


def picked(
    result: AuditResult, metric: str, *, attack: str | None = STRONGEST, **where: Any
) -> Measurement | None:
    """Return the measurement of a metric with these fields, if there is one."""
    for each in result.measurements:
        fields = all(getattr(each, name) == wanted for name, wanted in where.items())
        if each.metric == metric and fields and attack in (None, each.attack):
            return each
    return None


def shown(found: Measurement | None) -> str:
    """Return an estimate with its interval."""
    return interval(found.estimate, 2) if found else NONE


def value(found: Measurement | None) -> str:
    """Return an estimate alone."""
    return measured(found.estimate.value) if found else NONE


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
