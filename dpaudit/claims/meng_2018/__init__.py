"""Meng et al. 2018, PrivSR: what the entries need of code."""

from __future__ import annotations

from dpaudit.claims.meng_2018 import algebra, data, games
from dpaudit.claims.trained_games import StepsGame

PARTS = (*algebra.PARTS, *data.PARTS, *games.PARTS, StepsGame)
