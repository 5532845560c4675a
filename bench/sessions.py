"""A large batch session without an API server: `python -m bench.sessions --nodes 5000 --tasks 100000`.

Gangs in several queues wait, and one session places all of them. `--growth` runs tenths of the load too, to show
whether the time grows faster than the number of tasks.
"""

from __future__ import annotations

import gc
import resource
import time

import click

from bench.decide import GC_THRESHOLDS
from bench.topology import cluster_of
from mooring.api.codec import decode_object
from mooring.api.meta import KubeObject
from mooring.batch.actions import ACTIONS
from mooring.batch.conf import read_conf
from mooring.batch.plugins import PLUGINS as BUILTIN
from mooring.batch.run import close_session, open_session, run_actions
from tests.batch.cases import PLUGINS, Object, conf, gang, node, queue


@click.command(context_settings={"show_default": True})
@click.option("--nodes", default=5000)
@click.option("--tasks", default=100_000)
@click.option("--gang", "size", default=100, help="Pods of a gang.")
@click.option("--queues", default=10)
@click.option("--growth", is_flag=True, help="Also measure a tenth of the tasks.")
def main(nodes: int, tasks: int, size: int, queues: int, growth: bool) -> None:
    """Measure one session that places many gangs."""
    for count in (tasks // 10, tasks) if growth else (tasks,):
        _measure(nodes, count, size, queues)


def _measure(nodes: int, tasks: int, size: int, queues: int) -> None:
    objects: list[Object] = [queue("root"), queue("default"), *(queue(f"q{number}") for number in range(queues))]
    objects += [node(f"n{number}", "64", pods="110") for number in range(nodes)]
    for number in range(tasks // size):
        objects += gang(f"g{number}", size, cpu="1", queue=f"q{number % queues}")
    cluster = cluster_of([item for each in objects if isinstance(item := decode_object(each), KubeObject)])
    settings = read_conf(conf(PLUGINS[0], PLUGINS[1]), actions=ACTIONS, plugins=BUILTIN)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    begun = time.process_time()
    session = cluster.session(settings)
    plugins = open_session(session)
    opened = time.process_time()
    run_actions(session)
    decided = time.process_time()
    close_session(session, plugins)
    closed = time.process_time()
    placed = len(session.bindings)
    session.end()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{tasks:,} tasks in {tasks // size:,} gangs on {nodes:,} nodes: {placed:,} placed; CPU s: open "
        f"{opened - begun:.1f}, actions {decided - opened:.1f}, close {closed - decided:.1f}; "
        f"{1e6 * (closed - begun) / tasks:.0f} us per task; peak {peak:,.0f} MiB",
        flush=True,
    )


if __name__ == "__main__":
    main()
