"""Find ids and numbers that are likely not what their text says, and say what to write instead.

Programs change data on their way to a file: they write one id in several ways, round long ones,
put several into a cell, and put marks between the thousands of a number. Each function here knows
one such change by the distinct values of a column.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any

from dpaudit.core.messages import show
from dpaudit.data.readers.cells import is_missing, number

# The index of a value, and what is wrong with it.
Doubt = tuple[int, str]

WRITING = "only in writing (Unicode form, invisible characters, blanks, 1.0 for 1)"
ALIKE = "only in capitals, leading zeros, blanks or characters that look the same"
# Soft hyphen, zero-width space, marks of direction, word joiner and byte order mark; the space that
# does not break a line is a space.
_INVISIBLE = dict.fromkeys(
    [0xAD, 0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F), 0x2060, *range(0x2066, 0x206A), 0xFEFF]
) | dict.fromkeys([0xA0, 0x2007, 0x202F], " ")

_WHOLE = re.compile(r"(-?[0-9]+)(?:\.0+)?", re.ASCII)
_POWER = re.compile(r"(-?[0-9])(?:[.,]([0-9]+))?([eE])(\+?)([0-9]{1,3})", re.ASCII)
# Spreadsheets keep 15 digits, show 6 of a number of 12 or more, and doubles hold 15 to 17.
_KEPT, _SHOWN, _LONG, _DOUBLE = 15, 6, 12, 16
# Pairs of numbers that spreadsheets take for dates, and what they make of them.
_PAIR = re.compile(r"[0-9]{1,2}[-/][0-9]{1,4}", re.ASCII)
_MONTHS = (
    "janv?|jän|ene|gen|feb|févr?|fev|mar[st]?|mrz|mrt|märz|apr|avr|abr|ma[iyj]|mei|mag|juni?|juin|giu|"
    "juli?|juil|lug|aug|août|ago|sept?|set|o[ck]t|ott|out|nov|dec|dez|déc|dic"
)
_MONTH = re.compile(
    f"[0-9]{{1,2}}(?:[-/ ]|\\. ?)(?:{_MONTHS})\\.?|(?:{_MONTHS})\\.?[-/ ][0-9]{{2}}"
    "|[0-9]{4}-[0-9]{2}-[0-9]{2} 00:00:00",
    re.IGNORECASE,
)
# The bits of floating-point numbers, and of the spacing of a column that shows short ones.
_FLOAT, _SHORT, _SURE, _ODD = 53, (11, 24), 20, 0.3
# The least share of pairs and dates in a column of pairs.
_FEW = 0.1
# So many long ids do not all end in zeros by chance.
_SEVERAL = 5

# R writes c("a", "b"), numpy array([1, 2]) and Scala List(1, 2).
_BRACKETS = re.compile(r"\w{0,20}(\[.*\]|\{.*\}|\(.*\))", re.DOTALL)
# The share of cells that are lists, or whose parts look alike, in a column of lists.
_MOST, _ALIKE = 0.5, 0.95
# The most distinct parts of lists per part: of such that look alike, and of words.
_OF_ALIKE, _OF_WORDS = 0.9, 0.5
_LISTED, _KINDS = 10_000, 3
# The share of combined ids that have the same number of parts.
_USUAL = 0.8
_DIGITS = re.compile(r"[0-9A-Za-z]*[0-9][0-9A-Za-z]*")

# 1,234,567 or, as in India, 12,34,567; perhaps with decimals.
_MARKED = re.compile(
    r"-?(?:[0-9]{1,3}(?P<mark>[,.' \u00a0\u202f\u2009’])[0-9]{3}(?:(?P=mark)[0-9]{3})*"
    r"|[0-9]{1,2}(?:,[0-9]{2})+,[0-9]{3})(?:(?!(?P=mark))[.,][0-9]+)?"
)
# The highest rating of usual scales.
_HIGHEST = 10
_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+", re.ASCII)
_POINTED = re.compile(r"-?[1-9][0-9]{0,2}\.[0-9]{3}", re.ASCII)
_SMALL = re.compile(r"-?[0-9]{1,3}", re.ASCII)


def one_writing(names: Sequence[str]) -> list[str]:
    """Return ids without invisible characters, in the Unicode form NFC, and whole as integers.

    If all are whole numbers, `1.0` is 1, as programs write it beside missing ids, and `1e+05`,
    `1.2E7` and the like are their integers.
    """
    names = [name if name.isascii() else _visible(name) for name in names]
    # Powers hold a sign or a point.
    able = (name for name in names if "+" in name or "." in name)
    if not any(name.endswith("0") or _POWER.fullmatch(name) for name in able):
        return names
    whole = []
    for name in names:
        power = _POWER.fullmatch(name)
        integer = name if power is None else _integer(power)
        digits = _WHOLE.fullmatch(integer)
        if digits is None and not is_missing(name):
            return names
        whole.append(name if digits is None or is_missing(name) else digits[1])
    return whole


def look(name: str) -> str:
    """Return what ids that look alike have in common."""
    if not (name.isascii() and name.isprintable()):
        kept = (sign for sign in name if unicodedata.category(sign) not in {"Cc", "Cf"})
        name = unicodedata.normalize("NFKC", "".join(kept))
    return " ".join(name.split()).lstrip("0").casefold()


def _visible(name: str) -> str:
    visible = name.translate(_INVISIBLE)
    return unicodedata.normalize("NFC", visible if visible == name else visible.strip())


def _integer(power: re.Match[str]) -> str:
    """Return the integer that a power of ten is, else its text, also if digits are lost."""
    first, rest, letter, plus, exponent = power.groups(default="")
    zeros = int(exponent) - len(rest)
    if zeros <= 0 and int(exponent) < _DOUBLE:
        kept, cut = rest[: int(exponent)], rest[int(exponent) :]
        return power[0] if cut.strip("0") else f"{first}{kept}"
    # R writes 1e+05 for 100000 and Java 1.2E7; spreadsheets write 1.23E+05 for 123456.
    short = int(exponent) < _LONG - 1 or len(rest) > _SHOWN
    sure = short and int(exponent) < _DOUBLE and not (letter == "E" and plus)
    return f"{first}{rest}{'0' * zeros}" if sure else power[0]


def lost_digits(values: Sequence[Any], names: Sequence[str]) -> Doubt | None:
    """Return the first id that a spreadsheet or a floating-point number has changed, if any.

    Args:
        values: the distinct values of the column, as read.
        names: the id of each.
    """
    again = "read the ids as text and save them again, as in a spreadsheet with the format Text"
    for index, name in enumerate(names):
        # No id of letters and digits has a sign beside the power, or a point before a high one.
        power = _POWER.fullmatch(name) if "+" in name or "." in name else None
        high = power is not None and (power[4] or int(power[5]) >= _LONG - 1)
        if power is not None and high and _integer(power) == name:
            return index, f"{show(name)} is a number whose last digits are lost: {again}"
        if name[:1] == "#" and len(name) > 2 and not name.strip("#"):
            fault = "is what a spreadsheet writes where its column is too narrow"
            return index, f"{show(name)} {fault}: widen the column and save it again"
    floats = list(map(_as_float, values, names))
    exact = 2 ** _bits(floats)
    for index, value in enumerate(floats):
        if exact <= abs(value) < math.inf:
            fault = (
                "is a floating-point number of a type that does not hold all integers of its size"
            )
            return index, f"{show(names[index])} {fault}: {again}"
    pairs = [name for name in names if ("-" in name or "/" in name) and _PAIR.fullmatch(name)]
    dates = [k for k, name in enumerate(names) if pairs and _MONTH.fullmatch(name)]
    # Few of the names of films look like pairs or dates.
    if dates and len(pairs) + len(dates) > _FEW * len(names):
        fault = f"looks like a date that a spreadsheet made of an id such as {show(pairs[0])}"
        return dates[0], f"{show(names[dates[0]])} {fault}: {again}"
    long = [k for k, name in enumerate(names) if len(name) >= _LONG and name.isdecimal()]
    # JavaScript writes doubles with 16 or 17 digits and zeros.
    kept = [(_KEPT + n + 1, _KEPT + n) for n in range(3)]
    for length, digits in (*kept, (_LONG, _SHOWN)):
        able = [k for k in long if len(names[k]) >= length]
        rounded = not any(names[k][digits:].strip("0") for k in able)
        ends = Counter(names[k][digits - 1] for k in able)
        full = len(able) - ends["0"]
        if rounded and full >= _SEVERAL and 2 * full > len(able) and len(ends) > 2:
            fault = f"has zeros behind its first {digits} digits, as all long ids of the column"
            return able[0], f"{show(names[able[0]])} {fault}, so others are lost: {again}"
    return None


def _as_float(value: Any, name: str) -> float:
    """Return a floating-point number, also one as text that is named as an integer, else 0."""
    if isinstance(value, str) and value.endswith(".0") and name != value:
        return number(value)
    return value if isinstance(value, float) else 0.0


def _bits(values: Sequence[float]) -> int:
    """Return the bits that numbers have had, as all large ones are multiples of powers of 2."""
    for bits in _SHORT:
        large = [value for value in values if 2**bits <= abs(value) < math.inf]
        spaces = [math.frexp(value)[1] - bits for value in large]
        steps = [math.ldexp(value, -space) for value, space in zip(large, spaces, strict=True)]
        # Round numbers are multiples of higher powers.
        odd = sum(step % 2 for step in steps)
        if sum(spaces) >= _SURE and odd > _ODD * len(steps) and all(s.is_integer() for s in steps):
            return bits
    return _FLOAT


def bracketed(names: Sequence[str]) -> Doubt | None:
    """Return the first list in brackets if most ids are, as in `['a', 'b']`, `[1 2]` or `{a,b}`."""
    able = [k for k, name in enumerate(names) if _BRACKETS.fullmatch(name)]
    several = [k for k in able if not {",", "'", '"', " "}.isdisjoint(names[k])]
    if len(able) < 0.9 * sum(map(bool, names)) or 10 * len(several) < len(able) or not several:
        return None
    return several[0], a_list(names[several[0]])


def a_list(name: str) -> str:
    """Say what is wrong with an id that is a list."""
    return f"{show(name)} is a list: write a row for each of its parts, or name another column"


def clicked(names: Sequence[str]) -> Doubt | None:
    """Return the first id with a label, such as `N7-1` beside `N7-0`, if all have one."""
    if not all(name.endswith(("-0", "-1")) for name in names):
        return None
    both = sum(count > 1 for count in Counter(name[:-2] for name in names).values())
    if both < _SEVERAL:
        return None
    fault = (
        "ends in a label, as in -1 for a click and -0 for none: write the label in its own column"
    )
    return 0, f"{show(names[0])} {fault}"


def separated(names: Sequence[str]) -> str | None:
    """Return what separates the parts of lists if most ids look like one.

    Such are lists of ids, such as `N13 N45` and `1,7`, whose parts look alike and occur again, and
    words between `|`, `;` or `,` without blanks that occur again often. Names of several words are
    none. Ids with two parts may look the same, so the caller asks whether each stands alone.
    """
    names = names[:_LISTED]
    for separator in ("|", ";", ", ", ",", " "):
        lists = [k for k, name in enumerate(names) if separator in name]
        if len(lists) < max(2, _MOST * len(names)):
            continue
        cells = [names[k].split(separator) for k in lists]
        parts = [part for cell in cells for part in cell]
        # Ids of two kinds of parts have much fewer of one.
        ends = sorted(len({cell[end] for cell in cells}) for end in (0, -1))
        if ends[1] > _KINDS * ends[0]:
            continue
        shapes = Counter(_DIGITS.sub("0", part) for part in parts)
        shape, alike = shapes.most_common(1)[0]
        share = len(set(parts)) / len(parts)
        if "0" in shape and alike >= _ALIKE * len(parts):
            most = _OF_ALIKE
        elif " " in separator or any(part != part.strip() for part in parts):
            continue
        else:
            most = _OF_WORDS
        if share <= most:
            return separator
    return None


def uneven(names: Sequence[str], separator: str) -> bool:
    """Whether lists have parts of various numbers, or that are ids alone, as combined ids have not.

    Numbers with marks between thousands are no lists.
    """
    lists = [name for name in names if separator in name]
    if all(map(_MARKED.fullmatch, lists)):
        return False
    sizes = Counter(name.count(separator) for name in names)
    parts = {part for name in lists for part in name.split(separator)}
    alone = len(parts.intersection(names))
    return max(sizes.values()) < _USUAL * len(names) or alone > _MOST * len(parts)


def pointed(values: Sequence[Any]) -> int | None:
    """Return the index of the first number such as `1.858` that is likely 1858.

    Beside whole numbers below 1000 all others have exactly three decimals, which decimals of three
    digits do not all have.
    """
    texts = [value.strip() for value in values if isinstance(value, str)]
    if len(texts) < len(values):
        return None
    points = [k for k, text in enumerate(texts) if _POINTED.fullmatch(text)]
    whole = sum(map(bool, map(_SMALL.fullmatch, texts)))
    if len(points) < 2 * _SEVERAL or not whole or len(points) + whole < len(texts):
        return None
    return points[0]


def punctuated(begin: str, value: Any, values: Sequence[Any]) -> str:
    """Say what to write for a number with marks between thousands or a decimal comma, else "".

    Args:
        begin: how the sentence begins.
        value: the number as text.
        values: all values of its column.
    """
    text = str(value).strip()
    marked, comma = _MARKED.fullmatch(text), _COMMA.fullmatch(text)
    decimals = [other for other in map(str, values) if _COMMA.fullmatch(other.strip())]
    odd = any(
        not _MARKED.fullmatch(other.strip()) or other.strip()[:1] == "0" for other in decimals
    )
    if comma and (odd or not marked):
        return f"{begin} is not a number: write decimals with a point"
    if not marked:
        return ""
    plain = text.replace(marked["mark"] or ",", "").replace(",", ".")
    if (
        comma
        and len(decimals) == len(values)
        and max(int(other.split(",")[0]) for other in decimals) <= _HIGHEST
    ):
        point = text.replace(",", ".")
        return (
            f"{begin} is {plain} with a separator of thousands or {point} with a decimal comma: "
            f"write {plain} or {point}"
        )
    return f"{begin} looks like {plain} with a separator of thousands: write {plain}"
