"""What-if models: how a plugin's verdicts change if some pods are evicted, for all candidate nodes at once.

kube-scheduler clones a node and its state, removes pods one by one and filters again, node after node. Here a plugin
whose verdict depends on the pods of a node returns a model once: the counters that it decides by, and what each
potential victim contributes to them. The search for victims then works on arrays over all candidates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mooring.columns.distinct import numbered
from mooring.columns.nodes import Nodes
from mooring.columns.templates import PodTemplate
from mooring.framework.verdicts import Verdicts

if TYPE_CHECKING:
    from mooring.columns.node_info import PodInfo

Ints = npt.NDArray[np.int64]


class Victims:
    """Candidate nodes for preemption, each with the pods that could be evicted from it, for ``what_if``.

    Attributes:
        nodes: The candidate nodes, C of them.
        index: An array [C, V]: the victims of each node by their index in ``nodes.table.pod_columns``; -1 if a node has
            fewer than V. The most important victim comes first.
        present: An array [C, V]: where there is a victim.
    """

    __slots__ = ("_templates", "_which", "index", "nodes", "present")

    def __init__(self, nodes: Nodes, index: npt.NDArray[np.int64]) -> None:
        self.nodes = nodes
        self.index = index
        self.present: npt.NDArray[np.bool_] = index >= 0
        self._templates: list[PodTemplate] = []
        self._which: npt.NDArray[np.int64] | None = None

    def info(self, candidate: int, victim: int) -> PodInfo:
        """Return one victim."""
        return self.nodes.table.pod_columns.infos[int(self.index[candidate, victim])]

    def amounts(self, slot: int) -> Ints:
        """Return the requests of each victim for a resource (by slot), as an array [C, V]."""
        found: Ints = self.nodes.table.pod_columns.amounts[self.index, slot]
        return found * self.present

    def by_template(self, answer: Callable[[PodTemplate], int]) -> Ints:
        """Return a number per victim as an array [C, V], computed once per template; 0 where there is no victim."""
        if self._which is None:
            self._which = self._number_templates()
        numbers = np.array([0, *(answer(template) for template in self._templates)], dtype=np.int64)
        return numbers[self._which]

    def by_pod(self, answer: Callable[[PodInfo], int]) -> Ints:
        """Return a number per victim as an array [C, V], computed per pod, for what a template does not contain."""
        result = np.zeros(self.index.shape, dtype=np.int64)
        infos = self.nodes.table.pod_columns.infos
        for place in zip(*np.nonzero(self.present), strict=True):
            result[place] = answer(infos[int(self.index[place])])
        return result

    def _number_templates(self) -> npt.NDArray[np.int64]:
        columns = self.nodes.table.pod_columns
        pods = self.index[self.present]
        first, numbers = numbered(columns.templates[pods])
        self._templates = [columns.infos[pod].template for pod in pods[first].tolist()]
        which = np.zeros(self.index.shape, dtype=np.int64)
        which[self.present] = numbers + 1
        return which


class WhatIf:
    """The answer of ``what_if``: the m counters that a plugin decides by, what victims contribute, and the rule.

    Attributes:
        values: An array [m, C]: the counters of each candidate node with all pods present.
        effects: An array [m, C, V]: what each victim contributes to the counters.
        verdicts: Returns the verdicts for given counters [m, C]; None if all nodes are feasible.
    """

    __slots__ = ("effects", "values", "verdicts")

    def __init__(self, values: Ints, effects: Ints, verdicts: Callable[[Ints], Verdicts | None]) -> None:
        self.values = values
        self.effects = effects
        self.verdicts = verdicts

    @classmethod
    def constant(cls, verdicts: Verdicts | None, victims: Victims) -> WhatIf:
        """Return the model of a plugin whose verdict does not depend on the pods of a node."""
        shape = victims.index.shape
        values = np.zeros((0, shape[0]), dtype=np.int64)
        return cls(values, np.zeros((0, *shape), dtype=np.int64), lambda _values: verdicts)
