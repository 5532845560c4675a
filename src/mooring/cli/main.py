"""The `mooring` command. Subcommands are imported when they are used, so that `--help` is quick."""

from __future__ import annotations

import importlib

import click

from mooring import __version__

#: Command -> (module, attribute, one line of help).
COMMANDS = {
    "cluster": ("mooring.cli.cluster", "cluster", "A Kubernetes API with fake nodes, for trying things out."),
    "config": ("mooring.cli.config", "config", "Look at, check and migrate scheduler configuration files."),
    "evaluate": (
        "mooring.cli.evaluate",
        "evaluate",
        "Answer what the scheduler would decide, case by case (JSON lines).",
    ),
    "explain": ("mooring.cli.explain", "explain", "Tell why a pod is where it is, or nowhere."),
    "run": ("mooring.cli.run", "run", "Schedule the pods of a cluster."),
    "up": ("mooring.cli.up", "up", "Run an embedded cluster and a scheduler for it."),
    "simulate": ("mooring.cli.simulate", "simulate", "Schedule workloads from manifests without a cluster."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order people meet them."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One command."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, attribute, _ = entry
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in `--help`, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mooring")
def main() -> None:
    """A Kubernetes scheduler that you extend in Python.

    It reads kube-scheduler's configuration and decides as kube-scheduler 1.36 decides.
    """
