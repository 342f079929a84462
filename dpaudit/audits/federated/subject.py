"""The subject of federated trainings whose server observes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from dpaudit.auditor.context import Context
from dpaudit.auditor.records import attack_record
from dpaudit.audits.federated.config import FederatedConfig, check_transcript
from dpaudit.audits.trained.subject import TrainedModels
from dpaudit.data.ratings import Ratings


@dataclass(frozen=True)
class FederatedModels(TrainedModels[FederatedConfig]):
    """Federated recommenders."""

    @classmethod
    def of(cls, context: Context[FederatedConfig], ratings: Ratings | None) -> Self:
        """Check that `[transcript]` fits the models, and prepare as for any training.

        Raises:
            DataError: as in `TrainedModels.of`.
            ConfigError: `[transcript]` does not fit, or as in `TrainedModels.of`.
        """
        config = context.config
        check_transcript(config.transcript, config.submission_tests, config.model)
        return super().of(context, ratings)

    def trials(self) -> int:
        """Return the number of trainings, with the observed ones."""
        config = self.context.config
        points = sum(len(model.epsilon) for model in config.model)
        return super().trials() + points * config.transcript.trials

    def attacks(self) -> Mapping[str, dict[str, Any]]:
        """Return the attacks on submissions by label, then the others."""
        tests = self.context.config.submission_tests
        records = {test.label: attack_record(test.create("attack")) for test in tests}
        return {**records, **super().attacks()}
