"""Placement quality on a public GPU trace: `python -m bench.quality --workload default --policy FGD --seeds 42-51`.

Replays the experiment of Weng et al., "Beware of Fragmentation" (USENIX ATC 2023). The trace is not part of this
repository; docs/placement.md has its source. It is read from ../shared/quality/openb, or from the folder `--data`.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import click

from bench.quality.runs import Key, run_all
from bench.quality.trace import SEEDS, WORKLOADS, DataOption, find_data, read_published
from bench.tables import row
from mooring.plugins.gpu_sharing.policies import POLICIES


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
