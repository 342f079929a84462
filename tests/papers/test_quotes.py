"""What the pages on papers quote has a verdict beside it; docs/test_training.py has the trained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
VERDICTS = ("so", "not so", "undecided", "not tested")
SUPPORT = "no claim: what a reading rests on"
# Quoted, but not of a paper.
OURS = {"none up to 4×"}
# What each page quotes of four words or more, by how it begins, and its verdict.
QUOTED = {
    "claims/pa11.md": {
        "As the curve is convex, there exists a unique ε": "not so",
        "In practice, the value of U_s can be set at 10 φ": "not so",
        "the minimum between the value 10 and the number of sets explored": SUPPORT,
        "It is clear, that the distribution converges towards zero": "so",
        "Particularly, for ε = 100, the divergence is 0 since the beginning": "undecided",
        "A set is generated only when the sampled point resides in the last set": SUPPORT,
    },
    "claims/wt17.md": {
        "We omit S_ij < 0 part in Equation (5) which does not compromise": "not so",
        "removing “paranoid” records makes … hold": "not tested",
        "DPSGD-MF and DPPS-MF are more accurate when privacy loss is large": "not so",
        "omitted for ease of notation": SUPPORT,
        "The pair is in the mini-batch": SUPPORT,
    },
    "claims/lws15.md": {
        "the posterior distribution concentrates around models that predict": "undecided"
    },
    "claims/coverage.md": {
        "calibrate the MCMC procedure itself": "not tested",
        "matches the observation in [4]": "not tested",
        "match previous works [13, 14]": "not tested",
        "matches (and slightly improves)": "not tested",
    },
    "results/movielens.md": {
        "the distribution converges towards zero": "so",
        "For ε = 100, the divergence is 0 since the beginning": "undecided",
    },
}


def blocks(page: str) -> list[str]:
    """The paragraphs, rows and entries of lists of a page, each in one line, without code."""
    text = (DOCS / page).read_text(encoding="utf-8")
    text = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    parts = re.split(r"\n\s*\n|\n(?=\s*- |\|)", text)
    return [re.sub(r"\s+", " ", part) for part in parts]


@pytest.mark.cases("page", QUOTED)
def test_each_quoted_sentence_is_listed_and_has_its_verdict_beside_it(page: str) -> None:
    unseen = dict(QUOTED[page])
    for block in blocks(page):
        for quote in re.finditer(r'"([^"]+)"|“((?:[^“”]|“[^”]*”)+)”', block):
            words = quote[1] or quote[2]
            if len(words.split()) < 4 or words in OURS:
                continue
            listed = [of for of in unseen if words.startswith(of)]
            assert listed, f"not listed: {words}"
            verdict = unseen.pop(listed[0])
            if verdict != SUPPORT:
                after = re.search(rf"(?:\*\*|– )({'|'.join(VERDICTS)})\b", block[quote.end() :])
                assert after, words
                assert after[1] == verdict, words
    assert not unseen
