"""Checks of one transcript: clipping, noise, batches, and what the accountant counts.

Each check accuses a training that keeps its claim with a probability of at most `ALPHA`. A check
whose law another fault disturbs is not made: where the scale of the noise varies, its size says
nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.audits.dp_training.law import Law
from dpaudit.audits.dp_training.transcript import Step, Transcript
from dpaudit.audits.dp_training.verdict import ALPHA, CAUGHT, Verdict, failed, held, not_tested

# What the sum of clipped gradients may be off by, in units of C: rounding of many rows.
_ROUNDING = 1e-3
# The share of coordinates that may lack noise, and of values that may occur twice in a step.
_LACKING, _TWICE = 0.01, 0.05
# The fewest coordinates without gradient from whose scale steps are compared.
_FREE = 30
# The most steps of which each is compared with each.
_PAIRED = 1024


def of_transcript(transcript: Transcript, law: Law, stress: Transcript | None) -> list[Verdict]:
    """Return what the checks of one training say.

    Args:
        transcript: the training.
        law: what it states.
        stress: the first steps of a training with weights that are a hundred times larger.
    """
    return [
        clipping(transcript, law, stress),
        *noise(transcript.steps, law),
        *batches(transcript, law),
        counted(transcript, law),
    ]


def clipping(transcript: Transcript, law: Law, stress: Transcript | None) -> Verdict:
    """Check that S is the sum of the clipped gradients of the rows, in every step."""
    steps = [*transcript.steps, *(stress.steps if stress else ())]
    seen = [step.clipping for step in steps if step.clipping]
    if not seen:
        why = "no gradient of a row was seen, as in ghost clipping and in loops of one's own"
        return not_tested("clipping", why)
    excess, largest = max(one.excess for one in seen), max(one.largest for one in seen)
    if excess > _ROUNDING:
        text = f"the sum of a step is {excess:.3g} C away from that of the clipped gradients, and a"
        text += f" row's gradient had the norm {largest:.3g} C"
        # Whatever the batch, each row adds at most `largest` C.
        return failed("clipping", text, law.changed(sensitivity=max(1.0, largest)).epsilon)
    if largest <= 1:
        why = f"no gradient exceeded the norm C (the largest had {largest:.3g} C)"
        return not_tested("clipping", why, "lower the norm")
    text = f"the sums of {len(seen)} steps are those of the clipped gradients; a row's had up to "
    return held("clipping", f"{text}{largest:.3g} C", f"a sum that is {_ROUNDING:g} C away")


def noise(steps: Sequence[Step], law: Law) -> Iterator[Verdict]:
    """Check that noise is there, everywhere, afresh, of one scale, large enough and Gaussian."""
    first = [_missing(steps), _repeated(steps), _reused(steps)]
    why = "noise is missing, so its scale says nothing"
    first.append(not_tested("noise-scale", why) if first[0].fails else _varies(steps, law))
    yield from first
    if any(verdict.fails for verdict in first):
        why = "the noise is not one draw of one scale in each step, so its size says nothing"
        yield from (not_tested(name, why) for name in ("noise-size", "noise-shape"))
        return
    yield _size(steps, law)
    yield _shape(steps)


def _missing(steps: Sequence[Step]) -> Verdict:
    shares = [step.missing / step.count for step in steps]
    empty = sum(share == 1 for share in shares)
    text = f"all of {len(steps)} steps add noise to all coordinates"
    if empty:
        text = f"{empty} of {len(steps)} steps add no noise"
    elif max(shares) > _LACKING:
        text = f"a step leaves {max(shares):.0%} of the coordinates without noise"
    else:
        return held("noise-missing", text, f"{_LACKING:.0%} of the coordinates of one step")
    return failed("noise-missing", text, math.inf)


def _repeated(steps: Sequence[Step]) -> Verdict:
    share, name = max(step.repeated for step in steps), "noise-repeated"
    if share > _TWICE:
        text = f"{share:.0%} of the coordinates of a step have the noise of another one"
        return failed(name, text, math.inf)
    if all(step.free < _FREE for step in steps):
        return not_tested(name, "no coordinate is without gradient, so none shows the noise alone")
    text = "no two coordinates of a step share their noise"
    return held(name, text, f"{_TWICE:.0%} of the coordinates of one step")


def _reused(steps: Sequence[Step]) -> Verdict:
    if len(steps) < 2:
        return not_tested("noise-reused", "one step was made, and noise is reused between steps")
    some = np.stack([step.noise for step in steps[:_PAIRED]])
    largest, limit = _largest_correlation(some)
    if largest > limit:
        text = f"the noise of two steps has the correlation {largest:.2f}, by chance at most "
        return failed("noise-reused", f"{text}{limit:.2f}", math.inf)
    text = f"the noise of the first {len(some)} steps has no correlation above {limit:.2f}"
    return held("noise-reused", text, f"a correlation of {limit:.2f}")


def _largest_correlation(some: NDArray[np.float32]) -> tuple[float, float]:
    """Return the largest absolute correlation of two rows, and the largest one by chance.

    Between independent rows of K normal numbers it is about N(0, 1/K); Bonferroni over the pairs.
    """
    from scipy.stats import norm

    sizes = np.linalg.norm(some, axis=1, keepdims=True)
    unit = some / np.where(sizes, sizes, 1)
    products = np.abs(unit @ unit.T)
    np.fill_diagonal(products, 0)
    pairs = len(some) * (len(some) - 1) / 2
    limit = float(norm.isf(ALPHA / 2 / pairs)) / math.sqrt(some.shape[1])
    return float(products.max()), min(1.0, limit)


def seeds(first: Transcript, second: Transcript) -> Verdict:
    """Check that two seeds of the training give other noise.

    Args:
        first: the training.
        second: the first steps of one with another seed.
    """
    both = np.stack([first.steps[0].noise, second.steps[0].noise])
    largest, limit = _largest_correlation(both)
    if largest > limit:
        text = f"two seeds of the training give noise with the correlation {largest:.2f}: whoever "
        return failed("noise-seed", f"{text}knows the code knows the noise", math.inf)
    return held("noise-seed", "two seeds give independent noise", f"a correlation of {limit:.2f}")


def _varies(steps: Sequence[Step], law: Law) -> Verdict:
    """Check that the scale of G is the same in all steps, so that it tells no batch's size.

    Σ_t (k_t/2)(v_t/v − 1)² ~ χ²_{T−1} for the variances v_t of k_t coordinates without gradient.
    """
    from scipy.stats import chi2

    rows = [step.rows for step in steps if step.rows]
    size = float(np.mean(rows)) if rows else 1 / law.rate
    implied = law.of_batch_scale((size + 1) / size)
    if len({step.divisor for step in steps}) > 1:
        low, high = (pick(step.divisor for step in steps) for pick in (min, max))
        text = f"the divisor varies between steps from {low:g} to {high:g}"
        return failed("noise-scale", text, implied)
    free = np.array([step.free for step in steps], np.float64)
    if len(steps) < 2 or free.min() < _FREE:
        why = "fewer than two steps, or too few coordinates without gradient, show the noise alone"
        return not_tested("noise-scale", why)
    variances = np.array([step.free_squares for step in steps]) / free
    mean = float(np.average(variances, weights=free))
    statistic = float((free / 2 * (variances / mean - 1) ** 2).sum())
    if chi2.sf(statistic, len(steps) - 1) < ALPHA:
        spread = math.sqrt(variances.max() / variances.min())
        text = "the scale of what reaches the weights varies between steps, up to "
        return failed("noise-scale", f"{text}{spread:.3g} times", implied)
    text = f"what reaches the weights has one scale in {len(steps)} steps"
    least = f"a step whose scale differs by {CAUGHT / math.sqrt(2 * free.min()):.2%}"
    return held("noise-scale", text, least)


class Size(NamedTuple):
    """The measured noise, in units of the stated one.

    Attributes:
        value: its standard deviation.
        lower: the lower end of an interval, with the error probability `ALPHA` on each side.
        upper: the upper end.
        coordinates: the number of noised coordinates.
    """

    value: float
    lower: float
    upper: float
    coordinates: int


def measured_size(steps: Sequence[Step]) -> Size:
    """Measure the noise: Σ (Z/(σC))² ~ χ²_N if it has the stated size."""
    from scipy.stats import chi2

    total, count = sum(step.squares for step in steps), sum(step.count for step in steps)
    low, high = (math.sqrt(total / chi2.isf(level, count)) for level in (ALPHA, 1 - ALPHA))
    return Size(math.sqrt(total / count), low, high, count)


def _size(steps: Sequence[Step], law: Law) -> Verdict:
    size = measured_size(steps)
    text = f"the noise has {size.value:.4g} times the stated standard deviation"
    if size.upper < 1:
        text = f"{text} [{size.lower:.4g}, {size.upper:.4g}]"
        return failed("noise-size", text, law.changed(noise=size.upper).epsilon)
    # P(χ² below its α-quantile) = .95 at a shortfall of about (z_α + z_.05)/√(2N).
    least = f"noise that is {CAUGHT / math.sqrt(2 * size.coordinates):.2%} smaller"
    return held("noise-size", text, least)


def _shape(steps: Sequence[Step]) -> Verdict:
    """Check the kurtosis: of N normal numbers it is about N(3, 24/N)."""
    count = sum(step.count for step in steps)
    second = sum(step.squares for step in steps) / count
    kurtosis = sum(step.fourth for step in steps) / count / second**2
    error, text = math.sqrt(24 / count), f"the noise has the kurtosis {kurtosis:.3g}, and Gaussian "
    # The upper tail of few numbers is longer: by Cornish & Fisher, with the skewness √(216/N).
    if abs(kurtosis - 3) > error * (4.42 + 3.1 * math.sqrt(216 / count)):
        return failed("noise-shape", f"{text}noise has 3")
    least = f"a kurtosis that is {CAUGHT * error:.2g} away from 3"
    return held("noise-shape", f"{text}noise has about 3", least)


def batches(transcript: Transcript, law: Law) -> Iterator[Verdict]:
    """Check the sizes of batches: Binomial(n, q) each, with the accountant's q."""
    from scipy.stats import beta, binom

    rows = [step.rows for step in transcript.steps if step.rows is not None]
    if not rows:
        for name in ("batch-rate", "batch-shape"):
            yield not_tested(name, "the sizes of batches are not known", "give rows to watch.step")
        return
    total, draws = sum(rows), transcript.setup.records * len(rows)
    expected = draws * law.rate
    if binom.sf(total - 1, draws, min(1.0, law.rate)) < ALPHA:
        # The lower Clopper-Pearson limit.
        least_rate = float(beta.ppf(ALPHA, total, draws - total + 1))
        text = f"batches take {total / draws:.4g} of the rows, and the accountant counts "
        implied = law.changed(rate=least_rate).epsilon
        yield failed("batch-rate", f"{text}{law.rate:.4g}", implied)
    else:
        text = f"{len(rows)} batches take {total:,} rows, and {expected:,.0f} are expected"
        more = 1 + CAUGHT / math.sqrt(max(1.0, expected))
        yield held("batch-rate", text, f"a rate that is {more:.2f} times the accountant's")
    yield _batch_shape(rows, transcript.setup.records, law.rate, transcript.setup.poisson)


def _batch_shape(rows: Sequence[int], records: int, rate: float, poisson: bool | None) -> Verdict:
    """Check that no size of a batch occurs too often for batches that take each row by itself.

    P(some size occurs m times) ≤ Σ_v P(Binomial(T, p_v) ≥ m), p_v = P(Binomial(n, q) = v).
    """
    from scipy.stats import binom

    value, times = Counter(rows).most_common(1)[0]
    chances = binom.pmf(np.arange(records + 1), records, min(1.0, rate))
    p_value = float(binom.sf(times - 1, len(rows), chances).sum())
    text = f"{times} of {len(rows)} batches have {value} rows"
    if p_value < ALPHA or poisson is False:
        return failed("batch-shape", f"{text}, and rows are not drawn by themselves")
    return held("batch-shape", f"{text}, as by chance", "batches of one size")


def counted(transcript: Transcript, law: Law) -> Verdict:
    """Check that the accountant counts every step."""
    name, steps, count = "steps-counted", len(transcript.steps), transcript.counted
    if count is None:
        return not_tested(name, "no accountant was seen", "give watch the accountant")
    if count < steps:
        text = f"the accountant counts {count} of {steps} steps"
        return failed(name, text, law.of_steps(steps).epsilon)
    return held(name, f"the accountant counts all {steps} steps", "one step")
