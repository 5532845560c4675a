"""Placement with departures and a queue: `python -m bench.quality.queueing --policy mooring --policy FGD`.

Pods run as long as in the trace, at most an hour, on every tenth node. A pod that does not fit waits; when pods leave,
the waiting pods are tried again in order of arrival, and later ones may pass those that still do not fit. The pods of
the trace use 1 % of the GPUs at a time, so arrivals are compressed: they are spread evenly over the time in which the
pods request `--load` times the GPUs. The order is shuffled, since the trace has bursts of equal pods on which a single
run would depend. Measures cover the time from the first fifth of the arrivals to the last arrival.
"""

from __future__ import annotations

import csv
import gzip
import heapq
import json
import random
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import numpy as np

from bench.quality.replay import TotalFragmentation, choose
from bench.quality.runs import make_policy
from bench.quality.trace import SEEDS, WORKLOADS, DataOption, find_data, read_nodes, read_pod
from mooring.plugins.gpu_sharing.candidates import CandidateCache
from mooring.plugins.gpu_sharing.devices import WHOLE, GpuRequest
from mooring.plugins.gpu_sharing.policies import POLICIES

#: Policies whose scores depend only on the node's current room, so that they can be cached across departures.
_POLICIES = [name for name in POLICIES if name not in ("Random", "GpuClustering")]
#: The longest run time in seconds, and every how many nodes are used. Half of the pods run for less than ten minutes, a
#: few for months: without the limits, the pods of the trace would all arrive before the first long ones leave.
_LONGEST, _EVERY = 3600.0, 10


class Job(msgspec.Struct, frozen=True):
    """A pod with its time of arrival and its run time, in seconds."""

    arrival: float
    seconds: float
    pod: GpuRequest


def read_jobs(data: Path, workload: str, load: float, gpus: int, rng: random.Random) -> list[Job]:
    """Read the pods of a workload in a random order that requests ``load`` times the GPUs."""
    with gzip.open(data / f"pods-{workload}.csv.gz", "rt", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row.get("deletion_time")]
    runs = [(float(row["deletion_time"]) - float(row["scheduled_time"] or row["creation_time"]), row) for row in rows]
    jobs = [(min(max(seconds, 1.0), _LONGEST), read_pod(row)) for seconds, row in runs]
    rng.shuffle(jobs)
    span = sum(seconds * pod.total for seconds, pod in jobs) / WHOLE / (load * gpus)
    step = span / max(len(jobs), 1)
    return [Job(step * number, seconds, pod) for number, (seconds, pod) in enumerate(jobs)]


class Cluster:
    """The nodes, the running pods and the waiting ones."""

    def __init__(self, data: Path, workload: str, policy: str, seed: int, load: float) -> None:
        nodes = read_nodes(data)
        self._nodes = nodes.take(np.arange(0, len(nodes), _EVERY))
        self._gpus = int(self._nodes.gpus.sum())
        self.jobs = read_jobs(data, workload, load, self._gpus, random.Random(seed))
        scorer, fragmentation = make_policy(self._nodes, [job.pod for job in self.jobs], policy, seed)
        self._candidates = CandidateCache(self._nodes, scorer)
        self._fragmentation = TotalFragmentation(self._nodes, fragmentation)
        self._rank = np.array(random.Random(seed).sample(range(len(self._nodes)), len(self._nodes)))
        #: (end, number, row, GPUs) of running pods.
        self._running: list[tuple[float, int, int, list[int]]] = []
        self._waiting: dict[int, Job] = {}
        self._used = 0
        self.waits: dict[int, float] = {}

    def run(self) -> Iterator[tuple[float, float, float]]:
        """Yield a time, and the GPUs in use and fragmented until then, in percent, at each arrival and departure."""
        for number, job in enumerate(self.jobs):
            while self._running and self._running[0][0] <= job.arrival:
                now = self._running[0][0]
                yield self._sample(now)
                freed: set[int] = set()
                while self._running and self._running[0][0] <= now:
                    _, left, row, gpus = heapq.heappop(self._running)
                    self._leave(left, row, gpus)
                    freed.add(row)
                self._retry(now, freed)
            yield self._sample(job.arrival)
            if not self._place(number, job, job.arrival):
                self._waiting[number] = job
        last = self.jobs[-1].arrival
        self.waits |= {number: last - job.arrival for number, job in self._waiting.items()}

    def _sample(self, now: float) -> tuple[float, float, float]:
        percent = 10 * self._gpus
        return now, self._used / percent, self._fragmentation.total / percent

    def _retry(self, now: float, freed: set[int]) -> None:
        """Try the waiting pods in order. Only rows that pods left can have room for them."""
        nodes = self._nodes
        rooms = [(int(nodes.cpu[row]), int(nodes.memory[row]), nodes.left[row].tolist()) for row in freed]
        failed: set[GpuRequest] = set()
        for number, job in list(self._waiting.items()):
            if job.pod in failed:
                continue
            if any(_has_room(job.pod, *room) for room in rooms) and self._place(number, job, now):
                del self._waiting[number]
            else:
                failed.add(job.pod)

    def _place(self, number: int, job: Job, now: float) -> bool:
        found = choose(self._candidates.of(job.pod), self._nodes, self._rank, job.pod)
        if found is None:
            return False
        row, gpus = found
        self._nodes.place(row, job.pod, gpus)
        self._changed(row, job.pod.total)
        heapq.heappush(self._running, (now + job.seconds, number, row, gpus))
        self.waits[number] = now - job.arrival
        return True

    def _leave(self, number: int, row: int, gpus: list[int]) -> None:
        self._nodes.remove(row, self.jobs[number].pod, gpus)
        self._changed(row, -self.jobs[number].pod.total)

    def _changed(self, row: int, used: int) -> None:
        self._used += used
        self._candidates.changed(row)
        self._fragmentation.update(row)


def _has_room(pod: GpuRequest, cpu: int, memory: int, left: list[int]) -> bool:
    """Return whether a node might have room; its GPU model is not checked."""
    return cpu >= pod.cpu and memory >= pod.memory and sum(room >= pod.milli for room in left) >= pod.count


def measure(data: Path, workload: str, policy: str, seed: int, load: float) -> dict[str, object]:
    """Run a workload, and return means over time and waiting times."""
    started = time.perf_counter()
    cluster = Cluster(data, workload, policy, seed, load)
    first = len(cluster.jobs) // 5
    before, total, used, fragmented = cluster.jobs[first].arrival, 0.0, 0.0, 0.0
    for now, in_use, lost in cluster.run():
        if now > before:
            used, fragmented, total = (
                used + in_use * (now - before),
                fragmented + lost * (now - before),
                total + now - before,
            )
            before = now
    waits = sorted(wait for number, wait in cluster.waits.items() if number >= first)
    return {
        "workload": workload,
        "policy": policy,
        "seed": seed,
        "load_pct": round(100 * load),
        "utilization_pct": round(used / total, 2),
        "frag_pct": round(fragmented / total, 2),
        "wait_mean_s": round(statistics.fmean(waits), 1),
        "wait_p95_s": round(waits[int(0.95 * len(waits))], 1),
        "waited_pct": round(100 * sum(wait > 0 for wait in waits) / len(waits), 1),
        "seconds": round(time.perf_counter() - started, 2),
    }


@click.command()
@click.option("--workload", type=click.Choice(WORKLOADS), default="default", show_default=True)
@click.option("--policy", "policies", type=click.Choice(_POLICIES), multiple=True, help="By default all.")
@click.option("--seeds", type=SEEDS, default="1-3", show_default=True, help="Seeds of the order of arrivals.")
@click.option("--load", default=1.1, show_default=True, help="Requested GPUs, as a multiple of all GPUs.")
@click.option("--data", type=DataOption, help="The folder with the trace.")
def main(workload: str, policies: tuple[str, ...], seeds: list[int], load: float, data: Path | None) -> None:
    """Print utilization, fragmentation and waiting times, one JSON object a line for each run."""
    try:
        source = find_data(data)
    except OSError as error:
        raise click.ClickException(str(error)) from None
    for policy in policies or _POLICIES:
        for seed in seeds:
            print(json.dumps(measure(source, workload, policy, seed, load)), flush=True)


if __name__ == "__main__":
    main()
