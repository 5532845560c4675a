"""`mooring explain`: why a pod is where it is, or nowhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
import msgspec

from mooring.cli.cluster_access import kubeconfig_option, on_cluster, output_option
from mooring.cli.plugin_options import plugin_options
from mooring.cli.running_options import Address, running_options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mooring.api.meta import KubeObject
    from mooring.cli.running import Running
    from mooring.controllers.gang_explanation import Facts
    from mooring.kube import Access
    from mooring.loading import Requested, Setup
    from mooring.observe.explanation import Explanation


@click.group()
def explain() -> None:
    """Tell why a pod or a job is where it is, or waits."""


@explain.command()
@click.argument("pod", metavar="[NAMESPACE/]NAME")
@click.option("-n", "--namespace", default="default", show_default=True, help="Where the pod is, if POD does not say.")
@running_options
@click.option("-f", "--filename", "files", multiple=True, metavar="MANIFEST", help="Decide on these manifests instead.")
@click.option("-R", "--recursive", is_flag=True, help="Look into the folders of folders too.")
@click.option("--kubeconfig", default="", help="The cluster to decide on where no Mooring answers.")
@click.option("--config", "config_file", metavar="FILE", help="The KubeSchedulerConfiguration to decide with.")
@plugin_options
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
def pod(
    pod: str,
    namespace: str,
    address: Address,
    files: tuple[str, ...],
    recursive: bool,
    kubeconfig: str,
    config_file: str | None,
    requested: Requested,
    output: str,
) -> None:
    """Tell why a pod is where it is, or nowhere.

    The running Mooring is asked (--scheduler, by default on this machine): it knows what was decided, and why. Where
    none answers, the decision is made again from the cluster's present state, or from manifests (-f), and that is said.
    The certificate of a scheduler on this machine is checked only with --certificate-authority. The kubeconfig that
    `mooring up` writes says all this by itself. A pod that is in a gang is told of with its gang.

    The exit code is 1 when nothing can be told of the pod, 2 for a wrong command line.
    """
    from mooring.cli.inputs import read_setup

    key = _key(pod, namespace)
    if files:
        if address.scheduler and click.get_current_context().get_parameter_source("scheduler") is not None:
            click.echo("note: manifests were given, so no scheduler is asked", err=True)
        setup = read_setup(config_file, requested)
        objects, again = _from_manifests(files, setup, recursive=recursive), ""
    else:
        answer = _ask(address.running(kubeconfig), key)
        if not isinstance(answer, str):
            _show(answer, output)
            return
        gang = _gang(kubeconfig, key)
        if gang is not None:
            # Decided about with the others of its group, by sessions: deciding about it alone would tell nothing.
            _show_why(gang, output)
            return
        again = answer
        setup = read_setup(config_file, requested)
        objects = _from_cluster(kubeconfig, setup, again)
    _show(_decide_again(objects, key, setup, again), output)


@explain.command()
@click.argument("job", metavar="[NAMESPACE/]NAME")
@click.option("-n", "--namespace", default="default", show_default=True, help="Where the job is, if JOB does not say.")
@kubeconfig_option
@output_option
def job(job: str, namespace: str, kubeconfig: str, output: str) -> None:
    """Tell why a job (batch.volcano.sh) waits: which gate holds it back, and by what numbers.

    The gates, in order: the job itself, its queue, the quota of the queue, the gang, the nodes.
    """
    from mooring.cli.job import facts, split

    found = on_cluster(kubeconfig, lambda client: facts(client, *split(job, namespace)))
    _show_why(found, output)


def _show_why(facts: Facts, output: str) -> None:
    from mooring.cli.documents import echo_value
    from mooring.cli.gang_explanation_parts import why_parts
    from mooring.cli.tables import show
    from mooring.controllers.gang_explanation import explain_gang

    why = explain_gang(facts)
    if output == "table":
        phase = facts.job.status.state.phase if facts.job is not None else ""
        group = f"PodGroup {facts.group.key}: {facts.group.status.phase or 'Pending'}" if facts.group else "No PodGroup"
        head = f"Job {facts.job.key}: {phase or 'not taken up yet'}. " if facts.job is not None else ""
        show([f"{head}{group}.", *why_parts(why)], sys.stdout)
    else:
        echo_value({"waits": why is not None, **({} if why is None else msgspec.to_builtins(why))}, output)


def _gang(kubeconfig: str, key: str) -> Facts | None:
    """What is known about the gang of a pod; None if it is in none, or the cluster does not tell."""
    import asyncio

    from mooring.controllers.gang_explanation import gang_facts_of_pod
    from mooring.kube import AccessError, Client, KubeError, load_access

    async def ask() -> Facts | None:
        async with Client(load_access(kubeconfig=kubeconfig)) as client:
            return await gang_facts_of_pod(client, *key.split("/"))

    try:
        return asyncio.run(ask())
    except (AccessError, KubeError):
        return None


def _key(pod: str, namespace: str) -> str:
    given, slash, name = pod.rpartition("/")
    if not name or "/" in given or (slash and not given):
        raise click.BadParameter(f"{pod!r}: give NAMESPACE/NAME, or NAME with -n", param_hint="POD")
    return f"{given or namespace}/{name}"


def _ask(running: Running, key: str) -> Explanation | str:
    """What the running scheduler knows; a text why it cannot be had."""
    from mooring.cli.running import NoAnswer

    try:
        return running.explanation(key)
    except NoAnswer as problem:
        return str(problem)


# Deciding again


def _decide_again(objects: Iterable[KubeObject], key: str, setup: Setup, reason: str) -> Explanation:
    from mooring.scheduler.profile import ProfileError
    from mooring.simulate.explain import explain_again
    from mooring.simulate.sources import InputError

    try:
        found = explain_again(objects, key, setup.config, plugins=setup.plugins)
    except (InputError, ProfileError) as error:
        raise click.ClickException(str(error)) from None
    if reason:
        found = msgspec.structs.replace(found, note=f"{reason} {found.note}".strip())
    return found


def _from_manifests(files: tuple[str, ...], setup: Setup, *, recursive: bool) -> list[KubeObject]:
    from mooring.api.manifest_error import ManifestError
    from mooring.scheduler.build import known_kinds
    from mooring.simulate.scenario import build
    from mooring.simulate.sources import InputError, read

    try:
        given = read(files, recursive=recursive, stdin=sys.stdin.buffer.read)
        scenario = build(given, kinds=known_kinds(setup.plugins))
    except (InputError, ManifestError) as error:
        raise click.ClickException(str(error)) from None
    return [*scenario.nodes, *scenario.objects, *(each.pod for each in scenario.pods)]


def _from_cluster(kubeconfig: str, setup: Setup, reason: str) -> list[KubeObject]:
    import asyncio

    from mooring.kube import AccessError, Forbidden, KubeError, load_access

    try:
        access = load_access(kubeconfig=kubeconfig)
    except AccessError as error:
        raise click.ClickException(f"{reason}\nNor can a cluster be read: {error}") from None
    for warning in access.warnings:
        click.echo(f"note: {warning}", err=True)
    try:
        return asyncio.run(_listed(access, setup))
    except Forbidden as error:
        raise click.ClickException(
            f"{reason}\nNor may the cluster be read: {error}; give a --kubeconfig of one who may list nodes and pods"
        ) from None
    except KubeError as error:
        raise click.ClickException(f"{reason}\nNor can the cluster be read: {error}") from None


async def _listed(access: Access, setup: Setup) -> list[KubeObject]:
    from mooring.api.node import Node
    from mooring.api.pod import Pod
    from mooring.kube import Client, Forbidden, NotFound
    from mooring.live.custom import resource_for
    from mooring.live.informers import KINDS
    from mooring.scheduler.build import enabled_kinds

    found: list[KubeObject] = []
    async with Client(access) as client:
        for kind in dict.fromkeys((*KINDS, *enabled_kinds(setup.config, setup.plugins))):
            try:
                page = await client.list(resource_for(kind))
            except (Forbidden, NotFound) as error:
                if kind in (Node, Pod):
                    raise
                click.echo(f"note: decided without {kind.__name__} objects, which cannot be read: {error}", err=True)
                continue
            found += page.items
    return found


# Output


def _show(found: Explanation, output: str) -> None:
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    elif output == "yaml":
        import yaml

        click.echo(yaml.safe_dump(msgspec.to_builtins(found), sort_keys=False, allow_unicode=True), nl=False)
    else:
        from mooring.cli.explanation_parts import parts
        from mooring.cli.tables import show

        show(parts(found), sys.stdout)
