"""Reads the trace, the orders and the published results of the experiment from a folder."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import click
import msgspec
import numpy as np

from mooring.plugins.gpu_sharing.devices import WHOLE, GpuColumns, GpuRequest

WORKLOADS = (
    "default", "cpu050", "cpu100", "cpu200", "cpu250",
    "gpushare40", "gpushare60", "gpushare80", "gpushare100",
    "gpuspec10", "gpuspec20", "gpuspec25", "gpuspec33",
    "multigpu20", "multigpu30", "multigpu40", "multigpu50",
)  # fmt: skip

DataOption = click.Path(exists=True, file_okay=False, path_type=Path)


class _Seeds(click.ParamType[list[int]]):
    """Numbers and ranges of numbers: 42,44-46."""

    name = "seeds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        if isinstance(value, list):
            return value
        found: list[int] = []
        for part in str(value).split(","):
            first, _, last = part.partition("-")
            if not first.isdigit() or (last and not last.isdigit()):
                self.fail(f"{value!r}: write numbers and ranges such as 42-51 or 42,45", param, ctx)
            found += range(int(first), int(last or first) + 1)
        return found


SEEDS = _Seeds()


class Workload(msgspec.Struct, frozen=True):
    """The pods of a workload, and the offered order of one seed."""

    pods: list[GpuRequest]
    #: Places in ``pods``.
    order: list[int]
    #: The rank of each node: among equal scores the lowest wins.
    rank: list[int]


def find_data(folder: Path | None) -> Path:
    """Return the folder with the trace: the given one, or the one beside the repository."""
    if folder is not None:
        return folder
    for parent in Path(__file__).resolve().parents[2:]:
        found = parent / "shared" / "quality" / "openb"
        if found.is_dir():
            return found
    raise FileNotFoundError("there is no ../shared/quality/openb beside the repository; name the folder with --data")


def read_nodes(data: Path) -> GpuColumns:
    """Read the nodes, all free."""
    with (data / "nodes.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    gpus = np.array([int(row["num_gpu"]) for row in rows], dtype=np.int64)
    models = sorted({row["gpu_model"] for row in rows})
    return GpuColumns(
        cpu=np.array([int(row["cpu_milli"]) for row in rows], dtype=np.int64),
        memory=np.array([int(row["memory_mib"]) for row in rows], dtype=np.int64),
        left=np.where(np.arange(int(gpus.max())) < gpus[:, None], WHOLE, 0),
        gpus=gpus,
        model=np.array([models.index(row["gpu_model"]) for row in rows], dtype=np.int64),
        models=models,
    )


def read_pods(data: Path, workload: str) -> list[GpuRequest]:
    """Read the pods of a workload."""
    with gzip.open(data / f"pods-{workload}.csv.gz", "rt", newline="") as file:
        return [read_pod(row) for row in csv.DictReader(file)]


def read_pod(row: dict[str, str]) -> GpuRequest:
    """Return the request in a row of a list of pods."""
    count = int(row["num_gpu"])
    return GpuRequest(
        cpu=int(row["cpu_milli"]),
        memory=int(row["memory_mib"]),
        count=count,
        milli=int(row["gpu_milli"]) if count else 0,
        models=row["gpu_spec"] if count else "",
    )


def read_workload(data: Path, workload: str, seed: int) -> Workload:
    """Read a workload and the order of a seed."""
    ranks = _numbers(data / "order" / f"{workload}-seed{seed}.nodes.txt.gz")
    rank = [0] * len(ranks)
    for place, node in enumerate(ranks):
        rank[node] = place
    return Workload(read_pods(data, workload), _numbers(data / "order" / f"{workload}-seed{seed}.txt.gz"), rank)


def _numbers(path: Path) -> list[int]:
    with gzip.open(path, "rt") as file:
        return [int(line) for line in file]


def read_published(data: Path, arrived: int = 100) -> dict[tuple[str, str, int], tuple[float, float]]:
    """Read the published unallocated and fragmented percentages at a load, by workload, policy and seed."""
    path = data / "published.csv"
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {
            (row["workload"], row["policy"], int(row["seed"])): (float(row["unalloc_pct"]), float(row["frag_pct"]))
            for row in csv.DictReader(file)
            if int(row["arrived_pct"]) == arrived
        }
