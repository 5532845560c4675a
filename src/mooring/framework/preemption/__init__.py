"""Preemption: which pods would have to go so that a more important one fits."""

from mooring.framework.preemption.asking import AskExtenders
from mooring.framework.preemption.evaluator import Evaluator

__all__ = ["AskExtenders", "Evaluator"]
