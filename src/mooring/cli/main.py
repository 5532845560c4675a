"""The `mooring` command. Subcommands are imported on use, to keep `--help` fast."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time

import click

from mooring import __version__
from mooring.cli.lazy_group import LazyGroup

#: Command -> (module, attribute, short help).
COMMANDS = {
    "batch": ("mooring.cli.batch", "batch", "Evaluate batch sessions, and install Volcano's resource definitions."),
    "cluster": ("mooring.cli.cluster", "cluster", "Run a local Kubernetes API server with fake nodes."),
    "completion": ("mooring.cli.completion", "completion", "Print a script for shell completion."),
    "config": ("mooring.cli.config", "config", "View, check and migrate scheduler configuration files."),
    "controller": ("mooring.cli.controller", "controller", "Run the controllers of queues, pod groups and jobs."),
    "dashboard": ("mooring.cli.dashboard", "dashboard", "Show a cluster in a browser, whichever scheduler it has."),
    "evaluate": ("mooring.cli.evaluate", "evaluate", "Print the scheduler's decisions for test cases (JSON lines)."),
    "explain": (
        "mooring.cli.explain",
        "explain",
        "Explain why a pod was placed on its node, or why a pod or job is pending.",
    ),
    "install": ("mooring.cli.install", "install", "Print manifests to run the scheduler in a cluster."),
    "job": ("mooring.cli.job", "job", "List, show, suspend and resume batch jobs."),
    "plugin": ("mooring.cli.plugin", "plugin", "Create, check and list plugins."),
    "queue": ("mooring.cli.queue", "queue", "List, show, open and close queues."),
    "rbac": ("mooring.cli.rbac", "rbac", "Print the RBAC manifests that the scheduler needs."),
    "record": ("mooring.cli.record", "record", "Record a cluster: what decisions depend on, and every change."),
    "recording": ("mooring.cli.recording", "recording", "Show what is in a recording."),
    "replay": ("mooring.cli.replay", "replay", "Repeat the decisions of a recording, or decide it differently."),
    "run": ("mooring.cli.run", "run", "Schedule the pods of a cluster."),
    "shadow": ("mooring.cli.shadow", "shadow", "Compare Mooring with the scheduler of a cluster, read-only."),
    "up": ("mooring.cli.up", "up", "Run a local cluster and a scheduler for it."),
    "serve": ("mooring.cli.serve", "serve", "Serve answers for other programs."),
    "simulate": ("mooring.cli.simulate", "simulate", "Schedule workloads from manifests without a cluster."),
    "rebalance": ("mooring.cli.rebalance", "rebalance", "Propose moves that make room for pending pods."),
    "tune": ("mooring.cli.tune", "tune", "Search for a better configuration on recordings, traces or generated load."),
    "what-if": ("mooring.cli.what_if", "what_if", "Show the effect of changes to a cluster before they are made."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mooring")
@click.pass_context
def main(context: click.Context) -> None:
    """A Kubernetes scheduler that you extend in Python.

    It reads kube-scheduler's configuration and makes the same decisions as kube-scheduler 1.36 or 1.37.
    """
    from mooring.logs import configure_logs

    context.call_on_close(configure_logs(0, as_json=False))


def kubectl_plugin() -> None:
    """Run the program `kubectl-mooring`, which kubectl executes for `kubectl mooring`."""
    entry(prog_name="kubectl mooring")


#: An import creates many objects and no garbage, so there is no collection until `mooring run` has imported what it
#: needs, which creates 130,000. Schedulers set their own thresholds when they have read the cluster.
_GC_THRESHOLDS = (200_000, 50, 100)
#: How long the process waits for threads at exit.
_THREAD_SECONDS = 1.0


def entry(prog_name: str | None = None) -> None:
    """Run the command and exit, even if threads of a plugin are still running."""
    gc.set_threshold(*_GC_THRESHOLDS)
    # Matrices are small here. By default, NumPy's library for them starts a thread for each core of the machine.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        main(prog_name=prog_name)
    except SystemExit as end:
        _leave_threads(end.code if isinstance(end.code, int) else int(end.code is not None))
        raise


def _leave_threads(code: int) -> None:
    """Exit immediately if there are non-daemon threads, for which Python would wait indefinitely."""
    threads = [each for each in threading.enumerate() if each is not threading.main_thread() and not each.daemon]
    deadline = time.monotonic() + _THREAD_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    names = ", ".join(each.name for each in threads if each.is_alive())
    if not names:
        return
    click.echo(
        f"Exiting although threads of plugins are still running: {names}. Start threads with daemon=True.", err=True
    )
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
