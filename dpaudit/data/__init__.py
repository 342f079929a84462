"""Ratings: their types, sources and neighbouring data sets.

Importing this package loads no reader; pandas, scipy, pyarrow and pooch are imported on first use.
"""

from dpaudit.core.claim import Adjacency
from dpaudit.core.releases import FloatArray, IntArray, Profile
from dpaudit.data.download import DATASETS, Dataset, Terms, fetch
from dpaudit.data.neighbors import (
    Change,
    RatingAdded,
    RatingRemoved,
    RatingReplaced,
    UserRemoved,
    UserReplaced,
    apply,
)
from dpaudit.data.ratings import Csr, Friends, Ratings, Repair, Scale
from dpaudit.data.readers.load import load
from dpaudit.data.source import DataSource
from dpaudit.data.source_parts import (
    Columns,
    RatingScale,
    SensitiveSource,
    SyntheticParams,
    TrustColumns,
    TrustSource,
)
from dpaudit.data.synthetic import generate

__all__ = [
    "DATASETS",
    "Adjacency",
    "Change",
    "Columns",
    "Csr",
    "DataSource",
    "Dataset",
    "FloatArray",
    "Friends",
    "IntArray",
    "Profile",
    "RatingAdded",
    "RatingRemoved",
    "RatingReplaced",
    "RatingScale",
    "Ratings",
    "Repair",
    "Scale",
    "SensitiveSource",
    "SyntheticParams",
    "Terms",
    "TrustColumns",
    "TrustSource",
    "UserRemoved",
    "UserReplaced",
    "apply",
    "fetch",
    "generate",
    "load",
]
