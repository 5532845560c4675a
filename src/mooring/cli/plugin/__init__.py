"""`mooring plugin`: write, check and look at plugins."""

from __future__ import annotations

import click

from mooring.cli.lazy import LazyGroup

#: Command -> (module, attribute, one line of help).
COMMANDS = {
    "check": ("mooring.cli.plugin.check", "check", "Check plugins as a compiler would, without a cluster."),
    "list": ("mooring.cli.plugin.listing", "listing", "Show plugins: where they came from, what they do and cost."),
    "new": ("mooring.cli.plugin.new", "new", "Write a plugin, its test and its configuration, to start from."),
    "manifests": (
        "mooring.cli.plugin.manifests",
        "manifests",
        "Print the definitions, roles, samples and configuration that follow from plugins.",
    ),
}


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
def plugin() -> None:
    """Write, check and look at plugins."""
