"""The workloads with devices on a real API server: classes, slices, claims and pods.

The objects are those of `bench.devices`. Claims from templates are created as the controller manager creates them, so
that no controller competes with the schedulers for the processors.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bench.devices import REQUESTS, classes, slices, waiting
from bench.live.objects import PODS_PATH, manifest
from bench.live.server import Server
from bench.workloads import node
from mooring.api.codec import encode_json
from mooring.api.pod import Pod

_PREFIX: Final = "dra-"
_RESOURCE: Final = "/apis/resource.k8s.io/v1"
_NAMESPACE: Final = "namespaces/default"
_CLAIMS: Final = f"{_RESOURCE}/{_NAMESPACE}/resourceclaims"
_TEMPLATE: Final = "one"
#: Workload -> number of pods.
PODS: Final = {f"{_PREFIX}{name}": 1_000 for name in REQUESTS}
#: The collections that schedulers list.
PATHS: Final = tuple(f"{_RESOURCE}/{plural}" for plural in ("deviceclasses", "resourceslices", "resourceclaims"))


async def create_devices(server: Server, *, workload: str, nodes: int) -> None:
    """Create the classes, and the slices of each node."""
    name = workload.removeprefix(_PREFIX)
    await server.create(PATHS[0], map(encode_json, classes()))
    made = (encode_json(each) for number in range(nodes) for each in slices(node(number).name, name))
    await server.create(PATHS[1], made)


async def create_pods(server: Server, *, workload: str, count: int) -> None:
    """Create pending pods and their claims."""
    name = workload.removeprefix(_PREFIX)
    if name in ("shared", "extended"):
        await _create_named(server, name, count)
        return
    spec = {"devices": {"requests": REQUESTS[name]}}
    template = {"metadata": {"name": _TEMPLATE}, "spec": {"spec": spec}}
    path = f"{_RESOURCE}/{_NAMESPACE}/resourceclaimtemplates"
    await server.create_one(path, msgspec.json.encode(template))
    await server.for_each(range(count), lambda number: _create_from_template(server, number, name, spec))


async def _create_named(server: Server, name: str, count: int) -> None:
    """Create pods that name a claim, or that have none yet, and the claims."""
    made = [waiting(number, name) for number in range(count)]
    await server.create(_CLAIMS, (manifest(encode_json(claim)) for _, claim in made if claim is not None))
    await server.create(PODS_PATH, (manifest(encode_json(pod)) for pod, _ in made))


async def _create_from_template(server: Server, number: int, name: str, spec: dict[str, Any]) -> None:
    """Create a pod, its claim, and the status that names the claim."""
    pod, _ = waiting(number, name)
    entries = [{"name": "gpu", "resourceClaimTemplateName": _TEMPLATE}]
    answer = await server.create_one(PODS_PATH, manifest(encode_json(pod), resourceClaims=entries))
    uid = msgspec.json.decode(answer, type=Pod).uid
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": uid, "controller": True}
    claim = f"{pod.name}-gpu"
    metadata = {
        "name": claim,
        "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
        "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
    }
    await server.create_one(_CLAIMS, msgspec.json.encode({"metadata": metadata, "spec": spec}))
    statuses = [{"name": "gpu", "resourceClaimName": claim}]
    await server.patch(f"{PODS_PATH}/{pod.name}/status", {"status": {"resourceClaimStatuses": statuses}})
