"""Markers that programs write in place of a missing value, and that are therefore no ids."""

from __future__ import annotations

import re
from collections.abc import Collection

# In lower case: pandas, R, SQL, spreadsheets, C, JavaScript, MySQL dumps, and signs set by hand.
MARKERS = frozenset(
    {
        *("", "nan", "-nan", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan", "<na>", "nat", "none"),
        *("n.a.", "(none)", "<none>", "(blank)", "[deleted]", "—", "\\\\n"),
        *("na", "n/a", "#n/a", "#n/a n/a", "#na", "#null!", "#value!", "#ref!", "#name?", "#num!"),
        *("#div/0!", "null", "(null)", "<null>", "[null]", "nil", "undefined", "\\n"),
        *("inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"),
        *("-", "?", "-1", "-1.0"),
    }
)
_NEGATIVE = re.compile(r"-[0-9]{1,18}", re.ASCII)


def is_missing(name: str) -> bool:
    """Whether an id is empty or a marker of a missing value, such as `NaN`, `null`, `?` or `-1`.

    Args:
        name: the id as text; blanks around it and capitals make no difference.
    """
    return name.strip().lower() in MARKERS


def missing_among(names: Collection[str]) -> set[str]:
    """Return the missing ones of a column's ids; −1 beside other negative numbers is an id."""
    markers = {name for name in names if is_missing(name)}
    if "-1" in markers and any(_NEGATIVE.fullmatch(name) and name != "-1" for name in names):
        markers.remove("-1")
    return markers
