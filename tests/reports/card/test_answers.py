"""What a record answers to requirements."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from dpaudit.record.result import STRONGEST, AuditResult, GateRecord, Measurement, Outcome
from dpaudit.reports.card import answers
from dpaudit.reports.card.requirements import STANDARDS
from tests.support.records import Make, estimate, judged, stating

REQUIREMENTS = [asked for standard in STANDARDS for asked in standard.requirements]


def inferred(
    make: Make, gates: list[tuple[str, float, Outcome]], area: float = 0.52, rate: float = 0.012
) -> AuditResult:
    """A record of membership inference without a claim, judged by some gates."""
    base = make(epsilons=(math.inf,), game=False, attacks=False, gate=False)
    seen = {"attack": STRONGEST, "observer": "scores", "unit": "user"}
    here = {"model": "published", "epsilon": math.inf}
    numbers = [("attack.auc", area, {}), ("attack.tpr", rate, {"at": 0.01})]
    numbers += [("attack.tpr", 0.5, {"at": 0.1})]
    found = [
        Measurement(
            metric=metric,
            estimate=estimate(value, 0.9 * value, min(1.0, 1.1 * value)),
            **here,
            **seen,
            **fields,
        )
        for metric, value, fields in numbers
    ]
    tables = [
        {"metric": metric, "max": limit, **({"where": {"at": 0.01}} if "tpr" in metric else {})}
        for metric, limit, _ in gates
    ]
    records = [
        GateRecord(id=f"g{n}", rule=f"{metric} <= {limit:g}", outcome=outcome, reason="r")
        for n, (metric, limit, outcome) in enumerate(gates)
    ]
    config = {**base.config, "gate": tables}
    update = {"measurements": found, "gates": records, "config": config, "kind": "membership"}
    return base.model_copy(update=update)


@pytest.mark.cases(
    ("epsilons", "status", "line"),
    [
        (
            (1.0, 3.0),
            "not met",
            "published: ε = 1 is claimed, ε at least 2.71 is certified; claim false.",
        ),
        (
            (3.0,),
            "met",
            "published: ε = 3 is claimed, ε at least 2.71 is certified, copies that leak 1.25 "
            "times the claim are caught; claim survived.",
        ),
        (
            (3.0, 10.0),
            "undecided",
            "published: ε = 10 is claimed, ε at least 2.71 is certified; claim too weak to tell.",
        ),
        ((3.0, math.inf), "gap", "No ε is claimed: published."),
    ],
)
def test_training_is_private_if_every_claim_survives(
    make: Make, epsilons: tuple[float, ...], status: str, line: str
) -> None:
    answer = answers.private_training(make(epsilons=epsilons))
    assert (answer.status, answer.lines[0]) == (status, line)
    assert bool(answer.fill) == (status in ("gap", "undecided"))


def test_a_claim_without_a_game_is_a_gap(make: Make) -> None:
    answer = answers.auditing(make(epsilons=(1.0,), game=False))
    assert answer.status == "gap"
    assert "[[game]]" in answer.fill


AREA, RATE = "attack.auc", "attack.tpr"


@pytest.mark.cases(
    ("gates", "status"),
    [
        # A low number that no gate decides meets nothing, and a high one fails nothing.
        ([], "to judge"),
        ([(AREA, 0.55, "pass")], "to judge"),
        ([(AREA, 0.55, "pass"), (RATE, 0.02, "pass")], "met"),
        ([(AREA, 0.53, "pass"), (RATE, 0.02, "pass")], "met"),
        # A gate with a higher limit passes for that alone, and one with a lower one fails so.
        ([(AREA, 0.6, "pass"), (RATE, 0.02, "pass")], "to judge"),
        ([(AREA, 0.51, "fail"), (RATE, 0.02, "pass")], "to judge"),
        ([(AREA, 0.6, "fail"), (RATE, 0.02, "pass")], "not met"),
        ([(AREA, 0.55, "pass"), (RATE, 0.02, "fail")], "not met"),
        ([(AREA, 0.55, "inconclusive"), (RATE, 0.02, "pass")], "undecided"),
    ],
)
def test_guessing_is_decided_by_gates(
    make: Make, gates: list[tuple[str, float, Outcome]], status: str
) -> None:
    answer = answers.guessing(inferred(make, gates))
    assert answer.status == status
    said = "published, attack.auc (scores, user): 0.520 [0.468, 0.573] (clopper-pearson); "
    assert answer.lines[0].startswith(said)
    assert answer.lines[0].endswith("below 0.55.")
    # Of several rates of false positives it is the lowest.
    assert answer.lines[1].startswith("published, attack.tpr (at 1 %, scores, user): 0.012 ")
    assert bool(answer.fill) == (status == "to judge")


def test_without_membership_inference_guessing_is_a_gap(result: AuditResult) -> None:
    answer = answers.guessing(result)
    assert answer.status == "gap"
    assert "[membership]" in answer.fill
    assert answers.membership(result).status == "gap"


def test_what_is_found_is_for_the_reader_to_judge(make: Make) -> None:
    record = inferred(make, [(RATE, 0.02, "fail")], rate=0.42)
    member = answers.membership(record)
    assert member.status == "to judge"
    (line,) = member.lines
    # The number that a gate judges, with its limit.
    assert line.startswith("published, own scores, for users: 42 of 100 training users")
    assert answers.extraction(record).lines == [f"The most: {line}"]
    assert answers.attributes(record).status == "gap"


def test_attributes_are_what_attacks_on_ratings_recover(make: Make) -> None:
    answer = answers.attributes(make(epsilons=(1.0,)))
    assert answer.status == "to judge"
    assert answer.lines[0].startswith("published, one prediction: 40 of 100 hidden ratings")


def owned(result: AuditResult, **tables: Any) -> AuditResult:
    """The record of a recommender of the user's, whose config has these tables."""
    models = [model.model_copy(update={"variant": "own"}) for model in result.models]
    return result.model_copy(update={"models": models, "config": {**result.config, **tables}})


def test_an_own_recommender_is_never_told_to_set_what_only_a_defense_takes(make: Make) -> None:
    bare = make(epsilons=(math.inf,), attacks=False, game=False)
    own = owned(bare, membership={})
    claimed = owned(make(epsilons=(1.0,), game=False), membership={})
    fills = {
        requirement.answer(record).fill for requirement in REQUIREMENTS for record in (own, claimed)
    }
    assert not [fill for fill in fills if "[[attack]]" in fill or "[[game]]" in fill]
    assert not [fill for fill in fills if "variant" in fill]
    assert "[attributes]" in answers.attributes(own).fill
    assert "no key" in answers.reconstruction(own).fill
    # A defense in a config of membership takes no attack on ratings there either.
    beside = bare.model_copy(update={"config": {**bare.config, "membership": {}}})
    assert answers.attributes(beside).fill.endswith("in a config without [membership]")
    assert answers.attributes(bare).fill.endswith("such as 'linear-ideal'")


def test_a_mechanism_is_never_told_to_set_what_only_a_model_takes(make: Make) -> None:
    bare = make(attacks=False, game=False)
    record = bare.model_copy(update={"config": {**bare.config, "defense": {"kind": "python"}}})
    fills = {requirement.answer(record).fill for requirement in REQUIREMENTS}
    assert not [fill for fill in fills if "[[attack]]" in fill or "variant" in fill]
    assert "no key: a [defense]" in answers.reconstruction(record).fill
    assert "no key: a [defense]" in answers.erasure(record).fill


def test_a_model_of_dpaudit_forgets_nothing(make: Make) -> None:
    assert "a [[model]] has none" in answers.erasure(make()).fill


def test_one_number_is_no_numbers(make: Make) -> None:
    record = make()
    one = record.model_copy(update={"measurements": record.measurements[:1]})
    assert "1 number with its interval;" in answers.documented(one).lines[0]
    assert f"{len(record.measurements)} numbers with" in answers.documented(record).lines[0]


def test_breadth_says_which_attacks_groups_and_observers_were_tried(make: Make) -> None:
    assert answers.breadth(make()).status == "gap"
    record = inferred(make, [])
    answer = answers.breadth(record)
    assert (answer.status, answer.lines[1]) == ("gap", "Subpopulations: none.")
    assert "membership.groups" in answer.fill
    assert "scores" in answer.lines[2]
    grouped = record.measurements[0].model_copy(
        update={"metric": "membership.group", "group": "gender = F"}
    )
    update = {
        "measurements": [*record.measurements, grouped],
        "config": {**record.config, "membership": {"groups": ["gender"]}},
    }
    answer = answers.breadth(record.model_copy(update=update))
    assert (answer.status, answer.fill) == ("to judge", "")
    assert answer.lines[1] == "Subpopulations: gender = F."


def test_calibration_is_judged_by_who_sees_scores(make: Make) -> None:
    record = inferred(make, [])
    assert answers.calibrated(record).status == "to judge"
    lists = [one.model_copy(update={"observer": "own-list"}) for one in record.measurements]
    answer = answers.calibrated(record.model_copy(update={"measurements": lists}))
    assert answer.status == "gap"
    assert "'scores'" in answer.fill


def test_without_a_deletion_erasure_is_a_gap(make: Make) -> None:
    answer = answers.erasure(make())
    assert answer.status == "gap"
    assert "forget" in answer.fill


def test_without_attacks_extraction_is_a_gap(make: Make) -> None:
    answer = answers.extraction(make(attacks=False))
    assert answer.status == "gap"
    assert "[membership]" in answer.fill
    assert "[[attack]]" in answer.fill


def test_reconstruction_has_its_numbers(make: Make) -> None:
    base = make(epsilons=(1.0,))
    assert answers.reconstruction(base).status == "gap"
    error = Measurement(
        metric="reconstruction.rmse",
        attack="reconstruction",
        basis="leak",
        model="published",
        epsilon=1.0,
        estimate=estimate(0.2, 0.1, 0.3),
    )
    # What is known without the model is no result of an attack.
    known = error.model_copy(update={"basis": "item means", "estimate": estimate(1.0, 0.9, 1.1)})
    record = base.model_copy(update={"measurements": [known, error]})
    answer = answers.reconstruction(record)
    assert answer.status == "to judge"
    (line,) = answer.lines
    assert "published, reconstruction.rmse (leak): 0.200 [0.100, 0.300]" in line
    assert answers.extraction(record).lines == [f"The most: {line}"]


def test_what_dpaudit_cannot_try_is_a_gap(result: AuditResult) -> None:
    assert answers.untested(result).status == "gap"


def test_the_record_documents_tests_and_what_was_not_tried(result: AuditResult) -> None:
    answer = answers.documented(result)
    assert answer.status == "met"
    assert "dpaudit 0.1.0, 2026-01-01" in answer.lines[0]
    assert answer.lines[1] == "Attacks: one prediction; second."
    assert answer.lines[2].startswith("Not tried: ")


def test_without_a_test_nothing_is_documented(make: Make) -> None:
    answer = answers.documented(make(attacks=False, game=False))
    assert answer.status == "gap"
    assert "[membership]" in answer.fill
    assert answers.documented(make(attacks=False)).lines[1] == "Attacks: those of games."


def test_a_sweep_names_the_epsilon_of_a_number(make: Make) -> None:
    base = make(epsilons=(1.0, 3.0))
    errors = [
        Measurement(
            metric="reconstruction.rmse",
            attack="reconstruction",
            basis="leak",
            model="published",
            epsilon=epsilon,
            estimate=estimate(0.1 * epsilon, 0.1, 0.3),
        )
        for epsilon in (1.0, 3.0)
    ]
    answer = answers.reconstruction(base.model_copy(update={"measurements": errors}))
    assert [line.partition(",")[0] for line in answer.lines] == [
        "published at ε = 1",
        "published at ε = 3",
    ]


def test_parameters_are_met_if_every_model_claims_some(make: Make) -> None:
    answer = answers.parameters(make(epsilons=(1.0,)))
    assert (answer.status, answer.lines) == ("met", ["published: ε = 1, δ = 0 (Theorem 3.1)."])
    open_ = answers.parameters(make(epsilons=(1.0, math.inf)))
    assert (open_.status, open_.lines[1]) == ("gap", "published: none.")


def test_a_unit_below_a_user_is_judged_with_what_it_says_of_users(make: Make) -> None:
    answer = answers.unit(make(epsilons=(3.0,)))
    assert answer.status == "to judge"
    one, median, quantile = answer.lines
    assert one == "published: one rating."
    assert re.match(r"published: all 40 ratings of the median .* ε = 120 \(derived\)", median)
    assert re.match(r"published: all 78 ratings of the 90 % .* ε = 234 \(derived\)", quantile)


def test_a_unit_of_users_is_met(make: Make) -> None:
    base = make(epsilons=(3.0,))
    (point,) = base.points
    assert point.claim is not None
    claim = point.claim.model_copy(update={"adjacency": "user-add-remove"})
    users = judged(base.model_copy(update={"points": [point.model_copy(update={"claim": claim})]}))
    assert answers.unit(users).status == "met"
    assert answers.unit(make(epsilons=(math.inf,), game=False)).status == "gap"


def test_what_only_the_owner_knows_is_a_gap_until_it_is_stated(make: Make) -> None:
    base = make(epsilons=(1.0,))
    trust = answers.trust(base)
    assert (trust.status, trust.fill) == ("gap", "card.trust_model, card.release, card.access")
    assert "the predictions shown to one user" in trust.lines[0]
    assert answers.composition(base).fill == "card.composition"
    assert answers.implementation(base).lines[0].startswith("Finite precision")
    stated = stating(base, composition="once a month")
    answer = answers.composition(stated)
    assert (answer.status, answer.fill) == ("to judge", "")
    assert answer.lines == ["composition (owner, not checked): once a month"]


def test_long_lists_are_cut(make: Make) -> None:
    answer = answers.parameters(make(epsilons=tuple(float(n) for n in range(1, 12))))
    assert len(answer.lines) == 5
    assert answer.lines[-1] == "7 more in the record."
