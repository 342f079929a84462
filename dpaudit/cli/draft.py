"""The text of a config that `dpaudit init` writes, and what is stated of the file of its data.

Its audit of private recommenders takes about a minute, by the sizes that fit the data.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from string import Template
from textwrap import wrap
from typing import Any, Literal, NamedTuple

import click
import numpy as np
from pydantic import BaseModel, TypeAdapter, ValidationError

from dpaudit.attacks.base import MembershipInference
from dpaudit.audits.membership.config import Membership, default_rates, target_sizes
from dpaudit.audits.membership.design import Design
from dpaudit.audits.models.config import SERVED
from dpaudit.cli.writing import echo
from dpaudit.config.tables import attacks_of
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.membership import ROWS, UNLEARNING
from dpaudit.core.messages import place, show
from dpaudit.core.releases import Profile
from dpaudit.data.folds import split_users
from dpaudit.data.ratings import Ratings
from dpaudit.data.readers.cells import number
from dpaudit.data.readers.columns import UnknownColumnsError
from dpaudit.data.readers.load import load
from dpaudit.data.sniff import Sniffed, StatedLayout, sniff
from dpaudit.data.sniff_ratings import UnknownScaleError
from dpaudit.data.source import DataSource, MissingIds
from dpaudit.data.source_parts import Columns, Encoding, SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.reports.render.toml import inline

Audit = Literal["membership", "deletion", "dp-training"]
_SYNTHETIC = """\
format = "synthetic"             # embedded generator, MovieLens-like
# format = "delimited"           # 'dpaudit init --data FILE' finds out all of [data]
# path = "${DPAUDIT_DATA}/ratings.csv"
# binarize = 4                   # ratings of 4 and more become purchases, all others are dropped"""
# What each audit asks.
_QUESTIONS = {
    "membership": "can an attacker tell whose data trained your recommender?",
    "deletion": "does your recommender forget whom it is asked to delete?",
}
# The same recommender after a deletion.
_FORGETS = """

[[recommender]]                  # the same one, asked after its targets are deleted
{0}
# or {2}
forget = "{1}"
"""
# Gates; exit code 4 is that of UNDECIDED. What limits mean stands in docs/guides/limits.md.
_GATE = """\
[[gate]]                         # exit code 0: all pass, 1: one fails, 4: inconclusive
metric = "attack.tpr"            # others: 'dpaudit list metrics'
where = {{ observer = "scores", at = {rate:g} }} # without observer: all of them
max = {limit:g} # a hit then raises the odds {times:.2g} times on average: docs/guides/limits.md"""
_FORGOTTEN = """\
[[gate]]                         # exit code 0: all pass, 1: one fails, 4: inconclusive
metric = "deletion.advantage"    # of models with forget alone; 'dpaudit list metrics'
max = {limit:g} # hardly exceeded without a leak; other limits: docs/guides/limits.md"""
# A value and its comment.
_COMMENTED = re.compile(r"^(.*\S) +(# .*)$", re.MULTILINE)
# Trainings of which enough are judged that gates can pass.
_TRAININGS = 24
# How many times the false-positive rate a gate allows, where that is half or less.
_TIMES = 10
# The seed of the config, and the share of attacked users.
_SEED, _SHARE = 7, 0.2
# Time and memory grow with the square of the number of items.
_ITEMS = 4000
# The fewest ratings of an attacked user, and the fewest such users.
_RATINGS, _USERS = 3, 5


def of_synthetic(library: str | None, audit: Audit | None) -> str:
    """Return the config of a library's recommender, or of private ones, on generated ratings."""
    if library is None:
        return _filled("template.toml", _SYNTHETIC, DefenseSizes()._asdict())
    return _own(library, audit, _SYNTHETIC, generate(SyntheticParams()), "")


def of_file(
    path: Path, library: str | None, audit: Audit | None, stated: StatedLayout
) -> tuple[str, list[str]]:
    """Return the config for a file, and sentences on what was found and what is audited."""
    file = sniffed(path, stated)
    ratings = load(file.source)
    rated = ratings.scale.width > 0
    kind = "ratings" if rated else "interactions"
    size = f"{len(ratings)} {kind} of {ratings.n_users} users with {ratings.n_items} items"
    layout = f"{place(path)}: {size}; {file.layout}. {file.ratings}"
    repairs = ", ".join(f"{repair.what}: {repair.count}" for repair in ratings.repairs)
    if repairs:
        layout += f" Dropped, merged or in doubt: {repairs}."
    columns = {} if file.source.columns is None else file.source.columns.used
    taken = ", ".join(f"{what} = {show(column)}" for what, column in columns.items())
    comment = wrap(f"Found: {file.layout}. {file.ratings}", 100, break_on_hyphens=False)
    lines = [*(f"# {line}" for line in comment), *_data(file.source, ratings)]
    if library is None and not rated:
        library = usual_library()
    if library is not None:
        what = "Membership inference against" if audit != "deletion" else "Deletion from"
        audited = f"{what} a recommender of {library} is audited."
        if audit == "dp-training":
            audited = f"A training by DP-SGD ({library}) is audited step by step."
        text = _own(library, audit, "\n".join(lines), ratings, f"{place(path)}: ", taken)
        return text, [layout, audited]
    audited = "Private recommenders are audited; --recommender LIBRARY audits one of yours."
    least = least_raters(ratings)
    if least > 1:
        fewer = load(file.source.model_copy(update={"least_raters": least}))
        kept = f"# keeps {fewer.n_items} of {ratings.n_items} items: a run takes about a minute"
        lines.append(_commented(f"least_raters = {least}", kept))
        ratings = fewer
    sizes = defense_sizes(ratings, f"{place(path)}: ")
    return _filled("template.toml", "\n".join(lines), sizes._asdict()), [layout, audited]


def usual_library() -> str:
    """Return a recommender that is installed and needs no ratings."""
    return "implicit" if find_spec("implicit") else "most-popular"


def _own(
    library: str, audit: Audit | None, data: str, ratings: Ratings, begin: str, taken: str = ""
) -> str:
    """Return the config of a library's recommender.

    Args:
        library: the library.
        audit: what is audited; membership if None.
        data: the lines of `[data]`.
        ratings: the data.
        begin: how an error begins.
        taken: the columns that were taken, for errors.

    Raises:
        ConfigError: there is no such library.
        DataError: there are too few interactions.
    """
    if audit == "dp-training":
        return _filled("training.toml", data, {"module": _training(library)})
    recommender = _recommender(library, library)
    sizes = target_sizes(ratings)
    rate = default_rates(sizes.interactions)[-1]
    limit = min(0.5, _TIMES * rate)
    gate = _GATE.format(rate=rate, limit=limit, times=limit / rate)
    if audit == "deletion":
        method = "own" if library == "implicit" else "retrain"
        others = ", ".join(f'"{other}"' for other in UNLEARNING if other != method)
        second = _recommender(library, f"{library} after a deletion")
        recommender += _FORGETS.format(second, method, others)
        gate = _FORGOTTEN.format(limit=_above_chance(sizes.interactions))
    attacks = [name for name, attack in attacks_of(MembershipInference).items() if attack.usual]
    _check(ratings, sizes._asdict(), begin, taken)
    return _filled(
        "recommender.toml",
        data,
        {
            "question": _QUESTIONS[audit or "membership"],
            "recommender": recommender,
            "attacks": ", ".join(attacks),
            "attack": attacks[0],
            "gate": gate,
            "trainings": _TRAININGS,
            # Each score that a command is asked for is a line of a file.
            "observers": inline([one for one in SERVED if one != ROWS or not script_of(library)]),
            **{name: inline(value) for name, value in sizes._asdict().items()},
        },
    )


def _above_chance(targets: int) -> float:
    """Return a limit on the advantage that an attack on a model without a leak hardly exceeds.

    Of n/2 present and as many absent targets it is within 4 standard deviations 1/√n of 0.
    """
    return max(0.1, math.ceil(10 * 4 / math.sqrt(targets)) / 10)


def _check(ratings: Ratings, sizes: dict[str, Any], begin: str, taken: str) -> None:
    """Check that the targets can be drawn.

    Raises:
        DataError: there are too few interactions.
    """
    try:
        Design.of(ratings, Membership(**sizes), _SEED)
    except DataError as error:
        raise DataError(
            f"{begin}too few interactions ({len(ratings)}) or users ({ratings.n_users}) to audit a "
            f"recommender for membership inference{taken and f', with {taken}'}: give some hundreds"
        ) from error


def script_of(library: str | None, audit: Audit | None = None) -> Traversable | None:
    """Return the script beside the config, if it needs one.

    It trains a library in an environment of its own, or is the training that is audited.
    """
    what = "training" if audit == "dp-training" else "model"
    name = f"{library}_{what}.py".replace("-", "_")
    script = files("dpaudit.cli").joinpath("scripts", name)
    return script if script.is_file() else None


def _training(library: str) -> str:
    """Return the module of the script of a training by DP-SGD.

    Raises:
        ConfigError: there is none.
    """
    script = script_of(library, "dp-training")
    if script is None:
        raise ConfigError(
            f"--recommender {library}: trainings by DP-SGD are audited with opacus, jax-privacy, "
            "or own for a loop of your own: name one of these"
        )
    return script.name.removesuffix(".py")


def _recommender(library: str, label: str) -> str:
    """Return the lines that name a library: a command, or an adapter with all its parameters.

    Args:
        library: the library.
        label: of a command; an adapter's model names itself.

    Raises:
        ConfigError: there is no such library.
    """
    script = script_of(library)
    if script is not None:
        return (
            f'label = "{label}"\n'
            f'command = "{library}-venv/bin/python {script.name} {{task}}"\n'
            'params = { timeout = 3600, env = { OMP_NUM_THREADS = "1" } }   # of one training'
        )
    plugin = registry.load("recommenders", library)
    values = {field.name: getattr(plugin(), field.name) for field in fields(plugin)}
    params = inline({name: value for name, value in values.items() if value is not None})
    name = f"library = \"{library}\" # 'dpaudit show {library}' explains its parameters"
    return f"{name}\nparams = {params}"


def _data(source: DataSource, ratings: Ratings) -> list[str]:
    """Return the lines of `[data]` for a file."""
    repeats = sum(
        repair.count for repair in ratings.repairs if repair.what.startswith("rows that rep")
    )
    comments = {
        "scale": "# as found or stated; the range that the raters could use may be wider",
        "outside_scale": "# leaves out and counts ratings outside the scale; 'error' refuses them",
        "on_duplicate": f'# repeated (user, item): {repeats}; "error" would refuse them',
    }
    lines = []
    for name in (name for name in type(source).model_fields if name in source.model_fields_set):
        value = getattr(source, name)
        value = value.model_dump(exclude_unset=True) if isinstance(value, BaseModel) else value
        lines.append(_commented(f"{name} = {inline(value)}", comments.get(name, "")))
    if source.scale:
        values = source.scale.to_scale().values
        high = float(values[-(-3 * (len(values) - 1) // 4)])
        become = f"# ratings of {high:g} and more become purchases, all others are dropped"
        lines.append(_commented(f"# binarize = {high:g}", become))
    return lines


def _commented(line: str, comment: str) -> str:
    return f"{line:<32} {comment}".rstrip()


def _filled(template: str, data: str, values: dict[str, Any]) -> str:
    """Return a template with its values, their comments in one column."""
    text = files("dpaudit.cli").joinpath(template).read_text(encoding="utf-8")
    text = Template(text).safe_substitute(values, seed=_SEED, share=_SHARE)
    text = _COMMENTED.sub(lambda line: _commented(line[1], line[2]), text)
    return Template(text).substitute(data=data)


class DefenseSizes(NamedTuple):
    """Parameters of private recommenders that fit the data; the defaults fit the generated data.

    Attributes:
        min_ratings: the least number of ratings of a served user; half of the users have more.
        min_co_ratings: the threshold of common raters; usual pairs of items have more.
        top_k: the length of the list.
        accuracy: a share of recovered ratings that is above that of the most frequent rating.
    """

    min_ratings: int = 20
    min_co_ratings: int = 10
    top_k: int = 20
    accuracy: float = 0.35


def least_raters(ratings: Ratings) -> int:
    """Return the least number of raters that leaves few enough items."""
    raters = np.sort(np.diff(ratings.by_item.start))[::-1]
    return 1 if len(raters) <= _ITEMS else min(int(raters[_ITEMS]) + 1, int(raters[0]))


def defense_sizes(ratings: Ratings, begin: str) -> DefenseSizes:
    """Return sizes that fit these ratings.

    Args:
        ratings: the data.
        begin: how an error begins.

    Raises:
        DataError: too few users can be attacked.
    """
    top_k = max(1, min(20, ratings.n_items // 4))
    attacked = split_users(ratings, _SHARE, _SEED)[1] if ratings.n_users > 1 else []
    most = ratings.n_items - top_k - 1
    able = sorted((profile for profile in attacked if _RATINGS <= len(profile) <= most), key=len)
    if len(able) < _USERS:
        raise DataError(
            f"{begin}of {ratings.n_users} users, {len(able)} can be attacked, with {_RATINGS} or "
            f"more ratings and items that they have not rated, and {_USERS} are needed: give more "
            "data, or audit a recommender of yours by --recommender LIBRARY"
        )
    min_ratings = min(20, len(able[max(len(able) // 2, len(able) - 100)]) - 1)
    raters = np.diff(ratings.by_item.start).astype(float)
    # Raters of the item of a usual rating, and users that two such items share by chance.
    usual = (raters**2).sum() / raters.sum()
    shared = usual**2 / ratings.n_users
    return DefenseSizes(
        min_ratings=min_ratings,
        # Above min_ratings, the corrected noise covers more than the pair 'tight' shows.
        min_co_ratings=max(2, min(10, min_ratings, int(shared / 2))),
        top_k=top_k,
        accuracy=min(0.99, math.ceil(20 * _guessed(able) + 2) / 20),
    )


def _guessed(users: Sequence[Profile]) -> float:
    """Return the share of a random user's ratings that the best constant guess recovers."""
    _, value = np.unique(np.concatenate([user.values for user in users]), return_inverse=True)
    weights = np.concatenate([np.full(len(user), 1 / len(user)) for user in users])
    return float(np.bincount(value, weights).max()) / len(users)


def stated_by(
    columns: str | None, encoding: str | None, missing_ids: MissingIds, scale: str | None
) -> StatedLayout:
    """Return what options state.

    Raises:
        ConfigError: an option has a wrong value.
    """
    if encoding is not None:
        try:
            TypeAdapter(Encoding).validate_python(encoding)
        except ValidationError:
            raise ConfigError(
                f"--encoding {show(encoding)} is no encoding of text: give one such as cp1252"
            ) from None
    return StatedLayout(
        None if columns is None else _columns(columns),
        encoding,
        missing_ids,
        None if scale is None else _extent(scale),
    )


def sniffed(path: Path, stated: StatedLayout) -> Sniffed:
    """Return what is guessed of a file; ask on a terminal for what cannot be guessed.

    Raises:
        ConfigError: an answer has a wrong value.
        DataError: as `sniff`.
    """
    try:
        return sniff(path, stated)
    except UnknownColumnsError as error:
        columns = _columns(_answer("Columns", error, error.guess))
        return sniffed(path, replace(stated, columns=columns))
    except UnknownScaleError as error:
        extent = _extent(_answer("Range of the ratings", error, error.guess))
        return sniffed(path, replace(stated, extent=extent))


def _answer(question: str, error: DataError, guess: str) -> str:
    """Ask what decides between several ways to read a file.

    Raises:
        DataError: nobody can answer.
    """
    if not _asks():
        raise error
    echo(f"{error}.")
    answer: str = click.prompt(question, default=guess)
    return answer


def _asks() -> bool:
    """Whether somebody can answer a question."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _columns(text: str) -> Columns:
    """Return stated columns, such as `user=0,item=4`.

    Raises:
        ConfigError: the text is something else.
    """
    parts = (part.partition("=") for part in text.split(","))
    stated = {what.strip(): column.strip() for what, _, column in parts}
    try:
        return Columns.model_validate(
            {
                what: int(column) if column.isascii() and column.isdecimal() else column
                for what, column in stated.items()
            }
        )
    except ValidationError:
        raise ConfigError(
            f"--columns {show(text)} does not name a user and another item: write such as "
            "user=0,item=4 or user=userId,item=movieId,rating=stars"
        ) from None


def _extent(text: str) -> tuple[float, float]:
    """Return a stated range, such as `1..10`.

    Raises:
        ConfigError: the text is something else.
    """
    low, high = (number(part) for part in text.partition("..")[::2])
    if not -math.inf < low < high < math.inf:
        raise ConfigError(
            f"--scale {show(text)} is not the lowest and the highest rating: write such as 1..10"
        )
    return low, high
