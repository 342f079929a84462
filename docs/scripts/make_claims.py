"""Run the whole catalogue, on real data too, and write docs/claims/verdicts.md.

Run it with `DPAUDIT_DATA=… python docs/scripts/make_claims.py`.
"""

from __future__ import annotations

from pathlib import Path

from dpaudit.claims.catalogue import catalogue
from dpaudit.claims.real_data import on_real_data
from dpaudit.claims.report import render_markdown
from dpaudit.claims.verify import verify
from dpaudit.config.load import load
from dpaudit.core.files import write_text
from dpaudit.data.source import DataSource
from dpaudit.execution.tasks import Progress

ROOT = Path(__file__).parents[2]
DATA = {"MovieLens-100K": "ml-100k-slope-one", "MovieLens-1M": "ml-1m-slope-one"}
# For claims about social recommenders alone.
SOCIAL = {"FilmTrust": "filmtrust-privsr"}
HEAD = (
    "Written by `python docs/scripts/make_claims.py`, which needs the data sets in `DPAUDIT_DATA`; "
    "[what the verdicts mean](index.md).\n\n"
)


class Printed(Progress):
    """Prints the name of each experiment."""

    def stage(self, text: str) -> None:
        """Print it."""
        print(text)


def main() -> None:
    """Write the page."""
    social = [entry for entry in catalogue() if entry.id.startswith("privsr")]
    extra = [*on_real_data(_sources(DATA), catalogue()), *on_real_data(_sources(SOCIAL), social)]
    found = verify(catalogue(), extra=extra, progress=Printed())
    title, _, rest = render_markdown(found).partition("\n\n")
    write_text(ROOT / "docs" / "claims" / "verdicts.md", f"{title}\n\n{HEAD}{rest}")


def _sources(examples: dict[str, str]) -> dict[str, DataSource]:
    """Where the examples have their data."""
    configs = {name: load(ROOT / "examples" / f"{file}.toml") for name, file in examples.items()}
    return {name: config.source for name, config in configs.items() if config.source}


if __name__ == "__main__":
    main()
