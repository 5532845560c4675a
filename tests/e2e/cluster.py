"""A control plane as one test sees it: a namespace of its own, short ways to make objects, and cleaning up."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import yaml

from tests.e2e.controlplane import ControlPlane, Object, Process
from tests.e2e.controlplane.api import Api, ApiFailure
from tests.e2e.sweeping import sweep

_NUMBERS: Final = itertools.count(1)


class Cluster:
    """What a test has of a control plane. What it makes goes to `namespace`, unless it is cluster-wide."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.api = plane.api
        self.namespace = f"test-{next(_NUMBERS)}"
        self._namespaces: list[str] = []
        self._running = len(plane.processes)
        self.add_namespace(self.namespace)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as the administrator, in the test's namespace."""
        return self.plane.kubectl(*arguments, namespace=self.namespace, stdin=stdin)

    def define(self, text: str) -> None:
        """Apply definitions of custom resources, and wait until the API server serves the resources."""
        self.kubectl("apply", "-f", "-", stdin=text)
        for document in yaml.safe_load_all(text):
            spec = document["spec"]
            path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
            self.api.wait_for(f"answer from {path}", partial(self._served, path))

    def _served(self, path: str) -> bool:
        try:
            self.api.items(path)
        except ApiFailure as failure:
            if failure.status not in {404, 429}:  # 429: the server fills its watch cache
                raise
            return False
        return True

    def add_namespace(self, name: str, labels: dict[str, str] | None = None) -> None:
        """Make a namespace; it goes with the test. One of that name that is on its way out is waited for."""
        spaces = "/api/v1/namespaces"
        gone = lambda: name not in [each["metadata"]["name"] for each in self.api.items(spaces)]  # noqa: E731
        self.api.wait_for(f"the end of the former namespace {name}", gone, 90)
        self.api.create(spaces, {"metadata": {"name": name, "labels": labels or {}}})
        self._namespaces.append(name)

    def add_node(
        self,
        name: str,
        *,
        cpu: str = "4",
        memory: str = "32Gi",
        pods: str = "110",
        labels: dict[str, str] | None = None,
        taints: Iterable[Object] = (),
    ) -> Object:
        """Make a node that is ready."""
        amounts = {"cpu": cpu, "memory": memory, "pods": pods, "ephemeral-storage": "100Gi"}
        node = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
            "spec": {"taints": list(taints)},
            "status": {
                "allocatable": amounts,
                "capacity": amounts,
                "conditions": [{"type": "Ready", "status": "True", "reason": "Made"}],
            },
        }
        made: Object = self.api.create("/api/v1/nodes", node)
        return made

    def add_pod(
        self,
        name: str,
        *,
        cpu: str = "100m",
        memory: str = "100Mi",
        metadata: Object | None = None,
        api: Api | None = None,
        **spec: Any,
    ) -> Object:
        """Make a pod; other keywords are fields of its spec. Threads use a connection of their own."""
        container = {
            "name": "main",
            "image": "example/app:1",
            "resources": {"requests": {"cpu": cpu, "memory": memory}},
        }
        pod = {
            "metadata": {"name": name, **(metadata or {})},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
        }
        made: Object = (api or self.api).create(f"/api/v1/namespaces/{self.namespace}/pods", pod)
        return made

    def pod(self, name: str) -> Object:
        """The pod as it is now."""
        return self.api.pod(name, self.namespace)

    def pods(self) -> list[Object]:
        """All pods of the test's namespace."""
        return self.api.items(f"/api/v1/namespaces/{self.namespace}/pods")

    def placements(self) -> dict[str, str]:
        """The node of every bound pod."""
        found = {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in self.pods()}
        return {name: node for name, node in found.items() if node}

    def wait_bound(self, *names: str, timeout: float = 120.0) -> dict[str, str]:
        """Wait until these pods are bound, and say where."""

        def look() -> dict[str, str] | None:
            found = self.placements()
            return found if all(name in found for name in names) else None

        return self.api.wait_for(f"node for every one of {', '.join(names)}", look, timeout)

    def wait_unschedulable(self, name: str, timeout: float = 120.0) -> str:
        """Wait until a pod is known to fit nowhere, and hand back the message."""

        def look() -> str | None:
            for condition in self.pod(name).get("status", {}).get("conditions", ()):
                if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
                    return str(condition["message"])
            return None

        return self.api.wait_for(f"message about {name}", look, timeout)

    def events(self, reason: str = "") -> list[Object]:
        """The namespace's events (of events.k8s.io), all or those of a reason."""
        found = self.api.items(f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events")
        return [each for each in found if not reason or each.get("reason") == reason]

    def clean_up(self) -> None:
        """Stop what the test started, start what it stopped, and remove what it made."""
        for process in self._started():
            process.stop()
            self.plane.processes.remove(process)
        for process in self.plane.processes:
            if not process.alive:
                process.start()
        sweep(self.plane, self._namespaces)

    def _started(self) -> list[Process]:
        return list(reversed(self.plane.processes[self._running :]))
