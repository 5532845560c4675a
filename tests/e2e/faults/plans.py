"""Which request meets which fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, Literal, get_args

#: What a request is for.
Call = Literal["bind", "status", "event", "evict", "list", "page", "watch", "get", "lease", "claim", "other"]
#: What happens to it. A number is an HTTP status; `gone` is 410, in a watch as its last line; `unsaid` and `unheard`
#: break the connection before and after the server did what was asked; `silent` and `mute` leave the client without an
#: answer instead; `torn` breaks the answer off; `garbled` ends it too early, though in order; `late` is a 500 after a
#: while; `portal` is the page of a proxy with code 200, before or after the server did what was asked; `failure` and
#: `stranger` are the same with a Status that says Failure, and with another object.
Kind = Literal[
    "409",
    "429",
    "500",
    "503",
    "gone",
    "unsaid",
    "unheard",
    "silent",
    "mute",
    "torn",
    "garbled",
    "slow",
    "late",
    "portal",
    "failure",
    "stranger",
]

CALLS: Final[tuple[Call, ...]] = ("bind", "status", "event", "evict", "list", "page", "watch", "get", "lease")


def call_of(method: str, target: str) -> Call:
    """What a request is for."""
    path, _, query = target.partition("?")
    if "/leases" in path:
        return "lease"
    if path.endswith("/binding"):
        return "bind"
    if "/events" in path:
        return "event"
    if method == "GET":
        if "watch=true" in query:
            return "watch"
        if "continue=" in query:
            return "page"
        return "get" if "/pods/" in path or "/resourceclaims/" in path else "list"
    if "/resourceclaims" in path:
        return "claim"
    if method == "PATCH" and path.endswith("/status"):
        return "status"
    return "evict" if method == "DELETE" else "other"


@dataclass(frozen=True)
class Fault:
    """What happens to one request."""

    kind: Kind
    #: From 0 to 1: how much of an answer gets through before it is torn, or how long a delay is.
    amount: float


class Plan:
    """Draws faults: for each kind of call a list of faults, and one number for how often any of them happens."""

    def __init__(self, seed: int, faults: Mapping[Call, Sequence[Kind]], *, often: float, most: int = 10_000) -> None:
        #: One for each kind of call: whether a bind fails does not depend on how many other requests came before.
        self._random = {call: Random(f"{seed} {call}") for call in get_args(Call)}
        self._faults = faults
        self._often = often
        self._most = most
        #: How often what happened, by call and fault.
        self.happened: Counter[tuple[Call, Kind]] = Counter()
        self.active = True

    def draw(self, method: str, target: str) -> Fault | None:
        """What happens to this request; None for nothing."""
        call = call_of(method, target)
        kinds = self._faults.get(call, ())
        if not self.active or not kinds or self.happened.total() >= self._most:
            return None
        # Watches and lists are few: for the test to say something, most of them must suffer.
        often = self._often if call in {"bind", "status", "event", "claim"} else 0.5
        random = self._random[call]
        if random.random() >= often:
            return None
        kind = random.choice(kinds)
        self.happened[call, kind] += 1
        return Fault(kind, random.random())


NOTHING: Final = Plan(0, {}, often=0.0)
