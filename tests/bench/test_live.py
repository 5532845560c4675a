"""The parts of the live benchmark that do not need an API server: objects, observer, /proc, ratios and tables."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from bench.live import calls, objects
from bench.live.measure import quantile
from bench.live.observer import Observer, WatchError
from bench.live.results import Latency, Load, Rate, Results, Startup, compare, table
from bench.live.usage import busy_seconds, usage
from mooring.api.codec import encode_json
from mooring.api.pod import Pod
from mooring.api.protobuf.decode import decode_object
from mooring.columns.table import NodeTable


def line(kind: str, name: str, version: int = 1) -> bytes:
    metadata = {"name": name, "namespace": "ns", "resourceVersion": str(version)}
    return msgspec.json.encode({"type": kind, "object": {"metadata": metadata}}) + b"\n"


def test_pods_are_those_of_the_decision_benchmark() -> None:
    """Without the fields that the server sets, and with the complete spec."""
    first, second = (msgspec.json.decode(each) for each in objects.pods("antiaffinity", 2))
    assert [first["metadata"]["name"], second["metadata"]["name"]] == ["pod-0", "pod-1"]
    assert "status" not in first
    assert "uid" not in first["metadata"]
    term = first["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert (first["kind"], first["apiVersion"]) == ("Pod", "v1")


def test_pods_have_the_volume_of_a_token_under_different_names() -> None:
    """As on a cluster with service accounts: the server chooses the name at random. Mooring gives them one template."""
    manifests = [*objects.pods("basic", 2), *objects.running_pods(1, 1)]
    names = [volume["name"] for each in manifests for volume in msgspec.json.decode(each)["spec"]["volumes"]]
    assert [name[:16] for name in names] == ["kube-api-access-"] * 3
    assert names[0] != names[1]
    templates = NodeTable().templates
    first, second, _ = (msgspec.json.decode(each, type=Pod) for each in manifests)
    assert templates.of(first) is templates.of(second)


def test_running_pods_are_spread_evenly() -> None:
    """Evenly distributed over the nodes."""
    names = [msgspec.json.decode(each)["spec"]["nodeName"] for each in objects.running_pods(6, 3)]
    assert names == ["node-00000", "node-00001", "node-00002"] * 2


def test_nodes_are_ready_and_have_room() -> None:
    (node,) = (msgspec.json.decode(each) for each in objects.nodes(1))
    assert node["status"]["allocatable"]["cpu"] == "4"
    assert node["status"]["conditions"] == [{"type": "Ready", "status": "True"}]


@pytest.mark.parametrize("size", [1, 7, 50, 10_000])
def test_observer_reads_lines_however_they_are_cut(size: int) -> None:
    """Only the binding counts, not later changes."""
    times = iter(range(100_000))
    observer = Observer(clock=lambda: float(next(times)))
    data = line("ADDED", "a") + line("MODIFIED", "a") + line("ADDED", "b") + line("DELETED", "a") + line("ADDED", "a")
    for start in range(0, len(data), size):
        observer.feed(data[start : start + size])
    assert list(observer.times) == [("ns", "a"), ("ns", "b")]
    assert observer.times["ns", "a"] <= observer.times["ns", "b"]


def test_observer_goes_on_after_the_last_whole_event() -> None:
    """When the server closes the watch, an incomplete line is discarded, because it is sent again."""
    observer = Observer("5")
    observer.feed(line("ADDED", "a", 7) + line("ADDED", "b", 8)[:20])
    assert observer.version == "7"
    observer.reopen()
    observer.feed(line("ADDED", "b", 8))
    assert (list(observer.times), observer.version) == ([("ns", "a"), ("ns", "b")], "8")


async def test_observer_waits() -> None:
    """For a number of pods, or for one, with a timeout."""
    observer = Observer(clock=lambda: 3.0)
    observer.feed(line("ADDED", "a"))
    assert await observer.wait(1, patience=0.01)
    assert not await observer.wait(2, patience=0.01)
    assert await observer.wait_for("ns", "a", patience=0.01) == 3.0
    with pytest.raises(TimeoutError):
        await observer.wait_for("ns", "b", patience=0.01)
    observer.fail(OSError("cut"))
    with pytest.raises(WatchError, match="cut"):
        await observer.wait(2, patience=60)


def test_usage_adds_up_a_process_and_its_children(tmp_path: Path) -> None:
    """CPU time includes terminated children, peak memory running ones; a name may contain parentheses."""
    for pid, children in ((10, "11 12"), (11, ""), (12, "13")):
        folder = tmp_path / str(pid)
        (folder / "task" / str(pid)).mkdir(parents=True)
        (folder / "task" / str(pid) / "children").write_text(children)
        (folder / "stat").write_text(f"{pid} (a) b (c) S {'0 ' * 10}100 50 25 25 {'0 ' * 20}")
        (folder / "status").write_text("Name:\tx\nVmHWM:\t    2048 kB\n")
    found = usage(10, tmp_path)
    ticks = os.sysconf("SC_CLK_TCK")
    assert (found.cpu_seconds, found.peak_mib) == (600 / ticks, 6.0)


def test_usage_of_a_process_that_is_gone_is_nothing(tmp_path: Path) -> None:
    assert usage(1, tmp_path).cpu_seconds == 0


def test_usage_of_this_process_is_something() -> None:
    assert usage(os.getpid()).peak_mib > 1
    assert busy_seconds() > 0


def rate(scheduler: str, *, workload: str = "basic", binds_per_s: float = 200, bound: int = 100) -> Rate:
    return Rate(
        workload=workload, scheduler=scheduler, nodes=10, pods=100, bound=bound, binds_per_s=binds_per_s,
        done_per_s=binds_per_s / 2, first_bind_s=1, cpu_ms_per_pod=4, start_cpu_s=0.1, bind_cpu_ms_per_pod=3,
        peak_mib=100, server_cpu_ms_per_pod=5, writes_per_pod=4, events=100, events_after_s=0.5, foreign_cpu=0.25,
    )  # fmt: skip


def test_ratios_are_of_the_same_workload() -> None:
    """None if the other contender was not measured."""
    rates = [
        rate("kube-scheduler"),
        rate("mooring", binds_per_s=500),
        rate("null", binds_per_s=1000),
        rate("null+events", binds_per_s=800),
        rate("null+watch", binds_per_s=625),
        rate("mooring", workload="spread"),
    ]
    compare(rates)
    assert [(each.rate_to_kube, each.rate_to_null, each.rate_to_null_events) for each in rates] == [
        (1.0, 0.2, 0.25),
        (2.5, 0.5, 0.625),
        (5.0, 1.0, 1.25),
        (4.0, 0.8, 1.0),
        (3.125, 0.625, 0.781),
        (None, None, None),
    ]
    assert (rates[1].done_to_null_events, rates[1].done_to_null_watch) == (0.625, 0.8)
    assert (rates[1].cpu_to_kube, rates[1].bind_cpu_to_kube) == (1.0, 1.0)


def test_table_shows_every_measurement() -> None:
    """Aligned, with one table for each measurement; failed contenders are marked."""
    results = Results(
        rates=[rate("kube-scheduler"), rate("mooring", bound=60)],
        startups=[
            Startup(
                scheduler="mooring",
                nodes=5000,
                running_pods=50_000,
                first_bind_s=2.25,
                cpu_s=3.1,
                peak_mib=800,
                foreign_cpu=0,
            )
        ],
        latencies=[Latency(scheduler="mooring", nodes=5000, pods=200, p50_ms=5.12, p99_ms=9.9, foreign_cpu=0)],
        loads=[
            Load(
                scheduler="mooring", nodes=5000, highest_per_s=610, per_s=305, pods=3000, p50_ms=6.2, p99_ms=31,
                rounds=3, worst_p99_ms=44.4, foreign_cpu=0.01,
            )
        ],
    )  # fmt: skip
    rates, startups, latencies, loads = table(results).split("\n\n")
    assert [each.split()[:2] for each in rates.splitlines()] == [
        ["workload", "scheduler"],
        ["basic", "kube-scheduler"],
        ["basic", "mooring"],
    ]
    assert "60 of 100" in rates
    assert startups.splitlines()[1].split() == ["mooring", "5,000", "50,000", "2.2", "3.1", "800", "0%"]
    assert latencies.splitlines()[1].split() == ["mooring", "5,000", "200", "5.1", "9.9", "0%"]
    assert loads.splitlines()[1].split() == ["mooring", "5,000", "610", "305", "3", "6.2", "31.0", "44.4", "1%"]


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([1.0], 0.5, 1.0),
        ([1.0, 2.0], 0.5, 1.0),
        ([1.0, 2.0, 3.0], 0.5, 2.0),
        ([float(n) for n in range(1, 101)], 0.99, 99.0),
        ([float(n) for n in range(1, 201)], 0.99, 198.0),
    ],
)
def test_quantiles(values: list[float], share: float, expected: float) -> None:
    assert quantile(values, share) == expected


def test_the_measured_events_are_the_same_in_json_and_protobuf() -> None:
    assert decode_object(calls.event_protobuf(3)) == msgspec.json.decode(encode_json(calls.event(3)))


def test_every_measured_request_names_its_pod() -> None:
    for make in calls.TYPES.values():
        request = make(12_345)
        assert b"pod-12345" in request.body or "pod-12345" in request.path
