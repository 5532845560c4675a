"""Preemption: which pods to evict so that a pod with a higher priority fits."""

from mooring.framework.preemption.budgets import Budgets
from mooring.framework.preemption.candidate import AskExtenders, Candidate, by_importance
from mooring.framework.preemption.evaluator import Evaluator, VictimRules
from mooring.framework.preemption.search import no_victims

__all__ = ["AskExtenders", "Budgets", "Candidate", "Evaluator", "VictimRules", "by_importance", "no_victims"]
