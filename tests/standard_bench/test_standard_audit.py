"""Black-box audits of five mechanisms of the standard bench, with a searched pair.

All certificates hold together with confidence 1 − 1e-6: that is the false-failure rate. The three
wrong mechanisms are found to break their claim, so an audit that sees nothing would be noticed.
"""

from __future__ import annotations

import pytest
from standard_records import MECHANISMS, Mechanism  # type: ignore[import-not-found]

from dpaudit.audits.mechanism.audit import audit_pairs, input_pairs

AUDITED = {"noisy-hist-1": 4000, "noisy-max-2": 4000, "noisy-hist-2": 4000, "svt-5": 8000}
AUDITED["prefix-sum-all"] = 120_000


@pytest.mark.parametrize("name", AUDITED)
@pytest.mark.long
def test_no_more_than_the_truth_is_certified_and_wrong_claims_break(name: str) -> None:
    mechanism: Mechanism = next(each for each in MECHANISMS if each.name == name)
    pairs = input_pairs(mechanism.neighbours, mechanism.length)
    assert len(pairs) > 1
    found = audit_pairs(
        mechanism.rounded,
        pairs,
        trials=AUDITED[name],
        search=4000 if AUDITED[name] > 10_000 else 1000,
        confidence=1 - 1e-6 / len(AUDITED),
        batched=True,
        seed=1,
    )
    assert found.epsilon.kind == "frequentist"
    assert found.epsilon.lower <= mechanism.truth
    assert (found.epsilon.lower <= mechanism.claimed_epsilon) == mechanism.correct
    assert 0 <= found.pair < len(pairs)
