"""What pages, code and templates tell a reader to run, open or install exists, from a clone."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import click
import pytest
from markdown_it import MarkdownIt
from snippets import PAGES, ROOT, SHELL, blocks  # type: ignore[import-not-found]

from dpaudit.cli import main

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
FOLDERS = ("dpaudit", "tests", "examples", "bench", "docs", "ci", ".ci", ".github")
SUFFIXES = {"", ".md", ".py", ".sh", ".toml", ".yml", ".j2"}
# An installation from an index, which has no dpaudit, and the extras of one from a clone.
FROM_INDEX = re.compile(
    r"(?:pip\w?|uv) (?:install|add) (?:-\S+ )*['\"]?dpaudit\b(?!_)|dpaudit\[\w+\](?! @ )"
)
FROM_CLONE = re.compile(r"pip install [^\n`]*'[./]+\[([\w,]+)\]'")
EXTRA_OF = {"pytest": "test", "sphinx-build": "docs", "playwright": "browser"}
NAMED = re.compile(
    r"(?<![\w/.-])(?:docs|examples|bench|tests|ci)/[\w./-]+\.(?:md|py|toml|sh|yml)\b"
)
# What stands for any name.
ANY = re.compile(r"\b[A-Z]{2,}\b|audit_\w+")
# Commands in sentences of pages, code and templates; in code and templates those in quotes too.
SENTENCE = re.compile(r"`((?:dpaudit|python3?|pytest|sphinx-build|DPAUDIT_DATA=\S+) [^`]*)`")
QUOTED = re.compile(r"[`'](dpaudit [a-z][^`'{]*)[`'{]")
HEADING = re.compile(r"[^\w\- ]")


@cache
def texts() -> dict[Path, str]:
    """The text of all files that a reader may meet, and of the tests."""
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    files += [*ROOT.glob("*.md"), ROOT / "action.yml", ROOT / ".pre-commit-hooks.yaml"]
    return {
        path: path.read_text(encoding="utf-8")
        for path in files
        if path.is_file() and path.suffix in SUFFIXES and "__pycache__" not in path.parts
    }


def page_commands(page: Path) -> Iterator[str]:
    """Yield the shell commands of a page, inline and in blocks, also of those that no test runs."""
    for block in blocks(page):
        if block.language in SHELL:
            yield from (command.partition(" #")[0] for command, _ in block.commands)
        elif block.language in {"yaml", "groovy"}:
            yield from re.findall(r"dpaudit [a-z][^'#\n]*[^'#\s\\]", block.text)
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    yield from (" ".join(command.split()) for command in SENTENCE.findall(prose))


def unknown(command: str) -> list[str]:
    """Return what a `dpaudit` command names and the command line has not."""
    words = command.replace("…", "").replace("'", "").replace('"', "").split()[1:]
    known: click.Command | None = main
    while isinstance(known, click.Group) and words and not words[0].startswith("-"):
        if words[0] not in known.commands:
            return words[:1]
        known = known.commands[words.pop(0)]
    options = {each for part in known.params for each in part.opts} if known else set()
    used = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    return sorted(used - options - {"-h", "--help"})


def test_commands_in_pages_have_options_that_exist() -> None:
    parts = (
        (page.name, part)
        for page in PAGES
        for command in page_commands(page)
        for part in re.findall(r"(?:^|\s)(dpaudit [a-z][^|&;]*)", command)
    )
    assert [(name, part) for name, part in parts if unknown(part)] == []


def test_commands_that_code_and_templates_advise_exist() -> None:
    wrong = [
        (path.relative_to(ROOT).as_posix(), command)
        for path, text in texts().items()
        if path.suffix != ".md" and ROOT / "tests" not in path.parents
        for command in QUOTED.findall(text)
        if unknown(" ".join(command.split()))
    ]
    assert wrong == []


def test_nothing_installs_dpaudit_from_an_index_or_an_extra_that_it_lacks() -> None:
    here = Path(__file__)
    for path, text in texts().items():
        if path != here:
            assert FROM_INDEX.findall(text) == [], path
            for extras in FROM_CLONE.findall(text):
                assert {*extras.split(",")} <= EXTRAS.keys(), path


def libraries(config: Path) -> set[str]:
    """Return the extras that a config needs."""
    tables = tomllib.loads(config.read_text(encoding="utf-8")).get("recommender", [])
    return {table.get("library") for table in tables} & EXTRAS.keys()


def extras_of(command: str) -> set[str]:
    """Return the extras that a command needs."""
    found = {EXTRA_OF[word] for word in re.findall(r"[\w-]+", command) if word in EXTRA_OF}
    for word, after in re.findall(r"(?=(\S+)(?: (\S+))?)", command):
        path = ROOT / word
        if word == "--workers" and after.startswith("dask"):
            found.add("cluster")
        elif word == "--recommender":
            found |= {after} & EXTRAS.keys()
        elif word.endswith(".toml") and path.is_file():
            found |= libraries(path)
        elif word.endswith(".py") and path.is_file():
            found |= installed(path.read_text(encoding="utf-8").partition('"""\n')[0])
    return found


def installed(text: str) -> set[str]:
    """Return the extras that a text says how to install, from a clone."""
    return {extra for extras in FROM_CLONE.findall(text) for extra in extras.split(",")}


@pytest.mark.cases("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_says_which_extras_its_commands_need(page: Path) -> None:
    needed = {extra for command in page_commands(page) for extra in extras_of(command)}
    said = installed(page.read_text(encoding="utf-8"))
    said |= {*EXTRAS} if "dev" in said else set()
    assert needed <= said


def test_an_example_says_which_extra_it_needs() -> None:
    for config in (ROOT / "examples").rglob("*.toml"):
        head = config.read_text(encoding="utf-8")
        assert libraries(config) <= installed(head), config.name


def test_files_of_the_repository_that_are_named_exist() -> None:
    named = {
        (path.relative_to(ROOT).as_posix(), name)
        for path, text in texts().items()
        if ROOT / "tests" not in path.parents
        for name in NAMED.findall(text)
        if not ANY.search(name)
    }
    assert sorted((path, name) for path, name in named if not (ROOT / name).is_file()) == []


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    tokens = MarkdownIt().parse(page.read_text(encoding="utf-8"))
    titles = (
        after.content for token, after in itertools.pairwise(tokens) if token.type == "heading_open"
    )
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in titles)
    return {HEADING.sub("", title.lower()).strip().replace(" ", "-") for title in plain}


@pytest.mark.cases("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    tokens = MarkdownIt().enable("table").parse(page.read_text(encoding="utf-8"))
    children = [child for token in tokens for child in token.children or []]
    links = [str(child.attrs.get("href", child.attrs.get("src", ""))) for child in children]
    for link in links:
        name, _, anchor = link.partition("#")
        if link and "://" not in link and not link.startswith("mailto:"):
            target = (page.parent / name).resolve() if name else page
            assert target.exists(), link
            # The generated pages get their headings from code.
            if anchor and target.suffix == ".md" and target.parent.name != "reference":
                assert unquote(anchor) in anchors(target), link
