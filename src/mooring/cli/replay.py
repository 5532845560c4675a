"""`mooring replay`: repeat the decisions of a recording, or decide it with another scheduler."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from mooring.api.decode_errors import ManifestError
from mooring.cli.input_files import fail, read_setup
from mooring.cli.options import (
    ReleaseChoice,
    config_option,
    filename_option,
    output_option,
    plugin_options,
    release_options,
)
from mooring.config import ConfigError
from mooring.loading import Requested, Setup
from mooring.recording.records import RecordingError
from mooring.scheduler.profile import ProfileError
from mooring.simulation.sources import InputError, read

if TYPE_CHECKING:
    from mooring.recording.records import Header
    from mooring.simulation.replay import ReplayResult
    from mooring.simulation.report import Cell, Part
    from mooring.simulation.rerun import PodChange, RerunResult, RunComparison

#: The number of rows of each table in the short form.
_ROWS: Final = 20
#: For a comparison in which no pod got a node.
_NOTHING_DECIDED: Final = (
    "No pod got a node. Only pods that arrive or wait during the recording are decided; pods that had a node when it "
    "began stay there. Record while pods are created."
)


@click.command()
@click.argument("file")
@click.option("--compare", is_flag=True, help="Compare two schedulers: that of the recording, and that of the options.")
@click.option(
    "--against",
    type=click.Choice(["simulated", "recorded"]),
    default="simulated",
    show_default=True,
    help="Compare with the recorded configuration, decided in the same way, or with what happened.",
)
@filename_option("Objects that exist from the start, such as the nodes for a SimKube trace. Repeatable.")
@click.option("--price", "prices", multiple=True, metavar="TYPE=PRICE", help="The price of a node-hour. Repeatable.")
@config_option
@plugin_options
@release_options
@click.option("--seed", type=int, default=0, show_default=True, help="Seed for random numbers of plugins.")
@output_option("table", "wide", "json", "yaml")
def replay(
    file: str,
    compare: bool,
    against: str,
    files: tuple[str, ...],
    prices: tuple[str, ...],
    config_file: str | None,
    requested: Requested,
    emulated: ReleaseChoice,
    seed: int,
    output: str,
) -> None:
    """Repeat the decisions of a recording, or decide the recorded pods with another scheduler.

    A recording of `mooring run --record` is repeated decision by decision, and each one is compared with the recorded
    one. The exit code is 1 if one differs. Plugins that are not built in are given by --plugin, as they were to
    `mooring run`.

    With --config, --emulated-version, other plugins or --compare, and for recordings of `mooring record`, SimKube
    traces and manifests (`kubectl get nodes,pods -A -o yaml`), FILE is a workload: its pods are decided when they
    appeared. --compare shows which pods move, wait longer or shorter, and the effect on utilization, fragmentation,
    spread and cost.
    """
    from mooring.cli.output import print_result

    rates = _rates(prices)
    try:
        header = _header(file)
        release = emulated.release(_minor(header))
        setup = read_setup(config_file, requested, release)
        changed = config_file is not None or emulated.named is not None or _adds_plugins(setup, header)
        if header is not None and header.source == "mooring run" and not (changed or compare or files):
            result = _repeat(file, setup)
            for note in result.notes:
                click.echo(f"note: {note}", err=True)
            print_result(result, output, lambda: _replay_report(result))
            sys.exit(0 if result.identical else 1)
        before, after = _runs(file, header, setup, changed, compare, against, files, rates, seed)
    except (InputError, ManifestError, RecordingError, ProfileError) as error:
        fail(str(error).splitlines())
    except ConfigError as error:
        fail(error.lines())
    if before is None:
        print_result(after, output, lambda: _run_report(after))
        return
    from mooring.simulation.rerun import compare_runs

    found = compare_runs(before, after)
    print_result(found.as_dict(), output, lambda: _comparison_report(found, wide=output == "wide"))


def _header(file: str) -> Header | None:
    from mooring.recording.recording_file import RecordingReader, is_recording

    return RecordingReader(file).start()[1] if is_recording(file) else None


def _minor(header: Header | None) -> int | None:
    """Return the minor version of the emulated release of a recording."""
    minor = header.release.partition(".")[2] if header is not None else ""
    return int(minor) if minor.isdecimal() and len(minor) < 4 else None


def _rates(prices: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for text in prices:
        name, separator, price = text.rpartition("=")
        try:
            found[name] = float(price)
        except ValueError:
            separator = ""
        if not separator or not name:
            raise click.UsageError(f"--price {text}: give TYPE=PRICE, for example m5.xlarge=0.19")
    return found


def _adds_plugins(setup: Setup, header: Header | None) -> bool:
    """Return whether plugins are given that the recorded scheduler did not have."""
    known = {each.name for each in header.plugins} if header is not None else set()
    return bool(setup.catalog.found.keys() - known)


def _repeat(file: str, setup: Setup) -> ReplayResult:
    from mooring.live.recording import plugin_files
    from mooring.simulation.replay import replay as repeat

    return repeat(file, plugins=setup.plugins, files=plugin_files(setup.catalog))


def _runs(
    file: str,
    header: Header | None,
    setup: Setup,
    changed: bool,
    compare: bool,
    against: str,
    files: tuple[str, ...],
    prices: dict[str, float],
    seed: int,
) -> tuple[RerunResult | None, RerunResult]:
    """Return the run to compare with, and the run with the options."""
    from mooring.config import default_config
    from mooring.scheduler.profiles import known_kinds
    from mooring.simulation.replay import config_of
    from mooring.simulation.rerun import recorded_outcome, rerun, without_random_ties
    from mooring.simulation.workload_trace import open_trace

    more = read(files, stdin=sys.stdin.buffer.read) if files else []
    custom = [kind for kinds in known_kinds(setup.plugins).values() for kind in kinds]
    trace = list(open_trace(file, more=more, custom=custom).changes)
    if not trace:
        raise InputError(f"{file}: there is nothing to decide in it")
    own = config_of(header, setup.plugins) if header is not None and header.config else None
    config = setup.config if changed or own is None else own
    after = rerun(trace, without_random_ties(config), plugins=setup.plugins, seed=seed, prices=prices)
    if not compare:
        return None, after
    if against == "recorded":
        return recorded_outcome(trace, prices=prices), after
    base = without_random_ties(own if own is not None else default_config(setup.config.release))
    return rerun(trace, base, plugins=setup.plugins, seed=seed, prices=prices), after


# The reports


def _replay_report(result: ReplayResult) -> list[Part]:
    from mooring.cli.output import table

    told = "all identical" if result.identical else f"{result.different:,} differ"
    head = (
        f"{result.events:,} events, {result.decisions:,} decisions: {told} "
        f"({result.placed:,} pods placed, {result.failed:,} attempts failed)."
    )
    if result.identical:
        return [head]
    rows = [(f"{each.number:,}", each.pod, each.recorded, each.replayed) for each in result.differences[:_ROWS]]
    return [head, table("Differences", ("decision", "pod", "recorded", "replayed"), rows, right=("decision",))]


def _run_report(result: RerunResult) -> list[Part]:
    from mooring.cli.output import table
    from mooring.simulation.placement_metrics import changes

    bound = sum(run.bound is not None for run in result.pods.values())
    head = (
        f"{result.events:,} events, {len(result.pods):,} pods in {result.end - result.start:,.0f} s: {bound:,} bound, "
        f"{len(result.pods) - bound:,} never bound, {sum(run.evicted for run in result.pods.values()):,} evicted."
    )
    rows = [(each["metric"], _number(each["after"])) for each in changes(result.metrics, result.metrics)]
    return [head, table("Metrics", ("metric", "value"), rows, right=("value",))]


def _comparison_report(found: RunComparison, *, wide: bool) -> list[Part]:
    from mooring.cli.output import table
    from mooring.simulation.placement_metrics import changes

    head = (
        f"{len(found.after.pods):,} pods: {len(found.moved):,} move, {len(found.longer):,} wait longer, "
        f"{len(found.shorter):,} wait shorter."
    )
    rows: list[tuple[Cell, ...]] = [
        ("pods bound", _bound(found.before), _bound(found.after)),
        ("pods evicted", f"{found.evicted_before:,}", f"{found.evicted_after:,}"),
    ]
    metrics = changes(found.before.metrics, found.after.metrics)
    rows += [(each["metric"], _number(each["before"]), _number(each["after"])) for each in metrics]
    parts: list[Part] = [head, table("Effect", ("", "before", "after"), rows, right=("before", "after"))]
    if not any(run.bound is not None for each in (found.before, found.after) for run in each.pods.values()):
        parts.append(_NOTHING_DECIDED)
    for title, pods in (("Moved", found.moved), ("Wait longer", found.longer), ("Wait shorter", found.shorter)):
        if pods:
            parts.append(_pods(title, pods, wide=wide))
    return parts


def _pods(title: str, pods: Sequence[PodChange], *, wide: bool) -> Part:
    from mooring.cli.output import table

    shown = pods if wide else pods[:_ROWS]
    rest = len(pods) - len(shown)
    rows = [(p.pod, _place(p.before, p.waited_before), _place(p.after, p.waited_after), p.message) for p in shown]
    footer = f"{rest:,} more; -o wide shows all" if rest else ""
    return table(title, ("pod", "before", "after", "message"), rows, footer=footer)


def _place(node: str, waited: float | None) -> str:
    return "never bound" if waited is None else f"{node} after {waited:,.1f} s"


def _bound(result: RerunResult) -> str:
    return f"{sum(run.bound is not None for run in result.pods.values()):,}"


def _number(value: Any) -> str:
    return "" if value is None else f"{value:,.4g}" if isinstance(value, float) and abs(value) < 1000 else f"{value:,}"
