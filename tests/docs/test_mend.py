"""The page of what mends a leak has rows of different audits, and the ε that accountants state."""

from __future__ import annotations

import re

import pytest
from make_mend import MEMBERSHIP, PARTS, recognised  # type: ignore[import-not-found]
from make_models import Model  # type: ignore[import-not-found]

from dpaudit.audits.models.config import OwnRecommender
from dpaudit.recommenders.torch import Torch
from dpaudit.record.result import STRONGEST
from tests.support.membership_records import measured

MODELS: list[Model] = [model for part in PARTS for model in part.models]
STATED = re.compile(r"ε = ([\d.]+)")


def test_every_row_is_an_audit_of_its_own() -> None:
    audits = [{**model.tables} for model in MODELS]
    for audit in audits:
        (table,) = audit["recommender"]
        assert OwnRecommender.model_validate(table).create("recommender") is not None
        assert audit.get("membership", MEMBERSHIP)["trainings"] == MEMBERSHIP["trainings"]
    assert len({model.name for model in MODELS}) == len(MODELS)


@pytest.mark.long
def test_a_row_names_the_epsilon_that_the_accountant_states() -> None:
    pytest.importorskip("opacus")
    private = [
        (float(stated[1]), model)
        for model in MODELS
        if (stated := STATED.search(model.tables["recommender"][0]["label"]))
    ]
    assert private
    for epsilon, model in private:
        params = model.tables["recommender"][0]["params"]
        assert epsilon - 0.01 < Torch(**params).epsilon(1e-5) <= epsilon


def test_a_number_is_of_100_with_its_range() -> None:
    number = measured("attack.tpr", "interaction", "scores", 0.25, STRONGEST, at=0.01)
    assert recognised(number) == "25 (12 to 38)"
    assert recognised(None) == "–"
