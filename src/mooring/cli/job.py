"""`mooring job`: create, list, show, suspend, resume and delete jobs, as vcctl does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mooring.cli.cluster_access import ClusterChoice, on_cluster
from mooring.cli.options import (
    LIST_FORMATS,
    VIEW_FORMATS,
    cluster_options,
    named,
    namespace_option,
    output_option,
    watch_option,
)

if TYPE_CHECKING:
    from mooring.api.events import Event
    from mooring.api.volcano import PodGroup
    from mooring.api.volcano_jobs import VolcanoJob
    from mooring.cli.object_list import ObjectList
    from mooring.controllers.gang_explanation import Facts
    from mooring.kube import Client
    from mooring.simulation.report import Part

_COUNTS = ("pending", "running", "succeeded", "failed", "unknown")
#: The order in which columns are omitted on a narrow terminal.
_RANKS = {
    title: rank
    for rank, title in enumerate(
        ("Waits for", "Queue", "Replicas", "Pending", "Min", "Failed", "Succeeded", "Creation", "Retries", "Unknown"), 1
    )
}
#: The number of events that `view` shows.
_EVENTS = 10
_POLL_SECONDS = 0.2
_API_VERSION = "batch.volcano.sh/v1alpha1"


@click.group()
def job() -> None:
    """Create, list, show, suspend, resume and delete jobs (batch.volcano.sh)."""


_job_argument = named("job", "[NAMESPACE/]NAME", "-N")


@job.command("list")
@click.option("-n", "--namespace", default="", help="The namespace of the jobs. By default that of the context.")
@click.option("-A", "--all-namespaces", is_flag=True, help="List jobs in all namespaces.")
@click.option("-q", "--queue", default="", help="List only jobs in this queue.")
@click.option("-S", "--scheduler", default="", help="List only jobs of this scheduler.")
@cluster_options
@output_option(*LIST_FORMATS)
@watch_option
def list_(
    namespace: str,
    all_namespaces: bool,
    queue: str,
    scheduler: str,
    choice: ClusterChoice,
    output: str,
    watch: bool,
) -> None:
    """List jobs, with the reason why a job is pending."""
    from mooring.api.volcano import PodGroup
    from mooring.api.volcano_jobs import VolcanoJob
    from mooring.cli.object_list import print_cluster_list

    def make(read: list[list[Any]]) -> ObjectList:
        jobs: list[VolcanoJob] = sorted(read[0], key=lambda each: each.key)
        chosen = [
            each
            for each in jobs
            if queue in ("", each.spec.queue or "default") and scheduler in ("", each.spec.scheduler_name or "volcano")
        ]
        return _job_list(chosen, read[1], with_namespace=all_namespaces)

    where = None if all_namespaces else namespace
    print_cluster_list(choice, (VolcanoJob, PodGroup), make, output, namespace=where, watch=watch)


def _job_list(jobs: list[VolcanoJob], groups: list[PodGroup], *, with_namespace: bool) -> ObjectList:
    from mooring.cli.object_list import Item, ObjectList
    from mooring.cli.output import columns

    items = []
    for each in jobs:
        value = _summary(each, groups)
        numbers = [str(value[key]) for key in ("replicas", "minAvailable", *_COUNTS, "retries")]
        created = (each.metadata.creation_timestamp or "")[:10]
        cells = (each.name, created, value["phase"] or "-", value["queue"], *numbers, value["waiting"])
        cells = (each.namespace, *cells) if with_namespace else cells
        items.append(Item(each.key, f"job.batch.volcano.sh/{each.name}", value, cells, value))
    counts = ("Replicas", "Min", *(each.capitalize() for each in _COUNTS), "Retries")
    titles = ("Name", "Creation", "Phase", "Queue", *counts, "Waits for")
    titles = ("Namespace", *titles) if with_namespace else titles
    footer = "" if items else "No jobs found."
    return ObjectList("Jobs", columns(titles, right=counts, ranks=_RANKS), items, footer)


@job.command()
@_job_argument
@namespace_option
@cluster_options
@output_option(*VIEW_FORMATS)
def view(job: str, namespace: str, choice: ClusterChoice, output: str) -> None:
    """Show one job: its tasks, its pods, why it is pending, and its events."""
    import msgspec

    from mooring.cli.explanation_tables import gang_parts
    from mooring.cli.output import print_result
    from mooring.controllers.gang_explanation import explain_gang

    facts, events = on_cluster(choice, lambda client: _facts_and_events(client, *split(client, job, namespace)))
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
@cluster_options
def suspend(job: str, namespace: str, choice: ClusterChoice) -> None:
    """Suspend a job: delete its pods until it is resumed."""
    _command(choice, job, namespace, "AbortJob")


@job.command()
@_job_argument
@namespace_option
@cluster_options
def resume(job: str, namespace: str, choice: ClusterChoice) -> None:
    """Resume a suspended job."""
    _command(choice, job, namespace, "ResumeJob")


@job.command()
@_job_argument
@click.option(
    "--for", "phases", multiple=True, default=("Completed",), show_default=True, help="Phase to wait for. Repeatable."
)
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Timeout in seconds.")
@namespace_option
@cluster_options
def wait(job: str, phases: tuple[str, ...], timeout: float, namespace: str, choice: ClusterChoice) -> None:
    """Wait until a job is in a phase. The exit code is 1 after the timeout."""
    from mooring.controllers.definitions.jobs import PHASES

    for phase in phases:
        if phase not in PHASES:
            raise click.BadParameter(f"{phase!r}: use one of {', '.join(PHASES)}", param_hint="--for")
    click.echo(on_cluster(choice, lambda client: _wait(client, *split(client, job, namespace), phases, timeout)))


@job.command()
@named("job", "[NAMESPACE/]NAME", "-N", required=False)
@click.option("-f", "--filename", default="", metavar="FILE", help="Manifest with jobs, instead of the other options.")
@click.option("-i", "--image", default="busybox", show_default=True, help="Container image.")
@click.option("-m", "--min", "least", default=1, show_default=True, help="Number of pods that must start together.")
@click.option("-r", "--replicas", default=1, show_default=True, help="Number of pods.")
@click.option(
    "-R", "--requests", default="cpu=1000m,memory=100Mi", show_default=True, help="Resource requests of a pod."
)
@click.option("-L", "--limits", default="cpu=1000m,memory=100Mi", show_default=True, help="Resource limits of a pod.")
@click.option("-S", "--scheduler", default="volcano", show_default=True, help="Scheduler of the job.")
@click.option("-q", "--queue", default="default", show_default=True, help="Queue of the job.")
@namespace_option
@cluster_options
def run(
    job: str,
    filename: str,
    image: str,
    least: int,
    replicas: int,
    requests: str,
    limits: str,
    scheduler: str,
    queue: str,
    namespace: str,
    choice: ClusterChoice,
) -> None:
    """Create a job with one task, or the jobs of a manifest, as `vcctl job run` does."""
    if bool(job) == bool(filename):
        raise click.UsageError("Give a name or --filename.")
    if filename:
        _create_all(choice, filename, namespace)
        return
    resources = {"requests": _amounts(requests, "--requests"), "limits": _amounts(limits, "--limits")}

    async def create(client: Client) -> str:
        where, name = split(client, job, namespace)
        container = {"name": name, "image": image, "imagePullPolicy": "IfNotPresent", "resources": resources}
        template = {
            "metadata": {"name": name, "labels": {"job.volcano.sh": name}},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        spec = {"minAvailable": least, "schedulerName": scheduler, "queue": queue}
        spec["tasks"] = [{"replicas": replicas, "template": template}]
        return await _create(client, {"metadata": {"name": name}, "spec": spec}, where)

    click.echo(on_cluster(choice, create))


@job.command()
@click.option("-f", "--filename", required=True, metavar="FILE", help="Manifest with jobs; - for standard input.")
@namespace_option
@cluster_options
def create(filename: str, namespace: str, choice: ClusterChoice) -> None:
    """Create the jobs of a manifest."""
    _create_all(choice, filename, namespace)


@job.command()
@_job_argument
@namespace_option
@cluster_options
def delete(job: str, namespace: str, choice: ClusterChoice) -> None:
    """Delete a job and its pods."""
    from mooring.api.volcano_jobs import VolcanoJob

    async def send(client: Client) -> VolcanoJob:
        found = await _job(client, *split(client, job, namespace))
        await client.delete(VolcanoJob, found.name, namespace=found.namespace, uid=found.uid)
        return found

    click.echo(f"job {on_cluster(choice, send).key}: deleted")


def _create_all(choice: ClusterChoice, filename: str, namespace: str) -> None:
    """Create the jobs of a manifest, and print a line about each."""
    from mooring.api.yaml_nodes import ReadError
    from mooring.api.yaml_reader import read_documents
    from mooring.cli.input_files import read_text

    try:
        documents = [each for each in read_documents(read_text(filename)) if each is not None]
    except ReadError as error:
        raise click.ClickException(f"{filename}: {error}") from None
    for each in documents:
        if not isinstance(each, dict) or (each.get("apiVersion"), each.get("kind")) != (_API_VERSION, "Job"):
            raise click.ClickException(f"{filename}: expected jobs ({_API_VERSION}, kind Job)")

    async def send(client: Client) -> list[str]:
        return [await _create(client, each, namespace or client.access.namespace) for each in documents]

    for line in on_cluster(choice, send):
        click.echo(line)


async def _create(client: Client, document: dict[str, Any], namespace: str) -> str:
    """Create a job and return a message about it."""
    from mooring.api.volcano_jobs import VolcanoJob
    from mooring.kube import resource_of

    where = (document.get("metadata") or {}).get("namespace") or namespace
    whole = {**document, "apiVersion": _API_VERSION, "kind": "Job"}
    made = await client.send("POST", resource_of(VolcanoJob).path(namespace=where), whole)
    return f"job {where}/{made['metadata']['name']}: created"


def _amounts(text: str, option: str) -> dict[str, str]:
    """Parse amounts such as `cpu=1,memory=100Mi`."""
    from mooring.api.quantity import QuantityError, parse_quantity

    found = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, equals, amount = part.partition("=")
        try:
            parse_quantity(amount)
        except QuantityError:
            equals = ""
        if not (name and equals):
            raise click.BadParameter(f"{part!r}: write amounts as in cpu=1,memory=100Mi", param_hint=option)
        found[name] = amount
    return found


async def _wait(client: Client, namespace: str, name: str, phases: tuple[str, ...], seconds: float) -> str:
    """Wait until the job is in a phase, and return a message about it."""
    import asyncio

    phase = ""
    try:
        async with asyncio.timeout(seconds):
            while True:
                phase = (await _job(client, namespace, name)).status.state.phase
                if phase in phases:
                    return f"job {namespace}/{name} is {phase}"
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        wanted, now = " or ".join(phases), phase or "without a phase"
        raise click.ClickException(
            f"job {namespace}/{name} is {now} after {seconds:g} s, not {wanted}; see `mooring explain job`"
        ) from None


def split(client: Client, name: str, namespace: str) -> tuple[str, str]:
    """Return the namespace and name in an argument. The default namespace is that of the context."""
    given, slash, rest = name.rpartition("/")
    if not rest or "/" in given or (slash and not given):
        raise click.BadParameter(f"{name!r}: give NAMESPACE/NAME, or NAME with -n", param_hint="JOB")
    return given or namespace or client.access.namespace, rest


def _command(choice: ClusterChoice, job: str, namespace: str, action: str) -> None:
    from mooring.controllers.commands import create_command

    async def send(client: Client) -> VolcanoJob:
        found = await _job(client, *split(client, job, namespace))
        await create_command(client, found, action)
        return found

    found = on_cluster(choice, send)
    phase = found.status.state.phase or "not set yet"
    click.echo(f"job {found.key}: {action} requested; the current phase is {phase}")


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
    from mooring.simulation.report import Listing

    items = [(f"{each.type} {each.reason}", each.note) for each in events]
    return [Listing("Events", items)] if items else []
