"""The options with which commands are told about plugins, and what they mean."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--plugin",
        "named_plugins",
        multiple=True,
        metavar="NAME=FILE",
        help="A plugin of your own and the Python file or package that defines it; repeatable.",
    ),
    click.option(
        "--plugins-dir",
        "plugin_folders",
        multiple=True,
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="A folder with plugins of your own, as files and packages; repeatable.",
    ),
    click.option(
        "--allow-writable-plugins",
        is_flag=True,
        help="Accept plugin files and folders that others can write to (they could run code in the scheduler).",
    ),
)


def plugin_options(command: F) -> F:
    """Give a command the options about plugins; it gets what they say as ``requested``."""

    @functools.wraps(command)
    def with_request(
        *args: Any,
        named_plugins: tuple[str, ...],
        plugin_folders: tuple[Path, ...],
        allow_writable_plugins: bool,
        **kwargs: Any,
    ) -> Any:
        # Imported here, so that --help is quick.
        from mooring.loading import PluginLoadError, Requested, parse_plugin_option

        named: dict[str, Path] = {}
        for option in named_plugins:
            try:
                name, path = parse_plugin_option(option)
            except PluginLoadError as error:
                raise click.BadParameter(str(error), param_hint="--plugin") from None
            if name in named:
                raise click.BadParameter(f"{name} is given twice: leave one out", param_hint="--plugin")
            named[name] = path
        requested = Requested(tuple(named.items()), plugin_folders, allow_writable_plugins)
        return command(*args, requested=requested, **kwargs)

    decorated: Any = with_request
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]  # click's decorators keep the function they are given
