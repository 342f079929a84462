"""Prints how long the bounds on ε take, and how many times faster they are than public peers'.

    python bench/bounds.py

Each pair is timed in turn, ours and theirs, on one thread; the median ratio counts.
"""

from __future__ import annotations

import statistics

from ratios import compare, seconds

SCORES, CANARIES, DELTA, ALPHA = 2_000_000, 20_000, 1e-5, 0.05


def main() -> None:
    """Draw the scores, compare, print."""
    import numpy as np
    from jax_privacy.auditing import CanaryScoreAuditor, Split
    from privacy_estimates import AttackResults, compute_eps_lo

    from dpaudit.bounds.frequentist.labels import label_epsilon
    from dpaudit.bounds.frequentist.one_run import one_run_epsilon
    from dpaudit.bounds.frequentist.thresholds import held_out_epsilon
    from dpaudit.bounds.frequentist.two_sample import two_sample_epsilon
    from dpaudit.bounds.model_based.joint_beta import joint_beta_epsilon
    from dpaudit.bounds.model_based.one_run_fdp import one_run_gdp_epsilon
    from dpaudit.bounds.outcomes import Counts

    rng = np.random.default_rng(1)
    absent = rng.normal(size=SCORES // 2)
    present = rng.normal(size=SCORES // 2) + 1
    counts = Counts(tp=900, fp=100, fn=100, tn=900)
    results = AttackResults(FN=100, FP=100, TN=900, TP=900)
    included = rng.normal(size=CANARIES // 2) + 1
    left_out = rng.normal(size=CANARIES // 2)
    correct = int((included > 0.5).sum() + (left_out <= 0.5).sum())

    def theirs_split() -> object:
        auditor = CanaryScoreAuditor(present, absent)
        return auditor.epsilon_clopper_pearson(ALPHA, DELTA, threshold_strategy=Split())

    def ours_split() -> object:
        return held_out_epsilon(absent, present, delta=DELTA, alpha=ALPHA)

    def theirs_one_run() -> object:
        auditor = CanaryScoreAuditor(included, left_out)
        return auditor.epsilon_one_run_fdp(ALPHA, DELTA)

    compare("held-out threshold, 2e6 scores", ours_split, theirs_split, 5)
    compare(
        "joint Beta, n = 1000",
        lambda: joint_beta_epsilon(counts, delta=DELTA, alpha=ALPHA),
        lambda: compute_eps_lo(results, DELTA, ALPHA, "joint-beta"),
        5,
    )
    compare(
        "one-run f-DP, m = 20 000",
        lambda: one_run_gdp_epsilon(CANARIES, CANARIES, correct, delta=DELTA, alpha=ALPHA),
        theirs_one_run,
        3,
    )
    for name, call in (
        ("label test, 2e6 scores", lambda: label_epsilon(absent, present, delta=DELTA)),
        (
            "two-sample form, 2e5 runs",
            lambda: two_sample_epsilon(present[:100_000], absent[:100_000]),
        ),
        ("one run, m = 20 000", lambda: one_run_epsilon(CANARIES, CANARIES, correct, delta=DELTA)),
    ):
        call()
        print(f"{name:33} {statistics.median(seconds(call) for _ in range(7)):6.3f} s")


if __name__ == "__main__":
    main()
