"""What the server of a federated training learns."""

from __future__ import annotations

from dpaudit.record import shared
from dpaudit.record.fields import AT, ATTACK, PART, STEP, Field
from dpaudit.record.metric import Column, Metric
from dpaudit.record.shared import BY_LAW

TRUTH = Field("truth", "whether the tested pairs are real or fake")
CORRECTION = Field("correction", "the correction for multiple tests")
ITEMS = Field("items", "the popularity class of the items")
_OBSERVED = {"trained": "with [transcript]"}

METRICS = (
    Metric("assumption.floor", "number of items whose estimated share of real submissions is below "
           "the minimum used, counted", "items", _OBSERVED, (STEP,), role="assumption",
           columns=(Column("items at the floor", "number", brief=False),),
           quantity="items whose share is floored",
           note=("'items at the floor' is the number of items whose estimated share of real "
                 "submissions is below the minimum that is used in its place, a mean over "
                 "trainings.",)),
    shared.ATTACK_AUC.of("trained", "with [transcript]"),
    Metric("transcript.tpr", "true-positive rate: share of real pairs found at a given "
           "false-positive rate", "share", _OBSERVED, (ATTACK, STEP, AT), alone=True,
           section="transcripts", columns=(Column("found at {at} false positives"),),
           quantity="true positives of attack"),
    Metric("transcript.power", "share of real, or of fake, pairs that a test at a given level "
           "calls real", "share", _OBSERVED, (ATTACK, STEP, AT, TRUTH), detail="truth", alone=True,
           section="transcripts",
           columns=(Column("{truth} pairs called real by single tests at {at}"),),
           quantity="power of single tests of attack"),
    Metric("transcript.exposed", "share of real pairs found at a given level, corrected for "
           "multiple tests", "share", _OBSERVED, (ATTACK, STEP, AT, CORRECTION),
           detail="correction", alone=True, section="transcripts",
           columns=(Column("found, {correction} at {at}"),), quantity="real pairs found by attack"),
    Metric("transcript.false", "share of fakes among the found pairs", "share", _OBSERVED,
           (ATTACK, STEP, AT, CORRECTION), detail="correction", alone=True, section="transcripts",
           columns=(Column("fakes among these, {correction}"),),
           quantity="fakes among those found by attack"),
    Metric("transcript.auc", "AUC of real against fake submissions after some rounds, with an "
           "interval over users", "share", _OBSERVED, (ATTACK, STEP), detail="items",
           optional=(ITEMS,), alone=True, role="attack", section="transcripts",
           columns=(Column("area, {items}"),), quantity="area of attack", orders=True),
    Metric("transcript.kl", "divergence of real submissions from fakes, averaged over real pairs, "
           "or a part of it", "nats", _OBSERVED, (STEP, PART), detail="part", larger="worse",
           assumes=BY_LAW, samples="transcript.trials", alone=True,
           section="divergence of submissions", quantity="divergence of real submissions,"),
    Metric("transcript.rmse", "root mean squared error on held-out ratings after some rounds",
           "rating", _OBSERVED, (STEP,), alone=True, section="curves", quantity="rmse by round"),
    Metric("transcript.roc", "ROC point: share of real pairs above the score that a given share of "
           "fakes exceeds", "share", _OBSERVED, (ATTACK, STEP, AT), alone=True,
           section="curves", quantity="curve of attack"),
)  # fmt: skip
