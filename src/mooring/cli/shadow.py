"""`mooring shadow`: decide the pods that another scheduler places, and compare."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from mooring.cli.cluster_access import ClusterChoice, cluster_access
from mooring.cli.daemon import StopSignals, log_start, run_until_stopped
from mooring.cli.flags.scheduler_settings import parse_node_label
from mooring.cli.input_files import fail, read_setup
from mooring.cli.options import (
    ReleaseChoice,
    cluster_options,
    config_option,
    output_option,
    plugin_options,
    release_options,
)
from mooring.loading import Requested

if TYPE_CHECKING:
    from mooring.live.batch.batch_settings import BatchSettings
    from mooring.loading import Catalog
    from mooring.scheduler.shadow import Judgement, Shadow
    from mooring.simulation.report import Part


def _labels(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    found = [parse_node_label(text) for text in value]
    if None in found:
        raise click.BadParameter("a label is KEY:VALUE, such as pool:batch", ctx=ctx, param=param)
    return tuple(filter(None, found))


@click.command()
@cluster_options
@config_option
@plugin_options
@release_options
@click.option(
    "--scheduler-conf", metavar="FILE", help="Volcano's volcano-scheduler.conf: also compare the sessions of Volcano."
)
@click.option(
    "--scheduler-name",
    "scheduler_names",
    multiple=True,
    metavar="NAME",
    help="Also compare the sessions for pods with this schedulerName. Repeatable.  "
    "[default: volcano with --scheduler-conf, else none]",
)
@click.option(
    "--node-selector",
    "node_selector",
    multiple=True,
    metavar="KEY:VALUE",
    callback=_labels,
    help="Volcano's flag: its sessions use only nodes with one of these labels. Repeatable.",
)
@click.option("--seconds", type=float, help="Stop after this time. By default on Ctrl-C.")
@click.option("--pods", type=int, help="Stop after this many placements.")
@click.option("-v", "--verbose", is_flag=True, help="Print every decision, not only those that differ.")
@output_option("table", "json")
def shadow(
    choice: ClusterChoice,
    config_file: str | None,
    requested: Requested,
    emulated: ReleaseChoice,
    scheduler_conf: str | None,
    scheduler_names: tuple[str, ...],
    node_selector: tuple[tuple[str, str], ...],
    seconds: float | None,
    pods: int | None,
    verbose: bool,
    output: str,
) -> None:
    """Decide every pod that the scheduler of a cluster places, bind nothing, and report the differences.

    Give --config the configuration of that scheduler. If it is Volcano, give --scheduler-conf its configuration, or
    --scheduler-name volcano for Volcano's default configuration. Needs only the rights to list and watch
    (`mooring rbac --read-only`).

    \b
    agrees    Mooring chooses the same node, or finds none either
    tie       several nodes have the highest score, and the chosen one is among them
    race      they agree on a state of the cluster that the other scheduler may have had when it decided
    sampled   the other scheduler examined only a part of the nodes (percentageOfNodesToScore)
    differs   none of these

    With -o json, prints a line of JSON for each decision (with --verbose) and a summary. The exit code is 1 if a
    decision differs.
    """
    from mooring.cli.explain import server_minor
    from mooring.cli.output import print_parts
    from mooring.config import ConfigError
    from mooring.kube import Client
    from mooring.live.shadow import LiveShadow

    release = emulated.release(server_minor(choice) if emulated.named is None else None)
    setup = read_setup(config_file, requested, release)
    batch = _batch_settings(scheduler_conf, scheduler_names, node_selector, setup.catalog)
    access = cluster_access(choice)
    shadows: list[Shadow] = []

    def report(judgement: Judgement) -> None:
        if not verbose and judgement.verdict != "differs":
            return
        if output == "json":
            click.echo(msgspec.json.encode(judgement).decode())
        else:
            where = f"{judgement.theirs or 'no node'}, Mooring {judgement.ours or 'no node'}"
            click.echo(f"{judgement.verdict:8} {judgement.pod}: {where}{f': {judgement.why}' if judgement.why else ''}")

    async def work() -> None:
        async with Client(access) as client:
            try:
                live = LiveShadow(setup.config, client, batch=batch, plugins=setup.plugins, report=report)
            except ConfigError as error:
                fail(error.lines())
            shadows.append(live.shadow)
            await live.run(seconds=seconds, pods=pods)

    log_start("Shadowing", access, emulatedVersion=release.version)

    async def run(signals: StopSignals) -> int:
        return await run_until_stopped(work(), signals)

    with StopSignals() as signals:
        code = asyncio.run(run(signals))
    for judge in shadows:
        found = summary(judge)
        if output == "json":
            click.echo(msgspec.json.encode(found).decode())
        else:
            print_parts(_report(found))
        code = code or int(found["placements"]["differs"] + found["failures"]["differs"] > 0)
    raise SystemExit(code)


def _batch_settings(
    conf: str | None, names: tuple[str, ...], node_selector: tuple[tuple[str, str], ...], catalog: Catalog
) -> BatchSettings | None:
    """Return the settings of sessions with the user's plugins and actions; None if no option asks for them."""
    from mooring.live.batch.batch_settings import BatchSettings, session_actions, session_plugins

    if conf is None and not names:
        return None
    return BatchSettings(
        scheduler_conf=None if conf is None else Path(conf),
        scheduler_names=names or BatchSettings().scheduler_names,
        node_selector=node_selector,
        plugins=session_plugins(catalog),
        actions=dict(session_actions(catalog)),
    )


def summary(judge: Shadow) -> dict[str, Any]:
    """Return the numbers of decisions by verdict."""
    same = judge.judged - judge.counts[_verdict("differs")]
    return {
        "judged": judge.judged,
        "agreementPercent": round(100 * same / judge.judged, 3) if judge.judged else 100.0,
        "placements": {verdict.value: count for verdict, count in judge.counts.items()},
        "failures": {verdict.value: count for verdict, count in judge.failures.items()},
    }


def _verdict(name: str) -> Any:
    from mooring.scheduler.shadow import Verdict

    return Verdict(name)


def _report(found: dict[str, Any]) -> list[Part]:
    from mooring.cli.output import table

    rows = [
        (verdict, f"{count:,}", f"{found['failures'][verdict]:,}") for verdict, count in found["placements"].items()
    ]
    head = f"{found['judged']:,} placements, {found['agreementPercent']} % without a difference."
    if not found["judged"]:
        head = "No placements: the other scheduler gave no pod a node in this time. Create pods, or wait longer."
    return [
        head,
        table("Decisions", ("verdict", "placements", "no node"), rows, right=("placements", "no node")),
    ]
