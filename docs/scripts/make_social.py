"""Write docs/results/social-NAME.md: PrivSR on social data, beside what its paper says.

Run it with `DPAUDIT_DATA=… python docs/scripts/make_social.py FOLDER [NAME…]`, where NAME is
filmtrust, ciao or epinions; without a NAME all are written. Records that FOLDER holds, as `dpaudit
run examples/EXAMPLE.toml -o FOLDER/EXAMPLE-SHARE` writes them, are read; the others are run. The
texts are in `social_words.py`, tables of results in `social_tables.py`, and baselines without an
example in `social_baselines.py`.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import social_words as words
from numpy.typing import NDArray
from social_baselines import as_the_paper, tested_folds, without_model
from social_tables import by_point, ranked, rated

from dpaudit.auditor.run import run_audit
from dpaudit.config.load import load
from dpaudit.config.schema import Config
from dpaudit.core.files import write_text
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Friends, Ratings
from dpaudit.data.readers.load import load as read
from dpaudit.data.similarity import friends_similarity
from dpaudit.defenses.social.training import SocialTraining
from dpaudit.execution.workers import Workers
from dpaudit.record import storage as record
from dpaudit.record.result import AuditResult
from dpaudit.reports.render.markdown import captioned
from dpaudit.reports.table import NONE, Table
from dpaudit.reports.words import epsilon, measured

ROOT = Path(__file__).parents[2]
OUT = ROOT / "docs" / "results"
# The paper's x: the share of the ratings that are sensitive. Fewer values where a run takes long.
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
RATED = {
    "FilmTrust": ("filmtrust-privsr", SHARES),
    "Ciao": ("ciao-privsr", (0.0, 0.1, 0.3, 0.5)),
    "Epinions": ("epinions-privsr", (0.1, 0.5)),
}
RANKED = {
    "FilmTrust": ("filmtrust-privsr-ranking", SHARES),
    "Ciao": ("ciao-privsr-ranking", SHARES),
}
# Four selections of Ciao's 28 categories, with 9 %, a third, 5 % and 3 % of all ratings.
CATEGORIES = ((8, 14, 23), (1, 3, 10), (9, 17, 18), (13, 16, 28))
ROUNDS = (10, 30, 100, 300)
HEAD = """# PrivSR on {name}: results

Written by `docs/scripts/make_social.py`. Each cell is a mean over the folds of its example.
Intervals are Student's over folds; that of a difference is a paired t test. No fold tests a rating
by which a grid's settings were judged. ε is what the noise is scaled to: [the
catalogue](../claims/privsr.md) says which of these claims are true.
"""


def main(folder: Path, names: Sequence[str]) -> None:
    """Write the pages of these data sets."""
    for name in RATED:
        if names and name.lower() not in names:
            continue
        parts = [*_rated(folder, name), *_ranked(folder, name)]
        if name == "FilmTrust":
            parts += ["## Parameters", *_parameters(folder)]
        if name == "Ciao":
            parts += ["## Which ratings are sensitive", *_categories(folder)]
        page = [f"{HEAD.format(name=name)}\n{_took(folder, name)}", *parts]
        write_text(OUT / f"social-{name.lower()}.md", "\n\n".join(page) + "\n")


def _rated(folder: Path, name: str) -> list[str]:
    """Figures 4 to 9."""
    example, shares = RATED[name]
    results = _by_x(folder, example, shares)
    return [
        _heading("Ratings", example),
        _chosen(results[0.1]),
        *_baselines(example),
        *rated(results),
        words.FRIENDS.text(),
        captioned(_similarities(example, shares)),
        words.ROUNDS.text(),
        captioned(_errors(example, results[0.1])),
    ]


def _ranked(folder: Path, name: str) -> list[str]:
    """Figures 12 and 13."""
    if name not in RANKED:
        return []
    example, shares = RANKED[name]
    results = _by_x(folder, example, shares)
    parts = [_heading("Lists", example), _chosen(results[0.1]), *_baselines(example)]
    return [*parts, words.LISTS.text(), *map(captioned, ranked(results))]


def _took(folder: Path, name: str) -> str:
    places = sorted(folder.glob(f"{name.lower()}-*/record.json"))
    minutes = sum(record.load(place).timing.seconds for place in places) / 60
    return f"The {len(places)} runs behind this page took {minutes:.0f} minutes in all."


def _heading(name: str, example: str) -> str:
    data = _config(example, 0.1).data
    ratings = read(data)
    what = "ratings" if data.binarize is None else f"ratings of {data.binarize:g} or more"
    return (
        f"## {name}\n\n`examples/{example}.toml`: {len(ratings):,} {what} by {ratings.n_users:,} "
        f"users of {ratings.n_items:,} items, {len(_friends(ratings)):,} links. "
        f"{_budget(_config(example, 0.1))}"
    )


def _budget(config: Config) -> str:
    """Say how many settings each system has, and on which ratings they are chosen and tested."""
    offered = {math.prod(map(len, model.grid.values())) for model in config.model}
    tuned = (
        "Settings are fixed"
        if offered == {1}
        else f"Each system chooses among {' or '.join(map(str, sorted(offered)))} settings at each "
        "ε, on a tenth of the first fold's training ratings (one division), which is tested nowhere"
    )
    train = config.training
    return (
        f"{tuned}. {train.folds} folds, {train.trials} training{'s' * (train.trials > 1)} of each "
        f"on each, seed {config.seed}."
    )


def _chosen(result: AuditResult) -> str:
    """Table of the settings that the grids chose, and of users whose factors no claim covers."""
    longer = {
        (each.model, each.epsilon): each.estimate.value
        for each in result.measurements
        if each.metric == "assumption.norm" and each.detail == "share longer than 1"
    }
    cells = []
    for point in result.points:
        share = longer.get((point.model, point.epsilon))
        chosen = ", ".join(f"{name} {value:g}" for name, value in (point.chosen or {}).items())
        shown = NONE if share is None else f"{100 * share:.0f} %"
        cells.append([f"{point.model}, ε = {epsilon(point.epsilon)}", chosen or NONE, shown])
    return captioned(
        Table(
            "Chosen at x = 10 %, and users whose factors end longer than the 1 that claims assume",
            ["model", "settings", "longer than 1"],
            cells,
        )
    )


def _baselines(example: str) -> list[str]:
    config = _config(example, 0.1)
    folds = tested_folds(config, read(config.data))
    tables = [without_model(folds)]
    if folds[0].train.scale.width:
        tables.append(as_the_paper(folds[0], config.seed))
    return [captioned(each) for each in tables]


def _by_x(folder: Path, example: str, shares: Sequence[float]) -> dict[float, AuditResult]:
    return {
        share: _run(folder, f"{example}-{share:g}", _config(example, share)) for share in shares
    }


def _config(example: str, share: float) -> Config:
    """Load an example with another share; without sensitive ratings there is nothing to attack."""
    sensitive = f"data.sensitive={{ share = {share} }}"
    nobody = [] if share else ["attack=[]"]
    return load(ROOT / "examples" / f"{example}.toml", [sensitive, *nobody])


def _run(folder: Path, name: str, config: Config) -> AuditResult:
    place = folder / name / "record.json"
    if not place.is_file():
        found = run_audit(config, workers=Workers(os.cpu_count() or 1))
        place.parent.mkdir(parents=True, exist_ok=True)
        write_text(place, found.model_dump_json())
        print(place, f"{found.timing.seconds:.0f} s")
    return record.load(place)


def _friends(ratings: Ratings) -> Friends:
    return ratings.friends or Friends.none(ratings.n_users)


def _parameters(folder: Path) -> list[str]:
    """Figures 10 and 11."""
    name = "filmtrust-privsr-parameters"
    config = load(ROOT / "examples" / f"{name}.toml")
    table = by_point(
        "Figures 10 and 11: FilmTrust, x = 10 %, by ε and β", {"": _run(folder, name, config)}
    )
    return [f"`examples/{name}.toml`. {_budget(config)}", words.PARAMETERS.text(), captioned(table)]


def _categories(folder: Path) -> list[str]:
    """Figure 14."""
    name = "ciao-privsr-categories"
    place = ROOT / "examples" / f"{name}.toml"
    parts = [f"`examples/{name}.toml`. {_budget(load(place))}", words.CATEGORIES.text()]
    for three in CATEGORIES:
        label, settings = "-".join(map(str, three)), f"categories = {list(three)}"
        found = {
            shown: _run(
                folder,
                f"{name}-{label}{'-random' * matched}",
                load(
                    place, [f"data.sensitive={{ {settings}{', matched_random = true' * matched} }}"]
                ),
            )
            for shown, matched in (("by category", False), ("at random", True))
        }
        share = read(load(place, [f"data.sensitive={{ {settings} }}"]).data).kept_private.mean()
        parts.append(
            captioned(
                by_point(
                    f"Figure 14: Ciao, ratings of categories {', '.join(map(str, three))} "
                    f"sensitive ({100 * share:.0f} %), and as many at random",
                    found,
                )
            )
        )
    return parts


def _similarities(example: str, shares: Sequence[float]) -> Table:
    """Figure 4: friends' similarity from all ratings and from those that are not sensitive."""
    cells = []
    for share in filter(None, shares):
        ratings = read(_config(example, share).data)
        whole, shared = (
            friends_similarity(each, _friends(ratings)) for each in (ratings, ratings.shared)
        )
        alike = whole > 0
        lost = alike & (shared == 0)
        away = abs(shared - whole)[alike & ~lost]
        cells.append(
            [
                f"{100 * share:.0f} %",
                f"{100 * alike.mean():.1f} %",
                f"{100 * lost.sum() / max(alike.sum(), 1):.1f} %",
                *(f"{value:.4f}" for value in (away.mean(), np.quantile(away, 0.95))),
            ]
        )
    return Table(
        "Figure 4: cosine of friends from all ratings, and from those that are not sensitive",
        [
            "x",
            "links whose ends rated something both",
            "of these nothing both is left",
            "mean difference of the others",
            "95 % of them differ by at most",
        ],
        cells,
    )


def _errors(example: str, result: AuditResult) -> Table:
    """Figure 5: the law of prediction errors after some rounds, with the settings chosen."""
    config = _config(example, 0.1)
    fold = tested_folds(config, read(config.data))[0]
    model = next(each for each in config.model if each.label == "PrivSR")
    chosen = next(
        point.chosen for point in result.points if (point.model, point.epsilon) == ("PrivSR", 0.1)
    )
    defense = replace(model.defenses("model")[model.epsilon.index(0.1)], **(chosen or {}))
    rows = defense.prepare(fold.train)
    training = SocialTraining(defense, rows, Streams.first(config.seed, "fold/0", 1))
    levels = (0.25, 0.5, 0.75, 0.9)
    cells = []
    for rounds in ROUNDS:
        while training.done < rounds:
            training.run_round()
        shown = training.models().predict(fold.users, fold.items)[0]
        away = abs(shown.astype(np.float64) - fold.values)
        cells.append([str(rounds), *_quantiles(away, levels), measured(float(away.mean()))])
    return Table(
        f"Figure 5: absolute errors of PrivSR, ε = 0.1, x = 10 %, rate "
        f"{defense.learning_rate:g}, after so "
        "many rounds",
        ["rounds", *(f"{100 * level:.0f} % are at most" for level in levels), "mean"],
        cells,
    )


def _quantiles(away: NDArray[np.float64], levels: Sequence[float]) -> list[str]:
    return [measured(float(value)) for value in np.quantile(away, levels)]


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "dpaudit-out/social"), sys.argv[2:])
