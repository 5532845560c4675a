"""pdb: evictions respect PodDisruptionBudgets."""

from __future__ import annotations

from mooring.api.label_selectors import SelectorError, compile_selector
from mooring.api.policy import PodDisruptionBudget
from mooring.batch.callbacks import PERMIT
from mooring.batch.plugin import BatchPlugin
from mooring.batch.session import Session
from mooring.batch.task import TaskInfo


class DisruptionBudgets(BatchPlugin):
    """Protects pods whose budget is used up, and pods without labels, as Volcano does."""

    name = "pdb"

    def on_session_open(self, session: Session) -> None:
        """Register callbacks for all kinds of eviction."""
        self._budgets = []
        for budget in session.handle.lister(PodDisruptionBudget).list():
            try:
                selector = compile_selector(budget.spec.selector)
            except SelectorError:
                continue
            if not selector.is_empty and not selector.matches_nothing:
                self._budgets.append((budget, selector))
        session.add_preemptable(lambda _evictor, candidates: (self._unprotected(candidates), PERMIT))
        session.add_reclaimable(lambda _evictor, candidates: (self._unprotected(candidates), PERMIT))
        session.add_victim_tasks(self._unprotected)

    def _unprotected(self, tasks: list[TaskInfo]) -> list[TaskInfo]:
        allowed = [budget.status.disruptions_allowed for budget, _ in self._budgets]
        victims = []
        for task in tasks:
            labels = task.pod.labels
            if not labels:
                continue
            protected = False
            for place, (budget, selector) in enumerate(self._budgets):
                if budget.namespace != task.namespace or not selector.matches(labels):
                    continue
                if task.name in budget.status.disrupted_pods:
                    continue
                allowed[place] -= 1
                protected = protected or allowed[place] < 0
            if not protected:
                victims.append(task)
        return victims
