"""A wrong file of a paper is refused with the entry and the field; a right one is read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpaudit import claims
from dpaudit.claims import park_acharya_2011
from dpaudit.claims.catalogue import _PAPERS, _is_part, read
from dpaudit.claims.games import PredictionGame
from dpaudit.claims.record import Check

FOLDER = Path(claims.__file__).parent
FILE = """
[part.twenty]
is = "own_replaced"
outputs = 20

[[claim]]
id = "pa11-thm3.1-own"
sentence = "It is private."
source = "Park & Acharya 2011, Theorem 3.1"
adjacency = "rating-replace"
observer = "values"
recorded = "falsified"
because = "It is not."

[[claim.published]]
is = "PredictionGame"
label = "five"
defense = { is = "SlopeOne", epsilon = 2, adjacency = "rating-replace" }
make_pair = { is = "own_replaced", outputs = 5 }
trials = 1_000
weak = "It hardly moves."

[[claim.published]]
is = "check"
label = "300 rows"
statement = "stationary_law"
power = 0.5

[[claim.corrected]]
is = "PredictionGame"
label = "twenty"
defense = { is = "SlopeOne", epsilon = 2, variant = "corrected" }
make_pair = "twenty"
"""
ENTRY, GAME, CHECK = "pa11-thm3.1-own: ", "published.0", "published.1"


def test_a_file_names_what_is_code_and_has_the_rest() -> None:
    [entry] = read(FILE, [park_acharya_2011])
    game, check = entry.published
    assert isinstance(game, PredictionGame)
    assert (game.label, game.trials, game.claimed()) == ("five", 1000, (2.0, 0.0))
    assert "shown 5 predictions" in game.pair()
    assert isinstance(check, Check)
    assert "L1" in (check.counterexample(3) or "")
    [corrected] = entry.corrected
    assert not isinstance(corrected, Check)
    assert "shown 20 predictions" in corrected.pair()
    assert entry.weak == {"five": "It hardly moves."}
    assert (entry.basis, entry.reading, entry.held_by) == ("as stated", "", "")


@pytest.mark.cases(
    ("right", "wrong", "words"),
    [
        ('because = "It is not."\n', "", f"{ENTRY}because: Field required"),
        ('observer = "values"', 'observers = "values"', f"{ENTRY}observers: Unexpected"),
        ('"falsified"', '"false"', f"{ENTRY}recorded: Input should be 'falsified'"),
        ('adjacency = "rating-replace"\nobserver', 'adjacency = "day"\nobserver', f"{ENTRY}adj"),
        ('"check"', '"PredictonGame"', f"{ENTRY}{CHECK}.is: there is no part 'PredictonGame'; did"),
        ('is = "check"\n', "", f"{ENTRY}{CHECK}.is: there is no part None"),
        ('"check"\n', '"own_replaced"\noutputs = 1\n', f"{ENTRY}{CHECK}: "),
        ('label = "five"', "label = 5", f"{ENTRY}{GAME}.label: Input should be a valid string"),
        ("trials = 1_000", 'trials = "all"', f"{ENTRY}{GAME}.trials: "),
        ("trials = 1_000", "trial = 1_000", f"{ENTRY}{GAME}: .*'trial'"),
        ("outputs = 5", 'outputs = "five"', f"{ENTRY}{GAME}.make_pair.outputs: "),
        ("outputs = 5", "output = 5", f"{ENTRY}{GAME}.make_pair: .*'output'"),
        ("epsilon = 2, adj", "epsilon = -2, adj", f"{ENTRY}{GAME}.defense.epsilon: "),
        ("epsilon = 2, adj", "epsilom = 2, adj", f"{ENTRY}{GAME}.defense.*epsilo"),
        ('make_pair = "twenty"', 'make_pair = "ten"', f"{ENTRY}corrected.0.make_pair: there is no"),
        ('make_pair = "twenty"', "make_pair = 20", f"{ENTRY}corrected.0.make_pair: "),
        ("power = 0.5", "powers = 0.5", f"{ENTRY}{CHECK}: "),
        ("outputs = 20", 'outputs = "all"', "part.twenty.outputs: "),
        ('id = "pa11-thm3.1-own"\n', "", "a claim without id: id: Field required"),
    ],
)
def test_a_mistake_is_named_with_its_entry_and_field(right: str, wrong: str, words: str) -> None:
    assert right in FILE
    with pytest.raises(ValueError, match=f"^{words}"):
        read(FILE.replace(right, wrong, 1), [park_acharya_2011])


@pytest.mark.cases("key", _PAPERS)
def test_a_file_names_what_is_code_unless_code_does(key: str) -> None:
    files, code = (
        "".join(path.read_text(encoding="utf-8") for path in FOLDER.rglob(ending))
        for ending in ("*.toml", "*.py")
    )
    for module in _PAPERS[key][2]:
        own = [
            name
            for name, part in vars(module).items()
            if _is_part(name, part) and part.__module__ == module.__name__
        ]
        if module.__name__.startswith("dpaudit.claims."):
            named = {*re.findall(r'= "(\w+)"', files)}
            assert [
                n for n in own if n not in named and len(re.findall(rf"\b{n}\b", code)) < 2
            ] == []
