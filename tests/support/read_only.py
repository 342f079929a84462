"""Arrays as a kernel gets them: for one that may be written to, it would be compiled once more."""

from __future__ import annotations

from typing import Any, TypeVar

from numpy.typing import NDArray

Array = TypeVar("Array", bound=NDArray[Any])


def read_only(array: Array) -> Array:
    """The same array, which nobody may write to, as the columns of ratings are."""
    array.setflags(write=False)
    return array
