"""Hard constraints: the number of matching pods per domain, and the nodes that would exceed the maximum skew.

Hot path. The work per decision is by domain; nodes look up the result. The simple per-node form is in
``tests/plugins/reference/pod_topology_spread.py``.

"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.checkpoints import checkpoint
from mooring.columns.interned import Codes, LabelColumn, Mask
from mooring.framework import Nodes, PodTemplate, Status, Verdicts, Victims, WhatIf
from mooring.plugins.domains import FEW_DOMAINS, DomainVerdicts
from mooring.plugins.pod_topology_spread.constraints import Plan, Target

Ints = npt.NDArray[np.int64]

_UNEVEN, _UNLABELLED = 1, 2
STATUSES: Final = {
    _UNEVEN: Status.unschedulable("node(s) didn't match pod topology spread constraints"),
    _UNLABELLED: Status.unresolvable("node(s) didn't match pod topology spread constraints (missing required label)"),
}
#: Greater than any count: the minimum if there are no domains.
_MANY: Final = 2**31 - 1


class Tally:
    """The counts by domain of one constraint. Immutable, so that clones of a state can share it."""

    __slots__ = ("_known", "column", "counts", "domains", "target")

    def __init__(self, target: Target, column: LabelColumn, counts: Ints, known: Mask, domains: int) -> None:
        self.target = target
        self.column = column
        #: By code; domains without eligible nodes have 0.
        self.counts = counts
        #: Which codes have eligible nodes, and how many do.
        self._known = known
        self.domains = domains

    def plus(self, code: int, delta: int) -> Tally:
        """Return the tally with ``delta`` pods added to a domain."""
        counts = self.counts.copy()
        counts[code] += delta
        return Tally(self.target, self.column, counts, self._known, self.domains)

    @property
    def too_few_domains(self) -> bool:
        """Whether the minimum counts as 0, because there are fewer domains than ``minDomains``."""
        return self.domains < self.target.constraint.min_domains

    def minimum(self) -> int:
        """Return the smallest count of a domain."""
        if self.too_few_domains:
            return 0
        if self.domains == len(self.counts):
            return int(self.counts.min(initial=_MANY))
        return int(self.counts.min(where=self._known, initial=_MANY))

    def verdicts(self) -> npt.NDArray[np.int8]:
        """Return a verdict by code; the last one is for nodes without the key."""
        constraint = self.target.constraint
        table = np.empty(len(self.counts) + 1, dtype=np.int8)
        limit = constraint.max_skew + self.minimum() - self.target.self_match
        np.greater(self.counts, limit, out=table[:-1].view(np.bool_))
        table[-1] = _UNLABELLED
        return table

    def verdict_table(self) -> bytes:
        """Return the same as ``verdicts``, faster for few domains."""
        if len(self.counts) > FEW_DOMAINS:
            return self.verdicts().tobytes()
        counts, least = self.counts.tolist(), 0
        if not self.too_few_domains:
            known = self._known.tolist()
            least = min([count for count, is_known in zip(counts, known, strict=True) if is_known], default=_MANY)
        limit = self.target.constraint.max_skew + least - self.target.self_match
        return bytes([_UNEVEN if count > limit else 0 for count in counts] + [_UNLABELLED])

    def minimum_elsewhere(self, codes: Codes) -> Ints:
        """Return, for each code, the smallest count of another domain."""
        counts = np.where(self._known, self.counts, _MANY)
        if not len(counts):
            return np.full(len(codes), _MANY, dtype=np.int64)
        smallest = int(counts.argmin())
        least = int(counts[smallest])
        counts[smallest] = _MANY
        return np.where(codes == smallest, int(counts.min()), least)

    def knows(self, codes: Codes) -> Mask:
        """Return which codes have eligible nodes."""
        return np.append(self._known, False).take(codes)


class SpreadState:
    """The counts of a pod's hard constraints in one attempt."""

    __slots__ = ("plan", "tallies")

    def __init__(self, plan: Plan, tallies: list[Tally]) -> None:
        self.plan = plan
        self.tallies = tallies

    def clone(self) -> SpreadState:
        """Return a copy for hypothetical changes."""
        return SpreadState(self.plan, list(self.tallies))

    def shift(self, template: PodTemplate, row: int, delta: int) -> None:
        """Add (+1) or remove (-1) a pod of a template on a row, hypothetically.

        As in kube-scheduler, terminating pods and an empty selector are not excluded here.
        """
        for place, tally in enumerate(self.tallies):
            if tally.target.region.covers(row) and tally.target.weight_of(template):
                self.tallies[place] = tally.plus(int(tally.column.codes[row]), delta)

    def filter(self, nodes: Nodes, by_domain: DomainVerdicts) -> Verdicts | None:
        """Return the verdict of the first constraint that each node violates."""
        found: npt.NDArray[np.int8] | None = None
        all_labelled = self.plan.keyed.everything
        if len(self.tallies) == 1:
            return by_domain.of(nodes, self.tallies[0].column, self.tallies[0].verdict_table())
        for tally in self.tallies:
            checkpoint()
            table = tally.verdicts()
            if all_labelled and not table[:-1].any():
                continue
            answer = table.take(nodes.codes(tally.column))
            if found is None:
                found = answer
            else:
                np.copyto(found, answer, where=found == 0)
            if found.all():
                break
        if found is None or not found.any():
            return None
        return Verdicts(found, STATUSES.__getitem__)

    def what_if(self, victims: Victims) -> WhatIf:
        """Return the model for many candidate nodes, each with its potential victims."""
        shape = victims.index.shape
        values = np.zeros((len(self.tallies), shape[0]), dtype=np.int64)
        effects = np.zeros((len(self.tallies), *shape), dtype=np.int64)
        rules = []
        for place, tally in enumerate(self.tallies):
            codes = victims.nodes.codes(tally.column)
            values[place] = np.append(tally.counts, 0).take(codes)
            eligible = victims.nodes.take(tally.target.region.mask)
            effects[place] = victims.by_template(tally.target.weight_of) * eligible[:, None]
            rules.append(_Rule(tally, codes))
        return WhatIf(values, effects, lambda counts: _judge(rules, counts))


class _Rule:
    """Derives the verdicts of one constraint from the counts of the candidates' domains."""

    __slots__ = ("_allowed", "_elsewhere", "_known", "_too_few", "_unlabelled")

    def __init__(self, tally: Tally, codes: Codes) -> None:
        self._allowed = tally.target.constraint.max_skew - tally.target.self_match
        self._elsewhere = tally.minimum_elsewhere(codes)
        self._known = tally.knows(codes)
        self._too_few = tally.too_few_domains
        self._unlabelled = codes < 0

    def judge(self, counts: Ints) -> npt.NDArray[np.int8]:
        """Return a verdict per node."""
        least: Ints | int = 0
        if not self._too_few:
            least = np.where(self._known, np.minimum(self._elsewhere, counts), self._elsewhere)
        answer = (counts - least > self._allowed).astype(np.int8)
        answer[self._unlabelled] = _UNLABELLED
        return answer


def _judge(rules: list[_Rule], counts: Ints) -> Verdicts:
    found = rules[0].judge(counts[0])
    for rule, row in zip(rules[1:], counts[1:], strict=True):
        np.copyto(found, rule.judge(row), where=found == 0)
    return Verdicts(found, STATUSES.__getitem__)


def spread_state(plan: Plan) -> SpreadState:
    """Look up the counts of the constraints of a plan."""
    plan.keyed.refresh()
    tallies = []
    for target in plan.targets:
        region, key = target.region.refresh(), target.constraint.topology_key
        column = region.column(key)
        known, domains = region.domains(key)
        counter = target.counter
        if counter is None:
            counts: Ints = np.zeros(column.size, dtype=np.int64)
        else:
            counts = counter.by_domain(key, region).array(column.size)
        tallies.append(Tally(target, column, counts, known, domains))
    return SpreadState(plan, tallies)
