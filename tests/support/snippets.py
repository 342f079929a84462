"""The fenced blocks of a Markdown page, and how a page says that they are tested.

The first line of a block of commands may say what they need, for readers and tests alike:
`# needs THING, THING: more about these`. A thing that is a file of the tests stands for one of the
reader's own, and the commands are run on it. If anything else is needed, they are not run.

A comment before a block, `<!-- test WORD: VALUE -->`, is one of

- `skip: REASON`: the block, which holds no commands, is not run;
- `long`: it takes long, and is run by `pytest -m long` alone;
- `quick: OPTIONS`: so is the whole of it; other runs add these options to its `dpaudit run`, such
  as fewer trials, and compare neither the output nor which gates pass;
- `exit: N`: the exit code of its last command, 0 unless given;
- `file: NAME`: the block is the content of this file;
- `append: NAME`: the block is added to this file;
- `onto: CONFIG`: the block is part of a config, with the tables of this one beside it;
- `setup: COMMAND`: what is run before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted({*ROOT.glob("*.md")} - {ROOT / "CHANGELOG.md"}),
    *(page for folder in ("docs", "examples") for page in sorted((ROOT / folder).rglob("*.md"))),
]
SHELL = {"bash", "console"}
WORDS = {"skip", "long", "quick", "exit", "file", "append", "onto", "setup"}
_COMMENT = re.compile(r"<!--\s*test (\w+)(?::\s*(.*?))?\s*-->", re.DOTALL)
_NEEDS = re.compile(r"# needs ([^:\n]+)")
_NUMBER = re.compile(r"[-−]?\d[\d ]*(?:[.,]\d+)*(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        place: page and line, for messages.
        language: what its fence names.
        text: its content.
        notes: what the comments before it say.
    """

    place: str
    language: str
    text: str
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def needs(self) -> list[str]:
        """Return what its first line says that it needs."""
        line = _NEEDS.match(self.text)
        return [thing.strip() for thing in line[1].split(",")] if line else []

    @property
    def commands(self) -> list[tuple[str, str]]:
        """Return its shell commands, each with the output that is shown below it."""
        lines = self.text.replace("\\\n", " ").splitlines()
        if self.language != "console":
            return [(line, "") for line in lines if line.strip() and not line.startswith("#")]
        lines = lines[1:] if self.needs else lines
        found: list[tuple[str, str]] = []
        for line in lines:
            if line.startswith("$ "):
                found.append((line[2:], ""))
            else:
                command, shown = found[-1]
                found[-1] = command, f"{shown}{line}\n"
        return found


def blocks(path: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page, in order."""
    notes: dict[str, str] = {}
    for token in MarkdownIt().parse(path.read_text(encoding="utf-8")):
        if token.type == "html_block":
            notes |= {word: said or "" for word, said in _COMMENT.findall(token.content)}
        elif token.type == "fence":
            assert token.map is not None
            place = f"{path.name}:{token.map[0] + 1}"
            yield Block(place, token.info.strip(), token.content, notes)
            notes = {}
    if notes:
        raise ValueError(f"{path.name} ends with a comment on tests that no block follows")


def missing(shown: str, actual: str) -> list[str]:
    """Return the shown lines that an actual output does not have, numbers aside.

    Spaces, line ends and the lengths of rules and bars are not compared. `…` stands for any text.
    """
    have = _bare(actual)
    lost = []
    for line in shown.splitlines():
        parts = [_bare(part) for part in line.split("…")]
        if not all(part in have for part in parts):
            lost.append(line)
    return lost


def _bare(text: str) -> str:
    bars = re.sub(r"█+|·+", lambda bar: bar[0][0], re.sub(r"[─━-]{3,}", "", text))
    return " ".join(_NUMBER.sub("0", bars).split())
