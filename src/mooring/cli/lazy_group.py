"""A click group that imports its commands on use, to keep `--help` fast."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: Command -> (module, attribute, short help).
Commands = Mapping[str, tuple[str, str, str]]


class LazyGroup(click.Group):
    """A group with the module and the short help of each command, but without the command itself."""

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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first argument names. If there is none, suggest a similar one."""
        name = args[0]
        if name not in self._lazy and not name.startswith("-") and not ctx.resilient_parsing:
            close = difflib.get_close_matches(name, self._lazy, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise click.UsageError(f"No such command {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the completions of a command name or an option, without importing the commands."""
        from click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=self._lazy[name][2]) for name in names]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands for `--help` without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._lazy[name][2]) for name in self.list_commands(ctx)])
