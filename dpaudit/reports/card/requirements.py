"""The requirements of standards and authorities that an audit has numbers for.

Each is paraphrased in one sentence; the text that counts is that of its document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpaudit.reports.card import answers
from dpaudit.reports.card.answers import GUESSING, Answering


@dataclass(frozen=True)
class Requirement:
    """A requirement of a standard.

    Attributes:
        place: where it stands there.
        asks: what it asks, in our words.
        answer: what a record says to it.
        bar: what counts as met here, and who says so; empty if the text sets no bar.
    """

    place: str
    asks: str
    answer: Answering
    bar: str = ""


@dataclass(frozen=True)
class Standard:
    """A document with requirements.

    Attributes:
        name: its short name.
        title: its title and date.
        place: where it is published.
        requirements: what it asks.
    """

    name: str
    title: str
    place: str
    requirements: Sequence[Requirement]


_AISVS = Standard(
    "OWASP AISVS 1.0",
    "Artificial Intelligence Security Verification Standard 1.0, chapter C11.2 (membership "
    "inference and model inversion)",
    "https://github.com/OWASP/AISVS",
    (
        Requirement(
            "11.2.1 (level 1)",
            "Sensitive attributes that a model infers are not directly returned in its outputs, "
            "for which the standard's research notes suggest probes by attribute inference.",
            answers.attributes,
        ),
        Requirement(
            "11.2.2 (level 1)",
            "The endpoint limits the rate of queries, for each caller and for all, by what an "
            "attack needs.",
            answers.outside,
        ),
        Requirement(
            "11.2.3 (level 2)",
            "Outputs are calibrated so that they are less sure of what was trained on, for which "
            "the standard's research notes suggest an attack by scores before and after.",
            answers.calibrated,
        ),
        Requirement(
            "11.2.4 (level 2)",
            "Models that learn from sensitive data are trained with differentially private "
            "optimisation.",
            answers.private_training,
            "An ε is claimed, and the claim survives an audit, as the standard's research notes "
            "suggest. The audit sees what is released, and not the code of the training.",
        ),
        Requirement(
            "11.2.5 (level 3)",
            "Simulated membership inference does no better than guessing.",
            answers.guessing,
            f"The standard's research notes suggest an AUC below {GUESSING:g} and true positives "
            f"near the rate of false ones. Here: gates of {GUESSING:g} or less pass on every AUC, "
            "and gates whose limits say what is near on every rate of true positives.",
        ),
        Requirement(
            "11.2.5, research notes",
            "Several attacks are run and not one alone, each subpopulation is looked at, and so "
            "is all that is released.",
            answers.breadth,
        ),
    ),
)
_EDPB = Standard(
    "EDPB Opinion 28/2024",
    "Opinion 28/2024 on certain data protection aspects related to the processing of personal data "
    "in the context of AI models, 17 December 2024",
    "https://www.edpb.europa.eu",
    (
        Requirement(
            "executive summary",
            "A model counts as anonymous only if it is unlikely, to an insignificant degree, that "
            "personal data from its training are extracted from it or obtained by queries.",
            answers.extraction,
        ),
        Requirement(
            "paragraph 55 (i)",
            "The model is tested against membership inference.",
            answers.membership,
        ),
        Requirement(
            "paragraph 55 (i)",
            "The model is tested against attribute inference.",
            answers.attributes,
        ),
        Requirement(
            "paragraph 55 (iv), (v)",
            "The model is tested against model inversion and reconstruction.",
            answers.reconstruction,
        ),
        Requirement(
            "paragraph 55 (ii), (iii)",
            "The model is tested against exfiltration and the regurgitation of training data.",
            answers.untested,
        ),
        Requirement(
            "paragraph 58",
            "Tests of resistance to re-identification, and their results, are documented.",
            answers.documented,
            "The record has both.",
        ),
    ),
)
_ERASURE = Standard(
    "EDPB, February 2026",
    "Report on the coordinated enforcement action of 2025 on the right to erasure (Article 17 of "
    "the GDPR), adopted 10 February 2026",
    "https://www.edpb.europa.eu",
    (
        Requirement(
            "requests for erasure",
            "Personal data whose erasure is asked for are erased, and what is done instead, such "
            "as anonymisation, leaves nobody identifiable.",
            answers.erasure,
        ),
    ),
)
_CNIL = Standard(
    "CNIL, July 2025",
    "IA : Analyser le statut d'un modèle d'IA au regard du RGPD, 22 July 2025",
    "https://www.cnil.fr/fr/ia-analyser-le-statut-dun-modele-dia-au-regard-du-rgpd",
    (
        Requirement(
            "analysis",
            "Whoever provides a model that is trained on personal data tests it with "
            "re-identification attacks, by means that are reasonably likely to be used.",
            answers.extraction,
        ),
        Requirement(
            "documentation",
            "These tests and their results are documented.",
            answers.documented,
            "The record has both. Whether the model is anonymous is for its provider to conclude.",
        ),
    ),
)
_NIST = Standard(
    "NIST SP 800-226",
    "Guidelines for Evaluating Differential Privacy Guarantees, March 2025",
    "https://doi.org/10.6028/NIST.SP.800-226",
    (
        Requirement(
            "section 2: privacy parameters",
            "The guarantee states ε and, where it is not pure, δ.",
            answers.parameters,
            "Every audited model claims an ε.",
        ),
        Requirement(
            "section 2: unit of privacy",
            "The guarantee says what one person's data are; whole users are the usual choice, as "
            "the loss of single events adds up.",
            answers.unit,
            "The unit of every claim is a whole user.",
        ),
        Requirement(
            "section 2: other releases",
            "The losses of all releases from the same data are counted together.",
            answers.composition,
        ),
        Requirement(
            "section 2: auditing",
            "The implementation is tested by experiments, beside a proof and not instead of one.",
            answers.auditing,
            "Every claim survives, and the attacks catch copies that leak more.",
        ),
        Requirement(
            "sections 3 and 4: implementation",
            "Algorithms are correct as implemented, side channels are considered, and raw data are "
            "secured.",
            answers.implementation,
        ),
        Requirement(
            "section 4: trust model",
            "It is said who is trusted with the data, and who sees what is released.",
            answers.trust,
        ),
    ),
)
STANDARDS = (_AISVS, _EDPB, _ERASURE, _CNIL, _NIST)
