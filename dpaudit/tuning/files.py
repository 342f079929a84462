"""The files that a search writes: its page, its numbers, its records, and the tuned config."""

from __future__ import annotations

from pathlib import Path

from dpaudit.core.errors import ConfigError
from dpaudit.core.files import check_writable, write_set
from dpaudit.core.messages import place
from dpaudit.record import storage
from dpaudit.reports.render import toml
from dpaudit.tuning import report
from dpaudit.tuning.result import Tuning
from dpaudit.tuning.run import Outcome

_FILES = {
    "tune.json": lambda tuning: tuning.model_dump_json(indent=1) + "\n",
    "tune.html": report.render_html,
    "tune.md": report.render_markdown,
    "tune.csv": report.render_csv,
}
# How a config begins that a search has written, and may replace.
_WRITTEN = "# Written by dpaudit tune"


def check(folder: Path, target: Path, config: Path) -> None:
    """Refuse files that cannot be written, and a tuned config that somebody else wrote.

    Args:
        folder: the output folder.
        target: the file of the tuned config.
        config: the config that is read.

    Raises:
        ConfigError: names the file and the remedy.
    """
    check_writable([*(folder / name for name in _FILES), target])
    if target.exists():
        own = target.read_text("utf-8", errors="replace").startswith(_WRITTEN)
        if not own or target == config.absolute():
            raise ConfigError(
                f"{place(target)} exists, and 'dpaudit tune' would replace it by the config that "
                "passes: name another file with --tuned"
            )


def named(outcome: Outcome, target: Path) -> Tuning:
    """Return the result with the file of the tuned config, if there is one."""
    tuned = "" if outcome.tables is None else place(target)
    return outcome.tuning.model_copy(update={"tuned": tuned})


def write(outcome: Outcome, tuning: Tuning, folder: Path, target: Path) -> None:
    """Write all files: page and numbers, the record of each candidate, and the tuned config.

    Raises:
        ConfigError: a file cannot be written.
    """
    texts = {folder / name: render(tuning) for name, render in _FILES.items()}
    for number, record in outcome.records.items():
        texts[folder / f"candidate-{number}" / storage.NAME] = storage.render(record)
    if outcome.tables is not None:
        head = "\n".join(f"# {line}" for line in report.sentences(tuning))
        texts[target] = f"{_WRITTEN}, with a new seed.\n{head}\n\n{toml.render(outcome.tables)}"
    write_set(texts)
