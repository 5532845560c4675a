import asyncio
import logging
from collections.abc import Mapping
from urllib.parse import quote

import aiohttp
import numpy as np
import numpy.typing as npt

from mooring.api.quantity import milli_value, value
from mooring.framework import CycleState, Nodes, Plugin, Pod, Rule

log = logging.getLogger("mooring.plugins.LoadAware")
RESOURCES = ("cpu", "memory")
#: Node name -> used cpu in millicores, and used memory in bytes.
Usage = Mapping[str, tuple[float, float]]


class LoadAwareArgs:
    interval_seconds: float = 15
    #: Older measurements are ignored; the requests of the node's pods are used instead.
    max_age_seconds: float = 120
    prometheus: str = ""
    cpu_query: str = "sum by (node) (rate(node_cpu_seconds_total{mode!='idle'}[2m]))"
    memory_query: str = "sum by (node) (node_memory_MemTotal_bytes - node_memory_MemAvailable_bytes)"


class LoadAware(Plugin[LoadAwareArgs]):
    """Prefers nodes with a low load, as measured by metrics.k8s.io or Prometheus.

    Pods that were placed since the last measurement count with their requests, so that they do not all go to one node.
    """

    permissions = (Rule(("metrics.k8s.io",), ("nodes",), ("get", "list")),)

    def setup(self) -> None:
        #: Node name -> time, used cpu, used memory, cpu and memory requested at that time.
        self.loads: dict[str, tuple[float, float, float, int, int]] = {}

    # Measurements

    async def run(self) -> None:
        """Measure until the plugin is removed. Exceptions are logged, and the method is restarted."""
        while True:
            used = await (self._prometheus() if self.args.prometheus else self._metrics_api())
            if not self.loads:
                log.info("measured the load of the nodes: %d", len(used))
            self.measured(used)
            await asyncio.sleep(self.args.interval_seconds)

    async def _metrics_api(self) -> Usage:
        assert self.handle.api is not None  # there is one wherever `run` is called
        found = await self.handle.api.get("/apis/metrics.k8s.io/v1beta1/nodes")
        usage = {item["metadata"]["name"]: item["usage"] for item in found["items"]}
        return {name: (milli_value(each["cpu"]), value(each["memory"])) for name, each in usage.items()}

    async def _prometheus(self) -> Usage:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(10)) as session:
            cpu = await self._query(session, self.args.cpu_query)
            memory = await self._query(session, self.args.memory_query)
        return {name: (1000 * cpu[name], memory[name]) for name in cpu.keys() & memory.keys()}

    async def _query(self, session: aiohttp.ClientSession, query: str) -> dict[str, float]:
        url = f"{self.args.prometheus.rstrip('/')}/api/v1/query?query={quote(query)}"
        async with session.get(url, raise_for_status=True) as answer:
            found = await answer.json()
        return {each["metric"]["node"]: float(each["value"][1]) for each in found["data"]["result"]}

    def measured(self, used: Usage) -> None:
        """Store the usage of nodes: name -> (millicores, bytes)."""
        now = self.handle.clock()
        for name, (cpu, memory) in used.items():
            node = self.handle.nodes.get(name)
            if node is not None:
                self.loads[name] = (now, cpu, memory, node.requested("cpu"), node.requested("memory"))
        self.loads = {name: each for name, each in self.loads.items() if self.handle.nodes.get(name) is not None}

    # Scoring

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> npt.NDArray[np.int64]:
        load, oldest = np.zeros(len(nodes)), self.handle.clock() - self.args.max_age_seconds
        unknown = (-np.inf, 0, 0, 0, 0)
        known = np.array([self.loads.get(name, unknown) for name in nodes.names], dtype=float).reshape(-1, 5)
        fresh = known[:, 0] >= oldest
        for place, resource in enumerate(RESOURCES, start=1):
            requested = nodes.requested(resource)
            since = np.maximum(requested - known[:, place + 2], 0)
            used = np.where(fresh, known[:, place] + since, requested)
            load = np.maximum(load, used / np.maximum(nodes.allocatable(resource), 1))
        return (100 * (1 - np.clip(load, 0, 1))).astype(np.int64)
