"""Compares membership inference attacks with PrivacyGuard's on the same trainings, and their times.

    python -m pip install '.[implicit,torch]'
    python -m pip install --no-deps privacyguard-platform
    DPAUDIT_DATA=… python bench/membership_peers.py docs/results/membership-peers.md

ALS of implicit is trained on MovieLens-100K with the coins of dpaudit's design. Both tools get the
scores of the targets: the judged half of the trainings is attacked, the calibrating half are the
attacker's own. All on one thread, in some minutes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

# One thread for every peer, before any of them is imported.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import numpy as np
from bench_peers import seconds
from membership_coverage import coverage_table
from numpy.typing import NDArray
from privacy_guard_attacks import (
    frames_of,
    lira,
    lira_frames,
    our_law,
    probabilities,
    rates,
    rmia,
    rmia_frames,
    table,
    their_law,
)
from scipy.special import ndtri_exp
from scipy.stats import rankdata

from dpaudit.attacks.base import MembershipInference, Signals
from dpaudit.attacks.membership.features import direction
from dpaudit.attacks.membership.inference import GlobalThreshold, Lira, Rmia
from dpaudit.audits.membership.calibration import Curve, Trials, division
from dpaudit.audits.membership.config import Membership
from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.training import BESIDE, BESIDES, Training, unpacked
from dpaudit.core.files import write_text
from dpaudit.data.readers.load import load
from dpaudit.data.source import DataSource
from dpaudit.recommenders.implicit import Implicit
from dpaudit.reports.render.markdown import row

SEED, FACTORS, A = 7, 64, 0.3
AT = (0.01, 0.001)
# Settings of the peer's LiRA.
ONLINE: dict[str, Any] = {"online_attack": True}
MIX: dict[str, Any] = {"use_fixed_variance": True, "std_dev_type": "mix"}
Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Given(NamedTuple):
    """What both tools get.

    Attributes:
        attacked: the judged trainings.
        own: the calibrating trainings, the attacker's own.
        seen: the signals of the judged trainings.
        reference: the signals of the calibrating ones.
    """

    attacked: Trials
    own: Trials
    seen: Signals
    reference: Signals

    @classmethod
    def of(cls, trials: Trials) -> Given:
        """Divide the trainings as dpaudit does."""
        own, attacked = (trials.of(part) for part in division(len(trials), len(trials) // 2, SEED))
        toward = direction(own.features, own.present)
        seen, reference = (
            Signals(each.features, each.features @ toward, each.population @ toward)
            for each in (attacked, own)
        )
        return cls(attacked, own, seen, reference)


class Agreement(NamedTuple):
    """One attack of both tools.

    Attributes:
        name: the attack and its settings.
        ours: our scores `(T, m)`.
        theirs: their scores `(T, m)`.
        away: differences, after the transformation that the page states `(T, m)`.
        explained: the largest difference once what differs is made equal.
    """

    name: str
    ours: Numbers
    theirs: Numbers
    away: Numbers
    explained: float


def main(
    place: Path, trainings: int = 64, audits: int = 100, resamples: int = 100, repeats: int = 7
) -> None:
    """Train, compare, and write the page; what is made equal gives the same scores."""
    import torch

    torch.set_num_threads(1)
    trials = trained(trainings)
    given = Given.of(trials)
    compared = [*lira_agreement(given), *rmia_agreement(given)]
    for each in compared:
        assert each.explained < 1e-6, each.name
    page = PAGE.format(
        version=version("privacyguard-platform"),
        trainings=trainings,
        half=trainings // 2,
        factors=FACTORS,
        targets=trials.present.shape[1],
        population=trials.population.shape[1],
        balanced=int(balanced(given).sum()),
        agreement=agreement_table(given, compared),
        rates=rates_line(given, compared),
        strength=strength_table(given, compared),
        times=times_table(given, repeats),
        audits=audits,
        resamples=resamples,
        error=round(100 / audits**0.5),
        small=round(200 * (0.05 * 0.95 / audits) ** 0.5),
        coverage=coverage_table(audits, resamples),
        repeats=repeats,
    )
    write_text(place, page)


def trained(trainings: int) -> Trials:
    """Train with coins, and return the scores of the targets and of the population."""
    home = Path(os.environ["DPAUDIT_DATA"]) / "ml-100k"
    ratings = load(DataSource(format="movielens-100k", path=str(home / "u.data")))
    settings = Membership(units=["interaction"], observers=["scores"], trainings=trainings)
    design = Design.of(ratings, settings, SEED)
    training = Training(Implicit("als", {"factors": FACTORS}), design, [("interaction", "scores")])
    features = np.stack(
        [unpacked(training(index), 1 + BESIDES)[0][:, :-BESIDE] for index in range(trainings)]
    )
    cut = len(design.rows)
    present = design.present(trainings, "interaction")
    return Trials(features[:, :cut], features[:, cut:], present)


def lira_agreement(given: Given) -> Iterator[Agreement]:
    """Compare LiRA with the deviation of each target, with one for all, and offline."""
    fit, present, had = given.seen.fit, given.attacked.present, given.own.present
    plain = [their_law(given.reference.fit, which) for which in (had, ~had)]
    for own, title, how in ((True, "each target's σ", {}), (False, "one σ", MIX)):
        laws = [our_law(given.reference.fit, which, own) for which in (had, ~had)]
        ours = Lira(own_variance=own).score(given.seen, given.reference, had)
        theirs, same = (
            table(lira(lira_frames(fit, present, *each), online_attack=True, **how))
            for each in (plain, laws)
        )
        yield Agreement(f"LiRA online, {title}", ours, theirs, ours - theirs, far(ours, same))
    law = our_law(given.reference.fit, ~had, own=False)
    ours = Lira(online=False).score(given.seen, given.reference, had)
    theirs, same = (
        table(lira(lira_frames(fit, present, each, each), std_dev_type="shadows_out"))
        for each in (plain[1], law)
    )
    # −ln N(x; μ, σ) from ln P[X ≤ x].
    density = ndtri_exp(ours) ** 2 / 2 + np.log(law.deviation * np.sqrt(2 * np.pi))
    yield Agreement("LiRA offline, one σ", ours, theirs, density - theirs, far(density, same))


def rmia_agreement(given: Given) -> Iterator[Agreement]:
    """Compare RMIA online, with all the reference models and the peer's default, and offline."""
    had, models = given.own.present, len(given.own)
    seen, reference = (
        probabilities(each, given.reference) for each in (given.seen, given.reference)
    )
    frames = rmia_frames(seen, given.attacked.present, reference, had)
    within, without = ((which * reference.fit).sum(0) / which.sum(0) for which in (had, ~had))
    out = np.where(had, 0, reference.fit)
    fit, population, half = reference.fit, reference.population, models // 2
    # Our p(x), theirs, and their p(z); our p(z) is always the mean.
    cases: list[tuple[str, Rmia, dict[str, Any], Numbers, Numbers, Numbers]] = [
        (
            "RMIA online, all models",
            Rmia(),
            {"online": True, "num_reference_models": models},
            (within + without) / 2,
            fit.mean(0),
            population.mean(0),
        ),
        (
            "RMIA online, default number of models",
            Rmia(),
            {"online": True},
            (within + without) / 2,
            top(fit, half),
            top(population, half),
        ),
        (
            "RMIA offline",
            Rmia(online=False, a=A),
            {"alpha_coefficient": A},
            mixed(without),
            mixed(top(out, half)),
            mixed(top(population, half)),
        ),
    ]
    for title, attack, how, our_p, their_p, their_z in cases:
        ours = attack.score(given.seen, given.reference, had)
        theirs = table(rmia(frames, **how))
        explained = max(
            far(ours, shares(seen, our_p, population.mean(0))),
            far(theirs, shares(seen, their_p, their_z)),
        )
        yield Agreement(title, ours, theirs, ours - theirs, explained)


def shares(seen: Signals, targets: Numbers, population: Numbers) -> Numbers:
    """The share of the population with a smaller ratio, for given means p(x) and p(z)."""
    pairs = zip(seen.fit / targets, seen.population / population, strict=True)
    return np.stack([np.searchsorted(np.sort(z), x) / len(z) for x, z in pairs])


def top(values: Numbers, count: int) -> Numbers:
    """The mean of the largest values of each column."""
    return np.sort(values, axis=0)[-count:].mean(0)


def mixed(without: Numbers) -> Numbers:
    """The offline estimate of a mean from models without the target."""
    return ((1 + A) * without + 1 - A) / 2


def balanced(given: Given) -> Mask:
    """Which targets exactly half of the calibrating trainings have."""
    return given.own.present.sum(0) * 2 == len(given.own)


def far(one: Numbers, other: Numbers) -> float:
    """The largest difference."""
    return float(np.abs(one - other).max())


def alike(one: Numbers, other: Numbers) -> float:
    """The rank correlation of targets, the mean over trainings."""
    pairs = zip(rankdata(one, axis=1), rankdata(other, axis=1), strict=True)
    return float(np.mean([np.corrcoef(*pair)[0, 1] for pair in pairs]))


def agreement_table(given: Given, compared: Sequence[Agreement]) -> str:
    """Table of per-target scores, for all targets and for those that half of the models have."""
    even = balanced(given)
    rows = [
        [
            each.name,
            f"{alike(each.ours, each.theirs):.4f}",
            f"{np.median(np.abs(each.away)):.2g}",
            f"{np.abs(each.away).max():.2g}",
            f"{alike(each.ours[:, even], each.theirs[:, even]):.4f}",
            f"{np.abs(each.away[:, even]).max():.2g}",
            f"{each.explained:.0e}" if each.explained else "0",
        ]
        for each in compared
    ]
    return markdown(
        [
            "attack",
            "rank correlation",
            "median difference",
            "largest",
            "balanced: rank correlation",
            "largest",
            "made equal: largest",
        ],
        rows,
    )


def rates_line(given: Given, compared: Sequence[Agreement]) -> str:
    """Largest differences of both tools' rates on the same scores, with ties and without."""
    present = given.attacked.present
    absent = (~present).sum(1)
    areas, untied, tied = 0.0, 0.0, 0.0
    for each in compared:
        found = rates(frames_of(each.ours, present), AT)
        areas = max(areas, far(Curve(each.ours, present).areas(), found[:, 0]))
        for column, rate in enumerate(AT, start=1):
            passing = (np.floor(absent * rate) + 1) / (absent + 1)
            pairs = zip(each.ours, present, passing, strict=True)
            same = [Curve(one[None], here[None]).rates(share)[0] for one, here, share in pairs]
            away = far(np.array(same), found[:, column])
            if each.name.startswith("RMIA"):
                tied = max(tied, away)
            else:
                untied = max(untied, away)
    return (
        f"AUC differs by {areas:.0e} at most,\ntrue-positive rates by {untied:.2g} (LiRA) and "
        f"{tied:.0e} (RMIA, whose scores have ties)"
    )


def strength_table(given: Given, compared: Sequence[Agreement]) -> str:
    """Table of AUC and true-positive rates of both tools' scores, by both rules."""
    present, had = given.attacked.present, given.own.present
    rows = []
    for each in compared:
        if not each.name.endswith("default number of models"):
            rows.append([each.name, "dpaudit", *strength(each.ours, present)])
        rows.append([each.name, "PrivacyGuard", *strength(each.theirs, present)])
    own = Lira(online=False, own_variance=True).score(given.seen, given.reference, had)
    rows.append(["LiRA offline, each target's σ", "dpaudit", *strength(own, present)])
    bare = GlobalThreshold().score(given.seen, given.reference, had)
    rows.append(["the score itself", "both", *strength(bare, present)])
    rules = [f"{rate * 100:g} %, {tool}" for tool in ("dpaudit", "peer") for rate in AT]
    return markdown(["attack", "scores of", "AUC", *(f"TPR at {each}" for each in rules)], rows)


def strength(scores: Numbers, present: Mask) -> list[str]:
    """The AUC, and true-positive rates by our rule and by theirs; means over trainings."""
    curve = Curve(scores, present)
    theirs = rates(frames_of(scores, present), AT)[:, 1:].T
    return [f"{each.mean():.4f}" for each in (curve.areas(), *map(curve.rates, AT), *theirs)]


def times_table(given: Given, repeats: int) -> str:
    """Table of times from scores to rates, in turn; the least of some repeats counts."""
    fit, present, had = given.seen.fit, given.attacked.present, given.own.present

    def for_lira() -> list[Any]:
        laws = (their_law(given.reference.fit, which) for which in (had, ~had))
        return lira_frames(fit, present, *laws)

    def for_rmia() -> list[Any]:
        seen, reference = (
            probabilities(each, given.reference) for each in (given.seen, given.reference)
        )
        return rmia_frames(seen, present, reference, had)

    every = {"online": True, "num_reference_models": len(had)}
    cases: list[tuple[str, MembershipInference, Any, Any, dict[str, Any]]] = [
        ("LiRA online, each target's σ", Lira(own_variance=True), for_lira, lira, ONLINE),
        ("LiRA online, one σ", Lira(), for_lira, lira, ONLINE | MIX),
        (
            "LiRA offline, one σ",
            Lira(online=False),
            for_lira,
            lira,
            {"std_dev_type": "shadows_out"},
        ),
        ("RMIA online, all models", Rmia(), for_rmia, rmia, every),
        ("RMIA offline", Rmia(online=False, a=A), for_rmia, rmia, {"alpha_coefficient": A}),
    ]
    rows = []
    for title, attack, prepare, run, how in cases:
        frames = prepare()
        calls = (
            partial(measured, given, attack),
            lambda run=run, how=how, frames=frames: rates(run(frames, **how), AT),
            lambda run=run, how=how, prepare=prepare: rates(run(prepare(), **how), AT),
        )
        turns = [[seconds(call) for call in calls] for _ in range(repeats)]
        our, ready, whole = (min(column) for column in zip(*turns, strict=True))
        spent = [f"{1000 * each:.0f}" for each in (our, ready, whole)]
        rows.append([title, *spent, f"{ready / our:.1f}", f"{whole / our:.1f}"])
    head = ["scores to rates", "dpaudit, ms", "peer, ms", "with its frames, ms"]
    return markdown([*head, "ratio", "with its frames"], rows)


def measured(given: Given, attack: MembershipInference) -> None:
    """Score the targets, and compute AUC and true-positive rates."""
    curve = Curve(given.attacked.scores(attack, given.own), given.attacked.present)
    curve.areas()
    for rate in AT:
        curve.rates(rate)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(map(row, lines))


PAGE = """\
# Membership attacks beside PrivacyGuard's

Written by `python bench/membership_peers.py docs/results/membership-peers.md`, which needs
the data sets in `DPAUDIT_DATA`, `python3 -m pip install '.[implicit,torch]'` and
`python3 -m pip install --no-deps privacyguard-platform`.

[PrivacyGuard](https://github.com/facebookresearch/PrivacyGuard) of Meta (`privacyguard-platform`
{version} on PyPI, imported as `privacy_guard`; the distribution `privacy-guard` is another project)
also has LiRA and RMIA. Both tools get the same numbers here: {trainings} trainings of ALS
(`implicit`, {factors} factors) on MovieLens-100K, with dpaudit's coins, {targets} target
interactions and a population of {population} held-out ones, and the observer `scores`. The {half}
judged trainings are attacked; the {half} calibrating ones are the attacker's own models,
"reference" or "shadow" models there. Neither tool transforms the scores for LiRA. RMIA needs
numbers between 0 and 1, so both get expit of the standardised score.

PrivacyGuard attacks one model at a time and reads what its caller prepares: for LiRA means and
standard deviations, computed here as its function for shadow models does, and for RMIA the scores
of all models.

## Scores of the targets

{agreement}

"Balanced" are the {balanced} targets that exactly half of the attacker's models have. Rank
correlations are means over the attacked trainings, of targets within one. The last column is the
largest difference that is left once the following is made equal: LiRA with dpaudit's σ given to
PrivacyGuard, RMIA with each tool's p(x) and p(z) restated.

- **σ of each target.** PrivacyGuard's function divides the squares by n and adds 1e-8. dpaudit
  divides Σ(x − μ)² + s² by n, where s² is the variance pooled over all targets (n − 1 each), so
  that a target with few trainings leans on all. A target whose score never changed has σ = 1e-8
  there, hence the largest difference.
- **One σ.** PrivacyGuard's `mix` is the mean over targets of their standard deviations, dpaudit's σ
  the root of the pooled variance. With its `global`, `shadows_in` and `shadows_out` one σ serves
  for present and absent, and whichever it is, the order of targets within a training is the same.
- **LiRA offline.** dpaudit's score is ln P[X ≤ x] for X of N(μ_out, σ), as in section VI-B of the
  paper. PrivacyGuard's is −ln N(x; μ_out, σ), which is large on both sides. With z = (x − μ_out)/σ
  these are ln Φ(z) and z²/2 + ln σ√2π; differences are of the latter, computed from dpaudit's
  score. PrivacyGuard has no σ of each target offline.
- **RMIA online.** PrivacyGuard's p(x) is the mean over all models. dpaudit's gives half of the
  weight to those with the target and half to those without, however many there are. Where they are
  as many, the scores are the same numbers. By default PrivacyGuard takes half as many models as
  there are, for each target and each z those with the largest scores, so that its means are larger.
- **RMIA offline.** PrivacyGuard sets the scores of models with the target to 0 and takes the mean
  of the k largest of the row, by default half of all: zeros enter where fewer than k models are
  without the target, and the smallest are left out where more are. For z it takes the k largest of
  all models, and corrects their mean by a as well. dpaudit takes the mean over all models without
  x, and for z, which no model has, the mean over all. Other p(z) change the shares, but not the
  order of targets within a training; so balanced targets have the same order, but for ties.
- **Ties.** PrivacyGuard counts z with a ratio above 1, dpaudit with at least γ. PrivacyGuard has γ
  = 1 only.

## True-positive rates at a false-positive rate

PrivacyGuard takes the last point of the ROC curve with at most this share of false positives:
⌊N·rate⌋ of the N absent targets pass. dpaudit lets ⌊(N + 1)·rate⌋ − 1 pass, so that another absent
target passes with probability at most `rate`; among about 1250 absent targets that is none at 0.1
%, where PrivacyGuard lets one pass. On the same scores, and with dpaudit's rank set to
PrivacyGuard's, {rates}; PrivacyGuard's curve leaves out points between tied scores
(`drop_intermediate` of scikit-learn).

{strength}

Means over the attacked trainings. PrivacyGuard's empirical ε is not compared.

## Intervals, and the next training

How often does the *next* training, of the same procedure on the same data, lie outside an interval?
A release asks this, and no interval of the others claims to answer it. In {audits} simulated audits
of each law, J trainings are seen and one more is drawn, each with {targets} targets whose scores
are normal. So the next number differs by its training and by its own targets.

{coverage}

- **PrivacyGuard** (`AnalysisNode`, 95 %, here {resamples} resamples and not its default of 1000)
  resamples the targets of one model, here of the first. Its interval is about this model, as if its
  targets were independent, and not about other trainings. It has none for a true-positive rate.
- **Pooled.** ml_privacy_meter joins the scores of all attacked models and prints one AUC and TPR,
  without an interval. A bootstrap of these scores is what a user may add. It is about the mean of
  these models, so the more there are, the seldomer it holds the next one.
- **dpaudit** prints the least and the largest of J. The next one is outside with a probability of
  at most 2/(J + 1), and above with 1/(J + 1), whatever the law; that is what a gate uses. Of one
  training there is no range: its interval is about all data of that training.

Two standard errors of a share of {audits} audits are {error} percentage points at a half, and
{small} at a twentieth.

## Time

One thread, the {half} attacked trainings, from scores to AUC and both rates; the least of {repeats}
repeats in turn, in one process. PrivacyGuard's times are of its attacks and ROC curves on data
frames that are ready; "with its frames" adds means, standard deviations and the building of frames,
which dpaudit's times contain. PrivacyGuard's analysis with 1000 resamples of each model is left
out.

{times}
"""

if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
