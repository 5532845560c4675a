"""Adds the nodes of a list to the node table together: a part of NodeTable, for the start.

It writes each column in one step, and parses the amounts of nodes of one shape once. One by one, the nodes of a large
cluster take three times as long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

from mooring.api.node import Node
from mooring.api.quantity import QuantityLike
from mooring.columns.node_info import NodeInfo

if TYPE_CHECKING:
    from mooring.columns.table import NodeTable


def add_new_nodes(table: NodeTable, nodes: Iterable[Node]) -> list[Node]:
    """Add nodes to a table, except those whose names it has, and return these.

    If the amounts of a node are invalid, this raises before any of them is added.
    """
    new: dict[str, Node] = {}
    others: list[Node] = []
    for node in nodes:
        name = node.metadata.name
        if name in table.row_of or name in new:
            others.append(node)
        else:
            new[name] = node
    added = list(new.values())
    shapes: dict[tuple[tuple[str, QuantityLike], ...], list[int]] = {}
    first = len(table.nodes)
    for row, node in enumerate(added, first):
        shapes.setdefault(tuple(node.status.allocatable.items()), []).append(row)
    amounts = [(rows, *table.amounts_of(dict(shape))) for shape, rows in shapes.items()]
    table.reserve_rows(first + len(added))
    for rows, by_slot, allowed_pods in amounts:
        table.allocatable[:, rows] = 0
        for slot, amount in by_slot:
            table.allocatable[slot, rows] = amount
        table.allowed_pods[rows] = allowed_pods
    _write_properties(table, first, added)
    _write_labels(table, first, added)
    infos = []
    for row, node in enumerate(added, first):
        infos.append(NodeInfo(table, row, node, table.next_arrival()))
        table.row_of[node.metadata.name] = row
    table.nodes += infos
    table.structure += len(added)
    table.attach_orphans(infos)
    rows = list(range(first, len(table.nodes)))
    table.node_changes.mark_all(rows)
    table.changes.mark_all(rows)
    return others


def _write_properties(table: NodeTable, first: int, nodes: list[Node]) -> None:
    """Write what few nodes have. The rows are empty."""
    for row, node in enumerate(nodes, first):
        if node.spec.unschedulable:
            table.unschedulable[row] = True
            table.cordoned += 1
        if node.spec.taints:
            table.taints.set(row, node.spec.taints)
        if node.status.declared_features:
            table.features.set(row, tuple(sorted(node.status.declared_features)))
        if node.status.images:
            table.images.add_node(row, node)


def _write_labels(table: NodeTable, first: int, nodes: list[Node]) -> None:
    labels = [node.metadata.labels for node in nodes]
    for key, count in Counter(chain.from_iterable(labels)).items():
        table.label_key_added(key, count)
    rows = slice(first, first + len(nodes))
    for key in table.label_keys():
        table.label(key).set_new(rows, [each.get(key) for each in labels])
