"""Runs of the experiment: one for a workload, a policy and a seed, or many in several processes."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import msgspec
import numpy as np

from bench.quality.replay import Replay
from bench.quality.trace import read_nodes, read_workload
from mooring.plugins.gpu_sharing.devices import GpuColumns, GpuRequest
from mooring.plugins.gpu_sharing.fgd import Loss
from mooring.plugins.gpu_sharing.fragmentation import Fragmentation, StateCache, typical_pods
from mooring.plugins.gpu_sharing.policies import POLICIES, Policy, Setting

_LOAD = 100


def make_policy(nodes: GpuColumns, pods: list[GpuRequest], policy: str, seed: int) -> tuple[Policy, Loss]:
    """Return a policy that expects some pods, and the measure of fragmentation."""
    typical = typical_pods(pods)
    coverage = sum(pod.weight for pod in typical) / len(pods)
    fragmentation = StateCache(Fragmentation(typical, nodes.models, coverage))
    return POLICIES[policy](Setting(nodes, typical, fragmentation, np.random.default_rng(seed))), fragmentation


def make_replay(data: Path, workload: str, policy: str, seed: int, pods: int | None = None) -> Replay:
    """Return the replay of an order, or of its first pods."""
    nodes, trace = read_nodes(data), read_workload(data, workload, seed)
    scorer, fragmentation = make_policy(nodes, trace.pods, policy, seed)
    return Replay(nodes, msgspec.structs.replace(trace, order=trace.order[:pods]), scorer, fragmentation)


def run(data: Path, workload: str, policy: str, seed: int) -> dict[str, object]:
    """Replay one order, and return the percentages of GPUs when 100 % have been requested."""
    started = time.perf_counter()
    point = make_replay(data, workload, policy, seed).run(_LOAD - 1, _LOAD + 1).at(_LOAD)
    return {
        "workload": workload,
        "policy": policy,
        "seed": seed,
        "unallocated_pct": round(100 - point.allocated, 2),
        "frag_pct": point.fragmented,
        "seconds": round(time.perf_counter() - started, 2),
    }


#: A workload, a policy and a seed.
Key = tuple[str, str, int]


def read_results(path: Path) -> dict[Key, dict[str, object]]:
    """Read the runs of a results file: one JSON object a line. An incomplete last line is ignored."""
    found: dict[Key, dict[str, object]] = {}
    if path.exists():
        for line in path.read_text().splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                each = json.loads(line)
                found[each["workload"], each["policy"], each["seed"]] = each
    return found


def run_all(data: Path, keys: Sequence[Key], jobs: int, results: Path | None) -> Iterator[dict[str, object]]:
    """Yield the runs in order. Those in the results file are not repeated; the others are appended to it."""
    known = read_results(results) if results is not None else {}
    missing = [key for key in keys if key not in known]
    with ExitStack() as stack:
        if jobs > 1:
            pool = stack.enter_context(ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")))
            made = pool.map(run, *zip(*((data, *key) for key in missing), strict=True)) if missing else iter(())
        else:
            made = (run(data, *key) for key in missing)
        file = stack.enter_context(results.open("a")) if results is not None else None
        for key in keys:
            found = known.get(key)
            if found is None:
                found = next(made)
                if file is not None:
                    print(json.dumps(found), file=file, flush=True)
            yield found
