"""Workloads: pods that arrive at a cluster, run for some time and leave.

They are read from recordings, traces and manifests, or generated.
"""

from __future__ import annotations

import csv
import io
import math
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from mooring.api.meta import KubeObject, ObjectMeta
from mooring.api.node import Node, NodeStatus
from mooring.api.pod import Container, Pod, PodSpec, ResourceRequirements
from mooring.recording.recording_file import RecordingReader, is_recording
from mooring.recording.records import Kind, ObjectDecoder
from mooring.simulation.scenario import build
from mooring.simulation.sources import InputError, read
from mooring.simulation.what_if import unassigned

_replace = msgspec.structs.replace

#: The columns of a trace that are not requests.
_COLUMNS: Final = ("arrival", "seconds", "priority", "name")
#: The share of a workload's arrivals that a search uses; the rest is held out.
_TRAINING: Final = 0.7
#: Sizes of generated nodes (cores, GiB), and kinds of generated pods: share, cores, GiB, mean run time in seconds.
_NODES: Final = ((16, 64), (16, 64), (8, 64))
_PODS: Final = (
    (0.45, (0.25, 1.0), (0.5, 2.0), 1800.0),
    (0.20, (0.5, 2.0), (4.0, 12.0), 3600.0),
    (0.25, (2.0, 4.0), (4.0, 8.0), 900.0),
    (0.10, (7.0, 12.0), (16.0, 40.0), 2400.0),
)


class Arrival(msgspec.Struct, frozen=True):
    """A pod that arrives. The time is in seconds since the start; a run time of infinity means that it stays."""

    time: float
    seconds: float
    pod: Pod


class Workload(msgspec.Struct, frozen=True):
    """A cluster, and the pods that arrive in order of time. Anything that yields these can be tuned for."""

    name: str
    #: Nodes, pods on nodes that stay, and the other objects that decisions depend on.
    objects: list[KubeObject]
    arrivals: list[Arrival]

    def split(self) -> tuple[Workload, Workload]:
        """Return the first part, for a search, and the rest, which it does not see."""
        count = min(math.ceil(_TRAINING * len(self.arrivals)), len(self.arrivals) - 1)
        rest = self.arrivals[count:]
        start = rest[0].time if rest else 0.0
        later = [Arrival(each.time - start, each.seconds, each.pod) for each in rest]
        return (
            Workload(f"{self.name} (first {count} pods)", self.objects, self.arrivals[:count]),
            Workload(f"{self.name} (last {len(rest)} pods)", self.objects, later),
        )


# Files


def read_workload(path: str) -> Workload:
    """Read a recording, a folder or file of manifests, or a trace (CSV). Raises InputError and ManifestError."""
    if is_recording(path):
        return _from_recording(path)
    if path.endswith(".csv"):
        raise InputError(f"{path}: a trace has no nodes; give them with --nodes")
    scenario = build(read([path]))
    objects: list[KubeObject] = [*scenario.nodes, *scenario.objects]
    objects += [each.pod for each in scenario.pods if each.pod.node_name]
    arrivals = [Arrival(0.0, math.inf, each.pod) for each in scenario.pods if not each.pod.node_name]
    return Workload(Path(path).name, objects, arrivals)


def read_trace(path: str, cluster: Workload) -> Workload:
    """Read a trace for a cluster: a CSV file with the columns arrival and seconds, and one for each resource.

    Optional columns are name and priority. An empty run time means that the pod stays. Raises InputError.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from None
    rows = csv.DictReader(io.StringIO(text))
    names = [name.strip() for name in rows.fieldnames or ()]
    if "arrival" not in names or not set(names) - set(_COLUMNS):
        raise InputError(f"{path}: the first line must name the columns: arrival,seconds,cpu,memory")
    arrivals = [_from_row(path, number, row) for number, row in enumerate(rows, start=2)]
    return Workload(Path(path).name, cluster.objects, sorted(arrivals, key=lambda each: each.time))


def _from_row(path: str, number: int, row: dict[str, str]) -> Arrival:
    try:
        requests = {name: text for name, text in row.items() if name not in _COLUMNS and text}
        pod = make_pod(row.get("name") or f"pod-{number}", requests, priority=int(row.get("priority") or 0))
        return Arrival(float(row["arrival"]), float(row.get("seconds") or math.inf), pod)
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}, line {number}: {error}") from None


def make_pod(name: str, requests: dict[str, str], *, priority: int = 0) -> Pod:
    """Return a pod with one container."""
    metadata = ObjectMeta(name=name, namespace="default", uid=f"uid-{name}")
    container = Container(name="main", image="app", resources=ResourceRequirements(requests=dict(requests)))
    return Pod(metadata=metadata, spec=PodSpec(containers=(container,), priority=priority))


def _from_recording(path: str) -> Workload:
    """Return the pods of a recording: they arrive when they were created, and run from their bind to their end."""
    decode = ObjectDecoder()
    first: dict[tuple[str, str], KubeObject] = {}
    pods: dict[str, Pod] = {}
    seen: dict[str, float] = {}
    bound: dict[str, float] = {}
    ended: dict[str, float] = {}
    synced = math.inf
    for record in RecordingReader(path):
        kind, now = record[0], float(record[1])
        if kind == Kind.SYNCED:
            synced = min(synced, now)
        if kind not in (Kind.PUT, Kind.REMOVE):
            continue
        item = decode(record[2], bytes(record[3]))
        if isinstance(item, Pod):
            uid = item.uid
            pods.setdefault(uid, item)
            seen.setdefault(uid, now)
            if item.node_name:
                bound.setdefault(uid, now)
            if kind == Kind.REMOVE or item.is_finished:
                ended.setdefault(uid, now)
        elif item is not None and now <= synced:
            first[item.kind, f"{getattr(item, 'namespace', '')}/{item.metadata.name}"] = item
    start = min(seen.values(), default=0.0)
    arrivals = [
        Arrival(seen[uid] - start, max(ended.get(uid, math.inf) - bound.get(uid, seen[uid]), 1.0), unassigned(pod))
        for uid, pod in pods.items()
        if not pod.is_finished and not (uid in ended and uid not in bound)
    ]
    return Workload(Path(path).name, list(first.values()), sorted(arrivals, key=lambda each: each.time))


# Generated load


class Generated(msgspec.Struct, frozen=True):
    """The parameters of generated load."""

    nodes: int = 20
    pods: int = 400
    #: The requests in percent of the capacity, of the resource that is requested most.
    load: int = 90

    def workload(self, seed: int) -> Workload:
        """Return a random workload: small services, pods with much memory, batch pods, and a few large ones."""
        rng = random.Random(f"{seed} {self}")
        sizes = [_NODES[number % len(_NODES)] for number in range(self.nodes)]
        nodes = [_node(f"node-{number}", cpu, memory) for number, (cpu, memory) in enumerate(sizes)]
        shapes = [self._shape(rng) for _ in range(self.pods)]
        busy = [sum(each[0] * each[1 + part] for each in shapes) for part in (0, 1)]
        capacity = [sum(size[part] for size in sizes) for part in (0, 1)]
        span = max(busy[part] / capacity[part] for part in (0, 1)) / (self.load / 100)
        arrivals: list[Arrival] = []
        for number, time in enumerate(sorted(rng.uniform(0, span) for _ in shapes)):
            seconds, cpu, memory = shapes[number]
            requests = {"cpu": f"{1000 * cpu:.0f}m", "memory": f"{1024 * memory:.0f}Mi"}
            arrivals.append(Arrival(time, seconds, make_pod(f"pod-{number}", requests)))
        return Workload(f"generated, seed {seed}", list(nodes), arrivals)

    @staticmethod
    def _shape(rng: random.Random) -> tuple[float, float, float]:
        """Return run time in seconds, cores and GiB."""
        kind = rng.choices(_PODS, [each[0] for each in _PODS])[0]
        _, cpu, memory, mean = kind
        seconds = max(rng.lognormvariate(math.log(mean) - 0.5, 1.0), 30.0)
        return seconds, round(4 * rng.uniform(*cpu)) / 4 or 0.25, round(2 * rng.uniform(*memory)) / 2 or 0.5


def _node(name: str, cpu: int, memory: int) -> Node:
    amounts = {"cpu": str(cpu), "memory": f"{memory}Gi", "pods": "110"}
    metadata = ObjectMeta(name=name, uid=f"uid-{name}", labels={"kubernetes.io/hostname": name})
    return Node(metadata=metadata, status=NodeStatus(allocatable=dict(amounts), capacity=dict(amounts)))


def workloads_of(
    files: Iterable[str], nodes: str | None, generated: Generated | None, *, seeds: int, seed: int
) -> tuple[list[Workload], list[Workload]]:
    """Return the workloads for a search, and those that are held out. Raises InputError and ManifestError.

    Of generated load, other seeds are held out; of each file, the pods that arrive last.
    """
    if generated is not None:
        made = [generated.workload(seed + number) for number in range(2 * seeds)]
        return made[:seeds], made[seeds:]
    cluster = read_workload(nodes) if nodes else None
    training, held_out = [], []
    for path in files:
        workload = read_trace(path, cluster) if cluster and path.endswith(".csv") else read_workload(path)
        if not any(isinstance(each, Node) for each in workload.objects):
            raise InputError(f"{path}: there are no nodes")
        if len(workload.arrivals) < 2:
            raise InputError(f"{path}: there are fewer than two pods to schedule")
        first, rest = workload.split()
        training.append(first)
        held_out.append(rest)
    return training, held_out
