"""Which line of code is to blame for a fault: by source, and by what two trainings execute."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from types import FrameType
from typing import Any

from dpaudit.audits.dp_training.transcript import Place
from dpaudit.audits.dp_training.verdict import Verdict

# A line that a training executes, with a digest of its state before.
Executed = tuple[Place, str]
# The names of what draws noise, clips, reads all rows, counts, seeds and draws batches.
_DRAWS = (
    "_generate_noise", "normal", "normal_", "randn", "randn_like", "standard_normal", "laplace",
    "uniform", "uniform_", "rand_like", "Normal", "Laplace", "Uniform",
)  # fmt: skip
_CLIPS = ("clip", "clip_", "clamp", "clamp_", "minimum", "clip_grad_norm_", "min", "norm")
_READS = (
    "mean", "std", "var", "max", "min", "amax", "amin", "median", "quantile", "unique", "nunique",
    "factorize", "bincount", "average",
)  # fmt: skip
_COUNTS = ("attach_step_hook", "get_optimizer_hook_fn", "step_hook", "compute_epsilon")
_SEEDS = ("Generator", "manual_seed", "default_rng", "RandomState", "seed")
_MAKES = ("make_private", "make_private_with_epsilon")
# Which part of a step a check is about, and what to look for in it, or in the training; checks of
# noise are about its draws.
_ABOUT: Mapping[str, tuple[str, Sequence[str]]] = {
    "clipping": ("clip_and_accumulate", _CLIPS),
    "sum": ("clip_and_accumulate", _CLIPS),
    "noise-seed": ("add_noise", _SEEDS),
    "noise-scale": ("scale_grad", ()),
    "batch-rate": ("", _COUNTS),
    "batch-shape": ("", (*_MAKES, "DataLoader", "permutation", "shuffle", "choice")),
    "steps-counted": ("", _COUNTS),
    "transcript": ("", _READS),
}


def blamed(verdict: Verdict, places: Mapping[str, Place]) -> Verdict:
    """Return a verdict of a check that fails with the line that is to blame, if it is known.

    A part of the step that the training replaces by its own is to blame, and in it the call that
    does what the check is about. Else it is such a call in the function that called watch, or what
    made the optimizer private.

    Args:
        verdict: the verdict.
        places: the lines of parts of a step, and of `watch`.
    """
    if not verdict.fails or verdict.place is not None or "watch" not in places:
        return verdict
    watch = places["watch"]
    if verdict.check == "number":
        return verdict.at(_divisor(places) or watch)
    part, names = _ABOUT.get(verdict.check, ("add_noise", _DRAWS))
    if verdict.check == "sum" and "without the row" in verdict.text:
        part, names = "", _READS
    method = places.get(part)
    # What stands in an installed package is the library's, unless the training does as well.
    if method is not None and ("site-packages" not in method.file or method.file == watch.file):
        return verdict.at(_call(method, names) or method)
    call = _call(watch, names)
    return verdict.at(call or places.get("step") or _call(watch, _MAKES) or watch)


def _divisor(places: Mapping[str, Place]) -> Place | None:
    """Return the line of Opacus that computes the divisor, or that of a loop of one's own."""
    engine = sys.modules.get("opacus.privacy_engine")
    if "scale_grad" not in places or engine is None or engine.__file__ is None:
        return places.get("step")
    lines = enumerate(linecache.getlines(engine.__file__), 1)
    divides = [number for number, line in lines if "expected_batch_size =" in line]
    return Place(engine.__file__, divides[0]) if divides else None


def _call(place: Place, names: Sequence[str]) -> Place | None:
    """Return the first call of one of these names in the innermost function around a line."""
    tree = ast.parse("".join(linecache.getlines(place.file)))
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and min([node.lineno, *(mark.lineno for mark in node.decorator_list)]) <= place.line
        and place.line <= (node.end_lineno or node.lineno)
    ]
    if not around:
        return None
    calls = [node for node in ast.walk(around[-1]) if isinstance(node, ast.Call)]
    lines = sorted(
        (not _likely(call, names, place.line), names.index(name), call.func.end_lineno or 0)
        for call in calls
        if (name := _name(call.func)) in names
    )
    return Place(place.file, lines[0][2]) if lines else None


def _likely(call: ast.Call, names: Sequence[str], line: int) -> bool:
    """Whether a call is likelier to blame: a constant seed, and noise behind the given line."""
    if names is _SEEDS:
        return bool(call.args) and all(isinstance(one, ast.Constant) for one in call.args)
    return names is not _DRAWS or call.lineno > line


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def traced(folder: str, state: Callable[[], str], train: Callable[[], Any]) -> list[Executed]:
    """Train, and return the lines of the user's code that are executed.

    Args:
        folder: the folder of the user's code.
        state: returns a digest of weights, buffers and learning rates.
        train: trains.
    """
    lines: list[Executed] = []

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        file = frame.f_code.co_filename
        return record if file.startswith(folder) and "site-packages" not in file else None

    def record(frame: FrameType, event: str, argument: Any) -> Any:
        # After a function returns, the line that called it goes on.
        at = frame.f_back if event == "return" else frame
        if event in ("line", "return") and at is not None:
            lines.append((Place(at.f_code.co_filename, at.f_lineno), state()))
        return record

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        train()
    finally:
        sys.settrace(before)
    return lines


def parting(one: Sequence[Executed], other: Sequence[Executed]) -> Place | None:
    """Return the line after which two trainings with the same noised sums part; None if none does.

    They execute other lines there, or have another state.
    """
    both = zip(one, other, strict=False)
    shared = [place for (place, _), _ in takewhile(lambda lines: lines[0] == lines[1], both)]
    return shared[-1] if shared else None
