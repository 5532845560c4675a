"""A click command that takes its flags as Go programs do, explains flags it does not have, and groups `--help`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click

from mooring.cli.flags.flag import Flag, FlagOption, Foreign, parse_bool
from mooring.config.errors import nearest

_NOTES = "mooring.cli.flags.notes"
#: How options are headed that are Mooring's own.
OWN_GROUP = "Mooring's own"
_VERSION, _HELP = "--version", ("-h", "--help")


def notes(ctx: click.Context) -> list[str]:
    """What to tell about flags that were given and have no effect here; each once, in the order of the command line."""
    found: list[str] = ctx.meta.setdefault(_NOTES, [])
    return found


class DropInCommand(click.Command):
    """Takes `--flag`, `--flag=value`, `--flag value`, `-v=3` and words parted by underscores."""

    def __init__(
        self, *args: Any, flags: Iterable[Flag] = (), foreign: Iterable[Foreign] = (), version: Callable[[str], str],
        **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(*args, **kwargs)
        self._own = tuple(self.params)
        self.params = [*self.params, *(FlagOption(flag) for flag in flags)]
        self._foreign: Mapping[str, Foreign] = {each.name: each for each in foreign}
        self._version = version

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command line into click's terms first."""
        return super().parse_args(ctx, self._in_clicks_terms(ctx, args))

    def _in_clicks_terms(self, ctx: click.Context, args: Sequence[str]) -> list[str]:
        options = {name: each for each in self.get_params(ctx) if isinstance(each, click.Option) for name in each.opts}
        negations = {name: each for each in options.values() for name in each.secondary_opts}
        result: list[str] = []
        left = list(args)
        while left:
            word = left.pop(0)
            if word in _HELP:
                return ["--help"]
            if not word.startswith("-") or word in ("-", "--"):
                raise click.UsageError(self._stray(word, args, options))
            name, value = _split(word)
            if name == _VERSION:
                click.echo(self._version(value or ""))
                ctx.exit()
            option = options.get(name)
            if option is not None:
                _append(result, option, _option(option, name, value, left))
            elif name in negations:
                result.append(name)
            elif name.removeprefix("--no-") != name and _is_bool(options.get("--" + name.removeprefix("--no-"))):
                result.append(f"--{name.removeprefix('--no-')}=false")
            else:
                self._explain(ctx, name, value, left, options)
        return result

    def _explain(
        self, ctx: click.Context, name: str, value: str | None, left: list[str], options: Mapping[str, click.Option]
    ) -> None:
        foreign = self._foreign.get(name.removeprefix("--"))
        if foreign is None:
            known = [each for each in (*options, *(f"--{each}" for each in self._foreign)) if each.startswith("--")]
            close = nearest(name, known, cutoff=0.7)
            hint = f"Did you mean {close}?" if close else f"Try '{ctx.command_path} --help'."
            raise click.UsageError(f"unknown flag: {name}. {hint}", ctx)
        if value is None:
            value = "true" if not foreign.takes_value else left.pop(0) if left else ""
        if value in foreign.fine:
            return
        text = f"{name}: {foreign.text}"
        if foreign.refused:
            raise click.UsageError(text, ctx)
        if text not in notes(ctx):
            notes(ctx).append(text)

    @staticmethod
    def _stray(word: str, args: Sequence[str], options: Mapping[str, click.Option]) -> str:
        place = list(args).index(word)
        before = _split(args[place - 1])[0] if place else ""
        if _is_bool(options.get(before)) or getattr(options.get(before), "is_flag", False):
            return f"unexpected {word!r}: write {before}={word}"
        return f"unexpected {word!r}: there are only flags here"

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The flags by group; those of kube-scheduler under its own headings."""
        groups: dict[str, list[tuple[str, str]]] = {OWN_GROUP: []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                group = param.flag.group if isinstance(param, FlagOption) else OWN_GROUP
                groups.setdefault(group, []).append(record)
        for group in [*(each for each in groups if each != OWN_GROUP), OWN_GROUP]:
            with formatter.section(group):
                formatter.write_dl(groups[group])


def _split(word: str) -> tuple[str, str | None]:
    """Name and value of a word; `-v=3` and `-v3` are `--v` with a value."""
    if word.startswith("-v") and (len(word) == 2 or word[2] == "=" or word[2:].isdigit()):
        return "--v", word[2:].removeprefix("=") if len(word) > 2 else None
    name, separator, value = word.partition("=")
    if name.startswith("--"):
        name = name.replace("_", "-")
    return name, value if separator else None


def _append(words: list[str], option: click.Option, more: list[str]) -> None:
    """Add an option; the values of a repeated one are put together, as in Go."""
    start = f"{option.opts[-1]}="
    known = next((place for place, word in enumerate(words) if word.startswith(start)), -1)
    if known >= 0 and isinstance(option, FlagOption) and option.repeated:
        words[known] += f",{more[0].removeprefix(start)}"
    else:
        words += more


def given_values(args: Sequence[str], name: str) -> tuple[str, ...]:
    """The values of a flag on a command line that is not parsed yet, in order."""
    found: list[str] = []
    for place, word in enumerate(args):
        flag, value = _split(word)
        if flag == f"--{name}":
            found += [value] if value is not None else args[place + 1 : place + 2]
    return tuple(found)


def _is_bool(option: click.Option | None) -> bool:
    return isinstance(option, FlagOption) and option.flag.kind == "bool"


def _option(option: click.Option, name: str, value: str | None, left: list[str]) -> list[str]:
    """A known option as click wants it."""
    if option.is_flag:
        if value is None:
            return [name]
        try:
            wanted = parse_bool(value)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint=name) from None
        return [name] if wanted else list(option.secondary_opts[:1])
    if value is None:
        if _is_bool(option):
            value = "true"
        elif left:
            value = left.pop(0)
        else:
            raise click.UsageError(f"{name}: a value is missing")
    # click takes what begins with a dash for an option, unless it stands behind a name.
    return [f"{name}={value}"] if name.startswith("--") else [name, value]
