"""Hand out the trainings of a membership audit, to be done elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.training import Training
from dpaudit.core.errors import ConfigError
from dpaudit.core.messages import place
from dpaudit.data.readers.load import load
from dpaudit.recommenders.returned import Returned


def hand_out(config: MembershipConfig) -> Iterator[Path]:
    """Write the folder of each training of each recommender that is `returned`; yield it.

    Raises:
        ConfigError: no recommender is returned, the config has no seed of its own, or a folder
            exists or cannot be written.
        DataError: the data cannot be read, or there are too few.
    """
    returned = [table for table in config.recommender if table.returned is not None]
    if not returned:
        raise ConfigError(
            "no [[recommender]] has returned, the folder of trainings that are done elsewhere: "
            "give it, such as returned = 'trainings'"
        )
    if "seed" not in config.model_fields_set:
        raise ConfigError(
            "the config has no seed, which decides who is in which training, and the audit has to "
            "use the same: write seed = 1 or another number"
        )
    ratings = load(config.source)
    table = config.fitted(ratings).membership
    design = Design.of(ratings, table, config.seed)
    for recommender in returned:
        trainable = recommender.create("recommender")
        if not isinstance(trainable, Returned):
            raise TypeError("a returned recommender has trainings elsewhere")
        observers = table.observers_of(recommender)
        training = Training.of(trainable, design, table.units, observers)
        for index in range(table.trainings):
            seed = design.training_seed(index)
            try:
                yield trainable.hand_out(design.data(index), seed, training.query)
            except FileExistsError as error:
                raise ConfigError(
                    f"{place(Path(error.filename))} exists: remove the trainings of an earlier "
                    "split, or name another folder in returned"
                ) from error
            except OSError as error:
                raise ConfigError(
                    f"{place(trainable.cwd / trainable.returned)} cannot be written "
                    f"({error.strerror}): name another folder in returned"
                ) from error
