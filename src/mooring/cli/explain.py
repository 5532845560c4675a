"""`mooring explain`: why a pod was placed on its node, or why it is pending."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, NoReturn

import click
import msgspec

from mooring.cli.cluster_access import ClusterChoice, context_namespace, on_cluster
from mooring.cli.options import (
    VIEW_FORMATS,
    ReleaseChoice,
    SchedulerAddress,
    cluster_options,
    config_option,
    filename_option,
    namespace_option,
    output_option,
    plugin_options,
    release_options,
    scheduler_options,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mooring.api.meta import KubeObject
    from mooring.cli.scheduler_client import SchedulerClient
    from mooring.controllers.gang_explanation import Facts
    from mooring.kube import Access
    from mooring.loading import Requested, Setup
    from mooring.observe.explanation import Explanation, SuggestionView


_WATCH_SECONDS = 2.0


@click.group()
def explain() -> None:
    """Explain why a pod was placed on its node, or why a pod or job is pending."""


@explain.command()
@click.argument("pod", metavar="[NAMESPACE/]NAME")
@namespace_option
@scheduler_options
@filename_option("Use these manifests instead of a cluster.")
@click.option("-R", "--recursive", is_flag=True, help="Read subdirectories too.")
@cluster_options
@config_option
@plugin_options
@release_options
@output_option(*VIEW_FORMATS)
@click.option(
    "-w", "--watch", is_flag=True, help="Print the running scheduler's explanation again when it changes, until Ctrl-C."
)
def pod(
    pod: str,
    namespace: str,
    address: SchedulerAddress,
    files: tuple[str, ...],
    recursive: bool,
    choice: ClusterChoice,
    config_file: str | None,
    requested: Requested,
    emulated: ReleaseChoice,
    output: str,
    watch: bool,
) -> None:
    """Explain why a pod was placed on its node, or why it is pending.

    The running scheduler (--scheduler, by default on this machine) has a record of its decisions. If no scheduler
    answers, the decision is simulated from the current state of the cluster, or from manifests (-f), and the output
    says so. The certificate of a scheduler on this machine is verified only with --certificate-authority. The
    kubeconfig that `mooring up` writes contains the scheduler's address and CA. A pod in a gang is explained together
    with its gang.

    The exit code is 1 if the pod cannot be explained, and 2 for a usage error.
    """
    from mooring.cli.input_files import read_setup

    key = _key(pod, namespace or ("default" if files else context_namespace(choice)))
    if watch and files:
        raise click.UsageError("--watch needs a running scheduler: leave -f out")
    if files:
        if address.scheduler and click.get_current_context().get_parameter_source("scheduler") is not None:
            click.echo("note: --scheduler is ignored because manifests are given", err=True)
        setup = read_setup(config_file, requested, emulated.release())
        objects, reason = objects_in_manifests(files, setup, recursive=recursive), ""
    else:
        if watch:
            _watch(address.client(choice), key, output)
        answer = _recorded(address.client(choice), key)
        if not isinstance(answer, str) and not answer.gang:
            _print_pod(answer, output)
            return
        gang = _gang(choice, key)
        if gang is not None:
            # Sessions decide about the gang as a whole; an attempt for this pod alone would be misleading.
            suggestions = [] if isinstance(answer, str) else answer.suggestions
            _print_gang(_with_plugins(gang, address.client(choice)), output, suggestions)
            return
        if not isinstance(answer, str):
            _print_pod(answer, output)
            return
        reason = answer
        minor = server_minor(choice) if emulated.named is None else None
        setup = read_setup(config_file, requested, emulated.release(minor))
        objects = objects_in_cluster(choice, setup, reason)
    _print_pod(_simulated(objects, key, setup, reason), output)


@explain.command()
@click.argument("job", metavar="[NAMESPACE/]NAME")
@namespace_option
@scheduler_options
@cluster_options
@output_option(*VIEW_FORMATS)
def job(job: str, namespace: str, address: SchedulerAddress, choice: ClusterChoice, output: str) -> None:
    """Explain why a job (batch.volcano.sh) is waiting: which gate it has not passed, and the amounts involved.

    The gates, in order: the job itself, its queue, the queue's quota, the gang, the nodes. Whether the capability of
    queues counts depends on the plugins of the running scheduler (--scheduler, by default on this machine).
    """
    from mooring.cli.job import facts, split

    found = on_cluster(choice, lambda client: facts(client, *split(client, job, namespace)))
    _explain_gang(found, address.client(choice), output)


@explain.command()
@click.argument("group", metavar="[NAMESPACE/]NAME")
@namespace_option
@scheduler_options
@cluster_options
@output_option(*VIEW_FORMATS)
def podgroup(group: str, namespace: str, address: SchedulerAddress, choice: ClusterChoice, output: str) -> None:
    """Explain why a PodGroup (scheduling.volcano.sh) is waiting, and what would let it start.

    The running scheduler (--scheduler, by default on this machine) suggests changes, each verified by a session that is
    not carried out. Pods of other PodGroups (scheduling.k8s.io, scheduling.x-k8s.io) are explained by `explain pod`.
    """
    from mooring.controllers.gang_explanation import gang_facts

    namespace, _, name = _key(group, namespace or context_namespace(choice), "GROUP").partition("/")
    found = on_cluster(choice, lambda client: gang_facts(client, namespace, name))
    if found.group is None:
        raise click.ClickException(f"there is no PodGroup {namespace}/{name} (scheduling.volcano.sh)")
    _explain_gang(found, address.client(choice), output)


def _explain_gang(facts: Facts, client: SchedulerClient, output: str) -> None:
    """Print why a gang waits, with the suggestions of the running scheduler, if it responds."""
    pending = next((pod for pod in facts.pods if not pod.node_name), None)
    answer = _recorded(client, pending.key) if pending is not None else ""
    suggestions = [] if isinstance(answer, str) else answer.suggestions
    _print_gang(_with_plugins(facts, client), output, suggestions)


def _with_plugins(facts: Facts, client: SchedulerClient) -> Facts:
    """Add the facts that depend on the session plugins of the running scheduler, if it responds."""
    from mooring.cli.scheduler_client import NoAnswer
    from mooring.controllers.gang_explanation import ENFORCERS

    try:
        names = {row.name for row in client.plugins() if "session" in row.points and row.profile}
    except NoAnswer:
        return facts
    enforces = any(name in names for name in ENFORCERS) if names else None
    return msgspec.structs.replace(facts, enforces_capability=enforces)


def _print_gang(facts: Facts, output: str, suggestions: Sequence[SuggestionView] = ()) -> None:
    from mooring.cli.explanation_tables import gang_parts, suggestion_parts
    from mooring.cli.output import print_result
    from mooring.controllers.gang_explanation import explain_gang

    why = explain_gang(facts)
    if why is None:
        suggestions = ()
    value = {"waits": why is not None, **({} if why is None else msgspec.to_builtins(why))}
    if suggestions:
        value["suggestions"] = msgspec.to_builtins(list(suggestions))
    group = f"PodGroup {facts.group.key}: {facts.group.status.phase or 'Pending'}." if facts.group else "No PodGroup."
    job = f"Job {facts.job.key}: {facts.job.status.state.phase or 'no phase yet'}. " if facts.job else ""
    print_result(value, output, lambda: [f"{job}{group}", *gang_parts(why), *suggestion_parts(suggestions)])


def _print_pod(found: Explanation, output: str) -> None:
    from mooring.cli.explanation_tables import pod_parts
    from mooring.cli.output import print_result

    print_result(found, output, lambda: pod_parts(found))


def _gang(choice: ClusterChoice, key: str) -> Facts | None:
    """Return the gang of a pod; None if the pod is not in a gang, or if the cluster cannot be read."""
    import asyncio

    from mooring.controllers.gang_explanation import gang_facts_of_pod
    from mooring.kube import AccessError, Client, KubeError

    async def read() -> Facts | None:
        async with Client(choice.load()) as client:
            return await gang_facts_of_pod(client, *key.split("/"))

    try:
        return asyncio.run(read())
    except (AccessError, KubeError):
        return None


def server_minor(choice: ClusterChoice) -> int | None:
    """Return the minor version of the API server; None if it cannot be read."""
    import asyncio

    from mooring.kube import AccessError, Client, KubeError

    async def read() -> int | None:
        async with Client(choice.load()) as client:
            return await client.server_minor()

    try:
        return asyncio.run(read())
    except (AccessError, KubeError):
        return None


def _key(pod: str, namespace: str, argument: str = "POD") -> str:
    given, slash, name = pod.rpartition("/")
    if not name or "/" in given or (slash and not given):
        raise click.BadParameter(f"{pod!r}: give NAMESPACE/NAME, or NAME with -n", param_hint=argument)
    return f"{given or namespace}/{name}"


def _watch(client: SchedulerClient, key: str, output: str) -> NoReturn:
    """Print the explanation whenever it changes. Ends the command if the scheduler does not respond."""
    from mooring.cli.input_files import fail
    from mooring.cli.scheduler_client import NoAnswer

    last: Explanation | None = None
    try:
        while True:
            found = client.explanation(key)
            if found != last:
                if last is not None and output not in ("json", "yaml"):
                    click.echo()
                _print_pod(found, output)
                sys.stdout.flush()
            last = found
            time.sleep(_WATCH_SECONDS)
    except NoAnswer as problem:
        fail([str(problem)])
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _recorded(client: SchedulerClient, key: str) -> Explanation | str:
    """Return the running scheduler's explanation, or the reason why it is not available."""
    from mooring.cli.scheduler_client import NoAnswer

    try:
        return client.explanation(key)
    except NoAnswer as problem:
        return str(problem)


def _simulated(objects: Iterable[KubeObject], key: str, setup: Setup, reason: str) -> Explanation:
    from mooring.scheduler.profile import ProfileError
    from mooring.simulation.explain import explain_again
    from mooring.simulation.sources import InputError

    try:
        found = explain_again(objects, key, setup.config, plugins=setup.plugins)
    except (InputError, ProfileError) as error:
        raise click.ClickException(str(error)) from None
    if reason:
        found = msgspec.structs.replace(found, note=f"{reason} {found.note}".strip())
    return found


def objects_in_manifests(files: tuple[str, ...], setup: Setup, *, recursive: bool) -> list[KubeObject]:
    """Return the objects of manifests, with the pods that the controllers of workloads would create."""
    from mooring.api.decode_errors import ManifestError
    from mooring.scheduler.profiles import known_kinds
    from mooring.simulation.scenario import build
    from mooring.simulation.sources import InputError, read

    try:
        given = read(files, recursive=recursive, stdin=sys.stdin.buffer.read)
        scenario = build(given, kinds=known_kinds(setup.plugins))
    except (InputError, ManifestError) as error:
        raise click.ClickException(str(error)) from None
    return [*scenario.nodes, *scenario.objects, *(each.pod for each in scenario.pods)]


def objects_in_cluster(
    choice: ClusterChoice, setup: Setup, reason: str = "", *, more: Sequence[type[KubeObject]] = ()
) -> list[KubeObject]:
    """Return the objects of a cluster that decisions depend on, and those of ``more`` kinds.

    ``reason`` is the reason why they are needed, for messages.
    """
    import asyncio

    from mooring.kube import AccessError, Forbidden, KubeError

    try:
        access = choice.load()
    except AccessError as error:
        raise click.ClickException(_unreadable(error, reason)) from None
    for warning in access.warnings:
        click.echo(f"note: {warning}", err=True)
    try:
        return asyncio.run(_list_objects(access, setup, more))
    except Forbidden as error:
        remedy = "use a --context or --kubeconfig that can list nodes and pods"
        text = f"Reading the cluster is forbidden: {error}; {remedy}"
        raise click.ClickException(f"{reason}\n{text}" if reason else text) from None
    except KubeError as error:
        raise click.ClickException(_unreadable(error, reason)) from None


def _unreadable(error: Exception, reason: str) -> str:
    return f"{reason}\nThe cluster cannot be read either: {error}" if reason else f"The cluster cannot be read: {error}"


async def _list_objects(access: Access, setup: Setup, more: Sequence[type[KubeObject]]) -> list[KubeObject]:
    from mooring.api.node import Node
    from mooring.api.pod import Pod
    from mooring.kube import Client, Forbidden, NotFound
    from mooring.live.custom import resource_for
    from mooring.live.informers import KINDS
    from mooring.scheduler.profiles import enabled_kinds

    found: list[KubeObject] = []
    ignored: dict[str, str] = {}
    async with Client(access) as client:
        for kind in dict.fromkeys((*KINDS, *enabled_kinds(setup.config, setup.plugins), *more)):
            try:
                page = await client.list(resource_for(kind))
            except (Forbidden, NotFound) as error:
                if kind in (Node, Pod):
                    raise
                ignored[kind.__name__] = str(error)
                continue
            found += page.items
    if ignored:
        reason = next(iter(ignored.values()))
        click.echo(f"note: ignored, because they cannot be read: {', '.join(ignored)} ({reason})", err=True)
    return found
