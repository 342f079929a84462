"""Park & Acharya 2011: what the entries need of code."""

from __future__ import annotations

from dpaudit.claims.games import EntryGame, ListGame, PredictionGame
from dpaudit.claims.park_acharya_2011 import algebra, data
from dpaudit.defenses.item_item.cosine import Cosine
from dpaudit.defenses.item_item.slope_one import SlopeOne
from dpaudit.defenses.top_k.defense import TopK

PARTS = (*algebra.PARTS, *data.PARTS, Cosine, EntryGame, ListGame, PredictionGame, SlopeOne, TopK)
