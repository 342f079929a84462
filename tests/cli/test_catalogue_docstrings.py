from __future__ import annotations

from dpaudit.cli.catalogue import attributes, text


class Base:
    """A base.

    Attributes:
        size: how large.
        kept: from the base.
    """


class Own(Base):
    """One line.

    More of it, with `code:` in it.

        size: no entry, but an example

    Attributes:
        size: how large, in a sentence
            of two lines.
        other: another: with a colon.

    Raises:
        ValueError: never.
    """


class Silent(Own):
    pass


def test_the_nearest_class_explains_an_attribute() -> None:
    assert attributes(Own) == {
        "size": "how large, in a sentence of two lines.",
        "kept": "from the base.",
        "other": "another: with a colon.",
    }


def test_a_class_without_a_docstring_has_the_attributes_of_its_bases() -> None:
    assert attributes(Silent) == attributes(Own)
    assert text(Silent) == ""


def test_the_text_leaves_the_attributes_out() -> None:
    said = text(Own)
    assert said.startswith("One line.\n\nMore of it")
    assert "an example" in said
    assert "of two lines" not in said
    assert "ValueError: never." in said
