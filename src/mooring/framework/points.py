"""The extension points that a class serves, their names in the configuration, and checks of their methods."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable
from typing import Any

import msgspec

from mooring.framework.declarations import check_listers
from mooring.framework.extension_points import ExtensionPoints
from mooring.framework.score_range import check_score_range


class Point(msgspec.Struct, frozen=True):
    """One method of an extension point."""

    method: str
    #: The point's name in kube-scheduler's configuration; "" for a helper of another point.
    config: str
    parameters: tuple[str, ...]
    #: Whether the method may be `async def` (points that do I/O).
    may_await: bool = False

    @property
    def signature(self) -> str:
        """The method's signature, for error messages."""
        return f"def {self.method}({', '.join(('self', *self.parameters))})"


#: Method -> its name in kube-scheduler's configuration. Other methods are helpers.
_CONFIG = {
    "pre_enqueue": "preEnqueue",
    "less": "queueSort",
    "pre_filter": "preFilter",
    "filter": "filter",
    "filter_nodes": "filter",
    "post_filter": "postFilter",
    "may_evict": "postFilter",
    "pre_score": "preScore",
    "score": "score",
    "score_nodes": "score",
    "score_allocation": "score",
    "reserve": "reserve",
    "unreserve": "reserve",
    "permit": "permit",
    "placement_feasible": "permit",
    "pre_bind": "preBind",
    "bind": "bind",
    "post_bind": "postBind",
    "generate_placements": "placementGenerate",
    "score_placements": "placementScore",
}
_MAY_AWAIT = frozenset({"pre_bind", "bind", "post_bind", "run"})


def _point(name: str) -> Point:
    parameters = tuple(inspect.signature(getattr(ExtensionPoints, name)).parameters)
    return Point(name, _CONFIG.get(name, ""), parameters[1:], name in _MAY_AWAIT)


POINTS = tuple(_point(name) for name in vars(ExtensionPoints) if not name.startswith("_"))

BY_METHOD = {point.method: point for point in POINTS}

#: The points of the configuration, in running order.
CONFIG_POINTS = tuple(dict.fromkeys(point.config for point in POINTS if point.config))


def points_of(cls: type) -> frozenset[str]:
    """Return the configuration names of the points that a plugin class serves."""
    return frozenset(p.config for p in POINTS if p.config and callable(getattr(cls, p.method, None)))


class SignatureError(msgspec.Struct, frozen=True):
    """An error in a plugin class, found without running it."""

    line: int
    message: str


def check_methods(cls: type) -> list[SignatureError]:
    """Return the errors of a plugin class: signatures, misspelled names, unsupported async, wrong declarations."""
    problems: list[SignatureError] = []
    for owner in reversed(cls.__mro__[:-1]):
        for name, member in vars(owner).items():
            if not inspect.isfunction(member):
                continue
            point = BY_METHOD.get(name)
            if point is not None:
                problems += _check_signature(member, point)
            elif not name.startswith("_") and owner is cls:
                near = difflib.get_close_matches(name, BY_METHOD, n=1, cutoff=0.8)
                if near and not callable(getattr(cls, near[0], None)):
                    hint = f"'{name}' is no extension point; did you mean '{BY_METHOD[near[0]].signature}'?"
                    problems.append(SignatureError(_line(member), hint))
    wrong = [*check_listers(cls)]
    if (problem := check_score_range(cls)) is not None:
        wrong.append(("score_range", problem))
    return problems + [SignatureError(_attribute_line(cls, name), text) for name, text in wrong]


def _check_signature(function: Callable[..., Any], point: Point) -> list[SignatureError]:
    problems = []
    if inspect.iscoroutinefunction(function) and not point.may_await:
        text = f"'{point.method}' must not be async: it runs inside the scheduling cycle. Write '{point.signature}'"
        problems.append(SignatureError(_line(function), text))
    arguments = (None,) * (1 + len(point.parameters))
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        given = ", ".join(inspect.signature(function).parameters)
        text = f"'{point.method}' takes ({given}); write '{point.signature}'"
        problems.append(SignatureError(_line(function), text))
    return problems


def _attribute_line(cls: type, name: str) -> int:
    """Return the line of the assignment ``name = ...`` in a class, if its source is available."""
    try:
        lines, first = inspect.getsourcelines(cls)
    except (OSError, TypeError):
        return 0
    pattern = re.compile(rf"\s+{re.escape(name)}\s*(:.*)?=")
    return next((first + place for place, line in enumerate(lines) if pattern.match(line)), first)


def _line(function: Callable[..., Any]) -> int:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code.co_firstlineno if code is not None else 0
