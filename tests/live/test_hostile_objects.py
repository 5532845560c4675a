"""Whatever objects a cluster contains, the scheduler goes on: decoded, applied and scheduled as live objects are."""

from __future__ import annotations

import random
import time
from typing import Any, Final

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.resources import QuantityError
from mooring.config import load_config
from mooring.kube import Access
from mooring.kube.decoding import decode_line, decode_page
from mooring.kube.object_store import Change
from mooring.live import LiveScheduler
from mooring.live.custom import resource_for
from mooring.live.informers import KINDS
from mooring.plugins.capacity_scheduling.elastic_quota import ElasticQuota
from mooring.plugins.coscheduling.pod_group import PodGroup
from mooring.plugins.node_resource_topology.zones import NodeResourceTopology
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from tests.hostile import EXTREME_AMOUNTS, RESOURCES, Hostile, nested

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
ALL: Final = (*KINDS, ElasticQuota, PodGroup, NodeResourceTopology)
NODE: Final = {
    "metadata": {"name": "ordinary", "uid": "ordinary", "resourceVersion": "1", "labels": {"zone": "a"}},
    "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "1000", "ephemeral-storage": "1Ti"}},
}
#: The longest that all attempts about one hostile object of each kind may take, in seconds of CPU.
LIMIT: Final = 2.0


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
    for field in ("schedulingGates", "resourceClaims"):
        document["spec"].pop(field, None)
    return document


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
            fed.put(kind, unscheduled(hostile) if kind is Pod else hostile.document(kind))
        fed.put(Pod, hostile.document(Pod, "placed"))
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
