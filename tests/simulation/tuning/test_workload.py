"""Workloads: generated ones, traces, manifests and recordings."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from mooring.api.codec import to_dict
from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.quantity import milli_value
from mooring.api.yaml_writer import documents_text
from mooring.recording.recording_file import RecordingWriter
from mooring.recording.records import Header, Kind
from mooring.simulation.sources import InputError
from mooring.simulation.tuning.workload import Generated, read_trace, read_workload, workloads_of
from mooring.testing import make_node, make_pod


def test_generated_load() -> None:
    made = Generated(nodes=6, pods=50, load=80)
    workload = made.workload(3)
    assert workload == made.workload(3) != made.workload(4)
    times = [each.time for each in workload.arrivals]
    assert times == sorted(times)
    capacity = sum(milli_value(each.status.allocatable["cpu"]) for each in workload.objects if isinstance(each, Node))
    busy = sum(
        each.seconds * milli_value(each.pod.spec.containers[0].resources.requests["cpu"]) for each in workload.arrivals
    )
    assert 0.1 < busy / capacity / times[-1] < 1.0
    training, held_out = workloads_of((), None, made, seeds=2, seed=0)
    assert [each.name for each in training + held_out] == [f"generated, seed {number}" for number in range(4)]


def manifest(folder: Path, *objects: KubeObject) -> str:
    file = folder / "cluster.yaml"
    file.write_text(documents_text([to_dict(each) for each in objects]))
    return str(file)


def test_manifests_and_traces(tmp_path: Path) -> None:
    nodes = [make_node(name).capacity(cpu="4", memory="8Gi", pods="10").obj() for name in "ab"]
    pod = make_pod("off").req(cpu="1")
    file = manifest(tmp_path, *nodes, pod.named("on").node("a").obj(), pod.obj())
    cluster = read_workload(file)
    assert [(each.time, each.seconds, each.pod.name) for each in cluster.arrivals] == [(0.0, math.inf, "off")]
    assert sorted(each.metadata.name for each in cluster.objects) == ["a", "b", "default", "on"]
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival,seconds,cpu,nvidia.com/gpu,priority\n20,,500m,,\n10,60,2,1,5\n")
    found = read_trace(str(trace), cluster)
    assert [(each.time, each.seconds, each.pod.priority) for each in found.arrivals] == [(10, 60, 5), (20, math.inf, 0)]
    assert found.arrivals[0].pod.spec.containers[0].resources.requests == {"cpu": "2", "nvidia.com/gpu": "1"}
    first, rest = workloads_of([str(trace)], file, None, seeds=1, seed=0)
    assert [len(first[0].arrivals), len(rest[0].arrivals)] == [1, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "the first line must name the columns"),
        ("arrival,cpu\nsoon,1\n", "line 2: could not convert string to float: 'soon'"),
    ],
)
def test_invalid_traces(tmp_path: Path, text: str, message: str) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(text)
    with pytest.raises(InputError, match=message):
        read_trace(str(trace), Generated().workload(0))
    with pytest.raises(InputError, match="give them with --nodes"):
        read_workload(str(trace))


def test_recordings(tmp_path: Path) -> None:
    path = tmp_path / "cluster.mooring"
    writer = RecordingWriter(path, Header("mooring record"), time=100.0)
    pod = make_pod("p").req(cpu="1")
    for time, kind, item in (
        (100.0, Kind.PUT, make_node("a").capacity(cpu="4", pods="10").obj()),
        (101.0, Kind.PUT, make_pod("stays").node("a").obj()),
        (110.0, Kind.PUT, pod.obj()),
        (115.0, Kind.PUT, pod.node("a").obj()),
        (145.0, Kind.REMOVE, pod.node("a").obj()),
    ):
        writer.add((kind, time, item.kind, item))
    writer.close()
    found = read_workload(str(path))
    assert [each.metadata.name for each in found.objects] == ["a"]
    assert [(each.time, each.seconds, each.pod.name, each.pod.node_name) for each in found.arrivals] == [
        (0.0, math.inf, "stays", ""),
        (9.0, 30.0, "p", ""),
    ]
