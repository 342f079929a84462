"""Writes docs/social-results.md: PrivSR on social data, beside what its paper says.

Run it with `DPAUDIT_DATA=… python docs/make_social.py FOLDER`. What FOLDER holds already is taken
from there, as `dpaudit run examples/NAME.toml -o FOLDER/NAME-SHARE` leaves it; the rest is played.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.ranking_reconstruction import guess_popular
from dpaudit.attacks.reconstruction import guess_means
from dpaudit.auditor.result import (
    BEYOND_WITHOUT,
    LEAK,
    MEANS,
    RELEASED,
    AuditResult,
    Measurement,
)
from dpaudit.auditor.top_lists import precision_and_recall
from dpaudit.config import Config
from dpaudit.config_file import load
from dpaudit.data.folds import random_folds
from dpaudit.data.ratings import Friends, Ratings
from dpaudit.data.readers import load as read
from dpaudit.data.similarity import friends_similarity
from dpaudit.defenses.society import Society
from dpaudit.files import write_text
from dpaudit.releases import Streams
from dpaudit.reports import record
from dpaudit.reports.markdown import table_text
from dpaudit.reports.table import NONE, Table
from dpaudit.reports.words import epsilon, interval, measured
from dpaudit.run import run_audit
from dpaudit.run_trained_errors import mean_errors

ROOT = Path(__file__).parents[1]
# x of the paper, the share of the ratings that are sensitive; fewer where a report takes long.
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
RATED = {
    "FilmTrust": ("filmtrust-privsr", SHARES),
    "Ciao": ("ciao-privsr", (0.0, 0.1, 0.3, 0.5)),
    "Epinions": ("epinions-privsr", (0.1, 0.5)),
}
RANKED = {
    "FilmTrust": ("filmtrust-privsr-ranking", SHARES),
    "Ciao": ("ciao-privsr-ranking", (0.1,)),
}
ROUNDS = (10, 30, 100, 300)
HEAD = """# Social recommendation under privacy settings: results

Written by `docs/make_social.py`. Each cell is a mean over the folds of its example; intervals are
Student's over folds, and of a difference they are a paired t test. Parameters are those of the
examples; a grid chose among some, on ratings that all folds but the first test. ε is what the noise
is scaled to: [the catalogue](claims-privsr.md) says what these claims are worth.
"""


def main(folder: Path) -> None:
    """Write the page."""
    parts = [HEAD]
    for name, (example, shares) in RATED.items():
        parts.append(_heading(name, example))
        tables = _tables(_by_x(folder, example, shares))
        parts += map(_text, [*tables, _similarities(example, shares), _errors(example)])
    for name, (example, shares) in RANKED.items():
        parts.append(_heading(f"{name}: lists", example))
        parts += map(_text, _ranking(_by_x(folder, example, shares)))
    parts += ["## Parameters, and which ratings are sensitive", _text(_parameters(folder))]
    parts.append(_text(_categories(folder)))
    write_text(ROOT / "docs" / "social-results.md", "\n\n".join(parts) + "\n")


def _heading(name: str, example: str) -> str:
    data = _config(example, 0.1).data
    ratings = read(data)
    what = "ratings" if data.binarize is None else f"ratings of {data.binarize:g} or more"
    return (
        f"## {name}\n\n`examples/{example}.toml`: {len(ratings):,} {what} by {ratings.n_users:,} "
        f"users of {ratings.n_items:,} items, {len(_friends(ratings)):,} links. {_plain(ratings)}"
    )


def _plain(ratings: Ratings) -> str:
    """How well who has no model does on the first of five folds."""
    fold = random_folds(ratings, 5, 1)[0]
    if ratings.scale.width:
        guess = guess_means(fold.train, fold.items)[None]
        rmse, mae = map(measured, map(float, mean_errors(guess, fold.values)[0]))
        return f"Items' means of four folds err on the fifth by {rmse} (rmse) and {mae} (mae)."
    users = np.unique(fold.users)
    lists = guess_popular(fold.train, users, 5)[None]
    hits = precision_and_recall(lists, users, fold.users, fold.items)
    precision, recall = (measured(float(each[0])) for each in hits)
    return (
        f"The most popular items of four folds have a precision@5 of {precision} and a recall@5 of "
        f"{recall} on the fifth."
    )


def _by_x(folder: Path, example: str, shares: Sequence[float]) -> dict[float, AuditResult]:
    return {
        share: _played(folder, f"{example}-{share:g}", _config(example, share)) for share in shares
    }


def _config(example: str, share: float) -> Config:
    """The example with another share; where nothing is sensitive nobody can recover it."""
    sensitive = f"data.sensitive={{ share = {share} }}"
    nobody = [] if share else ["attack=[]"]
    return load(ROOT / "examples" / f"{example}.toml", [sensitive, *nobody])


def _played(folder: Path, name: str, config: Config) -> AuditResult:
    place = folder / name / "record.json"
    if not place.is_file():
        found = run_audit(config, threads=os.cpu_count() or 1)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_text(place, found.model_dump_json())
        print(place, f"{found.timing.seconds:.0f} s")
    return record.load(place)


def _tables(results: dict[float, AuditResult]) -> list[Table]:
    recovered = "of sensitive ratings that are recovered; last, of item means"
    beyond = "By how much the attack errs less than on a model without any of them (rmse, paired)"
    leak = "Leak: by how much it errs less on the half that a model saw (rmse, paired)"
    return [
        _by_share("Figures 6 and 7: rmse on test ratings", results, ["utility.rmse"]),
        _by_share("Figures 6 and 7: mae on test ratings", results, ["utility.mae"]),
        _by_share(
            "Errors above those of DPMF at the same ε (rmse, paired)",
            results,
            ["utility.difference"],
            states="rmse",
            sure=True,
        ),
        *(
            _by_share(
                f"Figures 8 and 9: {kind} {recovered}",
                results,
                [f"reconstruction.{kind}"],
                states=RELEASED,
                last="item means",
            )
            for kind in ("rmse", "mae")
        ),
        *(
            _by_share(caption, results, ["reconstruction.rmse"], states=states, sure=True)
            for caption, states in ((beyond, BEYOND_WITHOUT), (leak, LEAK))
        ),
    ]


def _ranking(results: dict[float, AuditResult]) -> list[Table]:
    """Figures 12 and 13, of lists of five."""
    beyond = "What the attack finds beyond that on a model without any of them (recall, paired)"
    leak = "Leak: what it finds more of the half that a model saw (recall, paired)"
    return [
        _by_share(
            "Figure 12: precision@5 / recall@5 of lists of test items",
            results,
            ["utility.precision", "utility.recall"],
        ),
        _by_share(
            "Figure 13: precision@5 / recall@5 of what is kept private, found by the attack; last, "
            "by the most popular items",
            results,
            ["reconstruction.precision", "reconstruction.recall"],
            states=RELEASED,
            last="most popular",
        ),
        *(
            _by_share(caption, results, ["reconstruction.recall"], states=states, sure=True)
            for caption, states in ((beyond, BEYOND_WITHOUT), (leak, LEAK))
        ),
    ]


def _by_share(
    caption: str,
    results: dict[float, AuditResult],
    metrics: Sequence[str],
    states: str | None = None,
    last: str | None = None,
    sure: bool = False,
) -> Table:
    """A row for each share, a column for each model and ε, and one `last` for no model."""
    at = {
        share: [_found(result, metric, states) for metric in metrics]
        for share, result in results.items()
    }
    columns = list(dict.fromkeys(key for found in at.values() for key in found[0]))
    header = ["x", *(f"{model}, ε = {epsilon(value)}" for model, value in columns)]
    cells = []
    for share, found in at.items():
        row = [f"{100 * share:.0f} %"]
        row += [_shown([each[key] for each in found if key in each], sure) for key in columns]
        if last:
            # The same beside every model.
            means = [_found(results[share], metric, MEANS) for metric in metrics]
            row.append(_shown([next(iter(each.values())) for each in means if each], sure))
        cells.append(row)
    return Table(caption, [*header, *([last] if last else [])], cells)


def _shown(found: Sequence[Measurement], sure: bool) -> str:
    shown = (interval(each.estimate) if sure else measured(each.estimate.value) for each in found)
    return " / ".join(shown) or NONE


def _found(
    result: AuditResult, metric: str, states: str | None
) -> dict[tuple[str, float], Measurement]:
    return {
        (each.model, each.epsilon): each
        for each in result.measurements
        if each.metric == metric and each.states == states
    }


def _friends(ratings: Ratings) -> Friends:
    return ratings.friends or Friends.none(ratings.n_users)


def _parameters(folder: Path) -> Table:
    """Figures 10 and 11."""
    name = "filmtrust-privsr-parameters"
    found = _played(folder, name, load(ROOT / "examples" / f"{name}.toml"))
    return _by_point("Figures 10 and 11: FilmTrust, x = 10 %, by ε and β", {"": found})


def _categories(folder: Path) -> Table:
    """Figure 14."""
    name = "ciao-privsr-categories"
    chosen = load(ROOT / "examples" / f"{name}.toml")
    random = load(ROOT / "examples" / f"{name}.toml", ["data.sensitive.matched_random=true"])
    return _by_point(
        "Figure 14: Ciao, ratings of three categories sensitive, and as many at random",
        {
            "by category": _played(folder, name, chosen),
            "at random": _played(folder, f"{name}-random", random),
        },
    )


def _by_point(caption: str, results: dict[str, AuditResult]) -> Table:
    """A row for each model and ε: its errors, and what is recovered."""
    metrics = {
        "rmse": ("utility.rmse", None),
        "mae": ("utility.mae", None),
        "rmse of what is recovered": ("reconstruction.rmse", RELEASED),
        "mae of it": ("reconstruction.mae", RELEASED),
        "rmse of item means there": ("reconstruction.rmse", MEANS),
        "leak (rmse)": ("reconstruction.rmse", LEAK),
    }
    cells = []
    for label, result in results.items():
        found = [_found(result, *metric) for metric in metrics.values()]
        for model, value in found[0]:
            shown = [measured(each[model, value].estimate.value) for each in found]
            name = f"{model}, ε = {epsilon(value)}"
            cells.append([f"{name}, {label}" if label else name, *shown])
    return Table(caption, ["model", *metrics], cells)


def _similarities(example: str, shares: Sequence[float]) -> Table:
    """Figure 4: how much of friends' similarity is seen in what is not sensitive."""
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


def _errors(example: str) -> Table:
    """Figure 5: the law of prediction errors after some rounds."""
    config = _config(example, 0.1)
    fold = random_folds(read(config.data), config.training.folds, config.seed)[0]
    model = next(each for each in config.model if each.label == "PrivSR")
    defense = model.defenses("model")[model.epsilon.index(0.1)]
    rows = defense.prepare(fold.train)
    society = Society(defense, rows, Streams.first(config.seed, "fold/0", 1))
    levels = (0.25, 0.5, 0.75, 0.9)
    cells = []
    for rounds in ROUNDS:
        while society.done < rounds:
            society.play()
        shown = society.models().predict(fold.users, fold.items)[0]
        away = abs(shown.astype(np.float64) - fold.values)
        cells.append([str(rounds), *_quantiles(away, levels), measured(float(away.mean()))])
    return Table(
        f"Figure 5: absolute errors of PrivSR, ε = 0.1, x = 10 %, rate {defense.rate:g}, after so "
        "many rounds",
        ["rounds", *(f"{100 * level:.0f} % are at most" for level in levels), "mean"],
        cells,
    )


def _quantiles(away: NDArray[np.float64], levels: Sequence[float]) -> list[str]:
    return [measured(float(value)) for value in np.quantile(away, levels)]


def _text(table: Table) -> str:
    return f"**{table.caption}**\n\n{table_text(table)}"


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "dpaudit-out/social"))
