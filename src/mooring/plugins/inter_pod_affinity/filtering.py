"""Required terms: those of the pod, and the anti-affinity of placed pods against it.

Hot path. Counts are by topology domain: each key has one verdict per domain, and nodes look it up once per key. The
simple per-node form is in ``tests/plugins/reference/inter_pod_affinity.py``.

"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.checkpoints import checkpoint
from mooring.columns.counters import CounterRegistry, PodCounter, TermCounter, terms_match
from mooring.columns.counts import Counts
from mooring.columns.interned import LabelColumn
from mooring.columns.terms import AffinityTerm, PodTerm
from mooring.framework import Nodes, NodeTable, PodTemplate, Status, Verdicts, Victims, WhatIf
from mooring.plugins.domains import FEW_DOMAINS, DomainVerdicts


class Counted:
    """Pods that match all of some terms, and the topology keys of the terms."""

    __slots__ = ("_counter", "_registry", "_terms", "keys", "weight")

    def __init__(self, terms: tuple[AffinityTerm, ...], registry: CounterRegistry) -> None:
        self._terms: tuple[PodTerm, ...] = (terms[0].pods,) if len(terms) == 1 else tuple(term.pods for term in terms)
        self._registry = registry
        self._counter: PodCounter | None = None
        #: Each topology key once.
        self.keys = (
            (terms[0].topology_key,) if len(terms) == 1 else tuple(dict.fromkeys(term.topology_key for term in terms))
        )
        self.weight = terms[0].weight

    @property
    def counter(self) -> PodCounter:
        """The counter; it is created on first use."""
        self._counter = self._registry.current(self._counter, self._terms)
        return self._counter

    def matches(self, template: PodTemplate, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
        """Return whether pods of a template match all terms."""
        return terms_match(self._terms, template, namespaces)


class OwnTerms:
    """The terms of a template: required affinity counts pods that match all terms, the others count per term."""

    __slots__ = ("anti", "preferred", "required")

    def __init__(self, template: PodTemplate, registry: CounterRegistry) -> None:
        terms = template.affinity
        self.required = Counted(terms.required, registry) if terms.required else None
        self.anti = tuple(Counted((term,), registry) for term in terms.required_anti)
        self.preferred = tuple(Counted((term,), registry) for term in terms.preferred)


Ints = npt.NDArray[np.int64]

Bytes = npt.NDArray[np.int8]

#: Verdicts by precedence: kube-scheduler reports the highest one.
_UNWANTED, _UNWILLING, _LONELY = 1, 2, 3

STATUSES: Final = {
    _LONELY: Status.unresolvable("node(s) didn't match pod affinity rules"),
    _UNWILLING: Status.unschedulable("node(s) didn't match pod anti-affinity rules"),
    _UNWANTED: Status.unschedulable("node(s) didn't satisfy existing pods anti-affinity rules"),
}


#: The counts of a pod without matching terms; they are not changed.
_NO_TERMS: Final[Counter[str]] = Counter()


#: Counts by code, as a vector or, if few are not 0, as a dictionary.
FewOrAll = dict[int, int] | Ints


class KeyCounts:
    """Counts by the domains of one topology key. Immutable, so that clones of a state can share it."""

    __slots__ = ("_anti", "_existing", "affinity", "column")

    def __init__(
        self,
        column: LabelColumn,
        affinity: Ints | None = None,
        anti: FewOrAll | None = None,
        existing: FewOrAll | None = None,
    ) -> None:
        self.column = column
        #: Pods that match all affinity terms; None if no affinity term has this key.
        self.affinity = affinity
        self._anti = anti
        self._existing = existing

    @property
    def anti(self) -> Ints | None:
        """Pods that match an anti-affinity term of the pod, counted once per term."""
        if isinstance(self._anti, dict):
            self._anti = self._vector(self._anti)
        return self._anti

    @property
    def existing(self) -> Ints | None:
        """Anti-affinity terms of placed pods that match the pod."""
        if isinstance(self._existing, dict):
            self._existing = self._vector(self._existing)
        return self._existing

    def _vector(self, few: dict[int, int]) -> Ints:
        vector = np.zeros(self.column.size, dtype=np.int64)
        for code, count in few.items():
            vector[code] = count
        return vector

    def count_anti(self, found: Counts) -> None:
        """Count the pods that match an anti-affinity term of the pod."""
        size = self.column.size
        self._anti = found.snapshot(size) if self.anti is None else self.anti + found.array(size)

    def count_existing(self, terms: list[TermCounter]) -> None:
        """Count the anti-affinity terms of placed pods that match the pod."""
        first, *others = terms
        self._existing = first.counts.snapshot(self.column.size)
        if others:
            total = self._existing = first.counts.array(self.column.size).copy()
            for carried in others:
                checkpoint()
                carried.counts.add_to(total)

    def plus(self, code: int, affinity: int, anti: int, existing: int) -> KeyCounts:
        """Return the counts with the given numbers added to a domain."""
        return KeyCounts(
            self.column,
            None if self.affinity is None else self._changed(self.affinity, code, affinity),
            self._changed(self.anti, code, anti),
            self._changed(self.existing, code, existing),
        )

    def _changed(self, counts: Ints | None, code: int, delta: int) -> Ints | None:
        if not delta:
            return counts
        changed = np.zeros(self.column.size, dtype=np.int64) if counts is None else counts.copy()
        changed[code] += delta
        return changed

    def verdicts(self, *, first: bool) -> Bytes:
        """Return a verdict by code; the last is for nodes without the key. ``first``: affinity needs only the key."""
        table = np.zeros(self.column.size + 1, dtype=np.int8)
        domains = table[:-1]
        if self.existing is not None:
            np.greater(self.existing, 0, out=domains.view(np.bool_))
        if self.anti is not None:
            domains[self.anti > 0] = _UNWILLING
        if self.affinity is not None:
            table[-1] = _LONELY
            if not first:
                domains[self.affinity <= 0] = _LONELY
        return table

    def verdict_table(self, *, first: bool) -> bytes:
        """Return the same as ``verdicts``, faster if the domains, or those with counts, are few."""
        few = self.column.size <= FEW_DOMAINS
        if not few and (self.affinity is not None or not self._few(self._anti) or not self._few(self._existing)):
            return self.verdicts(first=first).tobytes()
        table = bytearray(self.column.size + 1)
        for counts, code in ((self._existing, _UNWANTED), (self._anti, _UNWILLING)):
            if counts is not None:
                for place, count in counts.items() if isinstance(counts, dict) else enumerate(counts.tolist()):
                    if count > 0:
                        table[place] = code
        if self.affinity is not None:
            table[-1] = _LONELY
            for place, count in enumerate(() if first else self.affinity.tolist()):
                if count <= 0:
                    table[place] = _LONELY
        return bytes(table)

    @staticmethod
    def _few(counts: FewOrAll | None) -> bool:
        return counts is None or isinstance(counts, dict)

    def at(self, counts: Ints | None, nodes: Nodes) -> Ints:
        """Return the counts of the nodes' domains; 0 without the key."""
        if counts is None:
            return np.zeros(len(nodes), dtype=np.int64)
        return np.append(counts, 0).take(nodes.codes(self.column))


class AffinityState:
    """The counts of the pod's required terms, and of those of placed pods, in one attempt."""

    __slots__ = ("_keys", "_own", "_table", "_template", "_total")

    def __init__(
        self, table: NodeTable, template: PodTemplate, own: OwnTerms, keys: dict[str, KeyCounts], total: int
    ) -> None:
        self._table = table
        self._template = template
        self._own = own
        self._keys = keys
        #: Pods that match all affinity terms, once for each key that their node has.
        self._total = total

    def clone(self) -> AffinityState:
        """Return a copy for hypothetical changes."""
        return AffinityState(self._table, self._template, self._own, dict(self._keys), self._total)

    def _is_first(self) -> bool:
        """Return whether the pod may be the first of a group with affinity to itself."""
        required = self._own.required
        if required is None or self._total:
            return False
        return required.matches(self._template, self._table.namespaces)

    # Hypothetical changes

    def _near(self, other: PodTemplate) -> int:
        required = self._own.required
        return int(required is not None and required.matches(other, self._table.namespaces))

    def _unwilling(self, other: PodTemplate) -> Counter[str]:
        """Return how many anti-affinity terms of this pod match another pod, by key."""
        keys = [term.keys[0] for term in self._own.anti if term.matches(other, self._table.namespaces)]
        return Counter(keys) if keys else _NO_TERMS

    def _unwanted(self, other: PodTemplate) -> Counter[str]:
        """Return how many anti-affinity terms of another pod match this pod, by key."""
        terms = other.affinity.required_anti
        if not terms:
            return _NO_TERMS
        return Counter(
            term.topology_key
            for term in terms
            if term.pods.selector.matches(self._template.labels)
            and term.pods.covers_namespace(self._template.namespace, self._table.namespaces, must_exist=False)
        )

    def shift(self, other: PodTemplate, row: int, delta: int) -> None:
        """Add (+1) or remove (-1) a pod of a template on a row, hypothetically."""
        near, unwanted, unwilling = self._near(other), self._unwanted(other), self._unwilling(other)
        for key in dict.fromkeys((*self._keys, *unwanted)):
            counts = self._keys.get(key) or KeyCounts(self._table.label(key))
            code = int(counts.column.codes[row])
            if code < 0:
                continue
            if near and counts.affinity is not None:
                self._total += delta
            self._keys[key] = counts.plus(code, delta * near, delta * unwilling[key], delta * unwanted[key])

    # Verdicts

    def filter(self, nodes: Nodes, by_domain: DomainVerdicts) -> Verdicts | None:
        """Return the verdicts: affinity first, then anti-affinity, then the anti-affinity of placed pods."""
        found: Bytes | None = None
        first = self._is_first()
        if len(self._keys) == 1:
            (counts,) = self._keys.values()
            return by_domain.of(nodes, counts.column, counts.verdict_table(first=first))
        for counts in self._keys.values():
            answer = counts.verdicts(first=first).take(nodes.codes(counts.column))
            found = answer if found is None else np.maximum(found, answer, out=found)
        if found is None or not found.any():
            return None
        return Verdicts(found, STATUSES.__getitem__)

    def what_if(self, victims: Victims) -> WhatIf:
        """Return the model for many candidate nodes, each with its potential victims."""
        nodes, shape = victims.nodes, victims.index.shape
        near_keys = [(key, counts) for key, counts in self._keys.items() if counts.affinity is not None]
        near = victims.by_template(self._near) if near_keys else np.zeros(shape, dtype=np.int64)
        values = [counts.at(counts.affinity, nodes) for _, counts in near_keys]
        labelled = [nodes.codes(counts.column) >= 0 for _, counts in near_keys]
        effects = [near * present[:, None] for present in labelled]
        total, anti, existing = (np.zeros(shape[0], dtype=np.int64) for _ in range(3))
        total += self._total
        by_anti, by_existing = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        unwilling, unwanted = _ByTemplate(self._unwilling), _ByTemplate(self._unwanted)
        for key, counts in self._keys.items():
            present = (nodes.codes(counts.column) >= 0)[:, None]
            if counts.anti is not None:
                anti += counts.at(counts.anti, nodes)
                by_anti += present * victims.by_template(partial(unwilling.count, key=key))
            if counts.existing is not None:
                existing += counts.at(counts.existing, nodes)
                by_existing += present * victims.by_template(partial(unwanted.count, key=key))
        rule = _Rule(labelled, shape[0], matches_self=self._near(self._template) == 1)
        return WhatIf(
            np.stack([*values, total, anti, existing]),
            np.stack([*effects, sum(effects, np.zeros(shape, dtype=np.int64)), by_anti, by_existing]),
            rule.judge,
        )


class _ByTemplate:
    """Counts of terms by key, evaluated once for each template and not for each key."""

    __slots__ = ("_counts", "_evaluate")

    def __init__(self, evaluate: Callable[[PodTemplate], Counter[str]]) -> None:
        self._evaluate = evaluate
        self._counts: dict[int, Counter[str]] = {}

    def count(self, template: PodTemplate, key: str) -> int:
        """Return the count of one key."""
        known = self._counts.get(id(template))
        if known is None:
            known = self._counts[id(template)] = self._evaluate(template)
        return known[key]


class _Rule:
    """Derives verdicts from counts: affinity by key, its total, anti-affinity of both kinds."""

    __slots__ = ("_keys", "_matches_self", "_unlabelled")

    def __init__(self, labelled: list[npt.NDArray[np.bool_]], count: int, *, matches_self: bool) -> None:
        self._keys = len(labelled)
        self._matches_self = matches_self
        self._unlabelled = np.zeros(count, dtype=np.bool_)
        for present in labelled:
            self._unlabelled |= ~present

    def judge(self, counts: Ints) -> Verdicts:
        """Return a verdict per node."""
        affinity, (total, anti, existing) = counts[: self._keys], counts[self._keys :]
        lonely = self._unlabelled
        if self._keys:
            missing = (affinity <= 0).any(axis=0)
            if self._matches_self:
                missing &= total != 0
            lonely = lonely | missing
        codes = (existing > 0).astype(np.int8)
        codes[anti > 0] = _UNWILLING
        codes[lonely] = _LONELY
        return Verdicts(codes, STATUSES.__getitem__)


def affinity_state(
    table: NodeTable, template: PodTemplate, own: OwnTerms, unwanted: Mapping[str, list[TermCounter]]
) -> AffinityState:
    """Look up the counts of the pod's required terms, and of the placed pods' terms against it, by key."""
    keys: dict[str, KeyCounts] = {}
    total = 0

    def counts_of(key: str) -> KeyCounts:
        found = keys.get(key)
        if found is None:
            found = keys[key] = KeyCounts(table.label(key))
        return found

    if own.required is not None:
        counter = own.required.counter
        for key in own.required.keys:
            counts, by_domain = counts_of(key), counter.by_domain(key)
            counts.affinity = by_domain.array(counts.column.size)
            total += by_domain.total
    for term in own.anti:
        if not table.has_label_key(term.keys[0]):
            checkpoint()
            continue  # a node without the key never rejects the pod
        counts, by_domain = counts_of(term.keys[0]), term.counter.by_domain(term.keys[0])
        if by_domain.total:
            counts.count_anti(by_domain)
    for key, terms in unwanted.items():
        counts_of(key).count_existing(terms)
    return AffinityState(table, template, own, keys, total)
