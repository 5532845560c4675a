"""Whatever objects a cluster contains, the scheduler goes on: decoded, applied and scheduled as live objects are."""

from __future__ import annotations

import random
import time
from typing import Any, Final, Literal

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.resources import QuantityError
from mooring.config import load_config
from mooring.framework import CustomResource
from mooring.kube import Access
from mooring.kube.decoding import WatchEvent, decode_line, decode_page
from mooring.kube.object_store import Change
from mooring.live import LiveScheduler
from mooring.live.custom import resource_for
from mooring.live.informers import KINDS
from mooring.plugins.capacity_scheduling.elastic_quota import ElasticQuota
from mooring.plugins.coscheduling.pod_group import PodGroup
from mooring.plugins.node_resource_topology.zones import NodeResourceTopology
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt, PendingAttempt
from mooring.scheduler.engine import Engine
from tests.hostile import AMOUNTS, EXPRESSIONS, EXTREME_AMOUNTS, RESOURCES, Hostile, nested

CONFIG: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled:
      - name: Coscheduling
      - name: CapacityScheduling
      - name: NodeResourceTopologyMatch
      - name: NodeResourcesAllocatable
      disabled:
      - name: PrioritySort
"""
DEVICES: Final = (DeviceClass, ResourceSlice, ResourceClaim)
#: Pods are last, as in ``KINDS``.
ALL: Final = (*DEVICES, ElasticQuota, PodGroup, NodeResourceTopology, *KINDS)
NODE: Final = {
    "metadata": {"name": "ordinary", "uid": "ordinary", "resourceVersion": "1", "labels": {"zone": "a"}},
    "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "1000", "ephemeral-storage": "1Ti"}},
}
#: The beginnings of the expressions that are true for a device of the driver.
MATCHING: Final = ("device.driver ==", "true &&", 'quantity("1e99999")', "[1, 2, 3")
#: The longest that all attempts about one hostile object of each kind may take, in seconds of CPU.
LIMIT: Final = 10.0


def ordinary(name: str) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": "100m", "memory": "1Mi"}}}
    metadata = {"name": name, "namespace": "ordinary", "uid": name, "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {"schedulerName": "default-scheduler", "containers": [container]}}


def unscheduled(hostile: Hostile) -> dict[str, Any]:
    """Return a hostile pod that is to be scheduled at once."""
    document = hostile.document(Pod, status={})
    spec = document.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    document["spec"] = {**spec, "nodeName": "", "schedulerName": "default-scheduler"}
    document["spec"].pop("schedulingGates", None)
    document["spec"]["resourceClaims"] = [{"name": "devices", "resourceClaimName": "object"}]
    return document


def without_usage(pod: dict[str, Any]) -> dict[str, Any]:
    """Return a pod without what the kubelet reports of a resize: a pod that uses a whole node leaves no room on it."""
    if isinstance(status := pod.get("status"), dict):
        usage = ("allocatedResources", "containerStatuses", "initContainerStatuses", "resources")
        pod["status"] = {key: value for key, value in status.items() if key not in usage}
    return pod


def documents(hostile: Hostile, kind: type[KubeObject]) -> dict[str, Any]:
    """Return a hostile object that affects decisions: pods are to be scheduled, and slices reach the ordinary node."""
    if kind is Pod:
        return without_usage(unscheduled(hostile))
    document = hostile.document(kind)
    if kind is ResourceSlice and isinstance(document.get("spec"), dict):
        pool = {"name": "pool", "generation": 2**63 - 1, "resourceSliceCount": 1}
        document["spec"] |= {"driver": "driver", "pool": pool, "nodeName": "ordinary"}
    return document


def finished(engine: Engine, pending: PendingAttempt) -> AssumedPod | FailedAttempt:
    """Run an attempt that pauses to its end."""
    try:
        while True:
            pending.steps.send(())
    except StopIteration as done:
        outcome: AssumedPod | FailedAttempt = done.value
        return outcome
    finally:
        engine.lock.release()


class Fed:
    """A scheduler that gets objects as its informers do, without a server."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.failures: list[BaseException] = []
        for module in ("live.informers", "framework.listers", "scheduler.schedule_one", "scheduler.decision_lock"):
            monkeypatch.setattr(
                f"mooring.{module}.report_unexpected", lambda _what, error, **_: self.failures.append(error)
            )
        config = load_config(CONFIG, source="test")
        self.scheduler = LiveScheduler(config, Access("http://127.0.0.1:1"), rng=random.Random(1), whole_process=False)
        monkeypatch.setattr("mooring.live.claim_writer.ApiClaimWriter.start", lambda _self, work, _what: work.close())
        self.put(Node, NODE)

    def put(self, kind: type[KubeObject], document: dict[str, Any]) -> None:
        resource = resource_for(kind)
        body = msgspec.json.encode(
            {"kind": f"{resource.kind}List", "metadata": {"resourceVersion": "9"}, "items": [document]}
        )
        page = decode_page(body, resource, self.scheduler._client.on_invalid)
        self.scheduler.informers.apply([Change(None, item) for item in page.items])
        line = decode_line(msgspec.json.encode({"type": "MODIFIED", "object": document}), resource)
        assert page.items == [line.object] or not page.items  # type: ignore[union-attr]  # no error
        if page.items:
            self.scheduler.informers.apply([Change(page.items[0], page.items[0])])

    def schedule(self) -> dict[str, str]:
        """Run all attempts that are due; return the nodes of the pods that were assumed."""
        found: dict[str, str] = {}
        engine = self.scheduler.engine
        while engine.queue.ready:
            outcome = engine.schedule_one()
            if isinstance(outcome, PendingAttempt):
                outcome = finished(engine, outcome)
            assert outcome is None or isinstance(outcome, AssumedPod | FailedAttempt)
            if isinstance(outcome, AssumedPod):
                found[outcome.pod.name] = outcome.node_name
        return found

    def remove_all(self) -> None:
        for kind in ALL:
            lister = self.scheduler.engine.cache.objects.lister(kind)
            self.scheduler.informers.apply([Change(item, None) for item in list(lister.list())])


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32 - 1))
def test_no_object_stops_the_scheduler(seed: int) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        fed = Fed(monkeypatch)
        hostile = Hostile(seed)
        started = time.process_time()
        for kind in ALL:
            fed.put(kind, documents(hostile, kind))
        fed.put(Pod, without_usage(hostile.document(Pod, "placed")))
        fed.put(Pod, ordinary("usual"))
        placed = fed.schedule()
        fed.remove_all()
        fed.put(Pod, ordinary("last"))
        placed |= fed.schedule()
        assert time.process_time() - started < LIMIT
        assert placed["usual"] in {"ordinary", "object"}
        assert placed["last"] == "ordinary"
        for error in fed.failures:
            if not isinstance(error, QuantityError):
                raise error


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("text", EXTREME_AMOUNTS)
def test_amounts_that_the_api_server_accepts_come_and_go(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fed = Fed(monkeypatch)
    amounts = {name: text for name in RESOURCES if len(name) < 100}
    for name, where in (("placed", "ordinary"), ("elsewhere", "object"), ("waiting", "")):
        document = ordinary(name)
        document["spec"]["nodeName"] = where
        document["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
        fed.put(Pod, document)
    fed.put(Node, {"metadata": {"name": "object", "uid": "object"}, "status": {"allocatable": amounts}})
    fed.schedule()
    fed.remove_all()
    fed.put(Pod, ordinary("last"))
    assert fed.schedule() == {"last": "ordinary"}
    assert fed.failures == []
    assert not fed.scheduler.engine.cache.table.requested[:3, 1:].any()


def put_devices(fed: Fed, requests: list[dict[str, Any]], amount: str = "1Gi", slices: int = 1) -> None:
    """Add a class, slices of 128 devices each on the ordinary node, a claim, and a pod that names the claim."""
    fed.put(DeviceClass, {"metadata": {"name": "gpu", "uid": "gpu"}, "spec": {}})
    for number in range(slices):
        capacity = {"memory": {"value": amount}}
        devices = [{"name": f"d{number}-{i}", "capacity": capacity} for i in range(128)]
        pool = {"name": "pool", "generation": 1, "resourceSliceCount": slices}
        spec = {"driver": "driver", "pool": pool, "nodeName": "ordinary", "devices": devices}
        fed.put(ResourceSlice, {"metadata": {"name": f"s{number}", "uid": f"s{number}"}, "spec": spec})
    metadata = {"name": "claim", "namespace": "ordinary", "uid": "claim", "resourceVersion": "1"}
    fed.put(ResourceClaim, {"metadata": metadata, "spec": {"devices": {"requests": requests}}})
    document = ordinary("with-devices")
    document["spec"]["resourceClaims"] = [{"name": "devices", "resourceClaimName": "claim"}]
    fed.put(Pod, document)
    fed.put(Pod, ordinary("usual"))


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=lambda text: text[:20])
def test_expressions_about_devices(expression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fed = Fed(monkeypatch)
    selectors = [{"cel": {"expression": expression}}]
    started = time.process_time()
    put_devices(
        fed,
        [
            {
                "name": "r",
                "exactly": {
                    "deviceClassName": "gpu",
                    "allocationMode": "ExactCount",
                    "selectors": selectors,
                    "count": 1,
                },
            }
        ],
    )
    placed = fed.schedule()
    assert time.process_time() - started < LIMIT
    assert placed["usual"] == "ordinary"
    assert ("with-devices" in placed) == expression.startswith(MATCHING)
    assert fed.failures == []


@pytest.mark.parametrize("text", AMOUNTS, ids=lambda text: text[:20])
def test_amounts_of_devices(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fed = Fed(monkeypatch)
    compared = f'device.capacity["driver"].memory.isGreaterThan(quantity("{text}"))'
    exactly = {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": 1,
        "capacity": {"requests": {"memory": text}},
        "selectors": [{"cel": {"expression": compared}}],
    }
    started = time.process_time()
    put_devices(fed, [{"name": "r", "exactly": exactly}], text)
    assert fed.schedule()["usual"] == "ordinary"
    assert time.process_time() - started < LIMIT
    for error in fed.failures:
        if not isinstance(error, QuantityError):
            raise error


@pytest.mark.parametrize("count", [-1, 0, 33, 4_000, 2**63 - 1])
@pytest.mark.parametrize("mode", ["ExactCount", "All", "Odd"])
def test_counts_of_thousands_of_devices(count: int, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fed = Fed(monkeypatch)
    exactly = {"deviceClassName": "gpu", "allocationMode": mode, "count": count}
    started = time.process_time()
    put_devices(fed, [{"name": f"r{i}", "exactly": exactly} for i in range(3)], slices=32)
    assert fed.schedule()["usual"] == "ordinary"
    assert time.process_time() - started < LIMIT
    assert fed.failures == []


def test_deep_nesting_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    fed = Fed(monkeypatch)
    for kind in ALL:
        document = {"metadata": {"name": "deep", "namespace": "default", "uid": "deep"}, "unknown": nested(9_000)}
        fed.put(kind, document)
        lister = fed.scheduler.engine.cache.objects.lister(kind)
        if kind not in {Node, NodeResourceTopology}:
            assert "deep" in [item.name for item in lister.list()], kind
    fed.put(Pod, ordinary("usual"))
    assert fed.schedule()["usual"] == "ordinary"
    assert fed.failures == []


class Seat(msgspec.Struct):
    row: int
    price: float = 0.0


class Ticket(CustomResource, group="example.com", version="v1"):
    """A user's kind with fields of every sort. The CRD on the cluster may have another schema than this class."""

    seats: int
    name_of_guest: str = ""
    valid: bool = True
    days: tuple[int, ...] = ()
    options: dict[str, str] | None = None
    best: Seat | None = None
    others: tuple[Seat, ...] = ()
    color: Literal["red", "blue"] = "red"


_VALUES: Final[list[Any]] = [
    None, True, 0, -1, 2**63, 2**70, 1.5, "", "7", "red", "x" * 5_000, [], [None], [1, "2"], {}, {"a": None},
    {"row": "1"}, [{"row": 1}], [{}], [[[]]],
]  # fmt: skip


def test_custom_objects_that_do_not_fit_their_class_are_reported_and_skipped() -> None:
    rng, resource = random.Random(1), resource_for(Ticket)
    kept, reported = 0, list[str]()
    for number in range(600):
        document: dict[str, Any] = {
            "apiVersion": "example.com/v1",
            "kind": "Ticket",
            "metadata": {"name": f"t{number}", "namespace": "default", "uid": str(number), "resourceVersion": "1"},
            "seats": 1,
            "unknown": rng.choice(_VALUES),
        }
        for field in rng.sample(
            ("seats", "nameOfGuest", "valid", "days", "options", "best", "others", "color"), rng.randint(1, 2)
        ):
            document[field] = rng.choice(_VALUES)
        if rng.random() < 0.1:
            del document["seats"]
        before = len(reported)
        body = msgspec.json.encode({"kind": "Tickets", "metadata": {}, "items": [document]})
        page = decode_page(body, resource, lambda about, reason: reported.append(f"{about.name}: {reason}"))
        line = decode_line(msgspec.json.encode({"type": "ADDED", "object": document}), resource)
        assert isinstance(line, WatchEvent)
        assert page.items == [line.object] or (page.items == [] and line.object is None)
        assert len(page.items) + len(reported) - before == 1, "kept or reported"
        for item in page.items:
            kept += 1
            assert type(item.seats) is int
            assert all(type(day) is int for day in item.days)
            assert item.color in ("red", "blue")
            assert all(type(seat.row) is int for seat in (*item.others, *filter(None, [item.best])))
    assert kept > 20
    assert len(reported) > 200
    assert max(map(len, reported)) < 500


@pytest.mark.parametrize("field", ["taints", "labels", "images"])
def test_a_node_of_the_largest_size(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """etcd limits an object to 1.5 MiB: about 20,000 taints, labels or images."""
    fed = Fed(monkeypatch)
    count = 20_000
    labels = {f"key-{i}": f"value-{i}" for i in range(count)} if field == "labels" else {}
    taints = [{"key": f"key-{i}", "value": "v", "effect": "NoSchedule"} for i in range(count)]
    images = [{"names": [f"registry.example/app-{i}:1"], "sizeBytes": 1 << 30} for i in range(count)]
    document = {
        "metadata": {"name": "large", "uid": "large", "resourceVersion": "1", "labels": labels},
        "spec": {"taints": taints if field == "taints" else []},
        "status": {**NODE["status"], "images": images if field == "images" else []},
    }
    fed.put(Node, document)
    chosen = ordinary("chosen")
    chosen["spec"]["nodeSelector"] = {"key-7": "value-7"} if field == "labels" else {}
    chosen["spec"]["tolerations"] = [{"operator": "Exists"}]
    chosen["spec"]["containers"][0]["image"] = "registry.example/app-7:1"
    fed.put(Pod, chosen)
    if field == "taints":  # both fit; without the toleration, only the ordinary node does
        del chosen["spec"]["tolerations"]
        fed.put(Pod, {**chosen, "metadata": {**chosen["metadata"], "name": "other", "uid": "other"}})
    placed = fed.schedule()
    assert placed["chosen"] in ("large", "ordinary") if field == "taints" else placed["chosen"] == "large"
    assert placed.get("other", "ordinary") == "ordinary"
    assert fed.failures == []
