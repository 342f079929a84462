"""The pages on PrivSR have the captions, columns and number formats that their scripts print."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import make_social  # type: ignore[import-not-found]
import numpy as np
import pages  # type: ignore[import-not-found]
import pytest
import social_baselines  # type: ignore[import-not-found]
import social_words_lists  # type: ignore[import-not-found]
from configs import load_as  # type: ignore[import-not-found]

from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.core.rounding import measured
from dpaudit.reports.table import NONE

PAGES = Path(__file__).parents[2] / "docs" / "results"
NUMBER = r"-?(?:\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?|∞)"
# Of a verdict, only what is judged depends on the code alone.
VERDICT = re.compile(r"(: (?:\*\*)?(?:so|not so|undecided)\b).*")


def social_data(folder: Path, name: str) -> None:
    """Write ratings and links of the layout of a published set, of 60 users and 30 items."""
    rng = np.random.default_rng(1)
    folder.mkdir()
    users = np.arange(1, 61)
    user, item = np.nonzero(rng.random((60, 30)) < 0.5)
    rating = rng.integers(1, 6, len(user))
    links = [(a, b) for a in users for b in rng.choice(users, 3, replace=False) if a != b]
    if name == "filmtrust":
        rows = [f"{users[u]} {i} {r / 2 + 1:g}" for u, i, r in zip(user, item, rating, strict=True)]
        (folder / "ratings.txt").write_text("\n" + "\n".join(rows) + "\n")
        (folder / "trust.txt").write_text("".join(f"{a} {b} 1\n" for a, b in links))
        return
    from scipy.io import savemat

    category = np.array([8, 14, 23, 1])[item % 4]
    table = np.column_stack([user + 1, item + 1, category, rating, rating])
    savemat(folder / "rating.mat", {"rating": table})
    savemat(folder / "trustnetwork.mat", {"trustnetwork": np.array(links)})


def quick(path: Path, overrides: list[str]) -> TrainedConfig:
    """Load an example with two settings a model, two tested folds, and two rounds a training."""
    config: TrainedConfig = load_as(TrainedConfig, path, overrides)
    models = []
    for model in config.model:
        grid = {
            key: values[:1] if place else values[:2]
            for place, (key, values) in enumerate(model.grid.items())
        }
        rounds = {} if "rounds" in grid else {"rounds": 2}
        params = {**model.params, **rounds}
        models.append(model.model_copy(update={"grid": grid, "params": params}))
    folds = {"folds": 2} if config.training.evaluate_folds is None else {"evaluate_folds": 2}
    training = config.training.model_copy(update={**folds, "trials": 1})
    return config.model_copy(update={"model": models, "train": training})


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Return a function that makes a page from made-up data with few trainings."""
    monkeypatch.setenv("DPAUDIT_DATA", str(tmp_path))
    monkeypatch.setattr(pages, "load", quick)
    monkeypatch.setattr(make_social, "OUT", tmp_path)
    monkeypatch.setattr(make_social, "SHARES", dict.fromkeys(make_social.SHARES, (0.0, 0.1)))
    monkeypatch.setattr(social_baselines, "ROUNDS", {"ratings": 2, "lists": 2})
    monkeypatch.setattr(social_baselines, "_ROUNDS", (1, 2))
    monkeypatch.setattr(social_words_lists, "CATEGORIES", social_words_lists.CATEGORIES[:1])

    def page(name: str) -> str:
        social_data(tmp_path / name, name)
        make_social.main(tmp_path / "records", [name])
        return (tmp_path / f"social-{name}.md").read_text(encoding="utf-8")

    return page


@pytest.mark.long
@pytest.mark.parametrize("name", ["filmtrust", "ciao"])
def test_a_page_has_what_its_script_prints(name: str, made: Callable[[str], str]) -> None:
    page = (PAGES / f"social-{name}.md").read_text(encoding="utf-8")
    committed, now = list(blocks(page)), list(blocks(made(name)))
    assert [head for head, _ in committed] == [head for head, _ in now]
    for (head, columns), (_, printed) in zip(committed, now, strict=True):
        for old, new in zip(columns, printed, strict=True):
            assert formats(old) & formats(new) or set(map(masked, old)) == set(map(masked, new)), (
                f"{head}: {old} is not printed like {new}"
            )


def test_a_column_of_another_format_is_found() -> None:
    assert formats(["0.967", "1.042"]) & formats(["0.123"])
    assert not formats(["0.9671"]) & formats(["0.967"])
    assert not formats(["0.97 [0.95, 0.99]"]) & formats(["0.970"])
    assert not formats(["12 %"]) & formats(["0.120"])


def blocks(page: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each line without its numbers; a table as its header and its columns."""
    rows: list[list[str]] = []
    for line in [*page.splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
            continue
        if rows:
            yield (
                masked(" | ".join(rows[0])),
                [list(cells) for cells in zip(*rows[2:], strict=True)],
            )
            rows = []
        if line:
            yield masked(VERDICT.sub(":", line)), []


def masked(text: str) -> str:
    """Leave out numbers and marks."""
    return re.sub(rf"{NUMBER}| ?†", "#", text).replace("##", "#")


def formats(column: list[str]) -> set[str]:
    """Return the formats in which all cells are printed, but for empty ones."""
    cells = [cell.removesuffix(" †") for cell in column if cell != NONE]
    return {name for name, fits in FORMATS.items() if all(map(fits, cells))}


def _short(text: str) -> bool:
    return re.fullmatch(NUMBER, text) is not None and measured(float(text)) == text


def _pair(text: str) -> bool:
    return text.count(" / ") == 1 and all(map(_short, text.split(" / ")))


def _interval(text: str) -> bool:
    parts = re.fullmatch(rf"({NUMBER}) \[({NUMBER}), ({NUMBER})\]", text)
    # Ends are rounded outwards, to other digits.
    return parts is not None and _short(parts.group(1))


FORMATS: dict[str, Callable[[str], bool]] = {
    "number": _short,
    "pair": _pair,
    "interval": _interval,
    "signed": lambda text: re.fullmatch(r"[-+]\d\.\d{4}", text) is not None,
    "four decimals": lambda text: re.fullmatch(r"\d\.\d{4}", text) is not None,
    "per cent": lambda text: re.fullmatch(r"\d+ %", text) is not None,
    "tenths of per cent": lambda text: re.fullmatch(r"\d+\.\d %", text) is not None,
    "count": lambda text: re.fullmatch(r"\d+", text) is not None,
}
