"""Rebalance: `python -m bench.rebalance` measures how often moves place pods that default scheduling cannot place.

The instances are meant to be like those of "Priority Matters" (arXiv 2511.08373), a fallback of kube-scheduler that
solves the placement with CP-SAT: small to middle-sized clusters, pods with priorities, and default scheduling that
does not place all of them. We had only the abstract of the paper, which gives no parameters. All of these are ours:

- 4, 8, 16 and 32 equal nodes, and 4 or 8 pods for each node on average.
- Pods belong to ReplicaSets of 1 to 4 replicas, whose requests of CPU and memory are uniform between 100 and 1,000
  units. They have 1, 2 or 4 priorities, at random, and arrive in random order.
- Nodes are as large as needed for the requests to be 90, 95, 100 or 105 % of the capacity.

The engine schedules the pods with the default profile, including preemption. Instances with pending pods count. An
instance is improved if a plan places at least one more pod, and complete if it places all. HiGHS proves for some
instances that no moves help ("proven"): they are not realisable. `--solver SECONDS` runs it on the same instances, as a
reference.
"""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Iterator

import click
import msgspec

from bench.tables import row
from mooring.api.meta import KubeObject
from mooring.config import default_config
from mooring.loading import Catalog, Setup
from mooring.plugins.coscheduling.pod_group import LABEL as GROUP_LABEL
from mooring.simulation.outcome import State
from mooring.simulation.rebalance import Limits, Planner
from mooring.simulation.rebalance.reference import Proof, solve
from mooring.simulation.run import build_scenario, simulate_scenario
from mooring.simulation.what_if import given_objects, settle
from mooring.testing import make_node, make_pod

NODES, PODS_PER_NODE, PRIORITIES, USAGES = (4, 8, 16, 32), (4, 8), (1, 2, 4), (90, 95, 100, 105)
_LEAST, _MOST, _REPLICAS = 100, 1000, 4


class Shape(msgspec.Struct, frozen=True):
    """The parameters of an instance."""

    nodes: int
    pods_per_node: int
    priorities: int
    usage: int


def shapes() -> Iterator[Shape]:
    """Yield all combinations."""
    for each in itertools.product(NODES, PODS_PER_NODE, PRIORITIES, USAGES):
        yield Shape(*each)


def generate(shape: Shape, rng: random.Random) -> list[KubeObject]:
    """Return the nodes and the pending pods of a random instance."""
    pods: list[KubeObject] = []
    total = shape.nodes * shape.pods_per_node
    cpu_sum = memory_sum = 0
    for number in itertools.count():
        if len(pods) >= total:
            break
        cpu, memory = rng.randint(_LEAST, _MOST), rng.randint(_LEAST, _MOST)
        replicas = min(rng.randint(1, _REPLICAS), total - len(pods))
        priority = rng.randrange(shape.priorities)
        for replica in range(replicas):
            made = make_pod(f"set-{number}-{replica}").req(cpu=f"{cpu}m", memory=f"{memory}Mi")
            pods.append(made.priority(priority).owner("ReplicaSet", f"set-{number}").obj())
        cpu_sum, memory_sum = cpu_sum + replicas * cpu, memory_sum + replicas * memory
    rng.shuffle(pods)
    room = [-(-100 * amount // (shape.usage * shape.nodes)) for amount in (cpu_sum, memory_sum)]
    nodes = [
        make_node(f"node-{number}").capacity(cpu=f"{room[0]}m", memory=f"{room[1]}Mi", pods=200).obj()
        for number in range(shape.nodes)
    ]
    return [*nodes, *pods]


def schedule(objects: list[KubeObject], seed: int) -> tuple[list[KubeObject], int]:
    """Schedule the pods with the default profile. Return the cluster and the number of pending pods."""
    setup = Setup(default_config(), Catalog())
    given = given_objects(objects)
    scenario, _ = build_scenario(given, setup, seed=seed)
    outcome = simulate_scenario(scenario, setup, seed=seed)
    pending = outcome.count(State.PENDING, State.EVICTED)
    settled = [each.item for each in settle(given, scenario, outcome) if isinstance(each.item, KubeObject)]
    known = {(each.kind, each.metadata.name) for each in settled}
    # Their controllers create victims of preemption again.
    return [*settled, *(each for each in objects if (each.kind, each.metadata.name) not in known)], pending


def failing(shape: Shape, count: int, seed: int) -> Iterator[list[KubeObject]]:
    """Yield instances that default scheduling does not place completely."""
    rng = random.Random(f"{seed} {shape}")
    for _ in range(100 * count):
        if not count:
            return
        cluster, pending = schedule(generate(shape, rng), rng.randrange(2**31))
        if pending:
            count -= 1
            yield cluster


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What was found for one instance."""

    nodes: int
    pods_per_node: int
    priorities: int
    usage_pct: int
    pending: int
    placed: int
    moves: int
    seconds: float
    #: By the reference solver; None if it did not run.
    solver_placed: int | None = None
    #: Whether it proved that no pod can be placed.
    proven: bool = False


def measure(shape: Shape, cluster: list[KubeObject], seconds: float, solver: float) -> Result:
    """Make a plan for an instance."""
    started = time.perf_counter()
    planner = Planner(cluster, default_config(), limits=Limits(seconds=seconds, moves=10**6))
    goals = planner.goals
    plan = planner.make_room()
    took = time.perf_counter() - started
    solver_placed, proven = None, False
    if solver:
        wanted = [item for _, items, _ in goals for item in items]
        solution = solve(planner.problem, wanted, goals[0][2] if goals else None, seconds=solver)  # type: ignore[arg-type]  # there are goals
        solver_placed = solution.placed(wanted)
        proven = solution.proof is Proof.OPTIMAL and not solver_placed
    return Result(
        nodes=shape.nodes,
        pods_per_node=shape.pods_per_node,
        priorities=shape.priorities,
        usage_pct=shape.usage,
        pending=sum(len(items) for _, items, _ in goals),
        placed=len(plan.placements),
        moves=len(plan.moves),
        seconds=round(took, 3),
        solver_placed=solver_placed,
        proven=proven,
    )


def large(nodes: int, seed: int) -> list[KubeObject]:
    """Return a large cluster whose pods are spread, and ten pods and a gang of eight that need a whole node each.

    Every node has ten pods that use 60 to 90 % of it, and no node has half of its room free.
    """
    rng = random.Random(seed)
    found: list[KubeObject] = []
    for number in range(nodes):
        found.append(
            make_node(f"node-{number}").capacity(cpu="16", memory="64Gi", pods=110).zone(f"z{number % 3}").obj()
        )
        for each in range(10):
            kind = rng.randrange(100)
            cpu, memory = 700 + 10 * (kind % 10) * 4, 2048 + 300 * (kind // 10)
            made = make_pod(f"p-{number}-{each}").req(cpu=f"{cpu}m", memory=f"{memory}Mi").label(app=f"a{kind}")
            found.append(made.owner("ReplicaSet", f"a{kind}").node(f"node-{number}").obj())
    big = make_pod("big").req(cpu="14", memory="40Gi").owner("ReplicaSet", "big")
    gang = make_pod("gang").req(cpu="15", memory="32Gi").owner("Job", "gang").label({GROUP_LABEL: "training"})
    found += [big.named(f"big-{number}").obj() for number in range(10)]
    return [*found, *(gang.named(f"gang-{number}").obj() for number in range(8))]


@click.command()
@click.option("--count", default=2, show_default=True, help="Instances of each of the 96 shapes.")
@click.option("--seconds", default=1.0, show_default=True, help="The time for each plan.")
@click.option("--solver", default=0.0, metavar="SECONDS", help="Also run HiGHS for so long.")
@click.option("--large", "large_nodes", default=0, metavar="NODES", help="Measure one cluster of this size instead.")
@click.option("--seed", default=1, show_default=True)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(count: int, seconds: float, solver: float, large_nodes: int, seed: int, output: str) -> None:
    """Print how many failing instances are improved. With json, one object a line for each instance."""
    if large_nodes:
        _measure_large(large_nodes, seconds, seed)
        return
    results: list[Result] = []
    for shape in shapes():
        for cluster in failing(shape, count, seed):
            results.append(measure(shape, cluster, seconds, solver))
            if output == "json":
                print(json.dumps(msgspec.to_builtins(results[-1])), flush=True)
    if output == "table":
        print(row(["", "instances", "improved %", "complete %", "moves", "seconds", "solver %", "proven %"]))
        for usage in USAGES:
            _print_row(f"usage {usage} %", [each for each in results if each.usage_pct == usage])
        for nodes in NODES:
            _print_row(f"{nodes} nodes", [each for each in results if each.nodes == nodes])
        _print_row("all", results)
        _print_row("not proven", [each for each in results if not each.proven])


def _print_row(title: str, results: list[Result]) -> None:
    count = max(len(results), 1)

    def percent(found: int) -> str:
        return f"{100 * found / count:.1f}"

    solved = [each for each in results if each.solver_placed is not None]
    improved = [each for each in results if each.placed]
    cells = [
        len(results),
        percent(len(improved)),
        percent(sum(each.placed == each.pending for each in results)),
        f"{sum(each.moves for each in improved) / max(len(improved), 1):.1f}",
        f"{sum(each.seconds for each in results) / count:.2f}",
        percent(sum(bool(each.solver_placed) for each in solved)) if solved else "-",
        percent(sum(each.proven for each in results)) if solved else "-",
    ]
    print(row([title, *cells]))


def _measure_large(nodes: int, seconds: float, seed: int) -> None:
    objects = large(nodes, seed)
    started = time.perf_counter()
    planner = Planner(objects, default_config(), limits=Limits(seconds=seconds, moves=10**6))
    ready = time.perf_counter()
    plan = planner.make_room()
    print(
        json.dumps(
            {
                "nodes": nodes,
                "pods": 10 * nodes,
                "pending": sum(len(goal.pods) for goal in plan.goals),
                "placed": len(plan.placements),
                "moves": len(plan.moves),
                "seconds_to_read": round(ready - started, 2),
                "seconds_to_plan": round(time.perf_counter() - ready, 2),
            }
        )
    )


if __name__ == "__main__":
    main()
