"""Flags as Go programs have them, as options of click."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import click
import msgspec

from mooring.config.durations import DurationError, parse_duration

Kind = Literal["text", "bool", "int", "number", "duration", "list", "map"]
_TRUE, _FALSE = (
    frozenset({"1", "t", "T", "TRUE", "true", "True"}),
    frozenset({"0", "f", "F", "FALSE", "false", "False"}),
)


class Flag(msgspec.Struct, frozen=True):
    """A flag that works."""

    name: str
    group: str
    kind: Kind
    help: str
    default: Any = None
    #: How the default is shown in `--help`; by default as it is.
    shown: str | None = None


class Foreign(msgspec.Struct, frozen=True):
    """A flag of theirs that has no effect here, and why."""

    name: str
    text: str
    #: Refused: without it the scheduler would do something else than was asked for.
    refused: bool = False
    takes_value: bool = True
    #: With these values nothing is lost, and nothing is said.
    fine: tuple[str, ...] = ()


class FlagType(click.ParamType[Any]):
    """Reads the value of a flag as Go does."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.name = {"text": "string", "number": "float", "list": "a,b", "map": "key=value,..."}.get(kind, kind)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value; fails with what is wrong about the text."""
        if not isinstance(value, str):
            return value
        try:
            return _READERS[self.kind](value)
        except (ValueError, DurationError) as error:
            self.fail(str(error), param, ctx)


def parse_bool(text: str) -> bool:
    """A truth value as Go reads it. Raises ValueError."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"{text!r} is neither true nor false")


def _int(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise ValueError(f"{text!r} is no whole number") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is no number") from None


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
        #: Given several times, the values add up.
        self.repeated = flag.kind in ("list", "map")

    def _text(self) -> str:
        default = self.flag.shown
        if default is None and self.flag.default not in (None, "", (), 0, False):
            value = self.flag.default
            default = (
                ",".join(value) if isinstance(value, tuple) else str(value).lower() if value is True else str(value)
            )
        return f"{self.flag.help}  [{default}]" if default else self.flag.help
