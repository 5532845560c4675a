"""Binds and events over HTTP/2 on an API server that often closes connections (GOAWAY): none is lost or sent twice."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import uvloop

from mooring.api import Event, ObjectMeta, ObjectReference, Pod
from mooring.api.codec import fit
from mooring.kube import ApiError, Client, load_access
from mooring.kube.fast_writer import FastWriter
from mooring.kube.http2_connection import MAX_STREAMS, Http2Connection
from mooring.kube.http_connection import Connection
from tests.e2e.conftest import running
from tests.e2e.controlplane import ControlPlane

PODS = 600


@pytest.fixture(scope="module")
def plane(built: None) -> Iterator[ControlPlane]:
    # The highest chance that the API server accepts.
    yield from running(ControlPlane(unlimited=True, apiserver_flags=["--goaway-chance=0.02"]))


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_no_write_is_lost_or_sent_twice(plane: ControlPlane, loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = f"goaway-{loop.__module__.partition('.')[0]}"
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    created: list[Connection] = []
    most: list[int] = []
    create, send = FastWriter._created, Http2Connection.send

    def counted(self: FastWriter, context: Any, http2: bool) -> Connection:
        created.append(create(self, context, http2))
        return created[-1]

    def watched(self: Http2Connection, *arguments: Any) -> Any:
        answer = send(self, *arguments)
        most.append(len(self._streams))
        return answer

    monkeypatch.setattr(FastWriter, "_created", counted)
    monkeypatch.setattr(Http2Connection, "send", watched)
    before = answered(plane)
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(write_all(plane, namespace))
    after = answered(plane)
    assert after - before == {("pods", "", "201"): PODS, ("pods", "binding", "201"): PODS, ("events", "", "201"): PODS}
    assert {type(each) for each in created} == {Http2Connection}
    # With two connections at a time, there were others: each has ended with GOAWAY.
    assert len(created) > 5
    assert 1 < max(most) <= MAX_STREAMS
    pods = plane.api.items(f"/api/v1/namespaces/{namespace}/pods")
    assert {each["metadata"]["name"]: each["spec"]["nodeName"] for each in pods} == {
        f"pod-{number}": f"node-{number}" for number in range(PODS)
    }
    events = plane.api.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    assert {each["metadata"]["name"] for each in events} == {f"event-{number}" for number in range(PODS)}


async def write_all(plane: ControlPlane, namespace: str) -> None:
    """Create pods, bind each of them and report it, with 128 tasks."""
    access = load_access(kubeconfig=str(plane.kubeconfig("admin")))
    numbers = iter(range(PODS))
    async with Client(access) as client:

        async def work() -> None:
            for number in numbers:
                metadata = {"name": f"pod-{number}", "namespace": namespace}
                spec = {"containers": [{"name": "main", "image": "example.com/main"}]}
                document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
                created = await client.send("POST", f"/api/v1/namespaces/{namespace}/pods", document)
                await client.bind(fit(created, Pod), f"node-{number}")
                await client.create_event(event(namespace, number))

        async with asyncio.TaskGroup() as group:
            for _ in range(128):
                group.create_task(work())


def test_a_refused_bind_has_the_same_error_in_both_encodings(plane: ControlPlane) -> None:
    spec = {"containers": [{"name": "main", "image": "example.com/main"}]}
    created = plane.api.create("/api/v1/namespaces/default/pods", {"metadata": {"name": "bound"}, "spec": spec})
    bound = fit(created, Pod)
    others = [
        Pod(metadata=ObjectMeta(name="none", namespace="default")),
        Pod(metadata=ObjectMeta(name="bound", namespace="default", uid="other")),
    ]

    async def errors(protobuf: bool) -> list[tuple[type, str, dict[str, Any]]]:
        found = []
        async with Client(load_access(kubeconfig=str(plane.kubeconfig("admin")))) as client:
            client._protobuf = protobuf
            for pod in (bound, *others):
                with pytest.raises(ApiError) as caught:
                    await client.bind(pod, "node")
                found.append((type(caught.value), str(caught.value), vars(caught.value)))
            # The server has not refused the type.
            assert client._protobuf == protobuf
        return found

    async def both() -> None:
        async with Client(load_access(kubeconfig=str(plane.kubeconfig("admin")))) as client:
            await client.bind(bound, "node", {"note": "Grüße"}, version=bound.metadata.resource_version)
        assert await errors(True) == await errors(False)

    asyncio.run(both())
    pod = plane.api.pod("bound")
    assert (pod["spec"]["nodeName"], pod["metadata"]["annotations"]) == ("node", {"note": "Grüße"})


def test_an_event_is_the_same_in_both_encodings(plane: ControlPlane) -> None:
    """As users read it, with the fields that the server has seen in the request."""

    async def create() -> None:
        async with Client(load_access(kubeconfig=str(plane.kubeconfig("admin")))) as client:
            for start in ("protobuf", "json"):
                client._protobuf = start == "protobuf"
                for number, note in enumerate(("bound", "Grüße", "n" * 1024)):
                    made = event("default", number)
                    metadata = ObjectMeta(name=f"{start}-{number}", namespace="default")
                    await client.create_event(msgspec.structs.replace(made, metadata=metadata, note=note))

    asyncio.run(create())
    found: dict[str, dict[str, Any]] = {}
    for each in plane.api.items("/apis/events.k8s.io/v1/namespaces/default/events"):
        name = each["metadata"].pop("name")
        for field in ("uid", "resourceVersion", "creationTimestamp"):
            del each["metadata"][field]
        for entry in each["metadata"]["managedFields"]:
            del entry["time"]
        found[name] = each
    for number in range(3):
        assert found[f"protobuf-{number}"] == found[f"json-{number}"]
        assert found[f"json-{number}"]["eventTime"] == "2026-11-19T10:00:00.000000Z"


def event(namespace: str, number: int) -> Event:
    return Event(
        metadata=ObjectMeta(name=f"event-{number}", namespace=namespace),
        event_time="2026-11-19T10:00:00.000000Z",
        reporting_controller="test",
        reporting_instance="test-1",
        action="Binding",
        reason="Scheduled",
        regarding=ObjectReference(api_version="v1", kind="Pod", namespace=namespace, name=f"pod-{number}"),
        note="bound",
        type="Normal",
    )


def answered(plane: ControlPlane) -> Counter[tuple[str, str, str]]:
    """The creations of pods, bindings and events by code, as the API server counts them."""
    found: Counter[tuple[str, str, str]] = Counter()
    for line in plane.api.get("/metrics").splitlines():
        if line.startswith("apiserver_request_total{") and 'verb="POST"' in line:
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
            if labels["resource"] in {"pods", "events"}:
                key = (labels["resource"], labels["subresource"], labels["code"])
                found[key] += int(float(line.rpartition(" ")[2]))
    return found
