"""What the scripts that write docs/results share: audits that are run once, and the pages' head."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dpaudit.auditor.plan import RunFolder
from dpaudit.auditor.run import run_audit
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.config.load import load
from dpaudit.config.schema import Config
from dpaudit.core.files import write_text
from dpaudit.execution.workers import Workers
from dpaudit.record import storage
from dpaudit.record.result import AuditResult

ROOT = Path(__file__).parents[2]
# What most of them need.
DATA_SETS = "the data sets in `DPAUDIT_DATA`"


def example(name: str, settings: Sequence[str] = ()) -> Config:
    """Load the config of an example, with some of its settings replaced as by `dpaudit run -s`."""
    return load(ROOT / "examples" / f"{name}.toml", settings)


def trained(name: str, settings: Sequence[str] = ()) -> TrainedConfig:
    """Load the config of an example that trains."""
    config = example(name, settings)
    if not isinstance(config, TrainedConfig):
        raise TypeError(f"examples/{name}.toml trains nothing")
    return config


def audited(config: Config, folder: Path, *, allow_code: bool = False) -> AuditResult:
    """Return the record of a config that a folder holds, after running it if there is none.

    A run that was killed goes on.

    Args:
        config: the config.
        folder: where its record is kept.
        allow_code: whether code that the config names may be run.
    """
    if (folder / storage.NAME).is_file():
        result = storage.load(folder)
        if _of(config, result):
            return result
    # Recommenders are functions of Python's, which hold the global lock.
    own = config.processes or isinstance(config, MembershipConfig)
    kind = "processes" if own else "threads"
    folder.mkdir(parents=True, exist_ok=True)
    result = run_audit(
        config, workers=Workers.all_cores(kind), folder=RunFolder(folder), allow_code=allow_code
    )
    write_text(folder / storage.NAME, storage.render(result))
    print(f"{folder}: {result.timing.seconds:.0f} s", flush=True)
    return result


def page(title: str, command: str, text: str, needs: str = "") -> str:
    """Return a page: its title, the one command that writes it and what it needs, and its text."""
    head = f"Written by `python {command}`{needs and f', which needs {needs}'}."
    return f"# {title}\n\n{head}\n\n{text.strip()}\n"


def write(name: str, text: str) -> None:
    """Write a page of docs/results."""
    write_text(ROOT / "docs" / "results" / f"{name}.md", text)


def _of(config: Config, result: AuditResult) -> bool:
    """Whether a record is that of a config."""
    theirs, ours = Config.model_validate(result.config), config.recorded()
    return theirs.model_dump(mode="json") == ours.model_dump(mode="json")
