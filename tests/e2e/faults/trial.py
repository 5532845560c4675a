"""A trial: a full cluster to be drained of waiting pods while things go wrong, and what must hold at the end."""

from __future__ import annotations

import re
import signal
from collections import defaultdict
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import Object, Process
from tests.e2e.faults.history import History, milli
from tests.e2e.mooring_process import mooring_command

_COMPARED: Final = re.compile(r"Cache comparison.*differences=(\d+)")
#: What Python, asyncio and our own last resort say when something broke that nobody thought of.
_BROKEN: Final = re.compile(r"Traceback|never retrieved|never awaited|internal error|BUG", re.IGNORECASE)


class Trial:
    """Nodes with just enough room for the pods: a pod counted twice, or not at all, would show. A context manager."""

    def __init__(self, cluster: Cluster, *, nodes: int, per_node: int) -> None:
        self.cluster = cluster
        self.count = nodes * per_node
        self._schedulers: list[Process] = []
        for number in range(nodes):
            cluster.add_node(f"node-{number}", cpu=f"{per_node * 100}m", memory="64Gi", pods=str(per_node + 5))
        self.history = History(cluster.plane, cluster.namespace)

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.history.close()
        for process in self._schedulers:
            process.stop(timeout=10.0)
        namespace = self.cluster.namespace
        if kind is None:  # much quicker than one by one, as the test's cleaning up does it
            self.cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods")
            self.cluster.api.delete(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")

    def add_pods(self, count: int, *, prefix: str = "pod", **options: Any) -> list[Object]:
        """Make pods that wait."""
        return [self.cluster.add_pod(f"{prefix}-{number}", **options) for number in range(count)]

    def start(self, *, name: str = "", kubeconfig: Path | None = None, config: Object | None = None) -> Process:
        """Start Mooring, without leader election unless the configuration has it."""
        name = name or f"mooring-{self.cluster.namespace}"  # a log for each test
        if kubeconfig is not None:
            config = {**(config or {}), "clientConnection": {"kubeconfig": str(kubeconfig)}}
        file = self.cluster.plane.scheduler_config(config, name=name)
        command = mooring_command(self.cluster.plane, "--config", str(file))
        process = self.cluster.plane.run(name, command, wait=False)
        self._schedulers.append(process)
        return process

    def add_scheduler(self, process: Process) -> None:
        """Stop a process at the end, and check its log."""
        self._schedulers.append(process)

    def wait_all_bound(self, timeout: float = 150.0) -> None:
        """Wait until no pod waits any more, but for those that cannot be placed."""

        def look() -> bool:
            pods = self.cluster.pods()
            return not [
                pod for pod in pods if not pod["spec"].get("nodeName") and "huge" not in pod["metadata"]["name"]
            ]

        self.cluster.api.wait_for("node for every pod", look, timeout)

    def check(self, *schedulers: Process) -> None:
        """What must hold after whatever went wrong: for the cluster, and for each scheduler that runs."""
        assert self.history.changes_of_mind() == {}
        assert self.overcommitted() == {}
        for process in schedulers:
            assert self.cache_differences(process) == 0, process.tail(40)
        for process in self._schedulers:
            text = process.log.read_text(errors="replace")
            assert not [line for line in text.splitlines() if _BROKEN.search(line)]
            for user in self.cluster.plane.users.values():
                assert user.token not in text, f"a token of {user.key} is in the log of {process.name}"

    def overcommitted(self) -> dict[str, str]:
        """Nodes that have more than they can bear."""
        rooms = {
            node["metadata"]["name"]: (milli(node["status"]["allocatable"]["cpu"]), node["status"]["allocatable"])
            for node in self.cluster.api.items("/api/v1/nodes")
        }
        asked: dict[str, int] = defaultdict(int)
        for pod in self.cluster.pods():
            node = pod["spec"].get("nodeName")
            if node in rooms:
                asked[node] += sum(milli(each["resources"]["requests"]["cpu"]) for each in pod["spec"]["containers"])
        return {node: f"{asked[node]}m of {room}m" for node, (room, _) in rooms.items() if asked[node] > room}

    def cache_differences(self, process: Process) -> int:
        """Ask a scheduler to compare its cache with the API server, and hand back how many differences there are."""
        before = len(_COMPARED.findall(process.log.read_text(errors="replace")))
        process.signal(signal.SIGUSR2)

        def look() -> list[str] | None:
            found = _COMPARED.findall(process.log.read_text(errors="replace"))
            return found[before:] or None

        return int(self.cluster.api.wait_for("comparison of the cache", look, timeout=40)[0])
