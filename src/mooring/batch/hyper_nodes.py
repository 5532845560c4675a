"""The HyperNodes of a session: a tree of network domains with tiers, and the nodes of each domain in columns."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.api.hyper_nodes import HyperNode, MemberSelector
from mooring.api.label_selectors import SelectorError, compile_selector
from mooring.api.patterns import PatternIssue, found
from mooring.batch.node_amounts import is_selected
from mooring.columns.row_cursor import RowCursor
from mooring.columns.table import NodeTable

Rows = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float64]

#: The name of the domain that contains all nodes and all HyperNodes without a parent.
CLUSTER: Final = "<cluster-top-hypernode>"
#: If more nodes than this changed, all are read again.
_MANY: Final = 1 << 15


class Domain:
    """A HyperNode, or the whole cluster.

    Attributes:
        index: Its position in the columns of ``HyperNodes``.
        name: The name of the HyperNode.
        tier: Its tier.
        parent: The domain that contains it; None for the whole cluster.
        children: The domains of lower tiers that it contains, by name.
        rows: The rows of its nodes, ascending.
    """

    __slots__ = ("children", "index", "name", "parent", "rows", "tier")

    def __init__(self, index: int, name: str, tier: int, rows: Rows) -> None:
        self.index = index
        self.name = name
        self.tier = tier
        self.parent: Domain | None = None
        self.children: list[Domain] = []
        self.rows = rows

    def ancestors(self) -> list[Domain]:
        """Return the domain itself and those that contain it, the smallest first."""
        chain: list[Domain] = []
        at: Domain | None = self
        while at is not None:
            chain.append(at)
            at = at.parent
        return chain

    def subtree(self) -> list[Domain]:
        """Return the domain and those within it."""
        found = [self]
        for each in found:  # grows during the iteration
            found += each.children
        return found

    def __repr__(self) -> str:
        return f"Domain({self.name}, tier {self.tier}, {len(self.rows)} nodes)"


class HyperNodes:
    """The tree of domains.

    Attributes:
        domains: All domains; the last one is the whole cluster.
        by_name: The domains by name.
        tier_names: The tier of each tier name.
        problem: Why the HyperNodes are not a tree, with the remedy; empty if they are. Then no topology is known.
        lowest: For each row, the index of its domain of the lowest tier; -1 if it is in none.
    """

    def __init__(
        self,
        hyper_nodes: Sequence[HyperNode],
        members: Mapping[str, set[int]],
        row_of: Mapping[str, int],
        outside: Collection[int] = (),
    ) -> None:
        """Build the tree.

        ``members`` are the rows that the selectors of each HyperNode choose, ``row_of`` the rows of all nodes,
        ``outside`` the rows of nodes that sessions do not consider, which are in no domain.
        """
        count = len(row_of)
        self.row_of = {name: row for name, row in row_of.items() if row not in outside} if outside else dict(row_of)
        known = {each.name: each for each in sorted(hyper_nodes, key=lambda each: each.name)}
        self.problem, parents = _parents(known)
        if self.problem:
            known, parents = {}, {}
        rows = _with_descendants(members, parents, known)
        self.domains = [
            Domain(index, name, each.spec.tier, np.array(sorted(rows[name]), dtype=np.intp))
            for index, (name, each) in enumerate(known.items())
        ]
        self.by_name = {each.name: each for each in self.domains}
        top = max((each.tier for each in self.domains), default=0) + 1
        inside = np.array(sorted(self.row_of.values()), dtype=np.intp) if outside else np.arange(count, dtype=np.intp)
        self.cluster = Domain(len(self.domains), CLUSTER, max(top, 1), inside)
        for each in self.domains:
            parent = parents.get(each.name)
            each.parent = self.cluster if parent is None else self.by_name[parent]
            each.parent.children.append(each)
        self.domains.append(self.cluster)
        self.by_name[CLUSTER] = self.cluster
        self.tier_names = {each.spec.tier_name: each.spec.tier for each in known.values() if each.spec.tier_name}
        self.tiers = sorted({each.tier for each in self.domains})
        self.count = count
        self.lowest = self.of_tier(self.tiers[0])
        #: The rows of all domains one after another, and the domain that each entry belongs to.
        self._rows: Rows = np.concatenate([each.rows for each in self.domains])
        self._owners: Rows = np.repeat(np.arange(len(self.domains)), [len(each.rows) for each in self.domains])

    def of_tier(self, tier: int) -> Rows:
        """Return, for each row, the index of its domain in a tier; -1 if it is in none. The first by name counts."""
        found: Rows = np.full(self.count, -1, dtype=np.intp)
        for each in reversed(self.domains):
            if each.tier == tier:
                found[each.rows] = each.index
        return found

    def sums(self, column: Floats) -> Floats:
        """Return the sum of a column, which has an entry per row, for every domain."""
        total: Floats = np.bincount(self._owners, weights=column[self._rows], minlength=len(self.domains)).astype(float)
        return total

    @functools.cached_property
    def _by_row(self) -> list[Rows]:
        order = np.argsort(self._rows, kind="stable")
        bounds = np.searchsorted(self._rows[order], np.arange(1, self.count))
        return np.split(self._owners[order], bounds)

    def containing(self, row: int) -> Rows:
        """Return the indexes of the domains that contain a row."""
        return self._by_row[row]

    def smallest(self, nodes: Iterable[str]) -> Domain | None:
        """Return the domain of the lowest tier that contains all of these nodes; None if there are no nodes."""
        rows = {self.row_of[name] for name in nodes if name in self.row_of}
        if not rows:
            return None
        shared: set[int] = set.intersection(*(set(self.containing(row).tolist()) for row in rows))
        return min((self.domains[index] for index in sorted(shared)), key=lambda each: each.tier)

    def common(self, left: Domain | None, right: Domain | None) -> Domain | None:
        """Return the smallest domain that contains both; the other one if one is None."""
        if left is None or right is None:
            return left or right
        containing = {each.index for each in left.ancestors()}
        return next(each for each in right.ancestors() if each.index in containing)


def _children(item: HyperNode) -> list[str]:
    exact = (each.selector.exact_match for each in item.spec.members if each.type == "HyperNode")
    return [each.name for each in exact if each is not None and each.name]


def _parents(known: Mapping[str, HyperNode]) -> tuple[str, dict[str, str]]:
    """Return why the HyperNodes are not a tree (or ""), and the parent of each; missing members are left out."""
    parents: dict[str, str] = {}
    for name, item in known.items():
        for child in _children(item):
            if child not in known:
                continue
            other = parents.setdefault(child, name)
            if other != name:
                remedy = "remove it from one of them"
                return f"HyperNode {child} is a member of both {other} and {name}; {remedy}", {}
    done: set[str] = set()
    for name in known:
        path: set[str] = set()
        at: str | None = name
        while at is not None and at not in done:
            if at in path:
                return f"HyperNode {at} is a member of itself, directly or through others; remove one of them", {}
            path.add(at)
            at = parents.get(at)
        done |= path
    return "", parents


def _with_descendants(
    members: Mapping[str, set[int]], parents: Mapping[str, str], known: Mapping[str, HyperNode]
) -> dict[str, set[int]]:
    """Return the rows of each HyperNode including those of the HyperNodes within it."""
    rows = {name: set(members.get(name, ())) for name in known}
    waiting = dict.fromkeys(known, 0)
    for parent in parents.values():
        waiting[parent] += 1
    ready = [name for name, count in waiting.items() if not count]
    for name in ready:  # grows during the iteration
        above = parents.get(name)
        if above is not None:
            rows[above] |= rows[name]
            waiting[above] -= 1
            if not waiting[above]:
                ready.append(above)
    return rows


class HyperNodeMembers:
    """Builds the tree for each session. The members are only computed again if nodes or HyperNodes changed."""

    def __init__(self, table: NodeTable, selector: Collection[tuple[str, str]] = ()) -> None:
        self._table = table
        self._selector = selector
        self._cursor = RowCursor(table, table.node_changes, survives_resize=True)
        #: The name and labels of each row's node when the tree was built.
        self._nodes: list[tuple[str, Mapping[str, str]]] = []
        self._built: tuple[tuple[HyperNode, ...], HyperNodes] | None = None

    def tree(self, hyper_nodes: Iterable[HyperNode]) -> HyperNodes:
        """Return the current tree. Selectors that cannot be parsed select nothing."""
        given = tuple(hyper_nodes)
        changed = self._read()
        if changed or self._built is None or not _same(self._built[0], given):
            index = MemberIndex(self._nodes)
            members = {each.name: self._rows(each, index) for each in given}
            outside = (
                {row for row, (_, own) in enumerate(self._nodes) if not is_selected(own, self._selector)}
                if self._selector
                else set()
            )
            if outside:
                members = {name: rows - outside for name, rows in members.items()}
            self._built = given, HyperNodes(given, members, self._table.row_of, outside)
        return self._built[1]

    def _read(self) -> bool:
        """Read the nodes that changed; return whether a name or a label differs."""
        table = self._table
        size, differs = len(table), len(self._nodes) != len(table)
        rows = self._cursor.changed(_MANY)
        del self._nodes[size:]
        self._nodes += [("", {})] * (size - len(self._nodes))
        for row in range(size) if rows is None else rows:
            node = table.nodes[row].node
            if self._nodes[row] != (node.name, node.labels):
                self._nodes[row] = (node.name, node.labels)
                differs = True
        self._cursor.advance()
        return differs

    def _rows(self, item: HyperNode, index: MemberIndex) -> set[int]:
        rows: set[int] = set()
        for member in item.spec.members:
            if member.type == "Node":
                rows.update(self._selected(member.selector, index))
        return rows

    def _selected(self, selector: MemberSelector, index: MemberIndex) -> Iterable[int]:
        """Return the rows that a selector chooses."""
        if selector.exact_match is not None:
            row = self._table.row_of.get(selector.exact_match.name)
            if row is not None:
                yield row
        yield from index.selected(selector)


class MemberIndex:
    """Nodes by label and value, so that a HyperNode per rack does not read every node of the cluster.

    Attributes:
        nodes: The name and labels of each row's node.
    """

    def __init__(self, nodes: Sequence[tuple[str, Mapping[str, str]]]) -> None:
        self.nodes = nodes
        self._rows: dict[str, dict[str, list[int]]] = {}

    def selected(self, selector: MemberSelector) -> Iterable[int]:
        """Return the rows that a pattern or labels choose, as in Volcano: a faulty expression chooses nothing."""
        if selector.regex_match is not None:
            pattern = selector.regex_match.pattern
            try:
                yield from [row for row, (name, _) in enumerate(self.nodes) if found(pattern, name)]
            except PatternIssue:
                return
        wanted = selector.label_match
        if wanted is not None and (wanted.match_labels or wanted.match_expressions):
            try:
                compiled = compile_selector(wanted)
            except SelectorError:
                return
            for row in self._candidates(wanted.match_labels):
                if compiled.matches(self.nodes[row][1]):
                    yield row

    def _candidates(self, labels: Mapping[str, str]) -> Iterable[int]:
        """Return the rows that have the first of the labels; all rows if there is none."""
        for key, value in labels.items():
            if key not in self._rows:
                by_value = self._rows[key] = {}
                for row, (_, own) in enumerate(self.nodes):
                    if key in own:
                        by_value.setdefault(own[key], []).append(row)
            return self._rows[key].get(value, ())
        return range(len(self.nodes))


def _same(left: tuple[HyperNode, ...], right: tuple[HyperNode, ...]) -> bool:
    return len(left) == len(right) and all(mine is theirs for mine, theirs in zip(left, right, strict=True))
