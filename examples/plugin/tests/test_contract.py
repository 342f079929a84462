"""The parts keep dpaudit's contract."""

from __future__ import annotations

import numpy as np
from dpaudit_newsletter.attack import NewsletterReader
from dpaudit_newsletter.defense import NoisyPopularity
from dpaudit_newsletter.release import Counts, Newsletter

from dpaudit.audits.trained.pairs import target_pair
from dpaudit.core.releases import View
from dpaudit.data import Ratings, SyntheticParams, generate
from dpaudit.testing.contract import check_attack, check_game, check_variants


def data() -> Ratings:
    return generate(SyntheticParams(n_users=40, n_items=40, mean_per_user=25))


def test_the_defense_keeps_the_contract() -> None:
    check_variants(NoisyPopularity)


def test_the_attack_keeps_the_contract() -> None:
    exact = np.arange(4.0)
    shown = exact + np.random.default_rng(1).laplace(size=(9, 4))
    check_attack(NewsletterReader, View(Newsletter(shown), Counts(exact, exact + 1)))


def test_the_new_observer_can_be_run() -> None:
    pair, target = target_pair(data(), "rating-add-remove", 0)
    check_game(NoisyPopularity(epsilon=1.0), pair, NewsletterReader(), "newsletter", target)
