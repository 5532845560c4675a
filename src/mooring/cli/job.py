"""`mooring job`: list, show, suspend and resume jobs, as vcctl does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mooring.cli.cluster_access import on_cluster
from mooring.cli.options import kubeconfig_option, namespace_option, output_option

if TYPE_CHECKING:
    from mooring.api.events import Event
    from mooring.api.volcano import PodGroup
    from mooring.api.volcano_jobs import VolcanoJob
    from mooring.controllers.gang_explanation import Facts
    from mooring.kube import Client
    from mooring.simulate.report import Part

_COUNTS = ("pending", "running", "succeeded", "failed", "unknown")
#: How many events `view` shows.
_EVENTS = 10
_POLL_SECONDS = 0.2


@click.group()
def job() -> None:
    """List, show, suspend and resume jobs (batch.volcano.sh)."""


_job_argument = click.argument("job", metavar="[NAMESPACE/]NAME")


@job.command("list")
@click.option("-n", "--namespace", default="default", show_default=True, help="The namespace of the jobs.")
@click.option("-A", "--all-namespaces", is_flag=True, help="List jobs in all namespaces.")
@click.option("-q", "--queue", default="", help="List only jobs in this queue.")
@click.option("-S", "--scheduler", default="", help="List only jobs of this scheduler.")
@kubeconfig_option
@output_option("table", "json", "yaml")
def list_(namespace: str, all_namespaces: bool, queue: str, scheduler: str, kubeconfig: str, output: str) -> None:
    """List jobs, with the reason why a job is pending."""
    from mooring.cli.output import print_result

    jobs, groups = on_cluster(kubeconfig, lambda client: _read(client, "" if all_namespaces else namespace))
    chosen = [
        each
        for each in jobs
        if queue in ("", each.spec.queue or "default") and scheduler in ("", each.spec.scheduler_name or "volcano")
    ]
    summaries = [_summary(each, groups) for each in chosen]
    print_result(summaries, output, lambda: [_job_table(chosen, summaries, with_namespace=all_namespaces)])


def _job_table(jobs: list[VolcanoJob], summaries: list[dict[str, Any]], *, with_namespace: bool) -> Part:
    from mooring.cli.output import table

    rows = []
    for each, summary in zip(jobs, summaries, strict=True):
        numbers = [str(summary[key]) for key in ("replicas", "minAvailable", *_COUNTS, "retries")]
        created = (each.metadata.creation_timestamp or "")[:10]
        name = each.key if with_namespace else each.name
        rows.append((name, created, summary["phase"] or "-", summary["queue"], *numbers, _cut(summary["waiting"])))
    counts = ("Replicas", "Min", *(each.capitalize() for each in _COUNTS), "Retries")
    titles = ("Name", "Creation", "Phase", "Queue", *counts, "Waits for")
    return table("Jobs", titles, rows, right=counts, footer="" if rows else "No jobs found.")


@job.command()
@_job_argument
@namespace_option
@kubeconfig_option
@output_option("table", "json", "yaml")
def view(job: str, namespace: str, kubeconfig: str, output: str) -> None:
    """Show one job: its tasks, its pods, why it is pending, and its events."""
    import msgspec

    from mooring.cli.explanation_tables import gang_parts
    from mooring.cli.output import print_result
    from mooring.controllers.gang_explanation import explain_gang

    facts, events = on_cluster(kubeconfig, lambda client: _facts_and_events(client, *split(job, namespace)))
    found = facts.job
    assert found is not None
    why = explain_gang(facts)
    value = _summary(found, [facts.group] if facts.group is not None else [])
    value["why"] = None if why is None else msgspec.to_builtins(why)
    value["events"] = [{"type": each.type, "reason": each.reason, "note": each.note} for each in events]
    print_result(value, output, lambda: [*_parts(found), *(gang_parts(why) if why else []), *_event_parts(events)])


@job.command()
@_job_argument
@namespace_option
@kubeconfig_option
def suspend(job: str, namespace: str, kubeconfig: str) -> None:
    """Suspend a job: delete its pods until it is resumed."""
    _command(kubeconfig, *split(job, namespace), "AbortJob")


@job.command()
@_job_argument
@namespace_option
@kubeconfig_option
def resume(job: str, namespace: str, kubeconfig: str) -> None:
    """Resume a suspended job."""
    _command(kubeconfig, *split(job, namespace), "ResumeJob")


@job.command()
@_job_argument
@click.option(
    "--for", "phases", multiple=True, default=("Completed",), show_default=True, help="Phase to wait for. Repeatable."
)
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Timeout in seconds.")
@namespace_option
@kubeconfig_option
def wait(job: str, phases: tuple[str, ...], timeout: float, namespace: str, kubeconfig: str) -> None:
    """Wait until a job is in a phase. The exit code is 1 after the timeout."""
    from mooring.controllers.definitions.jobs import PHASES

    for phase in phases:
        if phase not in PHASES:
            raise click.BadParameter(f"{phase!r}: use one of {', '.join(PHASES)}", param_hint="--for")
    place = split(job, namespace)
    reached = on_cluster(kubeconfig, lambda client: _wait(client, *place, phases, timeout))
    click.echo(f"job {'/'.join(place)} is {reached}")


async def _wait(client: Client, namespace: str, name: str, phases: tuple[str, ...], seconds: float) -> str:
    import asyncio

    phase = ""
    try:
        async with asyncio.timeout(seconds):
            while True:
                phase = (await _job(client, namespace, name)).status.state.phase
                if phase in phases:
                    return phase
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        wanted, now = " or ".join(phases), phase or "without a phase"
        raise click.ClickException(
            f"job {namespace}/{name} is {now} after {seconds:g} s, not {wanted}; see `mooring explain job`"
        ) from None


def split(name: str, namespace: str) -> tuple[str, str]:
    """Return the namespace and name of an argument."""
    given, slash, rest = name.rpartition("/")
    if not rest or "/" in given or (slash and not given):
        raise click.BadParameter(f"{name!r}: give NAMESPACE/NAME, or NAME with -n", param_hint="JOB")
    return given or namespace, rest


def _command(kubeconfig: str, namespace: str, name: str, action: str) -> None:
    from mooring.controllers.commands import create_command

    async def send(client: Client) -> str:
        found = await _job(client, namespace, name)
        await create_command(client, found, action)
        return found.status.state.phase

    phase = on_cluster(kubeconfig, send)
    click.echo(f"job {namespace}/{name}: {action} requested; the current phase is {phase or 'not set yet'}")


async def _job(client: Client, namespace: str, name: str) -> VolcanoJob:
    from mooring.api.volcano_jobs import VolcanoJob
    from mooring.kube import NotFound

    try:
        return await client.get(VolcanoJob, name, namespace=namespace)
    except NotFound:
        raise click.ClickException(f"there is no job {namespace}/{name}") from None


async def facts(client: Client, namespace: str, name: str) -> Facts:
    """Return a job with its pod group, pods and queue. Ends the command if there is no such job."""
    from mooring.controllers.gang_explanation import gang_facts_of_job
    from mooring.kube import NotFound

    try:
        return await gang_facts_of_job(client, namespace, name)
    except NotFound:
        raise click.ClickException(f"there is no job {namespace}/{name}") from None


async def _facts_and_events(client: Client, namespace: str, name: str) -> tuple[Facts, list[Event]]:
    from mooring.controllers.gang_explanation import events_about

    found = await facts(client, namespace, name)
    return found, (await events_about(client, namespace, name))[-_EVENTS:]


async def _read(client: Client, namespace: str) -> tuple[list[VolcanoJob], list[PodGroup]]:
    from mooring.api.volcano import PodGroup
    from mooring.api.volcano_jobs import VolcanoJob

    jobs = sorted((await client.list(VolcanoJob, namespace=namespace)).items, key=lambda each: each.key)
    return jobs, (await client.list(PodGroup, namespace=namespace)).items


def _summary(job: VolcanoJob, groups: list[PodGroup]) -> dict[str, Any]:
    from mooring.controllers.gang_explanation import is_waiting
    from mooring.controllers.jobs.job_objects import group_name
    from mooring.controllers.jobs.job_status import replicas

    status = job.status
    group = next((each for each in groups if each.namespace == job.namespace and each.name == group_name(job)), None)
    waiting = ""
    if status.state.phase in {"", "Pending", "Restarting"}:
        waiting = status.state.message
        if group is not None and is_waiting(group) and not waiting:
            found = [each.message for each in group.status.conditions if each.status == "True"]
            waiting = found[-1] if found else f"queue {group.spec.queue}"
    return {
        "namespace": job.namespace,
        "name": job.name,
        "phase": status.state.phase,
        "queue": job.spec.queue or "default",
        "replicas": replicas(job.spec),
        "minAvailable": status.min_available,
        **{key: getattr(status, key) for key in _COUNTS},
        "retries": status.retry_count,
        "tasks": {task: dict(state.phase) for task, state in status.task_status_count.items()},
        "waiting": waiting,
    }


def _cut(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _parts(job: VolcanoJob) -> list[Part]:
    from mooring.cli.output import table

    status, spec = job.status, job.spec
    phase = status.state.phase or "no phase set by a controller yet"
    since = f" since {status.state.last_transition_time}" if status.state.last_transition_time else ""
    head = f"Job {job.key}: {phase}{since}; queue {spec.queue or 'default'}, at least {status.min_available} pods"
    retries = f", restarted {status.retry_count} times (at most {spec.max_retry})" if status.retry_count else ""
    rows = []
    for number, task in enumerate(spec.tasks):
        name = task.name or f"default{number}"
        counts = status.task_status_count.get(name)
        phases = ", ".join(f"{count} {each}" for each, count in sorted(counts.phase.items())) if counts else "-"
        least = "-" if task.min_available is None else str(task.min_available)
        rows.append((name, str(task.replicas), least, phases))
    tasks = table("Tasks", ("Task", "Replicas", "Min", "Pods"), rows, right={"Replicas", "Min"})
    return [f"{head}{retries}.", tasks]


def _event_parts(events: list[Event]) -> list[Part]:
    from mooring.simulate.report import Listing

    items = [(f"{each.type} {each.reason}", each.note) for each in events]
    return [Listing("Events", items)] if items else []
