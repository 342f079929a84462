"""`dpaudit split`: hand out trainings that are done elsewhere."""

from __future__ import annotations

from operator import methodcaller
from pathlib import Path

import click

from dpaudit.cli.options import PathType
from dpaudit.cli.writing import echo, screen
from dpaudit.core.errors import ConfigError


@click.command()
@click.argument("config", type=PathType())
def split(config: Path) -> None:
    """Write the data of each training of CONFIG, to train elsewhere.

    For each [[recommender]] with returned = FOLDER a folder is written for each training, with
    task.json and the tables that it names: what to train on, the seed, and what is asked. Train in
    any way, write the answers beside them, and bring the folders back: 'dpaudit run' judges them.
    """
    from dpaudit.audits.membership.config import MembershipConfig
    from dpaudit.audits.membership.split import hand_out
    from dpaudit.config import load as config_file
    from dpaudit.reports.terminal import say

    checked = config_file.load(config, checks=[methodcaller("check_named")])
    if not isinstance(checked, MembershipConfig):
        raise ConfigError(
            f"{config} has no [[recommender]]: 'dpaudit split' is for their trainings"
        )
    folders = list(hand_out(checked))
    parents = ", ".join(dict.fromkeys(str(folder.parent) for folder in folders))
    handed = f"{len(folders)} trainings are in {parents}."
    say(f"{handed} Train on each task.json, and write what it asks.", screen())
    echo(f"Then run: dpaudit run {config}")  # to be copied
