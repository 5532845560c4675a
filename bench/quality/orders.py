"""Generates orders of pods other than the published ones: `python -m bench.quality.orders --seeds 1000-1009 -o DIR`.

The folder can be used with `--data`. Orders follow the rules of the published ones (shuffle the trace, then add copies
of pods drawn at random until 130 % of the GPUs are requested; or remove pods if it requests more), with Python's random
numbers. The policy of Mooring was tuned on such orders.
"""

from __future__ import annotations

import gzip
import random
import shutil
from pathlib import Path

import click

from bench.quality.trace import SEEDS, WORKLOADS, DataOption, find_data, read_nodes, read_pods
from mooring.plugins.gpu_sharing.devices import WHOLE, GpuRequest

_LOAD = 1.3


def make_order(pods: list[GpuRequest], gpus: int, rng: random.Random) -> list[int]:
    """Return the offered order: places in ``pods``."""
    order = list(range(len(pods)))
    rng.shuffle(order)
    most = _LOAD * gpus * WHOLE
    total = sum(pod.total for pod in pods)
    while total > most:
        total -= pods[order.pop(rng.randrange(len(order)))].total
    if len(order) < len(pods):
        return order
    while total + pods[added := rng.randrange(len(pods))].milli <= most:
        order.append(added)
        total += pods[added].total
    return order


def write_orders(data: Path, folder: Path, workload: str, seed: int) -> None:
    """Write the order of pods and the rank of nodes for a workload and a seed."""
    nodes = read_nodes(data)
    rng = random.Random(seed)
    order = make_order(read_pods(data, workload), int(nodes.gpus.sum()), rng)
    ranks = list(range(len(nodes)))
    rng.shuffle(ranks)
    for name, numbers in (("", order), (".nodes", ranks)):
        with gzip.open(folder / "order" / f"{workload}-seed{seed}{name}.txt.gz", "wt") as file:
            file.writelines(f"{number}\n" for number in numbers)


@click.command()
@click.option("--seeds", type=SEEDS, default="1000-1009", show_default=True)
@click.option("--workload", "names", type=click.Choice(WORKLOADS), multiple=True, help="By default all.")
@click.option("--data", type=DataOption, help="The folder with the trace.")
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), required=True)
def main(seeds: list[int], names: tuple[str, ...], data: Path | None, output: Path) -> None:
    """Write a folder with the trace and generated orders."""
    source = find_data(data)
    (output / "order").mkdir(parents=True, exist_ok=True)
    for path in (source / "nodes.csv", *source.glob("pods-*.csv.gz")):
        shutil.copyfile(path, output / path.name)
    for workload in names or WORKLOADS:
        for seed in seeds:
            write_orders(source, output, workload, seed)


if __name__ == "__main__":
    main()
