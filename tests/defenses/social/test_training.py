from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError
from scipy import stats

from dpaudit.bounds.gdp import gaussian_mu
from dpaudit.core.errors import ConfigError, DataError, NoModelError
from dpaudit.core.streams import Streams
from dpaudit.data.neighbors import RatingRemoved, RatingReplaced, apply
from dpaudit.data.ratings import Friends, Ratings, Scale, from_profiles
from dpaudit.defenses.factors import FactorModels, RankingModels
from dpaudit.defenses.social.privsr import PrivSR
from dpaudit.defenses.social.rows import SocialRows
from dpaudit.defenses.social.shared_training import user_lengths
from dpaudit.defenses.social.training import SocialTraining

Numbers = NDArray[np.float64]

N, M, D = 6, 5, 3
# The rate of false failures of a stochastic test.
RATE = 1e-6


def drawn(seed: int = 0, linked: float = 0.4) -> Ratings:
    source = np.random.default_rng(seed)
    rated = source.random((N, M)) < 0.6
    rated[:, :2] = True
    user, item = np.nonzero(rated)
    links = source.random((N, N)) < linked
    np.fill_diagonal(links, False)
    left, right = np.nonzero(links)
    return Ratings.build(
        user,
        item,
        source.integers(1, 6, len(user)).astype(np.float32),
        N,
        M,
        Scale(),
        sensitive=source.random(len(user)) < 0.4,
        friends=Friends.build(left, right, N),
    )


def defense(**given: Any) -> PrivSR:
    small = {"epsilon": 1.0, "dimensions": D, "rounds": 3, "learning_rate": 0.01, "spread": 0.5}
    return PrivSR(**(small | given))


def exact(**given: Any) -> PrivSR:
    return defense(epsilon=math.inf, variant="nonprivate", **given)


def trial(index: int = 0, seed: int = 1) -> Streams:
    return next(iter(Streams(Streams.first(seed, "x", 1).key, np.array([index])).blocks(1)))


def objective(part: PrivSR, rows: SocialRows, users: Numbers, items: Numbers) -> float:
    """Equation (8) without noise."""
    away = rows.values - part.offset - np.einsum("nf,nf->n", users[rows.users], items[rows.items])
    similarity = rows.similarity.toarray().astype(np.float64)
    apart = ((users[:, None] - users[None]) ** 2).sum(2)
    return float(
        (away**2).sum()
        + part.social * (similarity * apart).sum()
        + part.decay * ((users**2).sum() + (items**2).sum())
    )


def slope_of(f: Any, x: Numbers, h: float = 1e-4) -> Numbers:
    slope = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved[place] += sign * h
            ends.append(f(moved))
        slope[place] = (ends[0] - ends[1]) / (2 * h)
    return slope


def test_a_round_follows_the_gradients_of_the_objective() -> None:
    part = exact(social=0.3, decay=0.2, offset=1.0)
    rows = part.prepare(drawn())
    training = SocialTraining(part, rows, trial())
    users, items = (side[:, :D].astype(np.float64) for side in (training.users, training.items))
    assert rows.similarity.nnz > 5
    training.run_round()
    # V is updated first, then U from the new V.
    after = items - part.learning_rate * slope_of(lambda v: objective(part, rows, users, v), items)
    np.testing.assert_allclose(training.items[:, :D], after, atol=2e-5)

    def of_own(u: Numbers) -> float:
        # Algorithm 1 pulls a user to their friends, not to those whose friend the user is.
        similarity = rows.similarity.toarray().astype(np.float64)
        apart = ((u[:, None] - users[None]) ** 2).sum(2)
        rest = part.social * (similarity * apart).sum()
        return objective(exact(decay=0.2, offset=1.0, social=0.0), rows, u, after) + float(rest)

    np.testing.assert_allclose(
        training.users[:, :D], users - part.learning_rate * slope_of(of_own, users), atol=2e-5
    )
    assert not training.users[:, D:].any()
    assert not training.items[:, D:].any()


def test_without_friends_nobody_is_drawn() -> None:
    alone, together = exact(social=0.0), exact(social=5.0)
    models = [
        part.train(part.prepare(drawn()), Streams.first(1, "x", 1)) for part in (alone, together)
    ]
    assert (models[0].users[0] != models[1].users[0]).any()
    ratings = drawn()
    nobody = Ratings.build(ratings.user, ratings.item, ratings.value, N, M, Scale())
    alone.prepare(nobody)
    with pytest.raises(ConfigError, match=r"data\.trust, or params\.social = 0"):
        together.prepare(nobody)


def test_a_rate_that_is_too_large_is_refused_with_the_round() -> None:
    part = exact(learning_rate=10.0, rounds=200)
    with pytest.raises(NoModelError, match=r"after round \d+: .*params\.learning_rate or social"):
        part.train(part.prepare(drawn()), Streams.first(1, "x", 1))


# The noise of submissions.


def noise_of_sums(part: PrivSR, rows: SocialRows, trials: int, observed: bool) -> Numbers:
    """The noise of the sums of a round `(W, M, D)`."""
    everybody = np.full(rows.n_users, observed)
    sums = []
    for index in range(trials):
        training = SocialTraining(part, rows, trial(index), everybody)
        order = np.arange(len(rows), dtype=np.int32)
        without = training.gradients(rows, order, training.users)[1]
        sums.append((training.submit().sums - without)[:, :D])
    return np.stack(sums).astype(np.float64)


@pytest.mark.parametrize("observed", [True, False])
def test_noise_adds_up_to_a_laplace_law_larger_than_one_kind_alone(observed: bool) -> None:
    part = defense(epsilon=0.5, beta=0.5)
    rows = part.prepare(drawn())
    noise = noise_of_sums(part, rows, 700, observed)
    both = (rows.raters > 0).all(0)
    assert both.any()
    width, low = 8 * math.sqrt(D), 0.5 * (1 + 0.5)
    high = 0.5 * (1 + 1 / 0.5)
    seen = noise[:, both].reshape(-1)
    # √(a² c₁² + b² c₂²) of independent normals with the same h.
    scale = width * math.hypot(1 / low, 1 / high)
    assert stats.kstest(seen, stats.laplace(scale=scale).cdf).pvalue > RATE
    # The paper adds the scales, as if both kinds had the same normal draw.
    assert stats.kstest(seen, stats.laplace(scale=width / 0.5).cdf).pvalue < RATE
    one = (rows.raters[1] == 0) & (rows.raters[0] > 0)
    if one.any():
        alone = stats.laplace(scale=width / high)
        assert stats.kstest(noise[:, one].reshape(-1), alone.cdf).pvalue > RATE


@pytest.mark.long
def test_given_what_the_recommender_drew_the_noise_is_normal() -> None:
    part = defense(epsilon=0.5)
    rows = part.prepare(drawn())
    shares = []
    for index in range(700):
        training = SocialTraining(part, rows, trial(index), np.full(N, True))
        sent = training.submit()
        order = np.arange(len(rows), dtype=np.int32)
        without = training.gradients(rows, order, training.users)[0]
        shares.append(((sent.shown - without)[:, :D] / sent.deviations).astype(np.float64))
        # All users who submit a rating of the same kind for an item share h.
        for item in range(M):
            for kind in (False, True):
                mine = (rows.items == item) & (rows.sensitive == kind)
                assert len(np.unique(sent.deviations[mine], axis=0)) <= 1
    seen = np.stack(shares)
    assert stats.kstest(seen.reshape(-1), stats.norm.cdf).pvalue > RATE
    assert stats.kstest(seen.reshape(-1), stats.norm(scale=1.1).cdf).pvalue < RATE
    # The normal draws of different users are independent.
    pairs = np.asarray(np.corrcoef(seen[:, :4, 0].T))
    assert abs(pairs[np.triu_indices(4, 1)]).max() < 6 / math.sqrt(700)


def test_equal_noise_adds_up_to_the_laplace_law_of_epsilon() -> None:
    part = defense(epsilon=0.5, noise_kind="equal")
    rows = part.prepare(drawn())
    seen = noise_of_sums(part, rows, 500, True).reshape(-1)
    scale = 8 * math.sqrt(D) / 0.5
    assert stats.kstest(seen, stats.laplace(scale=scale).cdf).pvalue > RATE
    assert stats.kstest(seen, stats.laplace(scale=1.2 * scale).cdf).pvalue < RATE


@pytest.mark.long
def test_what_friends_send_adds_up_to_the_laplace_law_of_epsilon() -> None:
    part, quiet = defense(epsilon=0.5, social=1.0, rounds=1), exact(social=1.0, rounds=1)
    rows = part.prepare(drawn())
    assert (rows.friends > 0).any()
    seen = []
    for index in range(800):
        with_noise, without = (
            SocialTraining(mechanism, rows, trial(index)) for mechanism in (part, quiet)
        )
        nothing = np.zeros_like(with_noise.items)
        for training in (with_noise, without):
            training.learn(nothing)
        away = (without.users - with_noise.users)[rows.friends > 0, :D] / part.learning_rate
        seen.append(away.astype(np.float64))
    values = np.stack(seen).reshape(-1)
    scale = 2 * math.sqrt(D) / 0.5
    assert stats.kstest(values, stats.laplace(scale=scale).cdf).pvalue > RATE
    assert stats.kstest(values, stats.laplace(scale=1.2 * scale).cdf).pvalue < RATE


# The corrected form.


def corrected(**given: Any) -> PrivSR:
    return defense(variant="corrected", epsilon=2.0, delta=1e-3, spread=2.0, clip_norm=0.7, **given)


def test_what_a_user_submits_is_cut_as_one_vector() -> None:
    part, free = corrected(), exact(spread=2.0)
    rows = part.prepare(drawn())
    training, uncut = (SocialTraining(mechanism, rows, trial()) for mechanism in (part, free))
    assert np.linalg.norm(training.users, axis=1).max() <= 1 + 1e-5
    order = np.arange(len(rows), dtype=np.int32)
    shown = training.gradients(rows, order, training.users)[0].astype(np.float64)
    whole = uncut.gradients(rows, order, training.users)[0].astype(np.float64)
    norms, full = (
        np.sqrt(np.bincount(rows.users, (part_ * part_).sum(1), N)) for part_ in (shown, whole)
    )
    assert norms.max() <= 0.7
    np.testing.assert_allclose(norms, np.minimum(full, 0.7), rtol=1e-4)
    np.testing.assert_allclose(shown * full[rows.users, None], whole * norms[rows.users, None],
                               atol=1e-4)  # fmt: skip
    assert (full > 0.7).any()


@pytest.mark.cases(
    ("summation", "insiders"), [("local", 1), ("secure", 0), ("secure", 1), ("secure", 3)]
)
def test_rounds_and_friends_together_keep_the_claim(summation: Any, insiders: int) -> None:
    part = corrected(summation=summation, friends_share=0.3, rounds=7, insiders=insiders)
    rows = part.prepare(drawn())
    noise = part.noise(rows)
    mu = gaussian_mu(2.0, 1e-3)
    raters = rows.raters.sum(0)
    assert (raters > insiders + 1).any()
    # Insiders subtract their shares. The user whom the claim protects is not among them.
    left = raters - np.minimum(insiders, raters - 1)
    whole = noise.submitted[0] * (left if summation == "secure" else 1)
    submitted = 7 * (2 * 0.7) ** 2 / whole
    np.testing.assert_allclose(submitted, 0.7 * mu**2, rtol=1e-6)
    # In the unit ball, the user's factors move by at most 2.
    assert 7 * 2**2 / noise.broadcast == pytest.approx(0.3 * mu**2)
    assert not noise.sent.any()
    assert not noise.shared
    # Without friends, no part of the budget is spent on messages.
    alone = corrected(summation=summation, social=0.0, rounds=7).noise(rows)
    assert alone.submitted.max() < noise.submitted.max()
    assert not alone.broadcast


def test_a_friend_who_rates_the_same_items_is_claimed_for_where_the_share_is_counted() -> None:
    for summation, insiders, also in (
        ("secure", 0, ()), ("secure", 1, ("friend",)), ("local", 0, ("friend",)),
    ):  # fmt: skip
        claim = corrected(summation=summation, insiders=insiders).claim()
        assert claim is not None
        assert claim.also == also


def test_all_whose_friend_a_user_is_are_told_the_same() -> None:
    # User 0 is the only friend of each other user.
    links = Friends.build(np.arange(1, N), np.zeros(N - 1, np.int64), N)
    ratings = replace(drawn(), friends=links, sensitive=None)
    part, quiet = corrected(social=1.0, rounds=1), exact(social=1.0, rounds=1, spread=2.0)
    rows = part.prepare(ratings)
    weights = rows.similarity.toarray()[1:, 0]
    assert (weights > 0.5).all()
    broadcast = []
    for index in range(300):
        one, other = (SocialTraining(mechanism, rows, trial(index)) for mechanism in (part, quiet))
        other.users[:] = one.users
        for training in (one, other):
            training.learn(np.zeros_like(one.items))
        # α 2 S γ times the noise; the corrected form then projects, which moves those beyond 1.
        inside = np.linalg.norm(one.users, axis=1)[1:] < 0.999
        moved = (one.users - other.users)[1:, :D] / (2 * part.learning_rate * weights[:, None])
        same = moved[inside]
        if len(same) > 1:
            np.testing.assert_allclose(same, same[:1].repeat(len(same), 0), rtol=0.02, atol=0.5)
            broadcast.append(same[0])
    scale = math.sqrt(part.noise(rows).broadcast)
    seen = np.concatenate(broadcast)
    assert len(seen) > 100
    assert 0.7 * scale < seen.std() < 1.3 * scale


@pytest.mark.cases("observed", [True, False])
@pytest.mark.cases("summation", ["local", "secure"])
def test_normal_noise_is_as_large_as_stated(summation: Any, observed: bool) -> None:
    part = corrected(summation=summation)
    rows = part.prepare(drawn())
    noise = noise_of_sums(part, rows, 400, observed)
    variances = part.noise(rows).submitted[0]
    scale = np.sqrt(variances * rows.raters.sum(0))[:, None]
    seen = (noise / scale).reshape(-1)
    assert stats.kstest(seen, stats.norm.cdf).pvalue > RATE
    assert stats.kstest(1.25 * seen, stats.norm.cdf).pvalue < RATE


@pytest.mark.long
def test_what_followers_submit_tells_no_more_of_a_user_than_is_claimed() -> None:
    # User 0 is a friend of all others, and rates no item that they submit about.
    followers, count, trials = 400, 10, 700
    part = PrivSR(
        2.0,
        "corrected",
        dimensions=1,
        rounds=3,
        decay=0.0,
        social=10.0,
        learning_rate=0.05,
        offset=3.0,
        start="constant",
        spread=1.0,
        clip_norm=0.1,
        summation="secure",
    )
    links = Friends.build(np.arange(1, followers + 1), np.zeros(followers, int), followers + 1)

    def seen(value: int, name: str) -> Numbers:
        rated = [*((item, value) for item in range(1, count + 1)), (count + 1, 3)]
        plain = from_profiles([rated] + [[(0, 5), (count + 1, 3)]] * followers, count + 2, Scale())
        ratings = replace(plain, sensitive=plain.item != count + 1, friends=links)
        rows = part.prepare(ratings)
        sums = []
        for block in Streams.first(0, name, trials).blocks(1):
            training = SocialTraining(part, rows, block)
            training.run_round()
            training.run_round()
            sums.append(training.submit().sums[0, 0])
        return np.array(sums, np.float64)

    absent, present = seen(5, "absent"), seen(1, "present")
    apart = abs(present.mean() - absent.mean()) / absent.std()
    # With independent noise for each of 400 receivers, the average would be 1.4 apart. The second
    # term is six deviations of a mean.
    assert apart < gaussian_mu(2.0, 1e-5) + 6 * math.sqrt(2 / trials) < 1.1


# What the recommender or everybody observes on D and D'.


def pair(part: PrivSR, linked: float = 0.0) -> tuple[SocialRows, SocialRows]:
    before = drawn(linked=linked)
    value = 5.0 if before.value[0] < 3 else 1.0
    after = apply(before, RatingReplaced(int(before.user[0]), int(before.item[0]), value))
    return part.prepare(before), part.prepare(after, before)


@pytest.mark.long
@pytest.mark.parametrize(
    "part",
    [defense(social=0.0), corrected(social=0.0), corrected(social=0.0, summation="secure")],
    ids=["published", "local", "secure"],
)
def test_what_is_seen_has_the_stated_law(part: PrivSR) -> None:
    before, after = pair(part)
    for trained, name in ((before, "absent"), (after, "present")):
        apart = []
        for index in range(150):
            for shown, law in part.observe(before, after, trained, trial(index)):
                means = law.absent if name == "absent" else law.present
                apart.append(((shown.shown - means) / law.scale).reshape(-1))
                assert law.gaussian
        seen = np.concatenate(apart)
        assert stats.kstest(seen, stats.norm.cdf).pvalue > RATE
        assert stats.kstest(1.15 * seen, stats.norm.cdf).pvalue < RATE
    laws = [law for _, law in part.observe(before, after, before, trial(0))]
    assert len(laws) == part.rounds
    # A rating changes its own submission at once, and the user's others later, through the factors.
    # If the user's submissions are clipped together, all of them change at once.
    differs = [np.flatnonzero(abs(law.present - law.absent)[0] > 1e-7) for law in laws]
    assert (len(differs[0]) < len(differs[1])) == (part.variant == "published")


@pytest.mark.long
def test_everybody_sees_sums_whose_noise_is_laplace() -> None:
    part = defense(social=0.0)
    before, after = pair(part)
    apart = []
    for index in range(300):
        for shown, law in part.observe_items(before, after, after, trial(index)):
            apart.append(((shown.shown - law.present) / law.scale).reshape(-1))
            assert not law.gaussian
    seen = np.concatenate(apart)
    assert stats.kstest(seen, stats.laplace.cdf).pvalue > RATE
    assert stats.kstest(1.15 * seen, stats.laplace.cdf).pvalue < RATE
    # In the corrected form, a user's submissions differ by at most twice clip_norm.
    for cut in (corrected(social=0.0), corrected(social=0.0, summation="secure")):
        x, y = pair(cut)
        for _, law in cut.observe_items(x, y, x, trial(0)):
            assert np.linalg.norm(law.present - law.absent) <= 2 * cut.clip_norm


@pytest.mark.long
@pytest.mark.parametrize("summation", ["local", "secure"])
def test_everybody_sees_normal_sums_of_the_corrected_form(summation: Any) -> None:
    part = corrected(social=0.0, summation=summation)
    before, after = pair(part)
    apart = []
    for index in range(300):
        for shown, law in part.observe_items(before, after, before, trial(index)):
            apart.append(((shown.shown - law.absent) / law.scale).reshape(-1))
            assert law.gaussian
    seen = np.concatenate(apart)
    assert stats.kstest(seen, stats.norm.cdf).pvalue > RATE
    assert stats.kstest(1.15 * seen, stats.norm.cdf).pvalue < RATE


# What a friend observes.

# User 0 has no friends and is a friend of 1 and 2, of whom 2 has three in all.
LINKS = Friends.build(np.array([1, 2, 2, 2, 3]), np.array([0, 0, 3, 4, 5]), N)


def followed(part: PrivSR) -> tuple[SocialRows, SocialRows]:
    """All ratings of user 0 go to the far end of the scale."""
    before = replace(drawn(), friends=LINKS, sensitive=None)
    mine = before.profile(0)
    after = before
    for item, value in zip(mine.items.tolist(), mine.values.tolist(), strict=True):
        after = apply(after, RatingReplaced(0, item, 5.0 if value < 3 else 1.0))
    return part.prepare(before), part.prepare(after, before)


@pytest.mark.long
@pytest.mark.parametrize("trained", ["absent", "present"])
@pytest.mark.parametrize("form", ["published", "corrected"])
def test_what_a_friend_receives_has_the_stated_law(form: str, trained: str) -> None:
    given: dict[str, Any] = {"social": 0.5, "rounds": 6, "learning_rate": 0.05}
    part = defense(**given) if form == "published" else corrected(**given)
    before, after = followed(part)
    data = before if trained == "absent" else after
    apart, shifts = [], []
    for index in range(300):
        for shown, law in part.observe_messages(before, after, data, trial(index)):
            means = law.absent if trained == "absent" else law.present
            apart.append(((shown.shown - means) / law.scale).reshape(-1))
            assert law.gaussian
            assert shown.shown.shape == law.scale.shape == (1, D)
            shifts.append(float(np.abs(law.present - law.absent).max()))
    seen = np.concatenate(apart)
    assert stats.kstest(seen, stats.norm.cdf).pvalue > RATE
    assert stats.kstest(1.25 * seen, stats.norm.cdf).pvalue < RATE
    # The first message holds initial factors, the same on D and D'; all later ones differ.
    assert len(shifts) == 300 * 6
    assert max(shifts[::6]) == 0
    assert all(min(shifts[k::6]) > 0 for k in range(1, 6))


def test_a_message_is_what_the_user_is_sent() -> None:
    part = defense(social=0.5, rounds=2)
    before, _ = followed(part)
    weight = float(before.similarity[2, 0])
    assert 0 < weight <= 1
    draws, noises = [], []
    for index in range(400):
        training = SocialTraining(part, before, trial(index), observed_link=(2, 0))
        factors = training.users[0, :D].copy()
        training.run_round()
        message = training.message
        noises.append((message.shown + 2 * weight * factors) / message.deviations)
        # The message of one of three friends has a third of the variance, given the receiver's h.
        draws.append((message.deviations * math.sqrt(3) / (2 * math.sqrt(2 * D))) ** 2)
    for seen, law in ((noises, stats.norm), (draws, stats.expon)):
        values = np.concatenate(seen)
        assert stats.kstest(values, law.cdf).pvalue > RATE
        assert stats.kstest(1.6 * values, law.cdf).pvalue < RATE
    broadcast = SocialTraining(corrected(social=0.5), before, trial(), observed_link=(2, 0))
    kept = broadcast.users[0, :D].copy()
    broadcast.run_round()
    deviation = math.sqrt(broadcast.noise.broadcast)
    np.testing.assert_array_equal(broadcast.message.deviations, np.full(D, deviation))
    assert np.abs((broadcast.message.shown - kept) / deviation).max() < 6


@pytest.mark.long
def test_a_friend_who_is_heard_adds_to_the_same_noise() -> None:
    part, quiet = defense(epsilon=0.5, social=1.0, rounds=1), exact(social=1.0, rounds=1)
    before, _ = followed(part)
    seen, messages = [], []
    for index in range(1500):
        linked = SocialTraining(part, before, trial(index), observed_link=(2, 0))
        silent = SocialTraining(quiet, before, trial(index))
        nothing = np.zeros_like(linked.items)
        factors = linked.users[0, :D].copy()
        for training in (linked, silent):
            training.learn(nothing)
        seen.append(((silent.users - linked.users)[2, :D] / part.learning_rate).astype(np.float64))
        messages.append(linked.message.shown + 2 * float(before.similarity[2, 0]) * factors)
    values = np.concatenate(seen)
    scale = 2 * math.sqrt(D) / 0.5
    assert stats.kstest(values, stats.laplace(scale=scale).cdf).pvalue > RATE
    assert stats.kstest(values, stats.laplace(scale=1.2 * scale).cdf).pvalue < RATE
    # The message has a third of the variance: the correlation is √(1/3), to six deviations.
    assert abs(np.corrcoef(values, np.concatenate(messages))[0, 1] - 3**-0.5) < 0.12


def test_the_friend_who_hears_best_is_asked() -> None:
    part = defense(social=0.5, rounds=2)
    before, after = followed(part)
    signal = {
        receiver: float(before.similarity[receiver, 0]) ** 2 * before.friends[receiver]
        for receiver in (1, 2)
    }
    best = max(signal, key=lambda receiver: signal[receiver])
    _, law = next(part.observe_messages(before, after, before, trial()))
    linked = SocialTraining(part, before, trial(), observed_link=(best, 0))
    linked.run_round()
    np.testing.assert_array_equal(law.scale[0], linked.message.deviations)
    # A target user has no friends, and is somebody's friend.
    for form in (part, corrected(social=0.5)):
        ratings = replace(drawn(), friends=LINKS, sensitive=None)
        followed_rows = form.targets(ratings, "friend").rows
        users = set(ratings.user[followed_rows].tolist())
        assert users <= {0, 4, 5}
        assert 0 in users or form is part


def test_messages_without_a_law_are_refused() -> None:
    part = defense(social=0.5, rounds=2)
    before, after = followed(part)
    assert list(part.observers())[:3] == ["recommender", "iterates", "friend"]
    # Messages of initial factors reveal nothing, and without friends there are no messages.
    for silent in (defense(social=0.5, rounds=1), defense(social=0.0)):
        assert "friend" not in silent.observers()
    alone = pair(part)
    with pytest.raises(ConfigError, match="somebody's friend"):
        next(part.observe_messages(*alone, alone[0], trial()))
    befriended = pair(part, linked=0.9)
    with pytest.raises(ConfigError, match="has friends"):
        next(part.observe_messages(*befriended, befriended[0], trial()))
    with pytest.raises(ConfigError, match="has none"):
        exact(social=0.5).observe_messages(before, after, before, trial())


def test_single_submissions_are_those_of_a_training_and_none_of_sums() -> None:
    part = defense(social=0.0)
    rows = part.prepare(drawn())
    users = np.isin(np.arange(N), [1, 4])
    seen, models = part.submissions(rows, trial(), users)
    training = SocialTraining(part, rows, trial(), users)
    for t in range(part.rounds):
        np.testing.assert_array_equal(seen.factors[t], training.items[:, :D])
        sent = training.submit()
        np.testing.assert_array_equal(seen.shown[t], sent.shown[:, :D])
        np.testing.assert_allclose(seen.deviations[t], sent.deviations, rtol=1e-6)
        training.learn(sent.sums)
    factors = users[rows.users]
    np.testing.assert_array_equal(seen.users, rows.users[factors])
    np.testing.assert_array_equal(seen.items, rows.items[factors])
    np.testing.assert_array_equal(seen.kept, rows.sensitive[factors])
    ids = np.arange(M, dtype=np.int32)
    np.testing.assert_array_equal(models.public(ids).factors, training.models().public(ids).factors)
    with pytest.raises(ConfigError, match=r"params\.summation = 'secure'.*set 'local'"):
        corrected(summation="secure").check_submissions()
    corrected().check_submissions()


def test_purchases_and_a_secure_sum_that_nothing_uses_are_refused() -> None:
    with pytest.raises(DataError, match=r"these are purchases.*'privsr-ranking'"):
        defense().prepare(replace(drawn(), scale=Scale(1, 1, 1)))
    for variant in ("published", "nonprivate"):
        with pytest.raises(ValidationError, match=r"part of variant 'corrected'.*leave it out"):
            PrivSR(math.inf if variant == "nonprivate" else 1.0, variant, summation="secure")


def test_pairs_without_a_law_are_refused() -> None:
    part = defense()
    ratings = drawn()
    rows = part.prepare(ratings)
    with pytest.raises(ConfigError, match="are the same"):
        next(part.observe(rows, rows, rows, trial()))
    fewer = apply(ratings, RatingRemoved(int(ratings.user[0]), int(ratings.item[0])))
    with pytest.raises(ConfigError, match="who rates what"):
        next(part.observe(rows, part.prepare(fewer, ratings), rows, trial()))
    befriended = pair(part, linked=0.9)
    with pytest.raises(ConfigError, match=r"friends.*params\.social = 0"):
        next(part.observe(*befriended, befriended[0], trial()))
    with pytest.raises(ConfigError, match=r"params\.social = 0"):
        next(part.observe_items(*befriended, befriended[0], trial()))
    # With one round, users submit before friends send messages.
    next(defense(rounds=1).observe(*befriended, befriended[0], trial()))
    with pytest.raises(ConfigError, match="has none"):
        exact().observe(rows, rows, rows, trial())


def test_similarity_is_that_of_what_is_shared_in_public() -> None:
    part = defense()
    ratings = drawn()
    assert ratings.friends is not None
    rows = part.prepare(ratings)

    def moved(row: int, public: Ratings | None = None) -> bool:
        value = 5.0 if ratings.value[row] < 3 else 1.0
        change = RatingReplaced(int(ratings.user[row]), int(ratings.item[row]), value)
        other = part.prepare(apply(ratings, change), public)
        return bool((other.similarity != rows.similarity).nnz)

    kept = np.flatnonzero(ratings.kept_private).tolist()
    shared = np.flatnonzero(~ratings.kept_private).tolist()
    # Neither private ratings nor changes outside the public data change a similarity.
    assert kept
    assert not any(moved(row) for row in kept)
    assert any(moved(row) for row in shared)
    assert not any(moved(row, ratings) for row in shared)


def test_lengths_are_those_of_the_factors_without_bias_and_padding() -> None:
    users = np.array([[3, 4], [0, 1]], np.float32)
    items = np.ones((3, 2), np.float32)
    single = FactorModels.single(users, items, 2, 3.0, Scale())
    assert user_lengths(single).tolist() == [5, 1]
    single.users[0][:, -1] = 7  # the bias
    assert user_lengths(single).tolist() == [5, 1]
    padded = np.pad(users, ((0, 0), (0, 14)))
    assert user_lengths(RankingModels([padded], [padded], 2)).tolist() == [5, 1]
