"""dpaudit attacks and audits recommender systems that claim differential privacy."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str


def __getattr__(name: str) -> str:
    # Asking the installed metadata takes longer than a command line's whole start.
    if name == "__version__":
        from importlib.metadata import version

        return version("dpaudit")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
