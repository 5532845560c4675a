"""The CPU time of the API server and etcd by type of request: `python -m bench.live.calls --calls 1000`.

The requests are those of the scheduler, and the same in other encodings. All types take turns on one control plane, so
that other jobs on the machine affect them alike.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import click
import msgspec

from bench.live import objects
from bench.live.measure import prepare
from bench.live.server import Server, connected
from bench.live.usage import usage
from mooring.api import Event, ObjectMeta, ObjectReference
from mooring.api.codec import encode_json
from mooring.api.protobuf.encode import encode_message, tagged
from tests.e2e.controlplane import ControlPlane

_NODES: Final = 100
_PODS: Final = "/api/v1/namespaces/default/pods"
_EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/default/events"
_JSON: Final = "application/json"
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_METADATA: Final = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
_STRATEGIC: Final = "application/strategic-merge-patch+json"
#: Do not look for unknown and duplicate fields.
_UNCHECKED: Final = "?fieldValidation=Ignore"
_TIME: Final = "2026-11-18T10:00:00.000000Z"


#: apiVersion and kind.
_BINDING: Final = tagged(1, b"v1") + tagged(2, b"Binding")


class Request(NamedTuple):
    """A request of a type."""

    method: str
    path: str
    body: bytes
    content_type: str = _JSON
    accept: str = _JSON


def bind(number: int) -> Request:
    """Bind a pod."""
    name = _pod(number)
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": "default"},
            "target": {"kind": "Node", "name": f"node-{number % _NODES:05d}"}}  # fmt: skip
    return Request("POST", f"{_PODS}/{name}/binding", msgspec.json.encode(body))


def event(number: int) -> Event:
    """Return the event about a bound pod."""
    return Event(
        metadata=ObjectMeta(name=f"{_pod(number)}.{number:x}", namespace="default"),
        event_time=_TIME,
        reporting_controller="default-scheduler",
        reporting_instance="default-scheduler-bench",
        action="Binding",
        reason="Scheduled",
        regarding=ObjectReference(
            api_version="v1", kind="Pod", namespace="default", name=_pod(number), uid=f"uid-{number}"
        ),
        note=f"Successfully assigned default/{_pod(number)} to node-{number % _NODES:05d}",
        type="Normal",
    )


def event_protobuf(number: int) -> bytes:
    """Return the event in protobuf, in the envelope of Kubernetes."""
    made = event(number)
    kind = tagged(1, made.api_version.encode()) + tagged(2, made.kind.encode())
    return b"k8s\x00" + tagged(1, kind) + tagged(2, encode_message("events.Event", msgspec.to_builtins(made)))


def bind_protobuf(number: int) -> bytes:
    """Return the binding in protobuf, in the envelope of Kubernetes."""
    metadata = tagged(1, _pod(number).encode()) + tagged(3, b"default")
    target = tagged(1, b"Node") + tagged(3, f"node-{number % _NODES:05d}".encode())
    return b"k8s\x00" + tagged(1, _BINDING) + tagged(2, tagged(1, metadata) + tagged(2, target))


def status(number: int, content_type: str) -> Request:
    """Patch the condition of a pod that cannot be scheduled."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastProbeTime": None,
                 "message": "0/100 nodes are available: 100 Insufficient cpu.",
                 "lastTransitionTime": "2026-11-18T10:00:00Z"}  # fmt: skip
    body = msgspec.json.encode({"status": {"conditions": [condition]}})
    return Request("PATCH", f"{_PODS}/{_pod(number)}/status", body, content_type)


#: Type -> the request about a pod. The pods of the types differ, and the names of their events.
TYPES: Final[dict[str, Callable[[int], Request]]] = {
    "bind": bind,
    "bind, fields not validated": lambda number: bind(number)._replace(path=bind(number).path + _UNCHECKED),
    "bind, protobuf": lambda number: bind(number)._replace(body=bind_protobuf(number), content_type=_PROTOBUF),
    "bind, protobuf, also returned": lambda number: bind(number)._replace(
        body=bind_protobuf(number), content_type=_PROTOBUF, accept=_PROTOBUF
    ),
    "event": lambda number: Request("POST", _EVENTS, encode_json(event(number))),
    "event, fields not validated": lambda number: Request("POST", _EVENTS + _UNCHECKED, encode_json(event(number))),
    "event, metadata returned": lambda number: Request("POST", _EVENTS, encode_json(event(number)), accept=_METADATA),
    "event, protobuf returned": lambda number: Request("POST", _EVENTS, encode_json(event(number)), accept=_PROTOBUF),
    "event, protobuf": lambda number: Request("POST", _EVENTS, event_protobuf(number), _PROTOBUF),
    "event, protobuf, also returned": lambda number: Request(
        "POST", _EVENTS, event_protobuf(number), _PROTOBUF, _PROTOBUF
    ),
    "status, strategic merge": lambda number: status(number, _STRATEGIC),
}


def _pod(number: int) -> str:
    return f"pod-{number}"


async def measure(plane: ControlPlane, server: Server, calls: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Return the CPU milliseconds of kube-apiserver and etcd for a request, by type."""
    spent = {name: [0.0, 0.0] for name in TYPES}
    share = calls // rounds
    types = list(enumerate(TYPES.items()))
    for turn in range(rounds):
        shift = turn % len(types)
        for place, (name, make) in types[shift:] + types[:shift]:
            first = place * calls + turn * share
            requests = [make(number) for number in range(first, first + share)]
            before = _cpu(plane)
            await server.for_each(requests, lambda request: _send(server, request))
            after = _cpu(plane)
            for index in range(2):
                spent[name][index] += after[index] - before[index]
    return {name: (api / calls * 1000, etcd / calls * 1000) for name, (api, etcd) in spent.items()}


async def _send(server: Server, request: Request) -> None:
    headers = {"Content-Type": request.content_type, "Accept": request.accept}
    async with server.session.request(request.method, request.path, data=request.body, headers=headers) as answer:
        text = await answer.read()
        if answer.status >= 300:
            raise SystemExit(f"{request.method} {request.path}: {answer.status} {text[:300]!r}")


def _cpu(plane: ControlPlane) -> tuple[float, float]:
    return usage(plane.apiserver.pid).cpu_seconds, usage(plane.etcd.pid).cpu_seconds


async def run(calls: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Start a control plane, create nodes and pods, and measure."""

    async def fill(server: Server) -> None:
        await server.create(objects.NODES_PATH, objects.nodes(_NODES))
        await server.create(objects.PODS_PATH, objects.pods("basic", calls * len(TYPES)))

    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        await prepare(state, None, fill)
        with ControlPlane(unlimited=True, state=state) as plane:
            async with connected(plane) as server:
                await server.get(f"{objects.PODS_PATH}?resourceVersion=0&limit=1")
                await asyncio.sleep(3)
                return await measure(plane, server, calls, rounds)


@click.command()
@click.option("--calls", default=2000, show_default=True, help="Requests of each type.")
@click.option("--rounds", default=10, show_default=True, help="Turns of each type.")
def main(calls: int, rounds: int) -> None:
    """Measure the CPU time of the API server by type of request."""
    print(f"{'request':<36}{'kube-apiserver ms':>18}{'etcd ms':>10}{'sum ms':>10}")
    for name, (api, etcd) in asyncio.run(run(calls, rounds)).items():
        print(f"{name:<36}{api:>18.3f}{etcd:>10.3f}{api + etcd:>10.3f}")


if __name__ == "__main__":
    main()
