"""dpaudit attacks and audits recommender systems that claim differential privacy."""

# As in typing, which would be loaded before `python -m dpaudit` leaves the current folder.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from dpaudit.audits.dp_training.audit import audit_dp_training
    from dpaudit.audits.mechanism.audit import audit, audit_pairs
    from dpaudit.audits.membership.audit import audit_recommender
    from dpaudit.data.interactions import Interactions
    from dpaudit.tuning.python import tune_recommender

    __version__: str

__all__ = [
    "Interactions",
    "__version__",
    "audit",
    "audit_dp_training",
    "audit_pairs",
    "audit_recommender",
    "tune_recommender",
]


def __getattr__(name: str) -> "Any":
    # Lazy: reading the package metadata or importing the auditor takes longer than the rest of a
    # command's start.
    if name == "__version__":
        from importlib.metadata import version

        return version("dpaudit")
    if name in ("audit", "audit_pairs"):
        from dpaudit.audits.mechanism import audit as blackbox

        return getattr(blackbox, name)
    if name == "audit_dp_training":
        from dpaudit.audits.dp_training.audit import audit_dp_training

        return audit_dp_training
    if name == "audit_recommender":
        from dpaudit.audits.membership.audit import audit_recommender

        return audit_recommender
    if name == "tune_recommender":
        from dpaudit.tuning.python import tune_recommender

        return tune_recommender
    if name == "Interactions":
        from dpaudit.data.interactions import Interactions

        return Interactions
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
