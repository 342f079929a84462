"""Fake gradients (Luo et al. 2020): statements of algebra, which no game tests."""

from __future__ import annotations

from dpaudit.claims.entry import Check, PublishedClaim
from dpaudit.claims.luo_2020 import algebra

_PAPER = "Luo et al. 2020"
_TESTS = "tests/papers/test_luo_2020.py"

CHECKS = (
    PublishedClaim(
        id="fg-thm2",
        sentence="A query plus noise that is scaled to its sensitivity over ε is ε-differentially "
        "private.",
        source=f"{_PAPER}, Theorem 2 with Definition 2, section 2.1; Dwork et al. 2006",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="Lap(Δ/ε) on every coordinate has the loss Σ|d_i| ε/Δ ≤ ε, attained. The noise of "
        "Algorithm 2 is normal: with σ = Δ₂ √(2 ln(1.25/δ))/ε it keeps (ε, δ) for ε ≤ 1, but not "
        "for every larger ε.",
        held_by=_TESTS,
        reading="the available text has lost its formulas: Laplace noise and the L1 sensitivity "
        "are those of the theorem's source, normal noise is that of Dwork & Roth 2014, Theorem A.1",
    ),
    PublishedClaim(
        id="fg-thm5",
        sentence="Descent whose gradients are up to T steps old has a mean squared gradient of at "
        "most 2 (f(x₁) − f*)/(γK) + (γL + 2L²γ²T) σ² after K steps, if Lγ + 2L²γ²T² ≤ 1.",
        source=f"{_PAPER}, Theorem 5, section 4.3; Lian et al. 2015, Theorem 1",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="−2⟨∇f(x), ∇f(y)⟩ = ‖∇f(x) − ∇f(y)‖² − ‖∇f(x)‖² − ‖∇f(y)‖², the first term is at "
        "most L²‖x − y‖², and x − y is the sum of at most T steps. The theorem requires an "
        "L-Lipschitz gradient and noise of mean 0. Algorithm 2 satisfies neither: (r − u·v)² has "
        "degree 4, and a step with π̂ in place of π is biased. So the theorem does not show that "
        "the delay in Algorithm 2 is harmless; its effect is measured elsewhere. The verdict rests "
        "on the proof: for quadratic f a smaller bound would hold too.",
        held_by=_TESTS,
        reading="the available text has lost its formulas: the test is of the source's bound in "
        "expectation, for batches of one and a constant γ; the paper states it with high "
        "probability, for sub-Gaussian noise, by lemmas that are not available",
    ),
    PublishedClaim(
        id="fg-s4.1-optimum",
        sentence="The mean KL between real and fake sequences, over an item's raters, is least "
        "where the fake is the mean of their gradients.",
        source=f"{_PAPER}, section 4.1",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="It is Σ_t [tr Σ_t + ‖ḡ_t − F_t‖²]/(2σ²), where Σ_t is the gradients' covariance "
        "over users: a quadratic form with the only minimum F_t = ḡ_t. No choice of F removes tr "
        "Σ, and a mean over users does not bound the loss of any single user.",
        held_by=_TESTS,
    ),
    PublishedClaim(
        id="fg-thm1-error",
        sentence="The average negative logarithm of the probability of error tends to the KL "
        "distance D of a round as rounds are added.",
        source=f"{_PAPER}, Theorem 1, section 1",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="For normal noise the least error is β = Φ(z − √(2kD)), so −ln β/k = D − z √(2D/k) "
        "+ O(ln k/k) → D. This is only a limit: at kD = 10 and a level of 1 %, β = 0.016 and not "
        "e^−10. If errors of both kinds count, the exponent is D/4.",
        held_by=_TESTS,
        reading="the error is that of missing a real sequence, by a test of a fixed level; rounds "
        "are independent and identically distributed",
    ),
    PublishedClaim(
        id="fg-thm4-warner",
        sentence="The response's estimate of the share of raters is unbiased, with variance "
        "π(1 − π)/n + p(1 − p)/((2p − 1)² n).",
        source=f"{_PAPER}, Theorem 4; Warner 1965",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="A yes has probability λ = πp + (1 − π)(1 − p), and λ(1 − λ) = (2p − 1)² π(1 − π) "
        "+ p(1 − p). This is Warner's result for respondents drawn at random. If all users answer, "
        "as in Algorithm 2, the first term is absent and the variance is smaller.",
        held_by=_TESTS,
        reading="the printed variance is that of respondents drawn at random, and an upper bound "
        "if everybody answers",
    ),
    PublishedClaim(
        id="fg-s4.4-response",
        sentence="The response is |ln(p/(1 − p))|-differentially private when an item is added to "
        "those that a user has rated.",
        source=f"{_PAPER}, section 4.4",
        adjacency="rating-add-remove",
        observer="recommender",
        recorded="holds",
        because="The probability of one answer changes from p to 1 − p, and the ratio is attained.",
        held_by=_TESTS,
        reading="who is asked about which item is public",
    ),
    PublishedClaim(
        id="fg-s4.4-response-user",
        sentence="The response is |ln(p/(1 − p))|-differentially private when a user is replaced.",
        source=f"{_PAPER}, section 4.4",
        adjacency="user-replace",
        observer="recommender",
        recorded="falsified",
        basis="on a reading",
        because="The user answers about each of n candidates: two users with opposite truths have "
        "a loss of n |ln(p/(1 − p))|. With p = 0.75 and 170 candidates that is 187; p near ½ makes "
        "the loss small and the estimates worthless.",
        published=(Check("all answers on up to 7 candidates", algebra.response_of_user),),
        reading="the guarantee covers all ratings of a user",
    ),
    PublishedClaim(
        id="fg-s4.1-zero-mean",
        sentence="If fakes follow the mean gradient, a statistical test of the mean does not "
        "distinguish rated items from others, whatever the noise.",
        source=f"{_PAPER}, sections 3 and 4.1",
        adjacency=None,
        observer=None,
        recorded="falsified",
        basis="on a reading",
        because="The server computed F_t and can test for it: mean(x_t − F_t) has mean 0 and known "
        "variance for a fake. For a real submission its mean is mean(g_t − F_t), which is not 0 "
        "for a user whose taste differs from the mean. At ε = 50 and 100 rounds, a test of level "
        "1 % identifies 41 % of 535 rated items. The noise hides them, not F: at ε = 1 the test "
        "identifies no more than chance.",
        published=(Check("60 generated users, 100 rounds, ε = 50", algebra.zero_mean),),
        reading="the failure of a test for mean 0 is meant to protect against every test of the "
        "mean; the text says “hard to be distinguished”",
    ),
    PublishedClaim(
        id="fg-s1-two-valued",
        sentence="The two-valued output of Shin et al. is ε'-differentially private in each round, "
        "given the rounds before.",
        source=f"{_PAPER}, section 1; Shin et al. 2018",
        adjacency="rating-replace",
        observer="recommender",
        recorded="holds",
        because="P(+) = ½(1 + x tanh(ε'/2)) for x in [−1, 1], so the ratio for two gradients is at "
        "most (1 + tanh)/(1 − tanh) = e^ε', at x = ±1. A fake, x = 0, differs from a gradient by "
        "ln((1 + e^ε')/2) < ε'.",
        held_by=_TESTS,
        reading="the guarantee covers one item's submission; a rating also changes the submissions "
        "for the user's other items",
    ),
    PublishedClaim(
        id="fg-s1-one-round",
        sentence="Since the output of Shin et al. is two-valued, nothing is learned from a single "
        "iteration about which items are rated.",
        source=f"{_PAPER}, section 1; Shin et al. 2018",
        adjacency=None,
        observer=None,
        recorded="falsified",
        basis="on a reading",
        because="Both values are possible for a gradient and for a fake, but P(+) is "
        "½ (1 + x tanh(ε'/2)) for a gradient x and ½ for a fake. An observer who knows the sign of "
        "x, from V and a guess of the rating, guesses right with probability "
        "½ + |x| tanh(ε'/2)/4: 0.62 at ε' = 1, x = 1. One round is ε'-private, not 0-private. An "
        "observer to whom both signs of x are equally likely learns nothing.",
        published=(Check("three ε', d = 1", algebra.one_round),),
        reading="“can not learn” means that an observer who knows the sign of the gradient learns "
        "nothing",
    ),
    PublishedClaim(
        id="fg-s1-sign-test",
        sentence="Because the fakes of Shin et al. have mean 0, a statistical test over many "
        "rounds identifies the items that were rated.",
        source=f"{_PAPER}, sections 1 and 3",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="With ε' fixed, 40/(x tanh(ε'/2))² rounds give a sign test of level 1 % a power of "
        "99 %. This requires a gradient that keeps its sign and an ε' that does not fall with k: "
        "with ε' = ε/k no number of rounds is enough.",
        held_by=_TESTS,
        reading="the ε' of a round is fixed, and a rated item's gradient keeps its sign",
    ),
    PublishedClaim(
        id="fg-s4.2-correction",
        sentence="The server's estimate of an item's mean gradient is unbiased if the share of "
        "real submissions is known.",
        source=f"{_PAPER}, section 4.2",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="Σ x = πn ḡ + (1 − π) n F in expectation, so (Σ x − (1 − π) n F)/(πn) = ḡ, for any "
        "F. π is the share among the users who submit in the round.",
        held_by=_TESTS,
        reading="π is the round's true share",
    ),
)
