"""LiRA, RMIA and the rates against those of PrivacyGuard, on the same numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from privacy_guard_attacks import (  # type: ignore[import-not-found]
    frames_of,
    lira,
    lira_frames,
    our_law,
    probabilities,
    rates,
    rmia,
    rmia_frames,
    table,
)
from scipy.special import ndtri_exp

from dpaudit.attacks.base import Signals
from dpaudit.attacks.membership.inference import Lira, Rmia
from dpaudit.audits.membership.calibration import Curve

pytest.importorskip("privacy_guard.attacks.rmia_attack")

R, T, M, P = 12, 5, 70, 40
AT = (0.03, 0.1, 0.3)


class Case(NamedTuple):
    seen: Signals
    present: NDArray[np.bool_]
    reference: Signals
    had: NDArray[np.bool_]


@pytest.fixture(scope="module")
def case() -> Case:
    """Targets of different spreads; half of the reference trainings have each."""
    rng = np.random.default_rng(5)
    spread, shift = rng.uniform(0.2, 2, M), rng.normal(size=M)
    had = np.stack([rng.permutation(np.arange(R) % 2 == 0) for _ in range(M)], axis=1)
    present = rng.random((T, M)) < 0.5

    def signals(coins: NDArray[np.bool_]) -> Signals:
        fit = shift + spread * (rng.normal(size=coins.shape) + 1.5 * coins)
        return Signals(fit[:, :, None], fit, rng.normal(size=(len(coins), P)))

    return Case(signals(present), present, signals(had), had)


@pytest.mark.parametrize("individual", [False, True])
def test_lira_online_is_the_peers(case: Case, individual: bool) -> None:
    laws = (our_law(case.reference.fit, which, individual) for which in (case.had, ~case.had))
    frames = lira_frames(case.seen.fit, case.present, *laws)
    settings = {} if individual else {"use_fixed_variance": True, "std_dev_type": "mix"}
    theirs = table(lira(frames, online_attack=True, **settings))
    ours = Lira(own_variance=individual).score(case.seen, case.reference, case.had)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_lira_offline_is_one_sided_where_the_peers_is_two_sided(case: Case) -> None:
    law = our_law(case.reference.fit, ~case.had, own=False)
    frames = lira_frames(case.seen.fit, case.present, law, law)
    theirs = table(lira(frames, std_dev_type="shadows_out"))
    ours = Lira(online=False).score(case.seen, case.reference, case.had)
    density = ndtri_exp(ours) ** 2 / 2 + np.log(law.deviation * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(density, theirs, rtol=1e-9, atol=1e-9)


def test_rmia_online_is_the_peers(case: Case) -> None:
    seen, reference = (
        probabilities(signals, case.reference) for signals in (case.seen, case.reference)
    )
    frames = rmia_frames(seen, case.present, reference, case.had)
    theirs = table(rmia(frames, online=True, num_reference_models=R))
    ours = Rmia().score(case.seen, case.reference, case.had)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


def test_rmia_offline_orders_the_targets_as_the_peers(case: Case) -> None:
    """The shares differ: the peer takes other means for the population."""
    seen, reference = (
        probabilities(signals, case.reference) for signals in (case.seen, case.reference)
    )
    frames = rmia_frames(seen, case.present, reference, case.had)
    theirs = table(rmia(frames, num_reference_models=R // 2, alpha_coefficient=0.4))
    ours = Rmia(online=False, a=0.4).score(case.seen, case.reference, case.had)
    for our, their in zip(ours, theirs, strict=True):
        assert len(np.unique(our)) > P / 4
        assert not ((our[:, None] > our) & (their[:, None] < their)).any()


@pytest.mark.long  # imports torch
def test_rates_are_the_peers(case: Case) -> None:
    pytest.importorskip("torch")
    for scores in (case.seen.fit, np.round(case.seen.fit)):
        theirs = rates(frames_of(scores, case.present), AT)
        curve = Curve(scores, case.present)
        np.testing.assert_allclose(curve.areas(), theirs[:, 0], rtol=1e-12)
    absent = (~case.present).sum(1)
    for column, rate in enumerate(AT, start=1):
        # The peer lets ⌊N·rate⌋ absent targets pass, dpaudit (N + 1)·rate − 1 on average.
        passing = (np.floor(absent * rate) + 1) / (absent + 1)
        theirs = rates(frames_of(case.seen.fit, case.present), AT)[:, column]
        ours = [
            Curve(row[None], here[None]).rates(share)[0]
            for row, here, share in zip(case.seen.fit, case.present, passing, strict=True)
        ]
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
        lower = (absent + 1) * rate <= np.floor(absent * rate) + 1
        assert (Curve(case.seen.fit, case.present).rates(rate) <= theirs)[lower].all()
