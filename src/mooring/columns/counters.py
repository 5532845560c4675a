"""Counters of pods by selector and by affinity term, updated when pods are added and removed.

Hot path. kube-scheduler counts matching pods again for every pod that it schedules. Here, a selector is counted by node
and by topology domain when a decision first needs it, and is then updated with every pod.

There are two kinds:

- ``PodCounter``: existing pods that match all of some terms, for spread constraints and an incoming pod's own terms.
- ``TermCounter``: existing pods that *have* a term, which may repel or attract an incoming pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal, Protocol

from mooring.checkpoints import checkpoint
from mooring.columns.counts import Counts
from mooring.columns.interned import LabelColumn
from mooring.columns.regions import Region
from mooring.columns.templates import PodTemplate
from mooring.columns.terms import AffinityTerm, PodTerm, SelectorIndex, label_pairs

TermKind = Literal["required", "required_anti", "preferred"]


class LabelColumns(Protocol):
    """Returns the columns of labels; the node table does."""

    def label(self, key: str) -> LabelColumn:
        """Return the column of a label."""

    def has_label_key(self, key: str) -> bool:
        """Return whether a node has a label."""


#: The maximum number of counters. Beyond it, the least recently used ones are dropped.
_KEEP_COUNTERS = 4096
_MATCHED = "counters.matched_terms"


class DomainCounts:
    """Counts by the codes of one topology key, on all nodes or on those of a region."""

    __slots__ = ("column", "counts", "region", "version")

    def __init__(self, column: LabelColumn, region: Region | None) -> None:
        self.column = column
        self.region = region
        #: The version of the region that the counts belong to.
        self.version = -1
        self.counts = Counts()

    def recount(self, rows: Counts) -> None:
        """Recompute the counts from the counts by row."""
        region = self.region
        self.counts = rows.grouped(self.column.codes, None if region is None else region.mask)
        self.version = 0 if region is None else region.version


class PodCounter:
    """The number of pods that match all ``terms``, by row and by the domains of the requested topology keys."""

    __slots__ = ("_columns", "_domains", "alive", "living_only", "rows", "terms", "used")

    def __init__(self, terms: tuple[PodTerm, ...], *, living_only: bool, columns: LabelColumns) -> None:
        self.terms = terms
        #: Whether terminating pods are not counted, as for spread constraints.
        self.living_only = living_only
        self.rows = Counts()
        #: Whether the registry still has the counter; ``renew`` replaces a dropped one.
        self.alive = True
        self.used = 0
        self._columns = columns
        self._domains: dict[tuple[str, Region | None], DomainCounts] = {}

    def matches(self, template: PodTemplate, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
        """Return whether pods of a template are counted."""
        return terms_match(self.terms, template, namespaces)

    def add(self, row: int, delta: int) -> None:
        """Add ``delta`` pods on a row."""
        self.rows.add(row, delta)
        for domain in self._domains.values():
            region = domain.region
            if region is None or region.covers(row):
                code = int(domain.column.codes[row])
                if code >= 0:
                    domain.counts.add(code, delta)

    def by_domain(self, key: str, within: Region | None = None) -> Counts:
        """Return the counts by code of a topology key, without nodes that lack the key or are not in the region.

        The region must be refreshed.
        """
        if within is not None and within.everything:
            within = None
        known = self._domains.get((key, within))
        if known is None:
            if not self._columns.has_label_key(key):
                return Counts()  # not stored: a tenant can name any number of keys that no node has
            known = self._domains[key, within] = DomainCounts(self._columns.label(key), within)
            known.recount(self.rows)
        elif within is not None and known.version != within.version:
            known.recount(self.rows)
        return known.counts


def terms_match(terms: tuple[PodTerm, ...], template: PodTemplate, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
    """Return whether pods of a template match all terms."""
    labels = template.labels
    for term in terms:
        if not term.selector.matches(labels):
            return False
        if not term.covers_namespace(template.namespace, namespaces, must_exist=True):
            return False
    return True


def _add(counts: dict[int, int], row: int, delta: int) -> None:
    """Add to the count of a row; rows without pods are not stored."""
    count = counts.get(row, 0) + delta
    if count:
        counts[row] = count
    else:
        del counts[row]


class NoPods(PodCounter):
    """The counter of terms that match no placed pod."""

    __slots__ = ()

    def by_domain(self, key: str, within: Region | None = None) -> Counts:
        """Return no counts."""
        return Counts()


class TermCounter:
    """The number of placed pods that have a term, by the code of its topology key."""

    __slots__ = ("_column", "_columns", "counts", "kind", "templates", "term")

    def __init__(self, kind: TermKind, term: AffinityTerm, columns: LabelColumns) -> None:
        self.kind = kind
        self.term = term
        self.counts = Counts()
        #: The number of templates with placed pods that have the term.
        self.templates = 0
        self._columns = columns
        #: The column of the topology key; None until a node has the key.
        self._column: LabelColumn | None = None

    def add(self, row: int, delta: int) -> None:
        """Add ``delta`` pods that have the term on a row."""
        column = self._column
        if column is None:
            if not self._columns.has_label_key(self.term.topology_key):
                return
            column = self._column = self._columns.label(self.term.topology_key)
        code = int(column.codes[row])
        if code >= 0:
            self.counts.add(code, delta)


class CounterRegistry:
    """All counters of a table, and the placed templates that they count."""

    def __init__(self, columns: LabelColumns, namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self._columns = columns
        self._namespaces = namespaces
        self._counters: dict[tuple[tuple[PodTerm, ...], bool], PodCounter] = {}
        self._counter_index: SelectorIndex[PodCounter] = SelectorIndex()
        #: Increases when a counter is added or dropped: the counters cached in templates are then stale.
        self._epoch = 0
        self._terms: dict[tuple[TermKind, AffinityTerm], TermCounter] = {}
        self._term_index: SelectorIndex[TermCounter] = SelectorIndex()
        #: Increases when a term is added or removed or a namespace changes: cached matches of terms are then stale.
        self.terms_epoch = 0
        self._live: dict[int, PodTemplate] = {}
        #: The live templates by label pair; None until a selector is looked up.
        self._live_by_label: dict[tuple[str, str], dict[int, PodTemplate]] | None = None
        #: The template whose counters are kept although it may have no placed pods at the moment.
        self._held: PodTemplate | None = None
        self._clock = 0
        self._no_pods = NoPods((), living_only=True, columns=columns)

    # Queries

    def current(
        self, counter: PodCounter | None, terms: tuple[PodTerm, ...], *, living_only: bool = False
    ) -> PodCounter:
        """Return a counter that an earlier call returned, or its replacement; None stands for no earlier call.

        Terms that match no placed pod have no counter of their own: a tenant can write thousands of them.
        """
        if counter is not None and counter is not self._no_pods:
            return self.renew(counter)
        if not self._placed_candidates(terms):
            checkpoint()
            return self._no_pods
        return self.counter(terms, living_only=living_only)

    def counter(self, terms: tuple[PodTerm, ...], *, living_only: bool = False) -> PodCounter:
        """Return the counter of pods that match all terms; a new one counts the placed pods."""
        checkpoint()
        self._clock += 1
        key = (terms, living_only)
        counter = self._counters.get(key)
        if counter is None:
            counter = PodCounter(terms, living_only=living_only, columns=self._columns)
            counter.used = self._clock  # so that it is not dropped as the least recently used
            self._count_placed(counter)
            self._counters[key] = counter
            self._counter_index.add(terms[0].selector, counter)
            self._epoch += 1
            if len(self._counters) > _KEEP_COUNTERS:
                self._drop_oldest()
        counter.used = self._clock
        return counter

    def renew(self, counter: PodCounter) -> PodCounter:
        """Return the counter, marked as used, or its replacement if it was dropped."""
        if not counter.alive:
            return self.counter(counter.terms, living_only=counter.living_only)
        checkpoint()
        self._clock += 1
        counter.used = self._clock
        return counter

    def terms_matching(self, template: PodTemplate) -> tuple[TermCounter, ...]:
        """Return the terms of placed pods that match pods of this template."""
        if not self._terms:
            return ()
        known = template.cache.get(_MATCHED)
        if known is not None and known[0] == self.terms_epoch and known[2] is self:  # type: ignore[index]
            return known[1]  # type: ignore[index, no-any-return]
        found, labels = [], template.labels
        for counter in self._term_index.candidates(labels):
            checkpoint()
            pods = counter.term.pods
            if pods.selector.matches(labels) and pods.covers_namespace(
                template.namespace, self._namespaces, must_exist=False
            ):
                found.append(counter)
        matched = tuple(found)
        template.cache[_MATCHED] = (self.terms_epoch, matched, self)
        return matched

    # Updates by the table

    def pods_changed(self, template: PodTemplate, row: int, delta: int, *, terminating: bool) -> None:
        """Count a pod of a template that was added to a row (+1) or removed from it (-1)."""
        placed = template.placed
        if not placed and delta > 0 and template is not self._held:
            self._template_placed(template)
        _add(placed, row, delta)
        if terminating:
            _add(template.terminating, row, delta)
        counters = template.counters if template.counters_epoch == self._epoch else self._counters_of(template)
        for counter in counters:
            if not (terminating and counter.living_only):
                counter.add(row, delta)
        for term in template.term_counters or ():
            term.add(row, delta)
        if not placed and template is not self._held:
            self._template_gone(template)

    def pods_added(self, template: PodTemplate, rows: Sequence[int], terminating: Sequence[bool]) -> None:
        """Count pods of a template that were added to rows."""
        placed = template.placed
        plain = False
        for row, ends in zip(rows, terminating, strict=True):
            if plain:
                placed[row] = placed.get(row, 0) + 1
                if ends:
                    _add(template.terminating, row, 1)
            else:
                self.pods_changed(template, row, 1, terminating=ends)  # finds the counters of the template
                plain = not template.counters and not template.term_counters

    def pod_relabelled(self, old: PodTemplate, new: PodTemplate, row: int, *, terminating: bool) -> bool:
        """Count a pod for another template that differs by the labels only.

        Return False, and change nothing, if not the same counters count both.
        """
        epoch = self._epoch
        before = old.counters if old.counters_epoch == epoch else self._counters_of(old)
        after = new.counters if new.counters_epoch == epoch else self._counters_of(new)
        if before != after and set(before) != set(after):
            return False
        if not new.placed:
            self._template_placed(new)  # before the old one goes, so that counters of terms that both have remain
        _add(new.placed, row, 1)
        _add(old.placed, row, -1)
        if terminating:
            _add(new.terminating, row, 1)
            _add(old.terminating, row, -1)
        if not old.placed:
            self._template_gone(old)
        return True

    @contextmanager
    def held(self, template: PodTemplate) -> Iterator[None]:
        """Keep the counters of a template's terms while one of its pods is replaced by a new version.

        A new version is often of the same template (the pod is terminating) or has the same terms (the API server
        adds labels when it binds a pod), and a tenant can write thousands of terms.
        """
        self._held = template
        try:
            yield
        finally:
            self._held = None
            if not template.placed and id(template) in self._live:
                self._template_gone(template)

    def namespace_changed(self) -> None:
        """Drop everything that depends on namespace labels, because they changed."""
        self.terms_epoch += 1
        dependent = [
            counter
            for counter in self._counters.values()
            if any(not (t.namespace_selector.matches_nothing or t.namespace_selector.is_empty) for t in counter.terms)
        ]
        for counter in dependent:
            self._drop(counter)

    # Bookkeeping

    def _counters_of(self, template: PodTemplate) -> tuple[PodCounter, ...]:
        """Return the counters that count the pods of a template."""
        if template.counters_epoch != self._epoch:
            template.counters = ()
            if self._counters:
                candidates = self._counter_index.candidates(template.labels)
                template.counters = tuple(c for c in candidates if c.matches(template, self._namespaces))
            template.counters_epoch = self._epoch
        return template.counters

    def _count_placed(self, counter: PodCounter) -> None:
        for template in self._placed_candidates(counter.terms):
            checkpoint()
            if counter.matches(template, self._namespaces):
                ending = template.terminating if counter.living_only else {}
                for row, pods in template.placed.items():
                    count = pods - ending.get(row, 0) if ending else pods
                    if count:
                        counter.add(row, count)

    def _placed_candidates(self, terms: tuple[PodTerm, ...]) -> list[PodTemplate]:
        if any(term.selector.matches_nothing for term in terms):
            return []
        for term in terms:
            pairs = label_pairs(term.selector)
            if pairs:
                index = self._label_index()
                return [t for pair in pairs for t in index.get(pair, {}).values()]
        return list(self._live.values())

    def _label_index(self) -> dict[tuple[str, str], dict[int, PodTemplate]]:
        """Return the live templates by label pair."""
        index = self._live_by_label
        if index is None:
            index = {}
            for template in self._live.values():
                checkpoint()
                for pair in template.labels.items():
                    index.setdefault(pair, {})[id(template)] = template
            self._live_by_label = index
        return index

    def _template_placed(self, template: PodTemplate) -> None:
        self._live[id(template)] = template
        if self._live_by_label is not None:
            for pair in template.labels.items():
                self._live_by_label.setdefault(pair, {})[id(template)] = template
        affinity = template.affinity
        if affinity.is_empty:
            template.term_counters = ()
            return
        kinds: tuple[tuple[TermKind, tuple[AffinityTerm, ...]], ...] = (
            ("required", affinity.required),
            ("required_anti", affinity.required_anti),
            ("preferred", affinity.preferred),
        )
        template.term_counters = tuple(self._acquire(kind, term) for kind, terms in kinds for term in terms)

    def _template_gone(self, template: PodTemplate) -> None:
        del self._live[id(template)]
        index = self._live_by_label
        if index is not None:
            for pair in template.labels.items():
                bucket = index[pair]
                del bucket[id(template)]
                if not bucket:
                    del index[pair]
        for counter in template.term_counters or ():
            counter.templates -= 1
            if not counter.templates:
                del self._terms[counter.kind, counter.term]
                self._term_index.remove(counter.term.pods.selector, counter)
                self.terms_epoch += 1
        template.term_counters = None

    def _acquire(self, kind: TermKind, term: AffinityTerm) -> TermCounter:
        counter = self._terms.get((kind, term))
        if counter is None:
            counter = self._terms[kind, term] = TermCounter(kind, term, self._columns)
            self._term_index.add(term.pods.selector, counter)
            self.terms_epoch += 1
        counter.templates += 1
        return counter

    def _drop_oldest(self) -> None:
        for counter in sorted(self._counters.values(), key=lambda c: c.used)[: _KEEP_COUNTERS // 2]:
            self._drop(counter)

    def _drop(self, counter: PodCounter) -> None:
        counter.alive = False
        del self._counters[counter.terms, counter.living_only]
        self._counter_index.remove(counter.terms[0].selector, counter)
        self._epoch += 1

    # For consistency checks

    def all_counters(self) -> list[PodCounter]:
        """Return all counters."""
        return list(self._counters.values())

    def carriers(self) -> list[PodTemplate]:
        """Return the templates of placed pods that have a term."""
        return [template for template in self._live.values() if template.term_counters] if self._terms else []

    def all_terms(self) -> list[TermCounter]:
        """Return the counters of all terms of placed pods."""
        return list(self._terms.values())
