"""Flags with the syntax of Go programs, as click options and a click command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import click
import msgspec

from mooring.config.config_errors import nearest
from mooring.config.durations import DurationError, parse_duration

Kind = Literal["text", "bool", "int", "number", "duration", "list", "map"]
_TRUE, _FALSE = (
    frozenset({"1", "t", "T", "TRUE", "true", "True"}),
    frozenset({"0", "f", "F", "FALSE", "false", "False"}),
)


class Flag(msgspec.Struct, frozen=True):
    """A supported flag."""

    name: str
    group: str
    kind: Kind
    help: str
    default: Any = None
    #: The default as shown in `--help`, if it differs from ``default``.
    shown: str | None = None


class UnsupportedFlag(msgspec.Struct, frozen=True):
    """A flag of kube-scheduler or vc-scheduler that has no effect in Mooring, and the reason."""

    name: str
    text: str
    #: Whether the flag is an error, because ignoring it would change the behavior of the scheduler.
    is_error: bool = False
    takes_value: bool = True
    #: Values that match the behavior of Mooring. They are accepted without a warning.
    accepted: tuple[str, ...] = ()


class FlagType(click.ParamType[Any]):
    """A click type that parses the value of a flag as Go does."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.name = {"text": "string", "number": "float", "list": "a,b", "map": "key=value,..."}.get(kind, kind)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the parsed value, or fail with a message about the invalid text."""
        if not isinstance(value, str):
            return value
        try:
            return _READERS[self.kind](value)
        except (ValueError, DurationError) as error:
            self.fail(str(error), param, ctx)


def parse_bool(text: str) -> bool:
    """Parse a boolean as Go does. Raises ValueError."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"{text!r} is neither true nor false")


def _int(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise ValueError(f"{text!r} is not an integer") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


def _list(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())


def _map(text: str) -> tuple[tuple[str, str], ...]:
    pairs = []
    for each in _list(text):
        key, separator, value = each.partition("=")
        if not separator or not key:
            raise ValueError(f"{each!r} is not NAME=VALUE")
        pairs.append((key.strip(), value.strip()))
    return tuple(pairs)


_READERS: dict[str, Callable[[str], Any]] = {
    "text": str,
    "bool": parse_bool,
    "int": _int,
    "number": _number,
    "duration": parse_duration,
    "list": _list,
    "map": _map,
}


class FlagOption(click.Option):
    """A click option made from a Flag."""

    def __init__(self, flag: Flag) -> None:
        self.flag = flag
        names = [f"--{flag.name}", flag.name.replace("-", "_")]
        if flag.name == "v":
            names.insert(0, "-v")
        super().__init__(names, type=FlagType(flag.kind), default=flag.default, help=self._text(), multiple=False)
        #: Whether the values of a repeated flag are combined.
        self.repeated = flag.kind in ("list", "map")

    def _text(self) -> str:
        default = self.flag.shown
        if default is None and self.flag.default not in (None, "", (), 0, False):
            value = self.flag.default
            default = (
                ",".join(value) if isinstance(value, tuple) else str(value).lower() if value is True else str(value)
            )
        return f"{self.flag.help}  [{default}]" if default else self.flag.help


_NOTES = "mooring.cli.flags.notes"
#: Heading of the options that kube-scheduler and vc-scheduler do not have.
OWN_GROUP = "Mooring options"
_VERSION, _HELP = "--version", ("-h", "--help")


def notes(ctx: click.Context) -> list[str]:
    """Return the warnings about given flags that have no effect, each once, in the order of the command line."""
    found: list[str] = ctx.meta.setdefault(_NOTES, [])
    return found


class UnknownFlagError(click.UsageError):
    """An error for an unknown flag. The message suggests a similar one."""

    def __init__(self, name: str, known: Iterable[str], ctx: click.Context | None) -> None:
        self.name = name
        self.known = [each for each in known if each.startswith("--")]
        close = nearest(name, self.known, cutoff=0.7)
        hint = f"Did you mean {close}?" if close else f"Try '{ctx.command_path if ctx else 'mooring'} --help'."
        super().__init__(f"unknown flag: {name}. {hint}", ctx)


class GoCommand(click.Command):
    """A command with Go flags: `--flag`, `--flag=value`, `--flag value`, `-v=3`, and underscores instead of dashes.

    Unsupported flags are reported with a reason, and `--help` shows the flags in groups.
    """

    def __init__(
        self,
        *args: Any,
        flags: Iterable[Flag] = (),
        unsupported: Iterable[UnsupportedFlag] = (),
        version: Callable[[str], str],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._own = tuple(self.params)
        self.params = [*self.params, *(FlagOption(flag) for flag in flags)]
        self._unsupported: Mapping[str, UnsupportedFlag] = {each.name: each for each in unsupported}
        self._version = version

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Convert the command line to click's syntax, then parse it."""
        if ctx.resilient_parsing:  # for shell completion
            return super().parse_args(ctx, args)
        return super().parse_args(ctx, self._to_click_syntax(ctx, args))

    def _to_click_syntax(self, ctx: click.Context, args: Sequence[str]) -> list[str]:
        options = {name: each for each in self.get_params(ctx) if isinstance(each, click.Option) for name in each.opts}
        negations = {name: each for each in options.values() for name in each.secondary_opts}
        result: list[str] = []
        left = list(args)
        while left:
            word = left.pop(0)
            if word in _HELP:
                return ["--help"]
            if not word.startswith("-") or word in ("-", "--"):
                raise click.UsageError(self._unexpected(word, args, options))
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
                self._report_unsupported(ctx, name, value, left, options)
        return result

    def _report_unsupported(
        self, ctx: click.Context, name: str, value: str | None, left: list[str], options: Mapping[str, click.Option]
    ) -> None:
        flag = self._unsupported.get(name.removeprefix("--"))
        if flag is None:
            raise UnknownFlagError(name, (*options, *(f"--{each}" for each in self._unsupported)), ctx)
        if value is None:
            value = "true" if not flag.takes_value else left.pop(0) if left else ""
        if value in flag.accepted:
            return
        text = f"{name}: {flag.text}"
        if flag.is_error:
            raise click.UsageError(text, ctx)
        if text not in notes(ctx):
            notes(ctx).append(text)

    @staticmethod
    def _unexpected(word: str, args: Sequence[str], options: Mapping[str, click.Option]) -> str:
        place = list(args).index(word)
        before = _split(args[place - 1])[0] if place else ""
        if _is_bool(options.get(before)) or getattr(options.get(before), "is_flag", False):
            return f"unexpected {word!r}: write {before}={word}"
        return f"unexpected argument {word!r}: this command takes only flags"

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags by group."""
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
    """Return the name and value of an argument; `-v=3` and `-v3` are `--v` with a value."""
    if word.startswith("-v") and (len(word) == 2 or word[2] == "=" or word[2:].isdigit()):
        return "--v", word[2:].removeprefix("=") if len(word) > 2 else None
    name, separator, value = word.partition("=")
    if name.startswith("--"):
        name = name.replace("_", "-")
    return name, value if separator else None


def _append(words: list[str], option: click.Option, more: list[str]) -> None:
    """Append an option; the values of a repeated list flag are combined, as in Go."""
    start = f"{option.opts[-1]}="
    place = next((place for place, word in enumerate(words) if word.startswith(start)), -1)
    if place >= 0 and isinstance(option, FlagOption) and option.repeated:
        words[place] += f",{more[0].removeprefix(start)}"
    else:
        words += more


def given_values(args: Sequence[str], name: str) -> tuple[str, ...]:
    """Return the values of a flag on a command line that has not been parsed yet, in order."""
    found: list[str] = []
    for place, word in enumerate(args):
        flag, value = _split(word)
        if flag == f"--{name}":
            found += [value] if value is not None else args[place + 1 : place + 2]
    return tuple(found)


def _is_bool(option: click.Option | None) -> bool:
    return isinstance(option, FlagOption) and option.flag.kind == "bool"


def _option(option: click.Option, name: str, value: str | None, left: list[str]) -> list[str]:
    """Return an option in click's syntax."""
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
    # Without the name, click would parse a value that starts with a dash as an option.
    return [f"{name}={value}"] if name.startswith("--") else [name, value]
