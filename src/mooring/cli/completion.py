"""`mooring completion`: shell completion, also for `kubectl mooring`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_VARIABLE = "_MOORING_COMPLETE"
#: Completion directives of kubectl: with and without file names.
_WITH_FILES, _WITHOUT_FILES = 0, 4


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes commands and options in a shell.

    \b
    bash:  source <(mooring completion bash)       in ~/.bashrc
    zsh:   source <(mooring completion zsh)        in ~/.zshrc
    fish:  mooring completion fish | source        in ~/.config/fish/config.fish

    `kubectl mooring` is completed by kubectl's own script (kubectl completion bash) without further setup.
    """
    from click.shell_completion import get_completion_class

    from mooring.cli.main import main

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(main, {}, "mooring", _VARIABLE).source())


def complete_for_kubectl() -> None:
    """Run the program `kubectl_complete-mooring`. kubectl passes the words so far; the last one is incomplete."""
    *words, incomplete = sys.argv[1:] or [""]
    found = _completions(words, incomplete)
    for item in found:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(f":{_WITH_FILES if any(item.type != 'plain' for item in found) else _WITHOUT_FILES}")


def _completions(words: list[str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import ShellComplete

    from mooring.cli.main import main

    return ShellComplete(main, {}, "kubectl mooring", _VARIABLE).get_completions(words, incomplete)
