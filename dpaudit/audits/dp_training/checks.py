"""Checks of one transcript: clipping, noise, batches, and what the accountant counts.

Each check accuses a training that keeps its claim with a probability of at most `ALPHA`. A check
whose law another fault disturbs is not made: where the scale of the noise varies, its size says
nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.audits.dp_training.law import Law
from dpaudit.audits.dp_training.transcript import Step, Transcript
from dpaudit.audits.dp_training.verdict import ALPHA, CAUGHT, Verdict, not_tested

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
        *noise(transcript, law),
        *batches(transcript, law),
        counted(transcript, law),
    ]


def clipping(transcript: Transcript, law: Law, stress: Transcript | None) -> Verdict:
    """Check that S is the sum of the clipped gradients of the rows, in every step."""
    name = "clipping"
    steps = [*transcript.steps, *(stress.steps if stress else ())]
    seen = [step.clipping for step in steps if step.clipping]
    if not seen:
        return not_tested(
            name,
            "no gradient of a row was seen, as in ghost clipping and in loops of one's own",
            "see the check of the sum, which compares two data sets",
        )
    excess = max(one.excess for one in seen)
    largest = max(one.largest for one in seen)
    if excess > _ROUNDING:
        # Whatever the batch, each row adds at most `largest` C.
        implied = law.changed(sensitivity=max(1.0, largest)).epsilon
        return Verdict(
            name,
            "fails",
            f"the sum of a step is {excess:.3g} C away from that of the clipped gradients, and a "
            f"row's gradient had the norm {largest:.3g} C",
            implied,
            remedy="clip the gradient of each row over all parameters before the sum",
        )
    if largest <= 1:
        return not_tested(
            name,
            f"no gradient exceeded the norm C (the largest had {largest:.3g} C)",
            "give watch the model, so that its weights are enlarged, or lower the norm",
        )
    return Verdict(
        name,
        "holds",
        f"the sums of {len(seen)} steps are those of the clipped gradients; a row's had up to "
        f"{largest:.3g} C",
        least=f"a sum that is {_ROUNDING:g} C away",
    )


def noise(transcript: Transcript, law: Law) -> Iterator[Verdict]:
    """Check that noise is there, everywhere, afresh, of one scale, large enough and Gaussian."""
    steps = transcript.steps
    yield (missing := _missing(steps))
    yield (repeated := _repeated(steps))
    yield (reused := _reused(steps))
    if missing.fails:
        varies = not_tested("noise-scale", "noise is missing, so its scale says nothing")
    else:
        varies = _varies(steps, law)
    yield varies
    broken = any(verdict.fails for verdict in (missing, repeated, reused, varies))
    if broken:
        why = "the noise is not one draw of one scale in each step, so its size says nothing"
        yield not_tested("noise-size", why)
        yield not_tested("noise-shape", why)
        return
    yield _size(steps, law)
    yield _shape(steps)


def _missing(steps: Sequence[Step]) -> Verdict:
    shares = [step.missing / step.count for step in steps]
    empty = sum(share == 1 for share in shares)
    name, remedy = "noise-missing", "add noise to every coordinate in every step"
    if empty:
        text = f"{empty} of {len(steps)} steps add no noise"
    elif max(shares) > _LACKING:
        text = f"a step leaves {max(shares):.0%} of the coordinates without noise"
    else:
        return Verdict(
            name,
            "holds",
            f"all of {len(steps)} steps add noise to all coordinates",
            least=f"{_LACKING:.0%} of the coordinates of one step",
        )
    return Verdict(name, "fails", text, math.inf, remedy=remedy)


def _repeated(steps: Sequence[Step]) -> Verdict:
    share, name = max(step.repeated for step in steps), "noise-repeated"
    if share > _TWICE:
        return Verdict(
            name,
            "fails",
            f"{share:.0%} of the coordinates of a step have the noise of another one",
            math.inf,
            remedy="draw noise for each coordinate of each parameter",
        )
    if all(step.free < _FREE for step in steps):
        return not_tested(name, "no coordinate is without gradient, so none shows the noise alone")
    return Verdict(
        name,
        "holds",
        "no two coordinates of a step share their noise",
        least=f"{_TWICE:.0%} of the coordinates of one step",
    )


def _reused(steps: Sequence[Step]) -> Verdict:
    name = "noise-reused"
    if len(steps) < 2:
        return not_tested(name, "one step was made, and noise is reused between steps")
    some = np.stack([step.noise for step in steps[:_PAIRED]])
    largest, limit = _largest_correlation(some)
    if largest > limit:
        return Verdict(
            name,
            "fails",
            f"the noise of two steps has the correlation {largest:.2f}, and by chance at most "
            f"{limit:.2f}",
            math.inf,
            remedy="draw noise afresh in each step, from a generator that is not seeded again",
        )
    return Verdict(
        name,
        "holds",
        f"the noise of the first {len(some)} steps has no correlation above {limit:.2f}",
        least=f"a correlation of {limit:.2f}",
    )


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
    name = "noise-seed"
    if not second.steps:
        return not_tested(name, "the training with another seed made no step")
    largest, limit = _largest_correlation(np.stack([first.steps[0].noise, second.steps[0].noise]))
    if largest > limit:
        return Verdict(
            name,
            "fails",
            f"two seeds of the training give noise with the correlation {largest:.2f}: whoever "
            "knows the code knows the noise",
            math.inf,
            remedy="draw the noise from the operating system's entropy, or from a secret seed",
        )
    return Verdict(
        name, "holds", "two seeds give independent noise", least=f"a correlation of {limit:.2f}"
    )


def _varies(steps: Sequence[Step], law: Law) -> Verdict:
    """Check that the scale of G is the same in all steps, so that it tells no batch's size.

    Σ_t (k_t/2)(v_t/v − 1)² ~ χ²_{T−1} for the variances v_t of k_t coordinates without gradient.
    """
    from scipy.stats import chi2

    name = "noise-scale"
    remedy = "divide by a number that does not depend on the batch, or by none"
    rows = [step.rows for step in steps if step.rows]
    size = float(np.mean(rows)) if rows else 1 / law.rate
    implied = law.of_batch_scale((size + 1) / size)
    if len({step.divisor for step in steps}) > 1:
        low, high = (pick(step.divisor for step in steps) for pick in (min, max))
        text = f"the divisor varies between steps from {low:g} to {high:g}"
        return Verdict(name, "fails", text, implied, remedy=remedy)
    free = np.array([step.free for step in steps], np.float64)
    if len(steps) < 2 or free.min() < _FREE:
        return not_tested(
            name,
            "fewer than two steps, or too few coordinates without gradient, show the noise alone",
        )
    variances = np.array([step.free_squares for step in steps]) / free
    mean = float(np.average(variances, weights=free))
    statistic = float((free / 2 * (variances / mean - 1) ** 2).sum())
    if chi2.sf(statistic, len(steps) - 1) < ALPHA:
        spread = math.sqrt(variances.max() / variances.min())
        return Verdict(
            name,
            "fails",
            f"the scale of what reaches the weights varies between steps, up to {spread:.3g} times",
            implied,
            remedy=remedy,
        )
    caught = CAUGHT / math.sqrt(2 * free.min())
    return Verdict(
        name,
        "holds",
        f"what reaches the weights has one scale in {len(steps)} steps",
        least=f"a step whose scale differs by {caught:.2%}",
    )


@dataclass(frozen=True)
class Size:
    """The measured noise, in units of the stated one.

    Attributes:
        value: its standard deviation.
        lower: the lower end of an interval, with the error probability `ALPHA` on each side.
        upper: the upper end.
        count: the number of noised coordinates.
    """

    value: float
    lower: float
    upper: float
    count: int


def measured_size(steps: Sequence[Step]) -> Size:
    """Measure the noise: Σ (Z/(σC))² ~ χ²_N if it has the stated size."""
    from scipy.stats import chi2

    total, count = sum(step.squares for step in steps), sum(step.count for step in steps)
    low, high = (math.sqrt(total / chi2.isf(level, count)) for level in (ALPHA, 1 - ALPHA))
    return Size(math.sqrt(total / count), low, high, count)


def _size(steps: Sequence[Step], law: Law) -> Verdict:
    size, name = measured_size(steps), "noise-size"
    if size.upper < 1:
        return Verdict(
            name,
            "fails",
            f"the noise has {size.value:.4g} times the stated standard deviation "
            f"[{size.lower:.4g}, {size.upper:.4g}]",
            law.changed(noise=size.upper).epsilon,
            remedy="scale the noise by the noise multiplier times the norm C, or state less noise",
        )
    # P(χ² below its α-quantile) = .95 at a shortfall of about (z_α + z_.05)/√(2N).
    short = CAUGHT / math.sqrt(2 * size.count)
    return Verdict(
        name,
        "holds",
        f"the noise has {size.value:.4g} times the stated standard deviation",
        least=f"noise that is {short:.2%} smaller",
    )


def _shape(steps: Sequence[Step]) -> Verdict:
    """Check the kurtosis: of N normal numbers it is about N(3, 24/N)."""
    count = sum(step.count for step in steps)
    second = sum(step.squares for step in steps) / count
    kurtosis = sum(step.fourth for step in steps) / count / second**2
    error, name = math.sqrt(24 / count), "noise-shape"
    # The upper tail of few numbers is longer: by Cornish & Fisher, with the skewness √(216/N).
    if abs(kurtosis - 3) > error * (4.42 + 3.1 * math.sqrt(216 / count)):
        return Verdict(
            name,
            "fails",
            f"the noise has the kurtosis {kurtosis:.3g}, and Gaussian noise has 3",
            remedy="draw Gaussian noise, of which the accountant knows the law",
        )
    return Verdict(
        name,
        "holds",
        f"the noise has the kurtosis {kurtosis:.3g}, as Gaussian noise has",
        least=f"a kurtosis that is {CAUGHT * error:.2g} away from 3",
    )


def batches(transcript: Transcript, law: Law) -> Iterator[Verdict]:
    """Check the sizes of batches: Binomial(n, q) each, with the accountant's q."""
    from scipy.stats import binom

    records = transcript.setup.records
    rows = [step.rows for step in transcript.steps if step.rows is not None]
    if not rows:
        why = "the sizes of batches are not known"
        for name in ("batch-rate", "batch-shape"):
            yield not_tested(name, why, "give rows to watch.step")
        return
    total, draws = sum(rows), records * len(rows)
    expected = draws * law.rate
    if binom.sf(total - 1, draws, min(1.0, law.rate)) < ALPHA:
        least = _least_rate(total, draws)
        yield Verdict(
            "batch-rate",
            "fails",
            f"batches take {total / draws:.4g} of the rows, and the accountant counts "
            f"{law.rate:.4g}",
            law.changed(rate=least).epsilon,
            remedy="give the accountant the rate with which batches are drawn",
        )
    else:
        more = CAUGHT / math.sqrt(max(1.0, expected))
        yield Verdict(
            "batch-rate",
            "holds",
            f"{len(rows)} batches take {total:,} rows, and {expected:,.0f} are expected",
            least=f"a rate that is {1 + more:.2f} times the accountant's",
        )
    yield _batch_shape(rows, records, law.rate, transcript.setup.poisson)


def _least_rate(total: int, draws: int) -> float:
    """Return the lower Clopper-Pearson limit of a rate, at the level `ALPHA`."""
    from scipy.stats import beta

    return float(beta.ppf(ALPHA, total, draws - total + 1)) if total else 0.0


def _batch_shape(rows: Sequence[int], records: int, rate: float, poisson: bool | None) -> Verdict:
    """Check that no size of a batch occurs too often for batches that take each row by itself.

    P(some size occurs m times) ≤ Σ_v P(Binomial(T, p_v) ≥ m), p_v = P(Binomial(n, q) = v).
    """
    from scipy.stats import binom

    name, remedy = "batch-shape", "draw each row of a batch by itself (Poisson sampling)"
    value, times = Counter(rows).most_common(1)[0]
    sizes = np.arange(records + 1)
    chances = binom.pmf(sizes, records, min(1.0, rate))
    p_value = float(binom.sf(times - 1, len(rows), chances).sum())
    text = f"{times} of {len(rows)} batches have {value} rows"
    if p_value < ALPHA:
        return Verdict(name, "fails", f"{text}, so they are not drawn row by row", remedy=remedy)
    if poisson is False:
        return Verdict(name, "fails", "the sampler draws batches of a fixed size", remedy=remedy)
    return Verdict(name, "holds", f"{text}, as by chance", least="batches of one size")


def counted(transcript: Transcript, law: Law) -> Verdict:
    """Check that the accountant counts every step."""
    name, steps = "steps-counted", len(transcript.steps)
    if transcript.counted is None:
        return not_tested(
            name, "no accountant was seen", "give watch the accountant, or state its ε"
        )
    if transcript.counted < steps:
        return Verdict(
            name,
            "fails",
            f"the accountant counts {transcript.counted} of {steps} steps",
            law.of_steps(steps).epsilon,
            remedy="let the accountant count every step that adds noise",
        )
    return Verdict(name, "holds", f"the accountant counts all {steps} steps", least="one step")
