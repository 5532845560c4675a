"""The objects of the batch benchmark: queues, gangs, pods, and the configuration of story s0 without `magic`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from bench.workloads import pod
from mooring.api.codec import encode_json

QUEUES: Final = 4
SCHEDULING: Final = "/apis/scheduling.volcano.sh/v1beta1"
QUEUES_PATH: Final = f"{SCHEDULING}/queues"
GROUPS_PATH: Final = f"{SCHEDULING}/namespaces/default/podgroups"
CONF: Final = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]
"""


def queues() -> Iterator[bytes]:
    """Yield queues of equal weight."""
    for number in range(QUEUES):
        yield _object("Queue", f"queue-{number}", {"weight": 1, "reclaimable": True})


def groups(pods: int, size: int, *, since: int = 0) -> Iterator[bytes]:
    """Yield gangs, distributed over the queues. The last one may be smaller. ``since`` skips the first pods."""
    for start in range(since, pods, size):
        number, members = start // size, min(size, pods - start)
        least = {"cpu": f"{100 * members}m", "memory": f"{500 * members}Mi"}
        spec = {"minMember": members, "queue": f"queue-{number % QUEUES}", "minResources": least}
        yield _object("PodGroup", f"gang-{number}", spec)


def members(pods: int, size: int, *, since: int = 0) -> Iterator[bytes]:
    """Yield the pods of all gangs, with the requests of all benchmarks. ``since`` skips the first pods."""
    for number in range(since, pods):
        document: dict[str, Any] = msgspec.json.decode(encode_json(pod(number, schedulerName="volcano")))
        document.pop("status", None)
        document["metadata"].pop("uid", None)
        document["metadata"]["name"] = f"gang-{number // size}-task-{number % size}"
        document["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": f"gang-{number // size}"}
        yield msgspec.json.encode(document)


def _object(kind: str, name: str, spec: dict[str, Any]) -> bytes:
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": kind, "metadata": {"name": name}}
    return msgspec.json.encode({**head, "spec": spec})
