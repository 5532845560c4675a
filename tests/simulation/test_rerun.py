"""A recorded workload is decided again: lifetimes, waiting times, evictions, metrics and the comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.api.pod import Pod
from mooring.api.volcano import GROUP_ANNOTATION
from mooring.config import default_config, load_config
from mooring.recording.recording_file import RecordingWriter
from mooring.recording.records import Header, Kind
from mooring.simulation.rerun import compare_runs, recorded_outcome, rerun, without_random_ties
from mooring.simulation.sources import InputError, Source, given_in
from mooring.simulation.workload_trace import TraceChange, open_trace
from mooring.testing import make_node, make_pod

_replace = msgspec.structs.replace
CONFIG = without_random_ties(default_config())
PACKED = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
"""


def node(name: str, cpu: int = 4, gpus: int = 4) -> TraceChange:
    return TraceChange(0.0, make_node(name).capacity({"cpu": cpu, "pods": 10, "nvidia.com/gpu": gpus}).obj())


def pod(name: str, *, cpu: int = 1, gpus: int = 0, priority: int = 0) -> Pod:
    requests = {"cpu": cpu} | ({"nvidia.com/gpu": gpus} if gpus else {})
    return make_pod(name).uid(name).req(requests).priority(priority).obj()


def on(item: Pod, name: str, phase: str = "Running") -> Pod:
    return _replace(item, spec=_replace(item.spec, node_name=name), status=_replace(item.status, phase=phase))


def test_a_pod_that_finished_runs_as_long_as_it_ran() -> None:
    """The second pod gets the room of the first one when that ends, which is 10 s after its bind."""
    first, second = pod("first", cpu=4), pod("second", cpu=4)
    trace = [
        node("n"),
        TraceChange(1.0, first),
        TraceChange(5.0, on(first, "n")),
        TraceChange(6.0, second),
        TraceChange(15.0, on(first, "n", "Succeeded"), deleted=True),
        TraceChange(16.0, on(second, "n")),
        TraceChange(100.0, make_node("late").capacity({"cpu": 1}).obj()),
    ]
    result = rerun(trace, CONFIG)
    assert (result.pods["first"].bound, result.pods["first"].ended) == (1.0, 11.0)
    assert result.pods["second"].bound is not None
    assert 11.0 <= result.pods["second"].bound < 25.0
    recorded = recorded_outcome(trace)
    assert (recorded.pods["first"].waited, recorded.pods["second"].waited) == (4.0, 10.0)


def test_a_deleted_pod_is_deleted_at_the_same_time_and_frees_its_node() -> None:
    trace = [
        node("n"),
        TraceChange(1.0, pod("first", cpu=4)),
        TraceChange(2.0, on(pod("first", cpu=4), "n")),
        TraceChange(3.0, pod("second", cpu=4)),
        TraceChange(50.0, on(pod("first", cpu=4), "n"), deleted=True),
        TraceChange(90.0, make_node("late").capacity({"cpu": 1}).obj()),
    ]
    result = rerun(trace, CONFIG)
    assert result.pods["first"].ended == 50.0
    assert result.pods["second"].bound == 50.0


def test_evictions_of_the_trace_are_left_out_and_those_of_the_run_count() -> None:
    trace = [
        node("n"),
        TraceChange(1.0, pod("low", cpu=4)),
        TraceChange(1.5, on(pod("low", cpu=4), "n")),
        TraceChange(2.0, on(pod("low", cpu=4), "n"), deleted=True, evicted=True),
        TraceChange(3.0, pod("high", cpu=4, priority=10)),
        TraceChange(60.0, make_node("late").capacity({"cpu": 1}).obj()),
    ]
    result = rerun(trace, CONFIG)
    assert result.pods["low"].evicted
    assert result.pods["low"].ended == 3.0
    assert result.pods["high"].bound is not None


def test_another_configuration_moves_pods_and_changes_the_fragmentation() -> None:
    """Four pods of one GPU: spread over two nodes both are fragmented, packed on one none is."""
    trace: list[TraceChange] = [node("a", cpu=8), node("b", cpu=8)]
    trace += [TraceChange(1.0 + number, pod(f"p{number}", gpus=1)) for number in range(4)]
    trace.append(TraceChange(1000.0, make_node("late").capacity({"cpu": 1}).obj()))
    before = rerun(trace, CONFIG)
    after = rerun(trace, without_random_ties(load_config(PACKED, source="packed")))
    found = compare_runs(before, after)
    assert {run.node for run in before.pods.values()} == {"a", "b"}
    assert len({run.node for run in after.pods.values()}) == 1
    assert len(found.moved) == 2
    assert (found.longer, found.shorter) == ([], [])
    assert before.metrics.gfr is not None
    assert before.metrics.gfr > 0.9
    assert after.metrics.gfr is not None
    assert after.metrics.gfr < 0.1
    assert before.metrics.gar == pytest.approx(after.metrics.gar)
    assert after.metrics.sor == pytest.approx(0.5, abs=0.01)
    assert after.metrics.jwtd["1 GPU"].jobs == 4
    assert after.metrics.busy_node_hours < before.metrics.busy_node_hours
    assert {"metric", "before", "after"} == set(found.as_dict()["metrics"][0])


@pytest.mark.parametrize("kind", ["gang", "Job", "ReplicaSet"])
def test_jobs_wait_as_a_whole(kind: str) -> None:
    """A gang, and the pods of a Job, are one job: it has the GPUs of all its pods and the longest waiting time."""
    first, second = (
        made.annotation({GROUP_ANNOTATION: "g"}) if kind == "gang" else made.owner(kind, "g")
        for made in (make_pod(name).req({"cpu": 1, "nvidia.com/gpu": 8}) for name in ("p0", "p1"))
    )
    trace = [node("a", gpus=8), TraceChange(1.0, first.obj()), TraceChange(1.0, second.obj())]
    trace.append(TraceChange(31.0, node("b", gpus=8).item))
    trace.append(TraceChange(1000.0, make_node("late").capacity({"cpu": 1}).obj()))
    found = rerun(trace, CONFIG).metrics.jwtd
    if kind == "ReplicaSet":
        assert {size: each.jobs for size, each in found.items()} == {"5-8 GPUs": 2}
    else:
        assert {size: each.jobs for size, each in found.items()} == {"9-64 GPUs": 1}
    assert max(each.p99 for each in found.values()) >= 30.0


def test_a_pod_that_is_never_bound_waits_longer() -> None:
    trace = [node("n"), TraceChange(1.0, pod("p")), TraceChange(9.0, on(pod("p"), "n"))]
    cordoned = [TraceChange(0.0, make_node("n").capacity({"cpu": 1}).unschedulable().obj()), *trace[1:]]
    found = compare_runs(recorded_outcome(trace), rerun(cordoned, CONFIG))
    assert [change.pod for change in found.longer] == ["default/p"]
    assert found.longer[0].waited_after is None
    assert "unschedulable" in found.longer[0].message


# Sources of traces


def test_a_recording_of_any_scheduler_is_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "a.mooring"
    writer = RecordingWriter(path, Header(source="mooring record"), time=1.0)
    victim = pod("victim")
    writer.add((Kind.PUT, 1.0, "Pod", victim))
    writer.add((Kind.SYNCED, 1.0))
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    document = {"metadata": {"name": "victim", "uid": "victim"}, "status": {"conditions": [condition]}}
    writer.add((Kind.REMOVE, 2.0, "Pod", document))
    writer.close()
    found = list(open_trace(str(path)).changes)
    assert [(each.time, each.deleted, each.evicted) for each in found] == [(1.0, False, False), (2.0, True, True)]


def simkube(tmp_path: Path, content: dict[str, Any]) -> str:
    path = tmp_path / "trace.sktrace"
    path.write_bytes(msgspec.msgpack.encode(content))
    return str(path)


def deployment(replicas: int) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def test_workloads_of_a_simkube_trace_become_pods(tmp_path: Path) -> None:
    events = [
        {"ts": 100, "applied_objs": [deployment(3)], "deleted_objs": []},
        {"ts": 200, "applied_objs": [deployment(2)], "deleted_objs": []},
        {"ts": 300, "applied_objs": [], "deleted_objs": [deployment(2)]},
    ]
    path = simkube(tmp_path, {"version": 2, "config": {}, "events": events, "index": {}})
    found = list(open_trace(path).changes)
    assert [(each.time, each.deleted) for each in found] == [
        *[(100.0, False)] * 3,
        (200.0, True),
        *[(300.0, True)] * 2,
    ]
    nodes = given_in(Source("nodes", b"apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
                            b"status: {allocatable: {cpu: 4, pods: 10}}\n"))  # fmt: skip
    result = rerun(open_trace(path, more=nodes).changes, CONFIG)
    assert [run.node for run in result.pods.values()] == ["n1"] * 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"version": 1, "events": []}, "version 1; versions 2 and 3 can be read"),
        ({"version": 2, "events": 7}, "has no events"),
    ],
)
def test_other_simkube_traces_are_refused(tmp_path: Path, content: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_trace(simkube(tmp_path, content))


def test_the_pods_of_a_dump_arrive_when_they_were_created(tmp_path: Path) -> None:
    path = tmp_path / "dump.yaml"
    path.write_text(
        """\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4, pods: 10}}}
- apiVersion: v1
  kind: Pod
  metadata: {name: later, creationTimestamp: "2026-01-01T00:01:00Z"}
  spec: {nodeName: n1, containers: [{name: c, image: i}]}
  status: {phase: Running, startTime: "2026-01-01T00:01:05Z"}
- apiVersion: v1
  kind: Pod
  metadata: {name: pending, creationTimestamp: "2026-01-01T00:00:00Z"}
  spec: {containers: [{name: c, image: i}]}
"""
    )
    trace = list(open_trace(str(path)).changes)
    assert [each.item.name for each in trace if each.item.kind != "Namespace"] == ["n1", "pending", "later", "later"]
    recorded = recorded_outcome(trace)
    assert sorted(run.waited or 0.0 for run in recorded.pods.values()) == [0.0, 5.0]
