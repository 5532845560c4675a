"""The `mooring` command. Subcommands are imported when they are used, so that `--help` is quick."""

from __future__ import annotations

import click

from mooring import __version__
from mooring.cli.lazy import LazyGroup

#: Command -> (module, attribute, one line of help).
COMMANDS = {
    "batch": ("mooring.cli.batch", "batch", "Batch sessions, as Volcano has them."),
    "cluster": ("mooring.cli.cluster", "cluster", "A Kubernetes API with fake nodes, for trying things out."),
    "config": ("mooring.cli.config", "config", "Look at, check and migrate scheduler configuration files."),
    "controller": ("mooring.cli.controller", "controller", "Look after queues, pod groups and jobs."),
    "evaluate": (
        "mooring.cli.evaluate",
        "evaluate",
        "Answer what the scheduler would decide, case by case (JSON lines).",
    ),
    "explain": ("mooring.cli.explain", "explain", "Tell why a pod or a job is where it is, or waits."),
    "install": ("mooring.cli.install", "install", "Print manifests that run the scheduler in a cluster."),
    "job": ("mooring.cli.job", "job", "Look at batch jobs, suspend and resume them."),
    "plugin": ("mooring.cli.plugin", "plugin", "Write, check and look at plugins."),
    "queue": ("mooring.cli.queue", "queue", "Look at queues, open and close them."),
    "rbac": ("mooring.cli.rbac", "rbac", "Print what the scheduler must be allowed to do, as manifests."),
    "run": ("mooring.cli.run", "run", "Schedule the pods of a cluster."),
    "up": ("mooring.cli.up", "up", "Run an embedded cluster and a scheduler for it."),
    "simulate": ("mooring.cli.simulate", "simulate", "Schedule workloads from manifests without a cluster."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mooring")
@click.pass_context
def main(context: click.Context) -> None:
    """A Kubernetes scheduler that you extend in Python.

    It reads kube-scheduler's configuration and decides as kube-scheduler 1.36 decides.
    """
    from mooring.observe.logs import warn_only

    # Unless a command says otherwise: the logging library by itself writes everything, and among the output.
    context.call_on_close(warn_only())
