"""`mooring install`: print manifests to run the scheduler without Helm."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mooring import __version__
from mooring.cli.options import config_option, output_option, plugin_options

if TYPE_CHECKING:
    from mooring.loading import Requested, Setup

#: The name of kubeadm's static pod, and the user it runs as.
_COMPONENT = "kube-scheduler"
_USER = "system:kube-scheduler"
_PORT = 10259


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def install() -> None:
    """Print manifests to run the scheduler in a cluster.

    To install Mooring as a second scheduler, use the Helm chart in charts/mooring.
    """


@install.command("static-pod")
@click.option("--image", default=f"mooring:{__version__}", show_default=True, help="Container image.")
@config_option
@plugin_options
@click.option(
    "--kubeconfig", default="/etc/kubernetes/scheduler.conf", show_default=True, help="Kubeconfig on the node."
)
@click.option("--scheduler-conf", metavar="FILE", help="A volcano-scheduler.conf: also run batch sessions.")
@click.option("-v", "--verbosity", default=2, show_default=True, help="Log verbosity.")
@output_option("yaml", "json")
def static_pod(
    image: str,
    config_file: str | None,
    requested: Requested,
    kubeconfig: str,
    scheduler_conf: str | None,
    verbosity: int,
    output: str,
) -> None:
    """Print a static pod manifest that replaces kube-scheduler on a node set up by kubeadm.

    Write it to /etc/kubernetes/manifests/kube-scheduler.yaml, and keep a copy of the existing file. Run this command on
    the node: it checks the configuration and the plugins, and mounts them from their paths. The pod uses
    kube-scheduler's lease, so other control-plane nodes can still run kube-scheduler.
    """
    from mooring.cli.input_files import read_setup
    from mooring.cli.output import print_result

    setup = read_setup(config_file, requested)
    for note in _notes(setup):
        click.echo(f"note: {note}", err=True)
    flags = [f"--kubeconfig={kubeconfig}", f"--authentication-kubeconfig={kubeconfig}"]
    flags += [f"--authorization-kubeconfig={kubeconfig}", "--bind-address=127.0.0.1", f"--secure-port={_PORT}"]
    mounts = {"kubeconfig": (kubeconfig, "File")}
    for name, file in (("config", config_file), ("scheduler-conf", scheduler_conf)):
        if file:
            mounts[name] = (_absolute(file), "File")
            flags.append(f"--{name}={_absolute(file)}")
    for number, (plugin, path) in enumerate(requested.plugins):
        mounts[f"plugin-{number}"] = (_absolute(path), "Directory" if path.is_dir() else "File")
        flags.append(f"--plugin={plugin}={_absolute(path)}")
    for number, folder in enumerate(requested.directories):
        mounts[f"plugins-dir-{number}"] = (_absolute(folder), "Directory")
        flags.append(f"--plugins-dir={_absolute(folder)}")
    print_result(_manifest(image, [*flags, f"--v={verbosity}"], mounts), output, list)


def _absolute(path: str | Path) -> str:
    return str(Path(path).absolute())


def _notes(setup: Setup) -> list[str]:
    """Return warnings for the administrator who replaces kube-scheduler."""
    from mooring.live.rbac_manifests import plugin_rules
    from mooring.scheduler.profiles import enabled_classes

    config, found = setup.config, list(setup.notes)
    names = [profile.scheduler_name for profile in config.profiles]
    if "default-scheduler" not in names:
        found.append(
            f"there is no profile default-scheduler (there are: {', '.join(names)}): pods without a schedulerName stay "
            "pending; add one"
        )
    election = config.leader_election
    if not election.leader_elect:
        found.append(
            "leaderElection.leaderElect is false: with several control-plane nodes, all would bind pods; set it to true"
        )
    elif (election.resource_namespace, election.resource_name) != ("kube-system", "kube-scheduler"):
        found.append(
            f"the lease {election.resource_namespace}/{election.resource_name} is not kube-scheduler's: while some "
            "nodes still run kube-scheduler, both would bind pods; remove leaderElection.resourceName"
        )
    # kube-scheduler's role has the rules of its default plugins, but not those of the community's plugins.
    defaults = {each.partition(":")[0] for each in config.release.default_plugins.split()}
    if plugin_rules(each for each in enabled_classes(config, setup.plugins) if each.name not in defaults):
        found.append(
            f"the plugins need more permissions than {_USER} has: apply the output of `mooring rbac --user {_USER}` "
            "with the same options"
        )
    return found


def _manifest(image: str, flags: list[str], mounts: dict[str, tuple[str, str]]) -> dict[str, Any]:
    container = {
        "name": _COMPONENT,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["mooring", "run", *flags],
        "resources": {"requests": {"cpu": "100m"}},
        "livenessProbe": _probe("/livez", periodSeconds=10, failureThreshold=8),
        "readinessProbe": _probe("/readyz", periodSeconds=1, failureThreshold=3),
        "startupProbe": _probe("/livez", periodSeconds=10, failureThreshold=24),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": name, "mountPath": path, "readOnly": True} for name, (path, _) in mounts.items()
        ] + [{"name": "tmp", "mountPath": "/tmp"}],
        "env": [{"name": "HOME", "value": "/tmp"}],
    }  # fmt: skip
    volumes: list[dict[str, Any]] = [
        {"name": name, "hostPath": {"path": path, "type": kind}} for name, (path, kind) in mounts.items()
    ]
    labels = {"component": _COMPONENT, "tier": "control-plane"}
    spec = {
        "containers": [container],
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        # Only root can read the kubeconfig that kubeadm writes.
        "securityContext": {"runAsUser": 0, "runAsGroup": 0, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": [*volumes, {"name": "tmp", "emptyDir": {}}],
    }
    metadata = {"name": _COMPONENT, "namespace": "kube-system", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _probe(path: str, **more: int) -> dict[str, Any]:
    return {
        "httpGet": {"host": "127.0.0.1", "path": path, "port": _PORT, "scheme": "HTTPS"},
        "timeoutSeconds": 15,
        **more,
    }
