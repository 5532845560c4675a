"""`mooring what-if`: show the effect of changes to a cluster before they are made."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mooring.api.decode_errors import ManifestError
from mooring.cli.cluster_access import ClusterChoice
from mooring.cli.input_files import fail, read_setup
from mooring.cli.options import (
    ReleaseChoice,
    cluster_options,
    config_option,
    filename_option,
    namespace_option,
    output_option,
    plugin_options,
    release_options,
)
from mooring.config import ConfigError
from mooring.loading import Requested, Setup
from mooring.scheduler.profile import ProfileError
from mooring.simulation.sources import Given, InputError, read

if TYPE_CHECKING:
    from mooring.releases import Release
    from mooring.simulation.outcome import Outcome
    from mooring.simulation.report import Cell, Part
    from mooring.simulation.scenario import Scenario
    from mooring.simulation.what_if import Comparison, Fit, Move

T = TypeVar("T")
#: The number of rows of each table in the short form.
_ROWS = 20


class _WhatIf(click.Command):
    """Accepts ``--add -f FILE`` and ``--fit -f FILE`` too, as kubectl's users write it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Leave out -f between these options and their file."""
        kept = [each for before, each in zip(["", *args], args, strict=False) if not _is_repeated(before, each)]
        return super().parse_args(ctx, kept)


def _is_repeated(before: str, text: str) -> bool:
    return before in ("--add", "--fit") and text in ("-f", "--filename")


@click.command("what-if", cls=_WhatIf)
@filename_option(
    "The cluster, instead of a running one: manifests (a file, a directory, - for standard input) or a recording."
)
@click.option("-R", "--recursive", is_flag=True, help="Read subdirectories too.")
@cluster_options
@namespace_option
@click.option(
    "--add-nodes",
    multiple=True,
    metavar="TYPE=COUNT",
    help="Add nodes like an existing one, named by its instance type or by its name. Repeatable.",
)
@click.option("--cordon", "cordoned", multiple=True, metavar="NODE", help="Make a node unschedulable. Repeatable.")
@click.option("--drain", "drained", multiple=True, metavar="NODE", help="Cordon a node and evict its pods. Repeatable.")
@click.option(
    "--scale",
    "scaled",
    multiple=True,
    metavar="KIND/NAME=COUNT",
    help="Set the replicas of a workload, for example deployment/web=50. Repeatable.",
)
@click.option(
    "--add", "added", multiple=True, metavar="MANIFEST", help="Add or replace the objects of a manifest. Repeatable."
)
@click.option("--weight", "weights", multiple=True, metavar="PLUGIN=WEIGHT", help="Set the weight of a Score plugin.")
@click.option("--until-full", is_flag=True, help="Repeat what --add adds until a copy of it does not fit.")
@click.option("--fit", "fitted", metavar="MANIFEST", help="Print how many more copies of a manifest fit.")
@click.option("--limit", default=10_000, show_default=True, help="The maximum number of copies to try.")
@config_option
@plugin_options
@release_options
@click.option("--seed", type=int, default=0, show_default=True, help="Seed for breaking ties.")
@output_option("table", "wide", "json", "yaml")
def what_if(
    files: tuple[str, ...],
    recursive: bool,
    choice: ClusterChoice,
    namespace: str,
    add_nodes: tuple[str, ...],
    cordoned: tuple[str, ...],
    drained: tuple[str, ...],
    scaled: tuple[str, ...],
    added: tuple[str, ...],
    weights: tuple[str, ...],
    until_full: bool,
    fitted: str | None,
    limit: int,
    config_file: str | None,
    requested: Requested,
    emulated: ReleaseChoice,
    seed: int,
    output: str,
) -> None:
    """Show what would change in a cluster: which pods move, which become pending or schedulable, and why.

    The cluster is that of the kubeconfig, which is only read, or that of manifests (-f), for example the output of
    `kubectl get nodes,pods,deployments,replicasets -A -o yaml`. It is simulated twice, without and with the changes.
    --config, --plugin and --weight apply to the second simulation only, so that they can be compared with the defaults.

    \b
    Examples:
      mooring what-if --drain node-3
      mooring what-if --add-nodes m5.xlarge=2 --scale deployment/web=50
      mooring what-if --fit pod.yaml
    """
    if until_full and (fitted or not added):
        raise click.UsageError("--until-full repeats the manifests of --add; give at least one, and no --fit")
    if limit < 1:
        raise click.UsageError("--limit must be at least 1")
    pairs = [_pair(each, "--add-nodes", "TYPE=COUNT") for each in add_nodes]
    sizes = [_pair(each, "--scale", "KIND/NAME=COUNT") for each in scaled]
    ranks = [_pair(each, "--weight", "PLUGIN=WEIGHT") for each in weights]
    release = release_for(emulated, choice, files)
    setup, standard = read_setup(config_file, requested, release), read_setup(None, Requested(), release)

    from mooring.cli.output import print_result
    from mooring.simulation.what_if import Fit
    from mooring.simulation.what_if_question import AddNodes, Question, Scale, ask

    def question() -> Question:
        scale = []
        for kind_and_name, count in sizes:
            kind, separator, name = kind_and_name.partition("/")
            if not separator:
                raise InputError(
                    f"--scale {kind_and_name}={count}: give KIND/NAME=COUNT, for example deployment/web=50"
                )
            where = namespace or _namespace(choice, files)
            scale.append(Scale(kind=kind, name=name, replicas=count, namespace=where))
        return Question(
            add_nodes=[AddNodes(type=kind, count=count) for kind, count in pairs],
            cordon=list(cordoned),
            drain=list(drained),
            scale=scale,
            weights=dict(ranks),
            limit=limit,
        )

    def answer() -> tuple[Any, Callable[[], Sequence[Part]]]:
        given = _cluster(files, choice, setup, recursive=recursive)
        extra = read(added) if added else []
        found = ask(
            question(),
            given,
            present=standard,
            changed=setup if config_file or requested != Requested() else None,
            added=[] if until_full else extra,
            copied=read([fitted]) if fitted else extra if until_full else [],
            run=lambda objects, each: _simulate(objects, each, seed),
        )
        if isinstance(found, Fit):
            return found, lambda: _fit_report(found)
        return found.as_dict(), lambda: _report(found, wide=output == "wide")

    try:
        value, parts = answer()
    except (InputError, ManifestError, ProfileError) as error:
        fail(str(error).splitlines())
    except ConfigError as error:
        fail(error.lines())
    print_result(value, output, parts)


def _pair(text: str, option: str, form: str) -> tuple[str, int]:
    name, separator, number = text.rpartition("=")
    if not separator or not name or not number.isdecimal() or len(number) > 9:
        raise click.UsageError(f"{option} {text}: give {form}")
    return name, int(number)


def release_for(emulated: ReleaseChoice, choice: ClusterChoice, files: tuple[str, ...]) -> Release:
    """Return the release to emulate: that of the API server unless there are manifests or the options name one."""
    from mooring.cli.explain import server_minor

    return emulated.release(server_minor(choice) if emulated.named is None and not files else None)


def _namespace(choice: ClusterChoice, files: tuple[str, ...]) -> str:
    from mooring.cli.cluster_access import context_namespace

    return "default" if files else context_namespace(choice)


def _cluster(files: tuple[str, ...], choice: ClusterChoice, setup: Setup, *, recursive: bool) -> list[Given]:
    """Return the objects of the cluster, or of manifests."""
    if files:
        return read(files, recursive=recursive, stdin=sys.stdin.buffer.read)
    from mooring.cli.explain import objects_in_cluster
    from mooring.simulation.what_if import WORKLOADS, given_objects

    return given_objects(objects_in_cluster(choice, setup, more=WORKLOADS))


def _simulate(given: Sequence[Given], setup: Setup, seed: int) -> tuple[Scenario, Outcome]:
    from mooring.cli.simulate import Progress
    from mooring.simulation.what_if_question import run_simulation

    with Progress("pods processed:") as progress:
        return run_simulation(given, setup, seed, progress)


# The report


def _report(result: Comparison, *, wide: bool) -> list[Part]:
    from mooring.cli.output import table

    parts: list[Part] = [_summary(result)]
    for note in result.notes:
        click.echo(f"note: {note}", err=True)
    rows: list[tuple[Cell, ...]] = []
    for label, count in (
        ("nodes", lambda outcome: len(outcome.nodes)),
        ("pods on nodes", _on_nodes),
        ("pending pods", _pending),
    ):
        rows.append((label, f"{count(result.before):,}", f"{count(result.after):,}"))
    rows += _use_rows(result)
    parts.append(table("Cluster", ("", "now", "then"), rows, right=("now", "then")))
    sections: tuple[tuple[str, list[Move]], ...] = (
        ("Moved", result.moved),
        ("Scheduled", result.scheduled),
        ("Evicted", result.evicted),
    )
    for title, moves in sections:
        if moves:
            parts.append(_moves(title, moves, wide=wide))
    if result.deleted:
        shown = result.deleted if wide else result.deleted[:_ROWS]
        rest = len(result.deleted) - len(shown)
        more = f" and {rest} more" if rest else ""
        parts.append(f"Deleted: {', '.join(shown)}{more}")
    if result.pending:
        parts.append(_pending_listing(result.pending, wide=wide))
    return parts


def _summary(result: Comparison) -> str:
    counts = (
        (len(result.moved), "moves", "move"),
        (len(result.scheduled), "becomes schedulable", "become schedulable"),
        (len(result.pending), "becomes pending", "become pending"),
        (len(result.evicted), "is evicted", "are evicted"),
        (len(result.deleted), "is deleted", "are deleted"),
    )
    told = [
        f"{count:,} {'pod' if count == 1 else 'pods'} {one if count == 1 else many}"
        for count, one, many in counts
        if count
    ]
    return f"{', '.join(told)}." if told else "Nothing changes."


def _use_rows(result: Comparison) -> list[tuple[Cell, ...]]:
    names = dict.fromkeys(name for each in (result.before, result.after) for node in each.nodes for name in node.uses)
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        if name == "pods":
            continue
        before, after = result.before.total(name), result.after.total(name)
        if before.requested or after.requested:
            rows.append((f"{name} requested", f"{100 * before.share:.1f}%", f"{100 * after.share:.1f}%"))
    return rows


def _on_nodes(outcome: Outcome) -> int:
    from mooring.simulation.outcome import State

    return outcome.count(State.RUNNING, State.PLACED)


def _pending(outcome: Outcome) -> int:
    from mooring.simulation.outcome import State

    return outcome.count(State.PENDING, State.GATED)


def _moves(title: str, moves: Sequence[Move], *, wide: bool) -> Part:
    from mooring.cli.output import table

    shown = moves if wide else moves[:_ROWS]
    rest = len(moves) - len(shown)
    rows: list[tuple[Cell, ...]] = [(each.pod, each.before, each.after or each.message) for each in shown]
    return table(title, ("pod", "now", "then"), rows, footer=f"{rest} more; -o wide shows all" if rest else "")


def _pending_listing(moves: Sequence[Move], *, wide: bool) -> Part:
    from mooring.simulation.report import Listing

    groups: dict[str, list[str]] = {}
    for each in moves:
        groups.setdefault(each.message, []).append(each.pod)
    items = []
    for message, pods in sorted(groups.items(), key=lambda group: -len(group[1])):
        shown = pods if wide else pods[:5]
        more = f" and {len(pods) - len(shown)} more" if len(pods) > len(shown) else ""
        items.append((f"{len(pods):,} {'pod' if len(pods) == 1 else 'pods'}: {', '.join(shown)}{more}", message))
    return Listing("Pending", items)


def _fit_report(found: Fit) -> list[Part]:
    from mooring.cli.output import table

    copies = f"{found.copies:,} {'copy fits' if found.copies == 1 else 'copies fit'}."
    why = found.message and f"The next copy does not fit: {found.message}"
    parts: list[Part] = [f"{copies} {why or f'Stopped at --limit {found.limit}.'}"]
    if found.nodes:
        fullest = sorted(found.nodes.items(), key=lambda each: (-each[1], each[0]))
        rest = len(fullest) - _ROWS
        rows: list[tuple[Cell, ...]] = [(name, str(count)) for name, count in fullest[:_ROWS]]
        footer = f"{rest} more; -o json shows all" if rest > 0 else ""
        parts.append(table("Pods of the copies", ("node", "pods"), rows, right=("pods",), footer=footer))
    return parts
