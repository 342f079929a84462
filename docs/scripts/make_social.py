"""Write docs/results/social-NAME.md: PrivSR on social data, beside what its paper says.

Run it with `DPAUDIT_DATA=… python docs/scripts/make_social.py FOLDER NAME`, where NAME is
filmtrust, ciao or epinions; without a NAME all are written. It runs what FOLDER does not hold
(`social_runs.py`). The texts are in `social_words.py` and
`social_words_lists.py`, tables of results in `social_tables.py`, verdicts on the paper's sentences
in `social_verdicts.py` (by `social_numbers.py`), and what has no example in `social_baselines.py`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import social_baselines as baselines
import social_tables as tables
import social_words as words
import social_words_lists as lists
from pages import DATA_SETS, page, trained, write
from social_numbers import Point, Results
from social_runs import Runs, with_categories, with_share
from social_verdicts import Places

from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.data.folds import Fold
from dpaudit.data.readers.load import load as read
from dpaudit.record.result import AuditResult
from dpaudit.reports.render.markdown import captioned
from dpaudit.reports.table import Table

# The paper's x: the share of the ratings that are sensitive. Fewer values where a run takes long.
ALL = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
SHARES = {
    "filmtrust-privsr": ALL,
    "ciao-privsr": ALL,
    "epinions-privsr": (0.1, 0.3, 0.5),
    "filmtrust-privsr-ranking": ALL,
    "ciao-privsr-ranking": ALL,
}
TITLES = {"filmtrust": "FilmTrust", "ciao": "Ciao", "epinions": "Epinions"}
HEAD = """A cell is a mean over the folds of
its example. Intervals are Student's over folds; that of a difference is a paired t test. No fold
tests a rating by which a grid's settings were judged. ε is what the noise is scaled to: [the
catalogue](../claims/privsr.md) says which of these claims are true.

**Verdicts** on the paper's sentences are computed from the records, by the paper's metric first. A
comparison *holds* at a place if the two intervals lie apart as the sentence says, *fails* if they
lie apart the other way, and is *open* if they overlap. A statement is **so** if all its comparisons
hold, **not so** if some fail and none holds, and **undecided** otherwise; a sentence is so if all
its statements are, and not so if one is not. What attacks recover is compared by how much better
it is than item means, or the most popular items, on the same fold. All verdicts rest on our start,
rounds and rates. Beside them stands what the means of one training with the paper's own settings
come to, as far as its text says them, at x = 10 %.
"""


def main(folder: Path, names: Sequence[str]) -> None:
    """Write the pages of these data sets."""
    runs = Runs(folder)
    for name in names or TITLES:
        own = Page(runs, name)
        parts = [*own.rated(), *own.swept(), *own.listed(), *own.selected()]
        text = "\n\n".join([f"{HEAD}\n{runs.took(name)}", *parts])
        command = f"docs/scripts/make_social.py FOLDER {name}"
        write(
            f"social-{name}", page(f"PrivSR on {TITLES[name]}: results", command, text, DATA_SETS)
        )


@dataclass(frozen=True)
class Page:
    """The page of one data set; each method returns the parts of a section."""

    runs: Runs
    name: str

    def rated(self) -> list[str]:
        """Figures 4 to 9."""
        own = f"{self.name}-privsr"
        results, config, folds = self._by_x(own), *_tested(own)
        papers = self._paper("ratings", baselines.rating_systems(), folds[0])
        configs = {share: with_share(own, share) for share in SHARES[own] if share}
        return [
            _heading("Ratings", own, config),
            captioned(tables.chosen(words.x(0.1), results[words.x(0.1)])),
            captioned(baselines.without_model(folds)),
            captioned(papers.table("Figures 6 to 9")),
            *_figure(words.TEST_RATINGS, results, tables.test_ratings(results), papers.places),
            *_figure(words.SENSITIVE, results, tables.sensitive(results), papers.places),
            *_figure(words.FRIENDS, {}, [baselines.similarities(configs)]),
            *_figure(words.ROUNDS, {}, _rounds(results[words.x(0.1)], folds[0], config)),
        ]

    def swept(self) -> list[str]:
        """Figures 10 and 11."""
        own = f"{self.name}-privsr-parameters"
        config, place = trained(own), words.x(0.1)
        result = self.runs.record(own, config)
        fold = baselines.tested_folds(config, read(config.data))[0]
        papers = self._paper("parameters", baselines.swept_systems(), fold)
        shown = [tables.by_point("By ε and β, x = 10 %", {"": result})]
        return [
            f"## Parameters\n\n`examples/{own}.toml`. {_budget(config)}",
            captioned(tables.chosen(place, result)),
            captioned(papers.table("Figures 10 and 11")),
            *_figure(words.PARAMETERS, {place: result}, shown, papers.places),
        ]

    def listed(self) -> list[str]:
        """Figures 12 and 13."""
        own = f"{self.name}-privsr-ranking"
        if own not in SHARES:
            return []
        results, config, folds = self._by_x(own), *_tested(own)
        papers = self._paper("lists", baselines.list_systems(), folds[0])
        return [
            _heading("Lists", own, config),
            captioned(tables.chosen(words.x(0.1), results[words.x(0.1)])),
            captioned(baselines.without_model(folds)),
            captioned(papers.table("Figures 12 and 13")),
            *_figure(lists.LISTS, results, tables.lists(results), papers.places),
        ]

    def selected(self) -> list[str]:
        """Figure 14, by both forms of the model."""
        if self.name != "ciao":
            return []
        own, rated = "ciao-privsr-categories", "ciao-privsr-categories-ratings"
        by_list, by_rating = self._by_category(own), self._by_category(rated)
        cells = self.runs.cells("ciao-paper-categories", lambda: _paper_by_category(own))
        papers = baselines.Papers(cells, False)
        shown = [tables.by_point("Three categories sensitive, or as many at random", by_rating)]
        return [
            "## Which ratings are sensitive",
            _selections(own, by_list),
            captioned(papers.table("Figure 14, PrivSR at ε = 0.1,")),
            *_figure(
                lists.CATEGORY_LISTS,
                by_list,
                tables.lists(by_list, "sensitive categories"),
                papers.by_category,
            ),
            _selections(rated, by_rating),
            *_figure(lists.CATEGORY_RATINGS, by_rating, shown),
        ]

    def _by_x(self, own: str) -> dict[str, AuditResult]:
        return {
            words.x(share): self.runs.record(f"{own}-{share:g}", with_share(own, share))
            for share in SHARES[own]
        }

    def _by_category(self, own: str) -> dict[str, AuditResult]:
        return {
            lists.chosen(three, matched): self.runs.record(
                f"{own}-{'-'.join(map(str, three))}{'-random' * matched}",
                with_categories(own, three, matched),
            )
            for three in lists.CATEGORIES
            for matched in (False, True)
        }

    def _paper(self, part: str, systems: Mapping[Point, Any], fold: Fold) -> baselines.Papers:
        """Return the scores of systems with the paper's settings."""
        cells = self.runs.cells(
            f"{self.name}-paper-{part}", lambda: baselines.scored(systems, fold)
        )
        return baselines.Papers(cells, part != "lists", list(systems))


def _figure(
    said: words.Said, results: Results, shown: Iterable[Table], papers: Places | None = None
) -> list[str]:
    """The section of one figure: the paper, our tables, the verdicts."""
    return [said.head(), *map(captioned, shown), said.judged(results, papers)]


def _tested(own: str) -> tuple[TrainedConfig, list[Fold]]:
    """Return an example, and its folds without the ratings by which settings were chosen."""
    config = with_share(own, 0.1)
    return config, baselines.tested_folds(config, read(config.data))


def _heading(title: str, own: str, config: TrainedConfig) -> str:
    ratings = read(config.data)
    bound = config.data.binarize
    what = "ratings" if bound is None else f"ratings of {bound:g} or more"
    return (
        f"## {title}\n\n`examples/{own}.toml`: {len(ratings):,} {what} by {ratings.n_users:,} "
        f"users of {ratings.n_items:,} items, {len(baselines.friends(ratings)):,} links. "
        f"{_budget(config)}"
    )


def _budget(config: TrainedConfig) -> str:
    """Say how many settings each system has, and on which ratings they are chosen and tested."""
    offered = sorted({math.prod(map(len, model.grid.values())) for model in config.model})
    tuned = (
        "Settings are fixed"
        if offered == [1]
        else f"Each system chooses among {' or '.join(map(str, offered))} settings at each ε, on a "
        "tenth of the first fold's training ratings (one division), which is tested nowhere"
    )
    train = config.training
    folds = f"{train.evaluate_folds} of {train.folds}" if train.evaluate_folds else train.folds
    return (
        f"{tuned}. {folds} folds, {train.trials} training{'s' * (train.trials > 1)} of each on "
        f"each, seed {config.seed}."
    )


def _selections(own: str, results: Results) -> str:
    """Say what an example of Figure 14 is run with, and what share is sensitive."""
    shares = [
        [place, f"{100 * each.data.sensitive / each.data.ratings:.0f} %"]
        for place, each in results.items()
        if each.data and each.data.sensitive
    ]
    table = Table("What is sensitive, of all", ["sensitive categories", "share"], shares)
    return f"`examples/{own}.toml`. {_budget(trained(own))}\n\n{captioned(table)}"


def _paper_by_category(own: str) -> list[list[str]]:
    """Score PrivSR with the paper's settings where categories are sensitive, or at random."""
    system = baselines.list_systems()[lists.RANKING]
    cells = []
    for three in lists.CATEGORIES:
        for matched in (False, True):
            config = with_categories(own, three, matched)
            fold = baselines.tested_folds(config, read(config.data))[0]
            cells += baselines.scored({(lists.chosen(three, matched), math.inf): system}, fold)
    return cells


def _rounds(result: AuditResult, fold: Fold, config: TrainedConfig) -> list[Table]:
    """Figure 5, with the paper's settings and with those chosen."""
    model = next(each for each in config.model if each.label == "PrivSR")
    point = next(each for each in result.points if (each.model, each.epsilon) == words.FULL)
    chosen = replace(model.defenses("model")[model.epsilon.index(0.1)], **point.chosen)
    papers = baselines.rating_systems()[words.FULL]
    return [
        baselines.by_rounds("with the paper's settings", papers, fold),
        baselines.by_rounds("with the settings chosen", chosen, fold),
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
