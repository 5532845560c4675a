"""The CPU time of the live scheduler's own code, without a server: `python -m bench.live.path --workload basic`.

The scheduler runs with all its parts: reflectors, queue, attempts, binds, events, metrics and decision records. Only
the HTTP transports are replaced by one that answers at once, in the same process. The result depends less on other
processes of the machine than that of `bench.live`. TLS, HTTP and the sockets are not included.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import re
import time
from collections.abc import AsyncIterator
from typing import Any, Final, cast

import click
import msgspec

from bench.live.null_client import run_fast
from bench.workloads import WORKLOADS, node, started
from mooring.api.codec import encode_json
from mooring.config import load_config
from mooring.kube import Access, Client
from mooring.kube.request_limits import Priority
from mooring.kube.transport import Answer, Chunks, HttpTransport
from mooring.live import LiveScheduler
from mooring.logs import configure_logs

_CONFIG: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {qps: 100000, burst: 100000}
"""
_BOUND: Final = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'
_NOTHING_SERVED: Final = b'{"kind":"APIResourceList","apiVersion":"v1","resources":[]}'
_PATH: Final = re.compile(r"/namespaces/([^/]+)/pods/([^/]+)/binding")
_PAGE: Final = 500
_ZONE: Final = "topology.kubernetes.io/zone"
#: What an API server and a client add to a pod.
_DEFAULTS: Final[dict[str, Any]] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "serviceAccountName": "default",
    "serviceAccount": "default",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "priority": 0,
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
}
_TOLERATIONS: Final = [
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for name in ("not-ready", "unreachable")
]
_FIELDS: Final = {
    "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
    "f:spec": {
        'f:containers': {'k:{"name":"c"}': {".": {}, "f:image": {}, "f:name": {}, "f:resources": {"f:requests": {}}}},
        "f:dnsPolicy": {}, "f:enableServiceLinks": {}, "f:restartPolicy": {}, "f:schedulerName": {},
    },
}  # fmt: skip


class Server:
    """The objects of a cluster, and the transport that serves them."""

    def __init__(self, workload: str, nodes: int, pods: int, running: int) -> None:
        self._version = 1000
        self._nodes = [self._object(encode_json(node(number))) for number in range(nodes)]
        self._zones = {each["metadata"]["name"]: {_ZONE: each["metadata"]["labels"][_ZONE]} for each in self._nodes}
        self._pods: dict[str, dict[str, Any]] = {}
        for number in range(running):
            pod = started(WORKLOADS["basic"](50_000_000 + number), number)
            self._add_pod(encode_json(pod), nodeName=node(number % nodes).name)
        for number in range(pods):
            self._add_pod(encode_json(WORKLOADS[workload](number)))
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        self._watched = asyncio.Event()
        self.bound = 0
        self.events = 0
        self.wanted = pods
        self.first_bind = 0.0
        self.done = asyncio.Event()
        self._pages = {"nodes": self._paged("Node", self._nodes), "pods": self._paged("Pod", list(self._pods.values()))}

    def _object(self, text: bytes) -> dict[str, Any]:
        self._version += 1
        found: dict[str, Any] = msgspec.json.decode(text)
        found["metadata"] |= {
            "resourceVersion": str(self._version),
            "uid": f"0b5a1c1e-5a5e-4b3c-9d6e-{self._version:012d}",
            "creationTimestamp": "2026-11-16T10:00:00Z",
            "managedFields": [{"manager": "bench", "operation": "Update", "apiVersion": "v1",
                               "time": "2026-11-16T10:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": _FIELDS}],
        }  # fmt: skip
        return found

    def _add_pod(self, text: bytes, **spec: Any) -> None:
        found = self._object(text)
        tolerations = [*found["spec"].get("tolerations", ()), *_TOLERATIONS]
        found["spec"] |= {**_DEFAULTS, "tolerations": tolerations, **spec}
        found.setdefault("status", {}).setdefault("phase", "Pending")
        self._pods[f"{found['metadata']['namespace']}/{found['metadata']['name']}"] = found

    def _paged(self, kind: str, items: list[dict[str, Any]]) -> list[bytes]:
        pages = [items[start : start + _PAGE] for start in range(0, len(items), _PAGE)] or [[]]
        return [
            msgspec.json.encode(
                {
                    "kind": f"{kind}List",
                    "apiVersion": "v1",
                    "metadata": {
                        "resourceVersion": str(self._version),
                        "continue": str(number) if number < len(pages) else "",
                    },
                    "items": page,
                }
            )
            for number, page in enumerate(pages, 1)
        ]

    # The transport

    async def request(
        self, method: str, target: str, *, body: bytes | None, content_type: str, timeout: float, priority: Priority
    ) -> Answer:
        """Bind a pod, accept an event, or tell that no optional kind is served."""
        await asyncio.sleep(0)
        if body is None:
            return Answer(200, {}, _NOTHING_SERVED)
        if (found := _PATH.search(target)) is not None:
            # The name of the node in the protobuf body. The general decoder would be a part of the measured time.
            node = body.rpartition(b"Node\x12\x00\x1a")[2]
            self._bind(f"{found[1]}/{found[2]}", node[1 : 1 + node[0]].decode())
            return Answer(201, {}, _BOUND)
        self.events += 1
        if self.events == self.wanted:
            self.done.set()
        # API servers end the envelope of an object in protobuf with its encoding and its type, which are empty.
        return Answer(201, {}, body + b'\x1a\0"\0')

    def _bind(self, key: str, name: str) -> None:
        if not self.bound:
            self.first_bind = time.process_time()
        self.bound += 1
        self._version += 1
        pod = self._pods[key]
        pod["metadata"]["resourceVersion"] = str(self._version)
        pod["spec"]["nodeName"] = name
        # Since 1.35, the API server copies the zone of the node to the pod.
        pod["metadata"]["labels"] |= self._zones[name]
        condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-16T10:00:00Z"}
        pod["status"]["conditions"] = [condition]
        self._lines.put_nowait(msgspec.json.encode({"type": "MODIFIED", "object": pod}) + b"\n")

    @contextlib.asynccontextmanager
    async def stream(self, target: str, *, idle: float) -> AsyncIterator[Chunks]:
        """Serve a list or a watch."""
        path, _, query = target.partition("?")
        yield cast(Chunks, _Body(self, path, query))

    async def close(self) -> None:
        """Do nothing."""

    async def read(self, path: str, query: str) -> AsyncIterator[bytes]:
        """Yield the parts of a response."""
        plural = path.rpartition("/")[2]
        if "watch=true" in query:
            if plural != "pods":
                await asyncio.Event().wait()
            while True:
                lines = [await self._lines.get()]
                while not self._lines.empty() and len(lines) < 16:
                    lines.append(self._lines.get_nowait())
                yield b"".join(lines)
        if plural in self._pages:
            number = re.search(r"continue=(\d+)", query)
            yield self._pages[plural][int(number[1]) if number is not None else 0]
        else:
            kind = _LIST_KINDS[plural]
            yield msgspec.json.encode({"kind": f"{kind}List", "metadata": {"resourceVersion": "1"}, "items": []})


_LIST_KINDS: Final = {
    "namespaces": "Namespace", "services": "Service", "replicationcontrollers": "ReplicationController",
    "replicasets": "ReplicaSet", "statefulsets": "StatefulSet", "poddisruptionbudgets": "PodDisruptionBudget",
    "persistentvolumeclaims": "PersistentVolumeClaim", "persistentvolumes": "PersistentVolume",
    "storageclasses": "StorageClass", "csinodes": "CSINode", "csidrivers": "CSIDriver",
    "csistoragecapacities": "CSIStorageCapacity", "volumeattachments": "VolumeAttachment",
    "resourceclaims": "ResourceClaim", "resourceslices": "ResourceSlice", "deviceclasses": "DeviceClass",
    "devicetaintrules": "DeviceTaintRule", "podgroups": "PodGroup",
}  # fmt: skip


class _Body:
    def __init__(self, server: Server, path: str, query: str) -> None:
        self._server, self._path, self._query = server, path, query

    def iter_any(self) -> AsyncIterator[bytes]:
        """Yield the data."""
        return self._server.read(self._path, self._query)

    async def read(self) -> bytes:
        """Return all data."""
        return b"".join([part async for part in self.iter_any()])


async def measure(workload: str, *, nodes: int, pods: int, running: int = 0, records: bool = True) -> dict[str, Any]:
    """Schedule pods and return the CPU time until the first bind, and for each pod after it."""
    server = Server(workload, nodes, pods, running)
    gc.collect()
    gc.freeze()
    scheduler = LiveScheduler(
        load_config(_CONFIG, source="bench"), Access(server="https://bench.invalid"), records=records
    )
    replace_transports(scheduler, server)
    begun = time.process_time()
    running_task = asyncio.create_task(scheduler.run())
    waiting = asyncio.create_task(server.done.wait())
    await asyncio.wait([running_task, waiting], return_when=asyncio.FIRST_COMPLETED)
    ended = time.process_time()
    if running_task.done():
        running_task.result()
    running_task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running_task
    return {
        "workload": workload,
        "nodes": nodes,
        "pods": server.bound,
        "events": server.events,
        "start_cpu_s": round(server.first_bind - begun, 3),
        "cpu_us_per_pod": round((ended - server.first_bind) / server.bound * 1e6, 1),
    }


def replace_transports(scheduler: LiveScheduler, server: Server) -> None:
    """Let the client of a scheduler use the server of this module."""
    client: Client = scheduler._client
    client._fast_writer = server
    client._http = cast(HttpTransport, server)


@click.command()
@click.option("--workload", type=click.Choice(list(WORKLOADS)), default="basic", show_default=True)
@click.option("--nodes", default=5000, show_default=True)
@click.option("--pods", default=4000, show_default=True)
@click.option("--running-pods", default=0, show_default=True)
@click.option("--records/--no-records", default=True, show_default=True)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def main(workload: str, nodes: int, pods: int, running_pods: int, records: bool, output: str) -> None:
    """Measure the CPU time of the scheduler without a server."""
    with open("/dev/null", "w", encoding="utf-8") as sink:
        configure_logs(2, as_json=False, stream=sink)
        work = measure(workload, nodes=nodes, pods=pods, running=running_pods, records=records)
        result = run_fast(work)
    print(json.dumps(result) if output == "json" else "  ".join(f"{key}={value}" for key, value in result.items()))


if __name__ == "__main__":
    main()
