"""The event recorder of controllers and kubelets. It counts repeated events instead of writing them again."""

from collections import OrderedDict
from typing import Final

from mooring.apiserver.documents import Document, rfc3339
from mooring.cluster.errors import ApiError
from mooring.cluster.registry import Registry
from mooring.cluster.request_context import system_context

_REMEMBERED: Final = 4096


class EventRecorder:
    """A recorder of core group events, as in kube-controller-manager."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._known: OrderedDict[tuple[str, str, str, str], tuple[str, str]] = OrderedDict()

    def record(self, component: str, about: Document, kind: str, reason: str, message: str) -> None:
        """Write an event about an object."""
        metadata = about["metadata"]
        key = (metadata["uid"], component, reason, message)
        now = rfc3339(self._registry.clock())
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            counted = self._registry.modify(
                "events", *known, lambda each: {**each, "count": each.get("count", 1) + 1, "lastTimestamp": now}
            )
            if counted is not None:
                return
        namespace = metadata.get("namespace", "default")
        try:
            stored = self._registry.create(
                self._registry.mapper.of("events"),
                namespace,
                _event(component, about, kind, reason, message, now, namespace),
                system_context(),
            )
        except ApiError:
            # The namespace is terminating.
            return
        self._known[key] = (namespace, stored.document["metadata"]["name"])
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)


def _event(component: str, about: Document, kind: str, reason: str, message: str, now: str, namespace: str) -> Document:
    metadata = about["metadata"]
    target = {
        "kind": about["kind"],
        "apiVersion": about["apiVersion"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
    }
    if "namespace" in metadata:
        target["namespace"] = metadata["namespace"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{metadata['name']}.", "namespace": namespace},
        "involvedObject": target,
        "reason": reason,
        "message": message,
        "source": {"component": component},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "type": kind,
        "reportingComponent": component,
        "reportingInstance": "",
    }
