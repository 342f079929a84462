"""Fake gradients (Luo et al. 2020): statements that are derived and not played."""

from __future__ import annotations

from dpaudit.claims.entry import Check, PublishedClaim
from dpaudit.claims.luo_2020 import algebra, quoted

_PAPER = "Luo et al. 2020"

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
        "Algorithm 2 is normal: with σ = Δ₂ √(2 ln(1.25/δ))/ε it keeps (ε, δ) for ε ≤ 1, and not "
        "for every larger one.",
        published=(
            Check("Laplace noise, 200 instances", quoted.laplace_noise),
            Check("normal noise, ε ≤ 1", quoted.normal_noise),
        ),
        reading="the formulas are lost from the text at hand: Laplace noise and the L1 "
        "sensitivity, as in the theorem's source; normal noise as in Dwork & Roth 2014, Theorem "
        "A.1",
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
        "most L²‖x − y‖², and x − y is T steps. It asks for a gradient that is L-Lipschitz and "
        "noise of mean 0. Algorithm 2 has neither: (r − u·v)² is of degree 4, and a step by π̂ in "
        "place of π is off in the mean. So it does not show that the delay there does no harm; how "
        "much it does is measured. The verdict rests on the proof: on quadratic f a smaller bound "
        "would hold too.",
        published=(Check("quadratic f, exact moments, 60 instances", quoted.delayed_descent),),
        reading="the formulas are lost from the text at hand: tried is the source's bound, in "
        "expectation, of batches of one and a constant γ; the paper has it with high probability, "
        "for sub-Gaussian noise, by lemmas that are not at hand",
    ),
    PublishedClaim(
        id="fg-s4.1-optimum",
        sentence="The mean KL between real and fake sequences, over an item's raters, is least "
        "where the fake is the mean of their gradients.",
        source=f"{_PAPER}, section 4.1",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="It is Σ_t [tr Σ_t + ‖ḡ_t − F_t‖²]/(2σ²), Σ_t the gradients' covariance over "
        "users: a quadratic form with the only minimum F_t = ḡ_t. What is left at the minimum, "
        "tr Σ, no choice of F removes, and a mean over users bounds the loss of none.",
        published=(Check("gradients of up to 8 users, 200 instances", algebra.best_fake),),
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
        "+ O(ln k/k) → D. It is a limit: at kD = 10 and a level of 1 % β = 0.016 and not "
        "e^−10. If errors of both kinds count, the exponent is D/4.",
        published=(Check("levels from 1e-6 on, kD from 100 to 1e10", algebra.error_exponent),),
        reading="real sequences that are missed, by a test of a fixed level, rounds alike and "
        "independent",
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
        "+ p(1 − p). It is Warner's, of respondents drawn at random. Where all users answer, as in "
        "Algorithm 2, the first term is absent: the variance is less.",
        published=(
            Check("respondents drawn, all outcomes up to n = 5", algebra.warner_drawn),
            Check("everybody answers, all outcomes up to n = 7", algebra.warner_everybody),
        ),
        reading="printed of respondents drawn at random; an upper bound where everybody answers",
    ),
    PublishedClaim(
        id="fg-s4.4-response",
        sentence="The response is |ln(p/(1 − p))|-differentially private when an item is added to "
        "those that a user has rated.",
        source=f"{_PAPER}, section 4.4",
        adjacency="rating-add-remove",
        observer="recommender",
        recorded="holds",
        because="One answer changes its law, from p to 1 − p, and the ratio is attained.",
        published=(Check("one answer, 55 values of p", algebra.response),),
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
        because="She answers about each of her n candidates: two users with opposite truths have "
        "n |ln(p/(1 − p))|. With p = 0.75 and 170 candidates that is 187; p near ½ makes it small "
        "and the estimates worthless.",
        published=(Check("all answers on up to 7 candidates", algebra.response_of_user),),
        reading="the guarantee is for all that a user has rated",
    ),
    PublishedClaim(
        id="fg-s4.1-zero-mean",
        sentence="Where fakes follow the mean gradient, a statistical test of the mean does not "
        "tell rated items from others, whatever the noise.",
        source=f"{_PAPER}, sections 3 and 4.1",
        adjacency=None,
        observer=None,
        recorded="falsified",
        basis="on a reading",
        because="The server computed F_t and can test for it: mean(x_t − F_t) has mean 0 and known "
        "variance for a fake, mean(g_t − F_t) for a real one, which is not 0 for a user whose "
        "taste is not the mean's. At ε = 50 for 100 rounds 41 % of 535 rated items are found by a "
        "test of level 1 %. Noise hides them and F does not: at ε = 1 the test finds "
        "no more than chance.",
        published=(Check("60 generated users, 100 rounds, ε = 50", algebra.zero_mean),),
        reading="that a test for a mean of 0 fails protects against tests of a mean; the text says "
        "“hard to be distinguished”",
    ),
    PublishedClaim(
        id="fg-s1-two-valued",
        sentence="The two-valued output of Shin et al. is ε'-differentially private in each round, "
        "given the rounds before.",
        source=f"{_PAPER}, section 1; Shin et al. 2018",
        adjacency="rating-replace",
        observer="recommender",
        recorded="holds",
        because="P(+) = ½(1 + x tanh(ε'/2)) for x in [−1, 1], so two gradients have at most "
        "(1 + tanh)/(1 − tanh) = e^ε', at x = ±1. A fake, x = 0, differs from a gradient by "
        "ln((1 + e^ε')/2) < ε'.",
        published=(Check("pairs of gradients, 200 instances", algebra.two_valued),),
        reading="of one item's submission; a rating also moves those for the user's other items",
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
        because="Both values are possible of both, but P(+) is ½ (1 + x tanh(ε'/2)) of a gradient "
        "x and ½ of a fake. Who knows the sign of x, from V and a guess of the rating, is right "
        "with probability ½ + |x| tanh(ε'/2)/4: 0.62 at ε' = 1, x = 1. One round is ε'-private, "
        "not 0-private. If x has either sign with equal odds for the observer, nothing is learned.",
        published=(Check("three ε', d = 1", quoted.one_round),),
        reading="“can not learn” means that nothing is learned, by somebody who knows the sign of "
        "the gradient",
    ),
    PublishedClaim(
        id="fg-s1-sign-test",
        sentence="Because fakes of Shin et al. have mean 0, a statistical test of many rounds "
        "identifies the items that were rated.",
        source=f"{_PAPER}, sections 1 and 3",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="With ε' fixed, 40/(x tanh(ε'/2))² rounds give a sign test of level 1 % a power of "
        "99 %. It asks for a gradient that keeps its sign and for ε' that does not fall with k: "
        "with ε' = ε/k no number of rounds is enough.",
        published=(Check("exact powers, 100 instances", algebra.sign_test),),
        reading="ε' of a round is fixed, and a rated item's gradient keeps a sign",
    ),
    PublishedClaim(
        id="fg-s4.2-correction",
        sentence="What the server takes for an item's mean gradient is so in the mean, the share "
        "of real submissions being known.",
        source=f"{_PAPER}, section 4.2",
        adjacency=None,
        observer=None,
        recorded="holds",
        because="Σ x = πn ḡ + (1 − π) n F in the mean, so (Σ x − (1 − π) n F)/(πn) = ḡ, for any F. "
        "π is the share among those who submit in the round.",
        published=(Check("the server's next F, 200 instances", algebra.correction),),
        reading="π is the round's true share",
    ),
)
