"""`mooring plugin`: create, check, debug and list plugins."""

from __future__ import annotations

import click

from mooring.cli.lazy_group import LazyGroup

#: Command -> (module, attribute, short help).
COMMANDS = {
    "check": ("mooring.cli.plugin_check", "check", "Check plugins for errors, without a cluster."),
    "debug": ("mooring.cli.plugin_debug", "debug", "Run one scheduling attempt with a plugin under pdb."),
    "list": ("mooring.cli.plugin_list", "list_", "List plugins with their source, points, state and cost."),
    "new": ("mooring.cli.plugin_new", "new", "Create a plugin with a test and a configuration."),
    "manifests": (
        "mooring.cli.plugin_manifests",
        "manifests",
        "Print the CRDs, RBAC, samples and configuration for plugins.",
    ),
}


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
def plugin() -> None:
    """Create, check, debug and list plugins."""
