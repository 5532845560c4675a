"""Consistency check of the node table: compares it with a table built from scratch. Any difference is a bug."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from mooring.columns.counters import PodCounter, TermCounter
from mooring.columns.interned import CodeColumn

if TYPE_CHECKING:
    from mooring.columns.table import NodeTable


_AMOUNTS: tuple[Literal["allocatable", "requested"], ...] = ("allocatable", "requested")


def differences(table: NodeTable, fresh: NodeTable) -> list[str]:
    """Return the differences of ``table`` from ``fresh``, as sentences."""
    found: list[str] = []
    if sorted(table.row_of) != sorted(fresh.row_of):
        return [f"nodes: {sorted(table.row_of)} instead of {sorted(fresh.row_of)}"]
    for row, info in enumerate(table.nodes):
        if info.row != row or table.row_of[info.name] != row:
            found.append(f"node {info.name}: row {info.row} is stored at {row}")
        found += _node(table, fresh, info.name)
    found += _columns(table, fresh)
    found += _indexes(table, fresh)
    found += _counters(table, fresh)
    found += _pods(table)
    return found


def _node(table: NodeTable, fresh: NodeTable, name: str) -> list[str]:
    mine, other = table.row_of[name], fresh.row_of[name]
    found = []
    for resource in {*table.slots, *fresh.slots, "pods"}:
        for what in _AMOUNTS:
            have, want = table.amount(mine, resource, what), fresh.amount(other, resource, what)
            if have != want:
                found.append(f"node {name}: {what} {resource} is {have} instead of {want}")
    if table.nonzero[:, mine].tolist() != fresh.nonzero[:, other].tolist():
        found.append(f"node {name}: non-zero requests are {table.nonzero[:, mine]}")
    if table.cordoned != fresh.cordoned:
        found.append(f"{table.cordoned} nodes are unschedulable instead of {fresh.cordoned}")
    if table.unschedulable[mine] != fresh.unschedulable[other]:
        found.append(f"node {name}: unschedulable differs")
    have_pods = sorted(info.pod.uid for info in table.nodes[mine].pods)
    want_pods = sorted(info.pod.uid for info in fresh.nodes[other].pods)
    if have_pods != want_pods:
        found.append(f"node {name}: pods {have_pods} instead of {want_pods}")
    return found


def _values(table: NodeTable, column: CodeColumn[Any]) -> dict[str, object]:
    codes = column.codes
    return {
        info.name: None if codes[row] < 0 else column.values[int(codes[row])] for row, info in enumerate(table.nodes)
    }


def _columns(table: NodeTable, fresh: NodeTable) -> list[str]:
    found = [
        f"label {key}: codes differ"
        for key in table.label_keys()
        if _values(table, table.label(key)) != _values(fresh, fresh.label(key))
    ]
    if _values(table, table.taints) != _values(fresh, fresh.taints):
        found.append("taints differ")
    if _values(table, table.features) != _values(fresh, fresh.features):
        found.append("declared features differ")
    return found


def _named(table: NodeTable, counts: list[tuple[int, int]]) -> dict[str, int]:
    return {table.nodes[row].name: count for row, count in counts}


def _indexes(table: NodeTable, fresh: NodeTable) -> list[str]:
    found = []
    have = {key: _named(table, counts) for key, counts in table.ports.snapshot().items()}
    want = {key: _named(fresh, counts) for key, counts in fresh.ports.snapshot().items()}
    if have != want:
        found.append(f"ports: {have} instead of {want}")
    images = {name: _named(table, rows) for name, (_, rows) in table.images.snapshot().items()}
    fresh_images = {name: _named(fresh, rows) for name, (_, rows) in fresh.images.snapshot().items()}
    if images != fresh_images:
        found.append(f"images: {images} instead of {fresh_images}")
    return found


def _counters(table: NodeTable, fresh: NodeTable) -> list[str]:
    found = []
    for counter in table.counters.all_counters():
        again = fresh.counters.counter(counter.terms, living_only=counter.living_only)
        if _named(table, counter.rows.items()) != _named(fresh, again.rows.items()):
            found.append(f"counter {counter.terms}: by row {counter.rows.items()} instead of {again.rows.items()}")
        found += [
            f"counter {counter.terms}: by {key} {_by_value(table, counter, key)}"
            for key, region in counter._domains
            if region is None and _by_value(table, counter, key) != _by_value(fresh, again, key)
        ]
    have = {_identity(term): _term_counts(table, term) for term in table.counters.all_terms()}
    want = {_identity(term): _term_counts(fresh, term) for term in fresh.counters.all_terms()}
    if have != want:
        found.append(f"terms: {have} instead of {want}")
    return found


def _by_value(table: NodeTable, counter: PodCounter, key: str) -> dict[str | None, int]:
    return {table.label(key).values[code]: count for code, count in counter.by_domain(key).items()}


def _identity(term: TermCounter) -> object:
    return term.kind, term.term


def _term_counts(table: NodeTable, term: TermCounter) -> dict[str | None, int]:
    column = table.label(term.term.topology_key)
    return {column.values[code]: count for code, count in term.counts.items()}


def _pods(table: NodeTable) -> list[str]:
    found, columns = [], table.pod_columns
    placed = [info for info in table.pods.values() if info.node is not None]
    if len(placed) != len(columns):
        found.append(f"pod columns: {len(columns)} entries for {len(placed)} placed pods")
    for info in placed:
        row = info.node.row if info.node is not None else -1
        if columns.infos[info.index] is not info or columns.rows[info.index] != row:
            found.append(f"pod {info.name}: its columns say row {columns.rows[info.index]}, it is on {row}")
        if info.template.labels != info.pod.labels or columns.templates[info.index] != info.template.number:
            found.append(f"pod {info.name}: the template or its number is that of another pod")
    return found
