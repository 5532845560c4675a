"""Hierarchical dominant resource fairness: a tree of queues with weights, jobs at its leaves.

A queue's path and the weights along it are annotations (``root/eng/dev``, ``1/2/8``). A subtree that cannot use more is
*saturated* and comes last; among the others the one with the smaller share by weight comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mooring.batch.job import JobInfo
from mooring.batch.queue import QueueInfo
from mooring.batch.resource import Resource


class Share(Protocol):
    """What a node of the tree has, and the part of the cluster that this is."""

    allocated: Resource
    share: float


class _OwnShare:
    __slots__ = ("allocated", "share")

    def __init__(self, allocated: Resource, share: float = 0.0) -> None:
        self.allocated = allocated
        self.share = share


class TreeNode:
    """A step of a path, or (without children) a job."""

    __slots__ = ("account", "children", "name", "request", "saturated", "weight")

    def __init__(self, name: str, weight: float, account: Share, request: Resource | None = None) -> None:
        self.name = name
        self.weight = weight
        self.account = account
        self.request = request
        self.saturated = False
        #: None for a job.
        self.children: dict[str, TreeNode] | None = {} if request is None else None

    def clone(self) -> TreeNode:
        """A copy of the subtree."""
        account = _OwnShare(self.account.allocated.clone(), self.account.share)
        copy = TreeNode(self.name, self.weight, account, self.request)
        copy.saturated = self.saturated
        if self.children is not None:
            copy.children = {name: child.clone() for name, child in self.children.items()}
        return copy


class Tree:
    """The shares of all queues and jobs."""

    def __init__(self, total: Resource, share_of: Callable[[Resource], float]) -> None:
        self.root = TreeNode("root", 1.0, _OwnShare(Resource()))
        #: What all jobs have together.
        self.allocated = Resource()
        self._total = total
        self._share_of = share_of

    def clone(self) -> Tree:
        """A tree to try something with."""
        copy = Tree(self._total, self._share_of)
        copy.root = self.root.clone()
        copy.allocated = self.allocated.clone()
        return copy

    def put(self, job: JobInfo, account: Share, queue: QueueInfo) -> None:
        """Put a job in its place, and work the tree out anew."""
        node = self.root
        weights = queue.hierarchy_weights.split("/")
        for depth, name in enumerate(queue.hierarchy.split("/")[1:], start=1):
            children = node.children
            assert children is not None, "only jobs have none, and no path leads through a job"
            child = children.get(name)
            if child is None:
                child = children[name] = TreeNode(name, _weight(weights, depth), _OwnShare(Resource()))
            node = child
        assert node.children is not None, "as above"
        node.children[job.uid] = TreeNode(job.uid, 1.0, account, job.total_request.clone())
        wanted = {name for name in self._total.names() if self.allocated.get(name) < self._total.get(name)}
        self._update(self.root, wanted)

    def _update(self, node: TreeNode, wanted: set[str]) -> None:
        if node.children is None:
            node.saturated = _is_saturated(node.account.allocated, node.request or Resource(), wanted)
            return
        least = 1.0
        for child in node.children.values():
            self._update(child, wanted)
            if child.account.share != 0 and not child.saturated:
                least = min(least, self._share_of(child.account.allocated))
        allocated = Resource()
        saturated = True
        for child in node.children.values():
            saturated = saturated and child.saturated
            if child.account.share != 0:
                part = child.account.allocated
                allocated.add(part if child.saturated else part.clone().multiply(least / child.account.share))
        node.account = _OwnShare(allocated, self._share_of(allocated))
        node.saturated = saturated


def _weight(weights: list[str], depth: int) -> float:
    try:
        return max(float(weights[depth]), 1.0)
    except (IndexError, ValueError):
        return 1.0


def _is_saturated(allocated: Resource, request: Resource, wanted: set[str]) -> bool:
    """Whether a job has all it asks for of some resource, or asks for one of which nothing is left."""
    for name in allocated.names():
        asked = request.get(name)
        if asked != 0 and (allocated.get(name) >= asked or name not in wanted):
            return True
    return False


def compare_paths(root: TreeNode, left: QueueInfo, right: QueueInfo) -> float:
    """Which of two queues comes first: negative for the left one, 0 if the tree does not tell."""
    mine, theirs = root, root
    left_path, right_path = left.hierarchy.split("/"), right.hierarchy.split("/")
    depth = min(len(left_path), len(right_path))
    for step in range(depth):
        if mine.saturated != theirs.saturated:
            return 1 if mine.saturated else -1
        ours, other = mine.account.share / mine.weight, theirs.account.share / theirs.weight
        if ours != other:
            return ours - other
        if step < depth - 1:
            below, beside = (
                (mine.children or {}).get(left_path[step + 1]),
                (theirs.children or {}).get(right_path[step + 1]),
            )
            if below is None or beside is None:
                return 0  # a queue without jobs has no place in the tree
            mine, theirs = below, beside
    return 0
