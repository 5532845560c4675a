"""`mooring rebalance`: moves that make room for pending pods and gangs, or that reduce fragmentation."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from mooring.api.decode_errors import ManifestError
from mooring.cli.cluster_access import ClusterChoice, on_cluster
from mooring.cli.input_files import fail, read_setup
from mooring.cli.options import (
    ReleaseChoice,
    cluster_options,
    config_option,
    filename_option,
    output_option,
    plugin_options,
    release_options,
)
from mooring.loading import Requested, Setup
from mooring.scheduler.profile import ProfileError
from mooring.simulation.sources import InputError, read

if TYPE_CHECKING:
    from mooring.api.meta import KubeObject
    from mooring.kube import Client
    from mooring.simulation.rebalance import Limits, Plan
    from mooring.simulation.rebalance.execution import Done
    from mooring.simulation.report import Cell, Part

#: How often a plan is made again because the cluster changed or the scheduler chose other nodes.
_ROUNDS = 10


@click.command()
@filename_option(
    "Manifests of the cluster, instead of a running cluster: a file, a directory, or - for standard input."
)
@click.option("-R", "--recursive", is_flag=True, help="Read subdirectories too.")
@cluster_options
@click.option("--consolidate", is_flag=True, help="Empty nodes to reduce fragmentation, instead of making room.")
@click.option("--seconds", default=10.0, show_default=True, type=click.FloatRange(min=0.1), help="Time for the search.")
@click.option("--moves", default=20, show_default=True, type=click.IntRange(min=0), help="The largest number of moves.")
@click.option(
    "--cool-down",
    default=600.0,
    show_default=True,
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Do not move pods that started less than so many seconds ago.",
)
@click.option("--move-jobs", is_flag=True, help="Move pods of Jobs and gangs too. They lose their work.")
@click.option("--execute", is_flag=True, help="Carry out the plan: evict the pods, step by step.")
@click.option(
    "--moves-per-hour",
    default=20,
    show_default=True,
    type=click.IntRange(min=1),
    help="With --execute, the largest number of evictions in an hour, those of earlier runs included.",
)
@config_option
@plugin_options
@release_options
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the search.")
@output_option("table", "json", "yaml")
def rebalance(
    files: tuple[str, ...],
    recursive: bool,
    choice: ClusterChoice,
    consolidate: bool,
    seconds: float,
    moves: int,
    cool_down: float,
    move_jobs: bool,
    execute: bool,
    moves_per_hour: int,
    config_file: str | None,
    requested: Requested,
    emulated: ReleaseChoice,
    seed: int,
    output: str,
) -> None:
    """Propose moves of pods that make room for pending pods and gangs that preemption cannot place.

    The cluster is that of the kubeconfig, or that of manifests (-f). It is only read, unless --execute is given. Every
    proposed move has been decided with the filters of the configuration. Disruption budgets are kept, and pods with a
    higher priority than the pending pod are not moved.

    \b
    Examples:
      mooring rebalance
      mooring rebalance --consolidate -o json
      mooring rebalance --execute --moves-per-hour 5
    """
    if execute and files:
        raise click.UsageError("--execute works on a running cluster; leave -f out")
    from mooring.cli.output import print_result
    from mooring.cli.what_if import release_for
    from mooring.simulation.rebalance import Limits

    setup = read_setup(config_file, requested, release_for(emulated, choice, files))
    limits = Limits(seconds=seconds, moves=moves, cool_down=cool_down, jobs=move_jobs)
    try:
        if execute:
            _execute(choice, setup, limits, consolidate=consolidate, per_hour=moves_per_hour, seed=seed, output=output)
            return
        objects = _objects(files, choice, setup, recursive=recursive)
        plan = _plan(objects, setup, limits, consolidate=consolidate, seed=seed)
    except (InputError, ManifestError, ProfileError) as error:
        fail(str(error).splitlines())
    print_result(plan, output, lambda: _report(plan))


def _objects(files: tuple[str, ...], choice: ClusterChoice, setup: Setup, *, recursive: bool) -> list[KubeObject]:
    if not files:
        from mooring.cli.explain import objects_in_cluster

        return objects_in_cluster(choice, setup)
    from mooring.simulation.run import build_scenario

    scenario, _ = build_scenario(read(files, recursive=recursive, stdin=sys.stdin.buffer.read), setup)
    return [*scenario.nodes, *scenario.objects, *(each.pod for each in scenario.pods)]


def _plan(objects: list[KubeObject], setup: Setup, limits: Limits, *, consolidate: bool, seed: int) -> Plan:
    from mooring.simulation.rebalance import Planner

    planner = Planner(objects, setup.config, plugins=setup.plugins, limits=limits, seed=seed)
    return planner.consolidate() if consolidate else planner.make_room()


def _execute(
    choice: ClusterChoice, setup: Setup, limits: Limits, *, consolidate: bool, per_hour: int, seed: int, output: str
) -> None:
    """Plan and carry out, again and again, until nothing is left to do."""
    import time

    import msgspec

    from mooring.cli.explain import objects_in_cluster
    from mooring.cli.output import print_result
    from mooring.simulation.rebalance.execution import Execution, ExecutionError

    done: list[Done] = []
    plan: Plan | None = None
    started = time.time()

    def report(each: Done) -> None:
        where = f"{each.replacement} on {each.node}" if each.node else "which has no node yet"
        click.echo(f"evicted {each.pod} from {each.source}; replaced by {where}", err=True)

    for number in range(_ROUNDS):
        # The scheduler may choose other nodes than the plan. So pods do not change places, because one could be left
        # without a node, and what was moved in this run is not moved again.
        moved_since = time.time() - started + 1 if done else 0.0
        left = msgspec.structs.replace(
            limits, moves=limits.moves - len(done), cool_down=max(limits.cool_down, moved_since), together=False
        )
        plan = _plan(objects_in_cluster(choice, setup), setup, left, consolidate=consolidate, seed=seed + number)
        if not plan.moves:
            break
        chosen = plan

        async def work(client: Client, chosen: Plan = chosen) -> list[Done] | str:
            try:
                return await Execution(client, moves_per_hour=per_hour).carry_out(chosen, report=report)
            except ExecutionError as error:
                return str(error)

        result = on_cluster(choice, work)
        if isinstance(result, str):
            raise click.ClickException(result)
        done += result
        back = [each.pod for each in result if each.node == each.source]
        if back:
            raise click.ClickException(
                f"stopped after {len(done)} moves: the scheduler placed the pod again where it was: {', '.join(back)}"
            )
        if any(not each.node for each in result):
            raise click.ClickException(
                "stopped: a replacement has no node after two minutes; see `mooring explain pod`"
            )
    value = {"moves": done, "goals": [] if plan is None else plan.goals}
    print_result(value, output, lambda: _execution_report(done, plan))


# The report


def _report(plan: Plan) -> list[Part]:
    from mooring.cli.output import table

    parts: list[Part] = [_summary(plan)]
    if plan.goals:
        goals: list[tuple[Cell, ...]] = [
            (goal.name, str(len(goal.pods)), str(goal.priority), _RESULTS[goal.result]) for goal in plan.goals
        ]
        parts.append(table("Pending", ("pod or gang", "pods", "priority", "result"), goals, right=("pods", "priority")))
    if plan.moves:
        moves: list[tuple[Cell, ...]] = [(str(each.step), each.pod, each.source, each.target) for each in plan.moves]
        parts.append(table("Moves", ("step", "pod", "from", "to"), moves, right=("step",)))
    if plan.placements:
        placed: list[tuple[Cell, ...]] = [(str(each.step), each.pod, each.node) for each in plan.placements]
        parts.append(table("Then placed", ("after step", "pod", "node"), placed, right=("after step",)))
    return parts


_RESULTS = {"planned": "has room after the moves", "impossible": "no moves can help", "not found": "no moves found"}


def _summary(plan: Plan) -> str:
    moves = f"{len(plan.moves)} {'move' if len(plan.moves) == 1 else 'moves'}"
    placed = f"{len(plan.placements)} {'pod' if len(plan.placements) == 1 else 'pods'}"
    if plan.goals:
        text = f"{moves} would make room for {placed}." if plan.placements else "No moves make room for a pending pod."
    elif plan.moves:
        nodes = f"{len(plan.emptied)} {'node' if len(plan.emptied) == 1 else 'nodes'}"
        text = f"{moves} would empty {nodes}: {', '.join(plan.emptied)}."
    else:
        return "There is nothing to do."
    change = f"Fragmentation: {plan.fragmentation_before:.2f}% now, {plan.fragmentation_after:.2f}% then."
    return f"{text} {change} Nothing was changed; --execute carries out a plan."


def _execution_report(done: list[Done], plan: Plan | None) -> list[Part]:
    from mooring.cli.output import table

    parts: list[Part] = [f"{len(done)} {'pod was' if len(done) == 1 else 'pods were'} moved."]
    rows: list[tuple[Cell, ...]] = [(each.pod, each.source, each.replacement, each.node) for each in done]
    if rows:
        parts.append(table("Moved", ("pod", "from", "replaced by", "on"), rows))
    open_goals: list[Any] = [goal for goal in plan.goals if goal.result != "planned"] if plan is not None else []
    if open_goals:
        pending: list[tuple[Cell, ...]] = [(goal.name, _RESULTS[goal.result]) for goal in open_goals]
        parts.append(table("Pending", ("pod or gang", "result"), pending))
    return parts
