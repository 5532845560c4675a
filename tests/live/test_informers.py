"""Informers: what is said where the cluster does not let the scheduler read."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from mooring.api import Node, ObjectMeta, Service
from mooring.api.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from mooring.api.node import NodeStatus
from mooring.api.pod import Pod, PodStatus
from mooring.config import default_config
from mooring.kube import Access, Change, Client
from mooring.live.informers import Informers, RawObjects, device_kinds
from mooring.releases import V1_36, V1_37
from mooring.scheduler.engine import Engine
from mooring.testing import make_node, make_pod
from tests.kube.server import Api, Fault
from tests.log_capture import capture_logs


async def test_missing_permissions_are_reported_once_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.kube.failure_log._COLLECT_SECONDS", 0.05)

    def refuse(request: Any) -> Fault | None:
        denied = any(part in request.path for part in ("/nodes", "/poddisruptionbudgets"))
        return Fault(status=403, body={"message": "no", "reason": "Forbidden"}) if denied else None

    with capture_logs() as lines:
        async with Api() as api, Client(Access(server=api.url)) as client:
            api.fault = refuse
            informers = Informers(client, Engine(default_config()), lambda: None, RawObjects())
            async with asyncio.TaskGroup() as tasks:
                informers.start(tasks)
                while not any(line["log_level"] == "error" for line in lines):
                    await asyncio.sleep(0.01)
                for task in asyncio.all_tasks() - {asyncio.current_task()}:
                    task.cancel()
    (line,) = [line for line in lines if line["log_level"] == "error"]
    assert "`mooring rbac` prints the roles" in line["event"]
    assert line["kinds"] == "nodes, poddisruptionbudgets.policy"


async def test_an_object_that_cannot_be_applied_is_reported_and_the_others_are_applied() -> None:
    woken, invalid = [], []
    async with Client(Access(server="http://127.0.0.1:1")) as client:
        engine = Engine(default_config())
        engine.cache.objects.reports_failures = True
        informers = Informers(client, engine, lambda: woken.append(1), RawObjects())
        informers.report_invalid = lambda item, message: invalid.append((item.name, message))
        seen = []

        def broken(_old: object, new: Service | None) -> None:
            seen.append(new)
            raise KeyError("a bug of a plugin")

        engine.cache.objects.lister(Service).listen(broken)
        index = engine.cache.objects.lister(Service).index(lambda service: service.name)
        nodes = [Node(metadata=ObjectMeta(name=name)) for name in ("a", "b", "c")]
        nodes[1] = msgspec.structs.replace(nodes[1], status=NodeStatus(allocatable={"cpu": "1e1.5"}))
        with capture_logs() as lines:
            informers.apply([Change(None, node) for node in nodes])
            informers.apply([Change(None, Service(metadata=ObjectMeta(name="s")))])
    assert {"a", "c"} <= set(engine.cache.table.row_of)
    ((name, message),) = invalid
    assert (name, message[:43]) == ("b", "QuantityError: '1e1.5' is not a quantity: w")
    assert (len(seen), index.count("s"), len(woken)) == (1, 1, 2)
    assert {line["event"] for line in lines} == {
        "an object cannot be applied and is ignored",
        "a plugin failed to handle a change",
    }


@pytest.mark.parametrize("starting", [True, False])
async def test_a_page_of_pods_is_applied_as_one_by_one(*, starting: bool) -> None:
    """Also at start-up, where pods on nodes are applied together; an invalid one is reported and the others count."""
    pods = [make_pod(f"p{number}").req(cpu="1").node("a").obj() for number in range(20)]
    pods += [
        make_pod("pending").req(cpu="1").obj(),
        make_pod("done").node("a").phase("Succeeded").obj(),
        make_pod("port").node("a").port(80).obj(),
        make_pod("elsewhere").node("b").obj(),
        *(make_pod(f"waiting{number}").priority(number).obj() for number in range(3)),
        make_pod("gated").gate("g").obj(),
        make_pod("nominated").nominated("a").obj(),
        make_pod("foreign").scheduler("other").obj(),
    ]
    broken = make_pod("broken").node("a").req(cpu="1").obj()
    invalid: list[str] = []
    async with Client(Access(server="http://127.0.0.1:1")) as client:
        engine = Engine(default_config())
        informers = Informers(client, engine, lambda: None, RawObjects())
        informers.report_invalid = lambda item, _message: invalid.append(item.name)
        engine.put(make_node("a").capacity(cpu="64", pods="110").obj())
        if starting:
            engine.queue.defer_events()
        informers.apply([Change(None, pod) for pod in pods[:3]])
        informers.apply([Change(None, pod) for pod in pods])  # the first three again, as after an interrupted list
        with capture_logs():
            status = PodStatus(start_time="yesterday")
            late = make_pod("late").node("a").req(cpu="1").obj()
            informers.apply([Change(None, msgspec.structs.replace(broken, status=status)), Change(None, late)])
        engine.queue.resume_events()
    assert invalid == ["broken"]
    assert {info.pod.name for info in engine.cache.table.nodes[0].pods} - {"broken"} == {
        *(f"p{number}" for number in range(20)), "port", "late"
    }  # fmt: skip
    assert {pod.name for pod in engine.cache.objects.lister(Pod).list()} >= {"p7", "pending", "elsewhere", "late"}
    pending = engine.queue.pending()
    assert (pending["active"], pending["gated"]) == (5, 1)
    assert [found.pod.name for _, found in engine.queue] == [
        "waiting2", "waiting1", "pending", "waiting0", "nominated", "gated"
    ]  # fmt: skip
    assert engine.cache.nominator.on_node("a")
    assert engine.cache.objects.lister(Pod).get("foreign", "default") is not None


async def test_a_waiting_pod_that_cannot_be_applied_is_reported_and_the_others_are_queued() -> None:
    pods = [make_pod(f"p{number}").obj() for number in range(5)]
    invalid: list[str] = []
    async with Client(Access(server="http://127.0.0.1:1")) as client:
        engine = Engine(default_config())
        informers = Informers(client, engine, lambda: None, RawObjects())
        informers.report_invalid = lambda item, _message: invalid.append(item.name)
        engine.queue.defer_events()
        add = engine.queue.add

        def failing(pod: Pod) -> None:
            if pod.name == "p2":
                raise ValueError("invalid")
            add(pod)

        engine.queue.add = failing  # type: ignore[method-assign]
        engine.queue.update = lambda old, new: failing(new)  # type: ignore[method-assign]
        with capture_logs():
            informers.apply([Change(None, pod) for pod in pods])
    assert (invalid, engine.queue.pending()["active"]) == (["p2"], 4)


@pytest.mark.parametrize("starting", [True, False])
async def test_a_page_of_nodes_is_applied_as_one_by_one(*, starting: bool) -> None:
    nodes = [make_node(f"n{number}").capacity(cpu="4", pods="110").obj() for number in range(20)]
    broken, late = make_node("broken").capacity(cpu="1e1.5").obj(), make_node("late").capacity(cpu="4").obj()
    invalid: list[str] = []
    async with Client(Access(server="http://127.0.0.1:1")) as client:
        engine = Engine(default_config())
        informers = Informers(client, engine, lambda: None, RawObjects())
        informers.report_invalid = lambda item, _message: invalid.append(item.name)
        engine.put(make_pod("early").req(cpu="1").node("n3").obj())
        if starting:
            engine.queue.defer_events()
        informers.apply([Change(None, node) for node in nodes[:3]])
        informers.apply([Change(None, node) for node in nodes])  # the first three again, as after an interrupted list
        assert engine.cache.table.check() == []
        with capture_logs():
            informers.apply([Change(None, broken), Change(None, late)])
        engine.queue.resume_events()
    table = engine.cache.table
    assert invalid == ["broken"]
    assert [node.name for node in nodes] == list(table.row_of)[:20]
    assert "late" in table.row_of
    assert [info.pod.name for info in table.nodes[3].pods] == ["early"]
    assert {table.amount(row, "cpu", "allocatable") for row in range(20)} == {4000}


def test_sessions_read_the_kinds_of_devices_that_the_release_has() -> None:
    common = {DeviceClass, ResourceClaim, ResourceSlice}
    assert set(device_kinds(V1_36)) == common
    assert set(device_kinds(V1_37)) == {*common, DeviceTaintRule}
