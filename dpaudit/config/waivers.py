"""`[[waiver]]` of a config, and files of waivers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from dpaudit.config.model import Table, as_list
from dpaudit.record.waivers import Waiver


def _once(waivers: Sequence[Waiver]) -> Sequence[Waiver]:
    twice = [name for name, count in Counter(waiver.id for waiver in waivers).items() if count > 1]
    if twice:
        raise ValueError(f"two [[waiver]] have the id {twice[0]!r}: remove one")
    return waivers


Waivers = Annotated[
    list[Waiver], BeforeValidator(as_list), Field(max_length=500), AfterValidator(_once)
]


class WaiverFile(Table):
    """A file of waivers."""

    waiver: Waivers = []
