"""Carlini-Wagner L2: the distance from each image to the nearest one with another prediction."""

from smart_core.attacks.attack import AttackResult, carlini_wagner_l2
from smart_core.attacks.carlini_wagner import Search
from smart_core.errors import AttackError

__all__ = ["AttackError", "AttackResult", "Search", "carlini_wagner_l2"]
