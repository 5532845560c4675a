"""Placement quality on a public GPU trace: `python -m bench.quality --workload default --policy FGD --seeds 42-51`.

Replays the experiment of Weng et al., "Beware of Fragmentation" (USENIX ATC 2023). The trace is not part of this
repository; docs/placement.md has its source. It is read from ../shared/quality/openb, or from the folder `--data`.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import click
import msgspec
import numpy as np

from bench.quality.replay import Replay
from bench.quality.trace import SEEDS, WORKLOADS, DataOption, find_data, read_nodes, read_published, read_workload
from bench.tables import row
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


@click.command()
@click.option("--workload", "names", type=click.Choice(WORKLOADS), multiple=True, help="By default all.")
@click.option("--policy", "policies", type=click.Choice(list(POLICIES)), multiple=True, help="By default all.")
@click.option("--seeds", type=SEEDS, default="42-51", show_default=True, help="Numbers and ranges.")
@click.option("--data", type=DataOption, help="The folder with the trace.")
@click.option("--jobs", default=1, show_default=True, help="The number of processes.")
@click.option(
    "--results",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file with one JSON object a line for each run. Runs in it are not repeated, and new ones are appended.",
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(
    names: tuple[str, ...],
    policies: tuple[str, ...],
    seeds: list[int],
    data: Path | None,
    jobs: int,
    results: Path | None,
    output: str,
) -> None:
    """Print the unallocated and fragmented GPUs, in percent, when 100 % of the GPUs have been requested.

    With json, one object a line for each run. The table has the medians of the seeds next to the published ones.
    """
    try:
        source = find_data(data)
        published = read_published(source)
    except OSError as error:
        raise click.ClickException(str(error)) from None
    if output == "table":
        print(row(["workload", "policy", "unalloc %", "published", "frag %", "seconds"]), flush=True)
    keys = [
        (workload, policy, seed)
        for workload in names or WORKLOADS
        for policy in policies or tuple(POLICIES)
        for seed in seeds
    ]
    made: list[dict[str, object]] = []
    try:
        for found in run_all(source, keys, jobs, results):
            made.append(found)
            if output == "json":
                print(json.dumps(found), flush=True)
            elif len(made) == len(seeds):
                _print_medians(made, published)
                made.clear()
    except FileNotFoundError as error:
        raise click.ClickException(f"{error.filename}: there is no order for this seed") from None


def _print_medians(results: list[dict[str, object]], published: dict[Key, tuple[float, float]]) -> None:
    """Print a line of the table: the medians of the seeds of a workload and a policy."""
    workload, policy = str(results[0]["workload"]), str(results[0]["policy"])
    unallocated, fragmented, seconds = (
        statistics.median(float(str(each[key])) for each in results)
        for key in ("unallocated_pct", "frag_pct", "seconds")
    )
    keys = [(workload, policy, int(str(each["seed"]))) for each in results]
    known = [published[key][0] for key in keys if key in published]
    paper = f"{statistics.median(known):.2f}" if known else "-"
    cells = [f"{unallocated:.2f}", paper, f"{fragmented:.2f}", f"{seconds:.1f}"]
    print(row([workload, policy, *cells]), flush=True)


if __name__ == "__main__":
    main()
