"""The race of an active-active group on a real API server: `python -m bench.active_active --nodes 60 --per-node 50`.

Three members fill a cluster to the last pod and see changes of pods with a delay. One is killed, another one is stopped
and continued. It fails if a node is overcommitted, if a pod is lost or bound twice, or if 1 % of the placements
conflict, and prints how long the takeovers took.
"""

from __future__ import annotations

import click

from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import ControlPlane
from tests.e2e.faults.members import race
from tests.e2e.faults.trial import Trial


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--nodes", default=60)
@click.option("--per-node", default=50, help="Pods for which each node has room.")
@click.option("--owners", default=200, help="Controllers of the pods.")
@click.option("--qps", default=150, help="Requests per second of each member.")
@click.option("--rate", default=150.0, help="Pods created per second.")
@click.option("--watch-delay", default=0.1, help="How much later members see changes, in seconds.")
@click.option("--lease-duration", default=0.6, help="In seconds.")
def main(
    nodes: int, per_node: int, owners: int, qps: int, rate: float, watch_delay: float, lease_duration: float
) -> None:
    """Race for the last room of a cluster."""
    with ControlPlane(unlimited=True) as plane, Trial(Cluster(plane), nodes=nodes, per_node=per_node) as trial:
        found = race(
            trial,
            watch_delay=watch_delay,
            qps=qps,
            rate=rate,
            owners=owners,
            lease_duration=lease_duration,
            tell=click.echo,
        )
    click.echo(f"no node is overcommitted, and all {trial.count} pods are bound once")
    if found["conflicts"] >= 0.01 * found["pods"]:
        raise SystemExit("1 % of the placements or more conflict")


if __name__ == "__main__":
    main()
