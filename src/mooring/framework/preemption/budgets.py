"""PodDisruptionBudgets: which victims would violate one."""

from __future__ import annotations

import functools
from collections.abc import Container, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from mooring.api.label_selectors import Selector, SelectorError, compile_selector
from mooring.api.policy import PodDisruptionBudget
from mooring.columns.node_info import PodInfo
from mooring.columns.templates import PodTemplate
from mooring.framework.what_if import Victims

Mask = npt.NDArray[np.bool_]


class Budgets:
    """The cluster's budgets, compiled. A budget with an empty or invalid selector covers no pod."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget], *, stops_at_violation: bool = False) -> None:
        """With ``stops_at_violation``, a pod uses up budgets only until it violates one, as since 1.37."""
        self._stops = stops_at_violation
        self._budgets: list[tuple[PodDisruptionBudget, Selector]] = []
        for budget in budgets:
            try:
                selector = compile_selector(budget.spec.selector)
            except SelectorError:
                continue
            if not (selector.is_empty or selector.matches_nothing):
                self._budgets.append((budget, selector))

    def split(self, pods: Sequence[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """Split pods (most important first) into those whose eviction violates a budget and the others."""
        counts = self.violations([(info,) for info in pods])
        violating = [info for info, count in zip(pods, counts, strict=True) if count]
        return violating, [info for info, count in zip(pods, counts, strict=True) if not count]

    def violations(self, victims: Iterable[Sequence[PodInfo]]) -> list[int]:
        """Return how many pods of each victim (most important first) violate a budget if all are evicted."""
        allowed = [budget.status.disruptions_allowed for budget, _ in self._budgets]
        return [sum(self._violates(info, allowed) for info in pods) for pods in victims]

    def _violates(self, info: PodInfo, allowed: list[int]) -> bool:
        violated = False
        for number, (budget, selector) in enumerate(self._budgets):
            if _covers(budget, selector, info.template) and info.name not in budget.status.disrupted_pods:
                allowed[number] -= 1
                violated = violated or allowed[number] < 0
                if violated and self._stops:
                    break
        return violated

    def violating(self, victims: Victims) -> Mask:
        """Do the same for many nodes at once, as an array [C, V]; each node counts its own victims only."""
        result = np.zeros(victims.index.shape, dtype=np.bool_)
        for budget, selector in self._budgets:
            covered = victims.by_template(functools.partial(_covers, budget, selector)) > 0
            if not covered.any():
                continue
            gone = budget.status.disrupted_pods
            if gone:
                covered &= victims.by_pod(functools.partial(_is_listed, gone)) == 0
            if self._stops:
                covered &= ~result
            result |= covered & (np.cumsum(covered, axis=1) > budget.status.disruptions_allowed)
        return result


def _is_listed(names: Container[str], info: PodInfo) -> bool:
    return info.name in names


def _covers(budget: PodDisruptionBudget, selector: Selector, template: PodTemplate) -> bool:
    return budget.namespace == template.namespace and bool(template.labels) and selector.matches(template.labels)
