"""The replay of a small trace and, if the public trace is beside the repository, of the published runs."""

from __future__ import annotations

import csv
import gzip
import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.quality.__main__ import main
from bench.quality.orders import main as write_orders
from bench.quality.orders import make_order
from bench.quality.replay import Series
from bench.quality.runs import make_replay
from bench.quality.trace import find_data, read_nodes, read_pods, read_workload
from mooring.plugins.gpu_sharing.devices import GpuRequest
from mooring.plugins.gpu_sharing.policies import POLICIES

FIELDS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec")
KINDS = [
    (3152, 1, 810),
    (11300, 1, 1000),
    (11908, 1, 470),
    (4000, 1, 320),
    (11908, 1, 650),
    (12500, 0, 0),
    (16000, 2, 1000),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace with eight nodes and some orders."""
    folder = tmp_path_factory.mktemp("trace")
    with (folder / "nodes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_model"))
        writer.writerows((f"n{number}", 96000, 393216, 8 if number % 2 else 2, "G2") for number in range(8))
    rng = random.Random(3)
    with gzip.open(folder / "pods-default.csv.gz", "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        for number in range(60):
            cpu, count, milli = rng.choice(KINDS)
            writer.writerow((f"p{number}", cpu, 1024, count, milli, ""))
    result = CliRunner().invoke(
        write_orders, ["--seeds", "7-9", "--workload", "default", "--data", str(folder), "-o", str(folder / "orders")]
    )
    assert result.exit_code == 0, result.output
    return folder / "orders"


def test_orders_contain_the_trace_first_and_request_130_percent(data: Path) -> None:
    nodes, workload = read_nodes(data), read_workload(data, "default", 7)
    total = 1000 * int(nodes.gpus.sum())
    assert sorted(workload.order[:60]) == list(range(60))
    assert 1.28 * total < sum(workload.pods[place].total for place in workload.order) <= 1.31 * total
    assert sorted(workload.rank) == list(range(8))


def test_orders_of_a_large_trace_drop_pods() -> None:
    pods = [GpuRequest(cpu=1, count=1, milli=1000)] * 30
    order = make_order(pods, 20, random.Random(1))
    assert len(order) == len(set(order)) == 26


def test_every_policy_replays_an_order(data: Path) -> None:
    result = CliRunner().invoke(main, ["--workload", "default", "--seeds", "7,8-9", "--data", str(data), "-o", "json"])
    assert result.exit_code == 0, result.output
    runs = [json.loads(line) for line in result.output.splitlines()]
    assert [(run["policy"], run["seed"]) for run in runs] == [(name, seed) for name in POLICIES for seed in (7, 8, 9)]
    assert set(runs[0]) == {"workload", "policy", "seed", "unallocated_pct", "frag_pct", "seconds"}
    assert all(0 <= run["frag_pct"] <= run["unallocated_pct"] + 0.01 < 60 for run in runs)


def test_the_table_has_medians(data: Path) -> None:
    arguments = ["--workload", "default", "--policy", "BestFit", "--seeds", "7-8", "--data", str(data)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[1].split()[:2] == ["default", "BestFit"]


def test_an_order_that_does_not_exist_is_an_error(data: Path) -> None:
    result = CliRunner().invoke(main, ["--workload", "default", "--policy", "FGD", "--seeds", "1", "--data", str(data)])
    assert result.exit_code == 1
    assert "there is no order for this seed" in result.output
    result = CliRunner().invoke(main, ["--seeds", "x-2"])
    assert "write numbers and ranges" in result.output


def test_a_load_without_samples_is_the_mean_of_its_neighbors() -> None:
    series = Series(gpus=100)
    series.add(99_000, 90_000, 1000.0)
    series.add(101_000, 92_000, 3000.0)
    assert (series.at(100).allocated, series.at(100).fragmented) == (91.0, 2.0)
    assert series.loads == [99, 101]


def _public() -> Path | None:
    try:
        return find_data(None)
    except FileNotFoundError:
        return None


@pytest.mark.skipif(_public() is None, reason="the public trace is not beside the repository")
class TestPublicTrace:
    def test_placements_equal_the_recorded_ones(self) -> None:
        """The first 1,500 pods; the benchmark compares whole runs."""
        data = _public()
        assert data is not None
        with gzip.open(data / "golden" / "default-seed42-FGD.csv.gz", "rt") as file:
            recorded = [line.rstrip("\n") for line in file][1:1501]
        replay = make_replay(data, "default", "FGD", 42, pods=1500)
        replay.run()
        found = [
            f"{event},{placed[0]},{'-'.join(map(str, placed[1]))}" if placed else f"{event},,"
            for event, placed in enumerate(replay.placements)
        ]
        assert found == recorded

    def test_pods_without_gpus_have_no_milli(self) -> None:
        data = _public()
        assert data is not None
        assert {pod.milli for pod in read_pods(data, "default") if not pod.count} == {0}
