"""Carlini-Wagner L2: how far each image is from the nearest one that the model calls something else."""

from smart_core.attacks.attack import AttackResult, carlini_wagner_l2
from smart_core.attacks.constant_search import AttackError, Search

__all__ = ["AttackError", "AttackResult", "Search", "carlini_wagner_l2"]
