"""A click group that imports its commands on use, to keep `--help` fast."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

#: Command -> (module, attribute, short help).
Commands = Mapping[str, tuple[str, str, str]]


class LazyGroup(click.Group):
    """A group that knows only the module and the short help of each command."""

    def __init__(self, *args: Any, lazy: Commands, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        entry = self._lazy.get(cmd_name)
        if entry is None:
            return None
        module, attribute, _ = entry
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands for `--help` without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._lazy[name][2]) for name in self.list_commands(ctx)])
