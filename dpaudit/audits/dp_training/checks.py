"""Checks of one transcript: clipping, noise, batches, and what the accountant counts.

Each check accuses a training that keeps its claim with a probability of at most `ALPHA`. A check
whose law another fault disturbs is not made: where the scale of the noise varies, its size says
nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from dpaudit.audits.dp_training.law import ALPHA, CAUGHT, Law
from dpaudit.audits.dp_training.transcript import Step, Transcript, Vector
from dpaudit.audits.dp_training.verdict import Verdict, failed, held, judged, not_tested
from dpaudit.core.estimate import Estimate

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
    excess, largest = (max(parts) for parts in zip(*seen, strict=True))
    text = f"the sums of {len(seen)} steps are up to {excess:.3g} C away from those of the clipped "
    text += f"gradients; a row's had up to {largest:.3g} C"
    if excess > _ROUNDING:
        # Whatever the batch, each row adds at most `largest` C.
        return failed("clipping", text, law.changed(noise=1 / max(1.0, largest)).epsilon)
    if largest <= 1:
        why = f"no gradient exceeded the norm C (the largest had {largest:.3g} C)"
        return not_tested("clipping", why, "lower the norm")
    return held("clipping", text, f"a sum that is {_ROUNDING:g} C away")


def noise(steps: Sequence[Step], law: Law) -> Iterator[Verdict]:
    """Check that noise is there, everywhere, afresh, of one scale, large enough and Gaussian."""
    first = [_missing(steps), _repeated(steps), _reused(steps)]
    why = "noise is missing, so its scale says nothing"
    first.append(not_tested("noise-scale", why) if first[0].fails else _varies(steps, law))
    yield from first
    if any(verdict.fails for verdict in first):
        why = "the noise is not one draw of one scale in each step, so its size says nothing"
        yield from (not_tested(name, why) for name in ("noise-size", "noise-shape"))
    else:
        yield _size(steps, law)
        yield _shape(steps)


def _missing(steps: Sequence[Step]) -> Verdict:
    shares = [step.missing / step.count for step in steps]
    text = f"{shares.count(1)} of {len(steps)} steps add no noise, and the others to all but "
    text += f"{max([0.0, *(share for share in shares if share < 1)]):.2%} of the coordinates"
    least = f"{_LACKING:.0%} of the coordinates of one step"
    return judged("noise-missing", max(shares) > _LACKING, text, least)


def _repeated(steps: Sequence[Step]) -> Verdict:
    share = max(step.repeated for step in steps)
    if share <= _TWICE and all(step.free < _FREE for step in steps):
        why = "no coordinate is without gradient, so none shows the noise alone"
        return not_tested("noise-repeated", why)
    text = f"{share:.0%} of the coordinates of a step have the noise of another one"
    least = f"{_TWICE:.0%} of the coordinates of one step"
    return judged("noise-repeated", share > _TWICE, text, least)


def _reused(steps: Sequence[Step]) -> Verdict:
    if len(steps) < 2:
        return not_tested("noise-reused", "one step was made, and noise is reused between steps")
    return _correlated("noise-reused", [step.noise for step in steps[:_PAIRED]], "two steps")


def seeds(first: Transcript, second: Transcript) -> Verdict:
    """Check that two seeds of the training give other noise: else who knows the code knows it.

    Args:
        first: the training.
        second: the first steps of one with another seed.
    """
    noises = [run.steps[0].noise for run in (first, second)]
    return _correlated("noise-seed", noises, "two seeds of the training")


def _correlated(check: str, noises: Sequence[Vector], what: str) -> Verdict:
    """Judge the largest absolute correlation of two rows by the largest one by chance.

    Between independent rows of K normal numbers it is about N(0, 1/K); Bonferroni over the pairs.
    """
    from scipy.stats import norm

    rows = np.stack(noises)
    sizes = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(sizes, sizes, 1)
    products = np.abs(unit @ unit.T)
    np.fill_diagonal(products, 0)
    largest, pairs = float(products.max()), len(rows) * (len(rows) - 1) / 2
    limit = min(1.0, float(norm.isf(ALPHA / 2 / pairs)) / math.sqrt(rows.shape[1]))
    text = f"the noise of {what} has a correlation of up to {largest:.2f}, by chance at most "
    return judged(check, largest > limit, f"{text}{limit:.2f}", f"a correlation of {limit:.2f}")


def _varies(steps: Sequence[Step], law: Law) -> Verdict:
    """Check that the scale of G is the same in all steps, so that it tells no batch's size.

    Σ_t (k_t/2)(v_t/v − 1)² ~ χ²_{T−1} for the variances v_t of k_t coordinates without gradient.
    """
    from scipy.stats import chi2

    rows = [step.rows for step in steps if step.rows]
    size = float(np.mean(rows)) if rows else 1 / law.rate
    implied = law.of_batch_scale((size + 1) / size)
    divisors = sorted(step.divisor for step in steps)
    if divisors[0] != divisors[-1]:
        text = f"the divisor varies between steps from {divisors[0]:g} to {divisors[-1]:g}"
        return failed("noise-scale", text, implied)
    free = np.array([step.free for step in steps], np.float64)
    if len(steps) < 2 or free.min() < _FREE:
        why = "fewer than two steps, or too few coordinates without gradient, show the noise alone"
        return not_tested("noise-scale", why)
    variances = np.array([step.free_squares for step in steps]) / free
    mean = float(np.average(variances, weights=free))
    statistic = float((free / 2 * (variances / mean - 1) ** 2).sum())
    spread = math.sqrt(variances.max() / variances.min())
    text = f"the scale of what reaches the weights differs between steps up to {spread:.3g} times"
    least = f"a step whose scale differs by {CAUGHT / math.sqrt(2 * free.min()):.2%}"
    varies = chi2.sf(statistic, len(steps) - 1) < ALPHA
    return judged("noise-scale", varies, text, least, implied)


def measured_size(steps: Sequence[Step]) -> Estimate:
    """Measure the noise, in units of the stated one: Σ (Z/(σC))² ~ χ²_N if it has that size.

    Returns:
        Its standard deviation, with an interval that misses it with the probability `ALPHA` on
        each side; `n` is the number of noised coordinates.
    """
    from scipy.stats import chi2

    total, count = sum(step.squares for step in steps), sum(step.count for step in steps)
    low, high = (math.sqrt(total / chi2.isf(level, count)) for level in (ALPHA, 1 - ALPHA))
    ends = {"value": math.sqrt(total / count), "lower": low, "upper": high}
    level = {"confidence": 1 - 2 * ALPHA, "alpha": 2 * ALPHA}
    return Estimate(**ends, **level, n=count, method="measured noise")


def _size(steps: Sequence[Step], law: Law) -> Verdict:
    size = measured_size(steps)
    text = f"the noise has {size.value:.4g} times the stated standard deviation "
    text += f"[{size.lower:.4g}, {size.upper:.4g}]"
    if size.upper < 1:
        return failed("noise-size", text, law.changed(noise=size.upper).epsilon)
    # P(χ² below its α-quantile) = .95 at a shortfall of about (z_α + z_.05)/√(2N).
    least = f"noise that is {CAUGHT / math.sqrt(2 * size.n):.2%} smaller"
    return held("noise-size", text, least)


def _shape(steps: Sequence[Step]) -> Verdict:
    """Check the kurtosis: of N normal numbers it is about N(3, 24/N)."""
    count = sum(step.count for step in steps)
    second = sum(step.squares for step in steps) / count
    kurtosis = sum(step.fourth for step in steps) / count / second**2
    error, text = math.sqrt(24 / count), f"the noise has the kurtosis {kurtosis:.3g}, and Gaussian "
    # The upper tail of few numbers is longer: by Cornish & Fisher, with the skewness √(216/N).
    other = abs(kurtosis - 3) > error * (4.42 + 3.1 * math.sqrt(216 / count))
    least = f"a kurtosis that is {CAUGHT * error:.2g} away from 3"
    return judged("noise-shape", other, f"{text}noise has about 3", least, epsilon=0.0)


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
    text = f"{len(rows)} batches take {total:,} rows, and by the accountant's rate "
    text += f"{expected:,.0f} are expected"
    if binom.sf(total - 1, draws, min(1.0, law.rate)) < ALPHA:
        # The lower Clopper-Pearson limit.
        least_rate = float(beta.ppf(ALPHA, total, draws - total + 1))
        yield failed("batch-rate", text, law.changed(rate=least_rate).epsilon)
    else:
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
    alike = p_value < ALPHA or poisson is False
    text = f"{times} of {len(rows)} batches have {value} rows"
    text += ", and rows are not drawn by themselves" if alike else ", as by chance"
    return judged("batch-shape", alike, text, "batches of one size", epsilon=0.0)


def counted(transcript: Transcript, law: Law) -> Verdict:
    """Check that the accountant counts every step."""
    name, steps, count = "steps-counted", len(transcript.steps), transcript.counted
    if count is None:
        return not_tested(name, "no accountant was seen", "give watch the accountant")
    text = f"the accountant counts {count} of {steps} steps"
    if count < steps:
        return failed(name, text, law.changed(steps=steps).epsilon)
    return held(name, text, "one step")
