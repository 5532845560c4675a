"""`mooring job`: jobs as people see them, suspended and resumed (as vcctl), with why they wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mooring.cli.cluster_access import kubeconfig_option, on_cluster, output_option

if TYPE_CHECKING:
    from mooring.api.events import Event
    from mooring.api.volcano import PodGroup
    from mooring.api.volcano_jobs import VolcanoJob
    from mooring.controllers.gang_explanation import Facts
    from mooring.kube import Client
    from mooring.simulate.report import Part

_COUNTS = ("pending", "running", "succeeded", "failed", "unknown")
_EVENTS = 10
_LOOK_SECONDS = 0.2


@click.group()
def job() -> None:
    """Look at jobs (batch.volcano.sh), suspend and resume them."""


_namespace_option = click.option(
    "-n", "--namespace", default="default", show_default=True, help="Where the job is, if JOB does not say."
)


@job.command("list")
@click.option("-n", "--namespace", default="default", show_default=True, help="Where to look.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Look everywhere.")
@click.option("-q", "--queue", default="", help="Only jobs of this queue.")
@click.option("-S", "--scheduler", default="", help="Only jobs of this scheduler.")
@kubeconfig_option
@output_option
def list_(namespace: str, all_namespaces: bool, queue: str, scheduler: str, kubeconfig: str, output: str) -> None:
    """List jobs, with what those that wait are waiting for."""
    jobs, groups = on_cluster(kubeconfig, lambda client: _read(client, "" if all_namespaces else namespace))
    chosen = [
        each
        for each in jobs
        if queue in ("", each.spec.queue or "default") and scheduler in ("", each.spec.scheduler_name or "volcano")
    ]
    if output != "table":
        from mooring.cli.documents import echo_value

        echo_value([_summary(each, groups) for each in chosen], output)
        return
    from mooring.cli.tables import show
    from mooring.simulate.report import Column, Grid

    rows = []
    for each in chosen:
        found = _summary(each, groups)
        numbers = [str(found[key]) for key in ("replicas", "minAvailable", *_COUNTS, "retries")]
        head = (each.key,) if all_namespaces else (each.name,)
        rows.append((*head, (each.metadata.creation_timestamp or "")[:10], found["phase"] or "-", found["queue"],
                     *numbers, _cut(found["waiting"])))  # fmt: skip
    titles = ("Replicas", "Min", *(each.capitalize() for each in _COUNTS), "Retries")
    left = (Column("Name"), Column("Creation"), Column("Phase"), Column("Queue"))
    columns = (*left, *(Column(title, "right") for title in titles), Column("Waits for"))
    show([Grid("Jobs", columns, list(rows), footer="" if rows else "There are no jobs here.")])


@job.command()
@click.argument("job", metavar="[NAMESPACE/]NAME")
@_namespace_option
@kubeconfig_option
@output_option
def view(job: str, namespace: str, kubeconfig: str, output: str) -> None:
    """Show one job: its tasks, its pods, why it waits, and what happened."""
    from mooring.controllers.gang_explanation import explain_gang

    facts, events = on_cluster(kubeconfig, lambda client: _facts(client, *split(job, namespace)))
    assert facts.job is not None
    why = explain_gang(facts)
    if output != "table":
        import msgspec

        from mooring.cli.documents import echo_value

        shown = _summary(facts.job, [facts.group] if facts.group is not None else [])
        told = [{"type": each.type, "reason": each.reason, "note": each.note} for each in events]
        echo_value({**shown, "why": None if why is None else msgspec.to_builtins(why), "events": told}, output)
        return
    from mooring.cli.gang_explanation_parts import why_parts
    from mooring.cli.tables import show

    show([*_parts(facts.job), *(why_parts(why) if why is not None else []), *_told(events)])


@job.command()
@click.argument("job", metavar="[NAMESPACE/]NAME")
@_namespace_option
@kubeconfig_option
def suspend(job: str, namespace: str, kubeconfig: str) -> None:
    """Stop a job's pods, until it is resumed."""
    _command(kubeconfig, *split(job, namespace), "AbortJob")


@job.command()
@click.argument("job", metavar="[NAMESPACE/]NAME")
@_namespace_option
@kubeconfig_option
def resume(job: str, namespace: str, kubeconfig: str) -> None:
    """Start a job again that was suspended."""
    _command(kubeconfig, *split(job, namespace), "ResumeJob")


@job.command()
@click.argument("job", metavar="[NAMESPACE/]NAME")
@click.option("--for", "phases", multiple=True, default=("Completed",), show_default=True, help="A phase; repeatable.")
@click.option("--timeout", type=float, default=60.0, show_default=True, help="In seconds.")
@_namespace_option
@kubeconfig_option
def wait(job: str, phases: tuple[str, ...], timeout: float, namespace: str, kubeconfig: str) -> None:
    """Wait until a job is in a phase. The exit code is 1 where that takes too long."""
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
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        wanted, now = " or ".join(phases), phase or "not taken up yet"
        raise click.ClickException(
            f"job {namespace}/{name} is {now} after {seconds:g} s, not {wanted}; `mooring explain job` tells why"
        ) from None


def split(name: str, namespace: str) -> tuple[str, str]:
    """Namespace and name of what was given."""
    given, slash, rest = name.rpartition("/")
    if not rest or "/" in given or (slash and not given):
        raise click.BadParameter(f"{name!r}: give NAMESPACE/NAME, or NAME with -n", param_hint="JOB")
    return given or namespace, rest


def _command(kubeconfig: str, namespace: str, name: str, action: str) -> None:
    from mooring.controllers.commands import create_command

    async def ask(client: Client) -> str:
        found = await _job(client, namespace, name)
        await create_command(client, found, action)
        return found.status.state.phase

    phase = on_cluster(kubeconfig, ask)
    click.echo(f"job {namespace}/{name}: {action} was asked for; it is {phase or 'not taken up yet'} now")


async def _job(client: Client, namespace: str, name: str) -> VolcanoJob:
    from mooring.api.volcano_jobs import VolcanoJob
    from mooring.kube import NotFound

    try:
        return await client.get(VolcanoJob, name, namespace=namespace)
    except NotFound:
        raise click.ClickException(f"there is no job {namespace}/{name}") from None


async def facts(client: Client, namespace: str, name: str) -> Facts:
    """What is known about a job. Ends the command where there is none."""
    from mooring.controllers.gang_explanation import gang_facts_of_job
    from mooring.kube import NotFound

    try:
        return await gang_facts_of_job(client, namespace, name)
    except NotFound:
        raise click.ClickException(f"there is no job {namespace}/{name}") from None


async def _facts(client: Client, namespace: str, name: str) -> tuple[Facts, list[Event]]:
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
    from mooring.simulate.report import Column, Grid

    status, spec = job.status, job.spec
    phase = status.state.phase or "not taken up by a controller yet"
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
    columns = (Column("Task"), Column("Replicas", "right"), Column("Min", "right"), Column("Pods"))
    return [f"{head}{retries}.", Grid("Tasks", columns, list(rows))]


def _told(events: list[Event]) -> list[Part]:
    from mooring.simulate.report import Listing

    items = [(f"{each.type} {each.reason}", each.note) for each in events]
    return [Listing("What happened", items)] if items else []
