from __future__ import annotations

import csv
import gzip
import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.quality.queueing import Cluster, main, read_jobs


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """One node with two GPUs, and pods that use one of them for a minute."""
    with (tmp_path / "nodes.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_model"), ("n", 96000, 393216, 2, "G2")]
        )
    fields = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "creation_time", "deletion_time")
    with gzip.open(tmp_path / "pods-default.csv.gz", "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow((*fields, "scheduled_time"))
        writer.writerows((4000, 1024, 1, 1000, "", 0, 160, 100) for _ in range(40))
        writer.writerow((4000, 1024, 1, 1000, "", 0, "", ""))  # never ended
    return tmp_path


def test_jobs_request_the_load(data: Path) -> None:
    jobs = read_jobs(data, "default", load=0.5, gpus=2, rng=random.Random(1))
    assert [job.seconds for job in jobs] == [60.0] * 40
    assert jobs[1].arrival == pytest.approx(60.0)  # a GPU is requested half of the time, of two


def test_pods_wait_only_if_the_cluster_is_full(data: Path) -> None:
    for load, longest in ((0.9, 0.0), (2.0, 300.0)):
        cluster = Cluster(data, "default", "mooring", 1, load)
        samples = list(cluster.run())
        assert len(cluster.waits) == 40
        assert max(cluster.waits.values()) == pytest.approx(longest, abs=16)
        assert all(0 <= used <= 100 for _, used, _ in samples)
        assert [time for time, _, _ in samples] == sorted(time for time, _, _ in samples)


def test_the_command_prints_one_object_a_run(data: Path) -> None:
    result = CliRunner().invoke(main, ["--policy", "FGD", "--seeds", "1-2", "--load", "2", "--data", str(data)])
    assert result.exit_code == 0, result.output
    runs = [json.loads(line) for line in result.output.splitlines()]
    assert [run["seed"] for run in runs] == [1, 2]
    assert runs[0]["utilization_pct"] == pytest.approx(100, abs=1)
    assert runs[0]["wait_mean_s"] > 0
