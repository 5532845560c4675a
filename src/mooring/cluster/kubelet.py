"""Fake kubelets, which report nodes as ready and write the statuses of the pods that are bound to them.

Nothing is executed. A pod starts immediately and runs until it is deleted. A pod that can finish, by its restart
policy, succeeds after the time in its annotation or its `sleep` command. Without either, a pod of a Job or of a Helm
hook succeeds after a second. A deleted pod terminates after the `sleep` of its preStop hooks.
"""

import asyncio
import heapq
import itertools
import random
import re
from typing import Final

from mooring.api.label_selectors import parse_int
from mooring.apiserver.documents import (
    Document,
    condition,
    controller_of,
    nested_field,
    rfc3339,
    rfc3339_micro,
    seconds_of,
)
from mooring.cluster.controllers.controller import Tools
from mooring.cluster.deletion import DeleteOptions
from mooring.cluster.pod_status import ended_status, restarted_status, running_status
from mooring.cluster.schema.shape import VERSION
from mooring.cluster.store import DELETED, Change
from mooring.logs import get_logger

#: How long a pod runs before it finishes, such as `5s` or `2m`.
RUN_FOR: Final = "mooring.dev/run-for"
#: The exit code of the containers of a pod.
EXIT_CODE: Final = "mooring.dev/exit-code"
#: How long a deleted pod takes to terminate, at most its grace period.
TERMINATE_AFTER: Final = "mooring.dev/terminate-after"
#: `off` on a node: no kubelet runs its pods or writes its status.
KUBELET: Final = "mooring.dev/kubelet"

#: Marks the pods of a Helm chart that run once, such as the tests of `helm test`.
HELM_HOOK: Final = "helm.sh/hook"

_log: Final = get_logger("mooring.cluster")
_JOB_SECONDS: Final = 1.0
_NODE_ACTIONS: Final = frozenset({"register", "renew", "resize"})
#: Seconds between renewals of a lease. A kubelet renews more often, but this process has thousands of nodes.
_RENEW_EVERY: Final = 30.0
_LEASES: Final = "leases.coordination.k8s.io"
_LEASE_NAMESPACE: Final = "kube-node-lease"
_LEASE_SECONDS: Final = 120
_LONGEST_BACKOFF: Final = 300.0
_UNITS: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[smhd]?)")
_SLEEP: Final = re.compile(r"(?:^|[\s;&/])sleep\s+([0-9]+(?:\.[0-9]+)?[smhd]?)\s*$")
#: The capacity of a node that has none.
_CAPACITY: Final = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "200Gi", "pods": "110"}


def seconds(text: str) -> float | None:
    """Parse a duration such as `5`, `1.5s` or `2m`; None if it is not valid."""
    match = _DURATION.fullmatch(text.strip())
    return None if match is None else float(match[1]) * _UNITS[match[2]]


class Kubelets:
    """The kubelets of all fake nodes."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._due: list[tuple[float, int, str, str, str, str]] = []
        self._order = itertools.count()
        self._addresses = itertools.count(1)
        #: The resources whose capacity has changed, by node.
        self._resized: dict[str, set[str]] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._unsubscribe = tools.store.subscribe(self._changed)

    def start(self) -> None:
        """Handle all existing nodes and pods."""
        for storage in ("nodes", "pods"):
            for stored in list(self._tools.store.objects(storage)):
                self._changed(storage, Change("ADDED", stored, None, stored.version))
        self._task = asyncio.create_task(self._run(), name="mooring-kubelets")

    async def stop(self) -> None:
        """Stop the kubelets. Pods keep their statuses."""
        self._unsubscribe()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _changed(self, storage: str, change: Change) -> None:
        if change.kind == DELETED:
            return
        document = change.stored.document
        if storage == "pods":
            self._pod(document, change)
        elif storage == "nodes" and change.previous is None:
            self._schedule(0.0, "register", document)
            for pod in self._tools.index.on_node(document["metadata"]["name"]):
                self._pod(pod, change)
        elif storage == "nodes" and change.previous and (names := _resized(change.previous.document, document)):
            self._resized.setdefault(document["metadata"]["name"], set()).update(names)
            self._schedule(0.0, "resize", document)

    def _pod(self, pod: Document, change: Change) -> None:
        """Schedule the next action for a pod."""
        metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
        if not spec.get("nodeName"):
            return
        before = change.previous.document if change.previous else None
        if metadata.get("deletionTimestamp"):
            if before is None or before["metadata"].get("deletionTimestamp") != metadata["deletionTimestamp"]:
                self._schedule(self._termination(pod), "remove", pod)
            return
        phase = status.get("phase")
        if phase == "Pending":
            if before is None or not before["spec"].get("nodeName"):
                self._schedule(0.0, "start", pod)
        elif phase == "Running":
            if (
                before is None
                or nested_field(before, "status", "phase") != "Running"
                or _restarts(before) != _restarts(pod)
            ):
                left = self._left(pod)
                if left is not None:
                    self._schedule(left, "end", pod)
            elif (spec.get("readinessGates") and before.get("status") != status) or (
                before["spec"].get("ephemeralContainers") != spec.get("ephemeralContainers")
            ):
                self._schedule(0.0, "start", pod)

    def _termination(self, pod: Document) -> float:
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        asked = seconds((pod["metadata"].get("annotations") or {}).get(TERMINATE_AFTER, "0"))
        hooks = (_pre_stop(each) for each in pod["spec"]["containers"])
        return min(grace, max(asked or 0.0, *hooks))

    def _left(self, pod: Document) -> float | None:
        """Return the seconds until a pod finishes, or None if it does not."""
        lifetime = _lifetime(pod)
        if lifetime is None:
            return None
        started = [
            nested_field(each, "state", "running", "startedAt")
            for each in nested_field(pod, "status", "containerStatuses") or ()
        ]
        since = max((seconds_of(each) for each in started if each), default=self._tools.now())
        return max(since + lifetime - self._tools.now(), 0.0)

    def _schedule(self, delay: float, action: str, document: Document) -> None:
        metadata = document["metadata"]
        when = asyncio.get_running_loop().time() + delay
        key = (metadata.get("namespace", ""), metadata["name"], metadata["uid"])
        heapq.heappush(self._due, (when, next(self._order), action, *key))
        self._wake.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            done = 0
            while self._due and self._due[0][0] <= loop.time():
                _, _, action, namespace, name, uid = heapq.heappop(self._due)
                self._run_action(action, namespace, name, uid)
                done += 1
                if done % 200 == 0:
                    await asyncio.sleep(0)
            await self._wait(loop)

    async def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._due:
            await self._wake.wait()
            return
        timer = loop.call_at(self._due[0][0], self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    def _run_action(self, action: str, namespace: str, name: str, uid: str) -> None:
        document = self._tools.find("nodes" if action in _NODE_ACTIONS else "pods", namespace, name)
        if document is None or document["metadata"]["uid"] != uid:
            return
        try:
            if action == "register":
                self._register_node(document)
            elif action == "renew":
                self._renew(document)
            elif action == "resize":
                self._resize(document)
            else:
                self._run_pod_action(action, document)
        except Exception:
            _log.exception("fake kubelet failed", action=action, object=f"{namespace}/{name}")

    def _run_pod_action(self, action: str, pod: Document) -> None:
        node = self._tools.find("nodes", "", pod["spec"]["nodeName"])
        if node is None or not runs(node):
            return
        if action == "remove":
            if not pod["metadata"].get("deletionTimestamp"):
                return
            metadata = pod["metadata"]
            self._tools.delete("pods", metadata["namespace"], metadata["name"], DeleteOptions(grace=0))
        elif action == "start":
            self._start(pod, node)
        else:
            self._end(pod)

    def _start(self, pod: Document, node: Document) -> None:
        if pod["metadata"].get("deletionTimestamp"):
            return
        addresses = [
            each["address"] for each in nested_field(node, "status", "addresses") or () if each["type"] == "InternalIP"
        ]
        address = nested_field(pod, "status", "podIP") or self._address(pod, addresses)
        status = running_status(
            pod, rfc3339(self._tools.now()), host=addresses[0] if addresses else "", address=address
        )
        self._tools.set_status("pods", pod, status)

    def _address(self, pod: Document, host: list[str]) -> str:
        if pod["spec"].get("hostNetwork") and host:
            return host[0]
        number = next(self._addresses)
        return f"10.{244 + (number >> 16) % 8}.{(number >> 8) & 255}.{number & 255}"

    def _end(self, pod: Document) -> None:
        if nested_field(pod, "status", "phase") != "Running" or pod["metadata"].get("deletionTimestamp"):
            return
        left = self._left(pod)
        if left is None or left > 0.01:
            # The containers have been restarted since.
            return
        text = (pod["metadata"].get("annotations") or {}).get(EXIT_CODE, "0")
        code = max(parse_int(text) or 0, 0)
        now = rfc3339(self._tools.now())
        if code and pod["spec"].get("restartPolicy") == "OnFailure":
            self._tools.set_status("pods", pod, restarted_status(pod, now, code))
        else:
            self._tools.set_status("pods", pod, ended_status(pod, now, code))

    def _register_node(self, node: Document) -> None:
        """Complete the status of a new node, and start renewing its lease."""
        if not runs(node):
            return
        if condition(node, "Ready") is None:
            self._tools.set_status("nodes", node, node_status(node, rfc3339(self._tools.now())))
        _renew_lease(self._tools, node)
        self._schedule(random.uniform(0.0, _RENEW_EVERY), "renew", node)

    def _resize(self, node: Document) -> None:
        """Make changed capacity allocatable, as a kubelet does with its capacity."""
        names = self._resized.pop(node["metadata"]["name"], set())
        if not runs(node):
            return
        status = node.get("status") or {}
        capacity, allocatable = status.get("capacity") or {}, dict(status.get("allocatable") or {})
        for name in names:
            if name in capacity:
                allocatable[name] = capacity[name]
            else:
                allocatable.pop(name, None)
        self._tools.set_status("nodes", node, {**status, "allocatable": allocatable})

    def _renew(self, node: Document) -> None:
        """Renew the lease of a node."""
        if not runs(node):
            return
        _renew_lease(self._tools, node)
        self._schedule(_RENEW_EVERY, "renew", node)


def runs(node: Document) -> bool:
    """Return whether a fake kubelet runs the pods of a node."""
    return (node["metadata"].get("annotations") or {}).get(KUBELET) != "off"


def _resized(before: Document, after: Document) -> set[str]:
    """Return the resources whose capacity changed while what is allocatable of them did not."""
    old, new = before.get("status") or {}, after.get("status") or {}
    capacity, fresh = old.get("capacity") or {}, new.get("capacity") or {}
    allocatable, left = old.get("allocatable") or {}, new.get("allocatable") or {}
    return {
        name
        for name in {*capacity, *fresh}
        if capacity.get(name) != fresh.get(name) and allocatable.get(name) == left.get(name)
    }


def _pre_stop(container: Document) -> float:
    """Return the seconds that the preStop hook of a container sleeps."""
    hook = nested_field(container, "lifecycle", "preStop") or {}
    if "sleep" in hook:
        return float(hook["sleep"].get("seconds", 0))
    return _sleeps(hook.get("exec") or {}) or 0.0


def _restarts(pod: Document) -> int:
    return sum(each.get("restartCount", 0) for each in nested_field(pod, "status", "containerStatuses") or ())


def _lifetime(pod: Document) -> float | None:
    """Return the seconds that the containers of a pod run, or None if they do not finish."""
    if pod["spec"].get("restartPolicy") == "Always":
        return None
    annotated = seconds((pod["metadata"].get("annotations") or {}).get(RUN_FOR, ""))
    if annotated is not None:
        return annotated + min(2.0 ** _restarts(pod) - 1, _LONGEST_BACKOFF)
    sleeps = [_sleeps(each) for each in pod["spec"]["containers"]]
    if all(each is not None for each in sleeps):
        return max(each for each in sleeps if each is not None)
    owner = controller_of(pod)
    if (owner is not None and owner["kind"] == "Job") or HELM_HOOK in (pod["metadata"].get("annotations") or {}):
        return _JOB_SECONDS
    return None


def _sleeps(container: Document) -> float | None:
    words = " ".join([*container.get("command", ()), *container.get("args", ())])
    match = _SLEEP.search(words)
    return None if match is None else seconds(match[1])


def _renew_lease(tools: Tools, node: Document) -> None:
    """Renew the lease of a node, or create it."""
    metadata, now = node["metadata"], rfc3339_micro(tools.now())
    name = metadata["name"]
    spec = {"holderIdentity": name, "leaseDurationSeconds": _LEASE_SECONDS, "renewTime": now}
    if tools.registry.modify(_LEASES, _LEASE_NAMESPACE, name, lambda each: {**each, "spec": spec}) is not None:
        return
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": metadata["uid"]}
    tools.create(_LEASES, _LEASE_NAMESPACE, {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec})


def node_status(node: Document, now: str) -> Document:
    """Return the status of a ready node."""
    name, status = node["metadata"]["name"], node.get("status") or {}
    capacity = status.get("capacity") or dict(_CAPACITY)
    conditions = [
        _node_condition(
            "MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available", now
        ),
        _node_condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure", now),
        _node_condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available", now),
        _node_condition("Ready", "True", "KubeletReady", "kubelet is posting ready status", now),
    ]
    given = {each["type"]: each for each in status.get("conditions", ())}
    number = sum(name.encode()) + 256 * len(name)
    return {
        **status,
        "capacity": capacity,
        "allocatable": status.get("allocatable") or dict(capacity),
        "conditions": [given.get(each["type"], each) for each in conditions],
        "addresses": status.get("addresses")
        or [
            {"type": "InternalIP", "address": f"10.{128 + (number >> 16) % 64}.{(number >> 8) & 255}.{number & 255}"},
            {"type": "Hostname", "address": name},
        ],
        "daemonEndpoints": status.get("daemonEndpoints") or {"kubeletEndpoint": {"Port": 0}},
        "nodeInfo": {**_NODE_INFO, **{key: value for key, value in (status.get("nodeInfo") or {}).items() if value}},
        "phase": "Running",
    }


_NODE_INFO: Final = {
    "architecture": "amd64",
    "bootID": "",
    "containerRuntimeVersion": "mooring://1",
    "kernelVersion": "fake",
    "kubeProxyVersion": "",
    "kubeletVersion": VERSION,
    "machineID": "",
    "operatingSystem": "linux",
    "osImage": "Mooring",
    "systemUUID": "",
}


def _node_condition(kind: str, status: str, reason: str, message: str, now: str) -> Document:
    return {
        "type": kind,
        "status": status,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
