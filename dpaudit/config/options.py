"""Options that replace values of a config: `-s KEY=VALUE`, and `--seed`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from dpaudit.core.errors import ConfigError
from dpaudit.core.messages import quoted

# The most characters of an option in a message.
_SHOWN = 100


# The values in a message: two messages with the same words but for these have one cause.
_VALUES = re.compile(r"'[^']*'|\d+(\.\d+)?")


class WrongConfigError(ConfigError):
    """A config with a wrong value; the message does not say where it comes from.

    Attributes:
        place: the keys of the value from the outermost in, the key of a list followed by an index;
            empty if several tables do not fit together.
    """

    def __init__(self, message: str, place: Sequence[int | str] = ()) -> None:
        super().__init__(message)
        self.place = place


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes:
        said: the option as in a message, with its value.
        key: the dotted key.
        value: the value.
    """

    said: str
    key: str
    value: Any

    @classmethod
    def parse(cls, text: str) -> Option:
        """Parse `KEY=VALUE`; a value that is no TOML is text.

        Raises:
            ConfigError: there is no `=`, no key, or an end of line.
        """
        key, equals, value = text.partition("=")
        if not equals or not key.strip() or "\n" in text:
            raise ConfigError(f"the option --set {text!r} is not KEY=VALUE: e.g. audit.trials=1000")
        try:
            parsed = tomllib.loads(f"value = {value}")["value"]
        except (ValueError, RecursionError):
            parsed = value  # a bare word is text: data.path=u.data
        return cls(f"--set {quoted(text, _SHOWN)}", key.strip(), parsed)

    def apply(self, values: dict[str, Any]) -> None:
        """Replace the value in a parsed config.

        Raises:
            ConfigError: the key leads to no place of the config.
        """
        *parents, last = self.key.split(".")
        node: Any = values
        try:
            for parent in parents:
                node = _only(node, parent)
                if isinstance(node, list):
                    node = node[int(parent)]
                elif not _is_whole(node, parent):
                    node = node.setdefault(parent, {})
            node = _only(node, last)
            # A copy, as a later option may change a table that this one sets.
            node[int(last) if isinstance(node, list) else last] = deepcopy(self.value)
        except (IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(
                f"the option {self.said} names no key of the config: {_places(values, parents)}"
            ) from error

    def sets(self, place: Sequence[int | str]) -> bool:
        """Whether it sets the value at this place, or a table around it.

        Args:
            place: the keys from the outermost in; the key of a list is followed by an index.
        """
        rest = list(place)
        for part in self.key.split("."):
            # The index of the only table of a list may be left out.
            while rest and isinstance(rest[0], int) and not part.isdecimal():
                rest.pop(0)
            if not rest or str(rest.pop(0)) != part:
                return False
        return True


def to_blame(
    error: WrongConfigError,
    options: Sequence[Option],
    attempt: Callable[[Sequence[Option]], object],
) -> list[Option]:
    """Return the options without which the error would not occur; none if the file is to blame.

    Args:
        error: the error with all options.
        options: all options.
        attempt: checks the config with some of them.
    """
    mended, changed = [], []
    for index, option in enumerate(options):
        try:
            attempt([*options[:index], *options[index + 1 :]])
            mended.append(option)
        except WrongConfigError as other:
            if _VALUES.sub("", str(other)) != _VALUES.sub("", str(error)):
                changed.append(option)
        except ConfigError:  # another option needs this one
            continue
    if mended or changed:
        return mended or changed
    # Without the last option that sets this place, an earlier wrong value of it would count.
    return [option for option in options if option.sets(error.place)][-1:]


def _only(node: Any, key: str) -> Any:
    """Return the only table of a list if no index is given: model.epsilon for model.0.epsilon."""
    if isinstance(node, list) and len(node) == 1 and not key.isdecimal():
        return node[0]
    if isinstance(node, list) and not key.isdecimal():
        raise ValueError(key)
    return node


def _places(values: dict[str, Any], parents: Sequence[str]) -> str:
    """Say which tables there are to choose from, if the key begins with a list of them."""
    name = parents[0] if parents else ""
    tables = values.get(name)
    if not isinstance(tables, list):
        return "correct the key, e.g. audit.trials"
    last = f" to {name}.{len(tables) - 1}" if len(tables) > 1 else ""
    return f"its [[{name}]] are {name}.0{last}: give one of these"


def _is_whole(node: Any, key: str) -> bool:
    """Whether `key` is the index 0 of a table that stands alone: `model.0.epsilon` of `[model]`."""
    return key == "0" and isinstance(node, dict) and key not in node
