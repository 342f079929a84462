"""Numbers in text."""

from __future__ import annotations


def plain_number(text: str) -> float:
    """Convert text to a number, as other languages and spreadsheets write it.

    Python also reads `1_0` and the digits of other scripts, which are likelier mistakes.

    Raises:
        ValueError: the text is no number.
    """
    if not text.isascii() or "_" in text:
        raise ValueError(f"could not convert string to float: {text!r}")
    return float(text)
