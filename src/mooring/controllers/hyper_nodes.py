"""The controllers of HyperNodes: discovery, in particular from node labels, and the node count in their status."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from mooring.api.hyper_nodes import HyperNode
from mooring.api.meta import KubeObject
from mooring.batch.hyper_nodes import MemberIndex
from mooring.controllers.reconciler import Context, Reconciler, Selection
from mooring.controllers.topology_discovery import MAX_HYPER_NODES, SOURCE, SOURCE_LABEL, discover
from mooring.kube import AlreadyExists, Change, KubeError, NotFound, Resource
from mooring.logs import get_logger

log = get_logger("mooring.controller")

#: The minimum interval between two discoveries, and between two counts of all HyperNodes.
_SECONDS: Final = 1.0
#: The key of all HyperNodes with selectors. No object has an empty name.
_ALL: Final = ""


class LabelledNode(KubeObject, kw_only=True):
    """A node, reduced to its metadata."""


_NODES: Final = Resource(LabelledNode, "", "v1", "Node", "nodes", False)


def _is_relabelled(change: Change[Any]) -> bool:
    """Return whether a node was added, removed or has other labels."""
    return change.old is None or change.new is None or change.old.labels != change.new.labels


class _Throttle:
    """Limits how often something is done."""

    def __init__(self, context: Context) -> None:
        self._clock = context.clock
        self._last = float("-inf")

    def delay(self) -> float | None:
        """Return the seconds to wait, or None to proceed now."""
        now = self._clock()
        if self._last <= now < self._last + _SECONDS:
            return self._last + _SECONDS - now
        self._last = now
        return None


class DiscoveryReconciler(Reconciler):
    """Creates, changes and deletes the HyperNodes of one source. It never touches others."""

    #: The value of `SOURCE_LABEL`.
    source: ClassVar[str]

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._warned: set[str] = set()

    def warn(self, warnings: list[str]) -> None:
        """Log each warning once, and again only after it was remedied."""
        for each in warnings:
            if each not in self._warned:
                log.warning("discovery of HyperNodes", problem=each)
        self._warned = set(warnings)

    async def write(self, existing: dict[str, HyperNode], wanted: dict[str, HyperNode]) -> None:
        """Write all differences. Raises the first error after all others were written."""
        ours = [name for name, each in existing.items() if each.labels.get(SOURCE_LABEL) == self.source]
        errors: list[KubeError] = []
        for name in (*(each for each in ours if each not in wanted), *wanted):
            try:
                await self._apply(existing.get(name), wanted.get(name))
            except KubeError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    async def _apply(self, old: HyperNode | None, new: HyperNode | None) -> None:
        client = self.context.client
        if old is None and new is not None:
            # If it exists already, the informer will deliver it.
            with contextlib.suppress(AlreadyExists):
                await client.create(new)
                log.info("created a HyperNode", hyper_node=new.name, tier=new.spec.tier)
        elif new is None and old is not None:
            with contextlib.suppress(NotFound):
                await client.delete(HyperNode, old.name, uid=old.uid, version=old.metadata.resource_version)
                log.info("deleted a HyperNode", hyper_node=old.name)
        elif old and new and (old.spec != new.spec or not new.labels.items() <= old.labels.items()):
            metadata = {"labels": dict(new.labels), "resourceVersion": old.metadata.resource_version}
            await client.patch(HyperNode, new.name, {"metadata": metadata, "spec": new.spec})


class HyperNodeDiscoveryReconciler(DiscoveryReconciler):
    """Creates, changes and deletes the HyperNodes that follow from node labels."""

    name = "hypernode-discovery"
    source = SOURCE

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._topologies = context.settings.topology.topologies
        self._throttle = _Throttle(context)

    def selections(self) -> Iterable[Selection]:
        """Watch nodes and HyperNodes."""
        return (Selection(_NODES), Selection.of(HyperNode))

    def initial_keys(self) -> Iterable[str]:
        """Return the only key, if discovery is configured."""
        return (SOURCE,) if self._topologies else ()

    def affected_keys(self, change: Change[Any]) -> Iterable[str]:
        """Return the only key if labels of nodes or discovered HyperNodes changed."""
        found, old, new = change.object, change.old, change.new
        if isinstance(found, LabelledNode):
            changed = _is_relabelled(change)
        elif isinstance(found, HyperNode):
            same = old is not None and new is not None and (old.spec, old.labels) == (new.spec, new.labels)
            changed = not same and any(SOURCE_LABEL in each.labels for each in (old, new) if each is not None)
        else:
            return ()
        return (SOURCE,) if changed and self._topologies else ()

    async def reconcile(self, key: str) -> float | None:
        """Make the discovered HyperNodes equal to the labels of the nodes."""
        nodes = self.cache.all(LabelledNode)
        if not nodes:
            return None  # the nodes cannot be read at the moment; deleting all HyperNodes would hold all gangs
        if (delay := self._throttle.delay()) is not None:
            return delay
        existing = dict(self.cache.all(HyperNode))
        found = discover(((each.name, each.labels) for each in nodes.values()), self._topologies, existing)
        count = len(found.hyper_nodes)
        if count > MAX_HYPER_NODES:
            text = f"the labels of nodes have {count} values, but at most {MAX_HYPER_NODES} HyperNodes are created"
            self.warn([f"{text}; no HyperNode is changed until a tier has another label"])
            return None
        self.warn(found.warnings)
        await self.write(existing, found.hyper_nodes)
        return None


class HyperNodeStatusReconciler(Reconciler):
    """Maintains `status.nodeCount`: the number of members, as in Volcano."""

    name = "hypernode"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._throttle = _Throttle(context)
        self._index: MemberIndex | None = None

    def selections(self) -> Iterable[Selection]:
        """Watch nodes and HyperNodes."""
        return (Selection(_NODES), Selection.of(HyperNode))

    def affected_keys(self, change: Change[Any]) -> Iterable[str]:
        """Return the changed HyperNode; all with selectors if labels of nodes changed."""
        found = change.object
        if isinstance(found, HyperNode):
            return (found.name,) if change.new is not None else ()
        if isinstance(found, LabelledNode) and _is_relabelled(change):
            self._index = None
            return (_ALL,)
        return ()

    async def reconcile(self, key: str) -> float | None:
        """Write the counts that changed."""
        if key != _ALL:
            if (one := self.cache.get(HyperNode, key)) is not None:
                await self._write(one)
            return None
        if (delay := self._throttle.delay()) is not None:
            return delay
        for each in list(self.cache.all(HyperNode).values()):
            if any(member.selector.exact_match is None for member in each.spec.members):
                await self._write(each)
        return None

    async def _write(self, item: HyperNode) -> None:
        count = self._count(item)
        if count != item.status.node_count:
            patch = {"status": {"nodeCount": count}}
            with contextlib.suppress(NotFound):
                await self.context.client.patch(HyperNode, item.name, patch, subresource="status")

    def _count(self, item: HyperNode) -> int:
        """Return the number of members. Members by name count whether or not they exist."""
        if self._index is None:
            self._index = MemberIndex([(each.name, each.labels) for each in self.cache.all(LabelledNode).values()])
        names: set[str] = set()
        for member in item.spec.members:
            exact = member.selector.exact_match
            if exact is not None and exact.name:
                names.add(exact.name)
            names.update(self._index.nodes[row][0] for row in self._index.selected(member.selector))
        return len(names)
