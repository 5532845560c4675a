"""Answers of the extension points: statuses, and the results of PreFilter, PostFilter and Permit."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import msgspec


class Code(IntEnum):
    """What a verdict means for the attempt; numbers and names are kube-scheduler's."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6

    @property
    def title(self) -> str:
        """The name as kube-scheduler prints it, e.g. ``UnschedulableAndUnresolvable``."""
        return _TITLES[self]


_TITLES = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}

_REJECTIONS = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})


class Status(msgspec.Struct, frozen=True, gc=False):
    """One verdict. ``None`` wherever a plugin may return a Status means success."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @classmethod
    def unschedulable(cls, *reasons: str) -> Status:
        """This node (or pod) will not do now; removing other pods might help."""
        return cls(Code.UNSCHEDULABLE, reasons)

    @classmethod
    def unresolvable(cls, *reasons: str) -> Status:
        """This node (or pod) will not do, and preempting pods cannot change that."""
        return cls(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)

    @classmethod
    def error(cls, *reasons: str) -> Status:
        """Something is broken: the attempt is aborted and tried again after a back-off."""
        return cls(Code.ERROR, reasons)

    @classmethod
    def skip(cls, *, template: bool = False) -> Status:
        """The plugin has nothing to do for this pod; see each extension point.

        With ``template``: nor for any other pod of the same template, whatever the cluster is like, so it need not
        be asked again.
        """
        return SKIP_TEMPLATE if template else SKIP

    @classmethod
    def pending(cls, *reasons: str) -> Status:
        """The pod waits for something that the plugin will be told about."""
        return cls(Code.PENDING, reasons)

    @classmethod
    def wait(cls, *reasons: str) -> Status:
        """Permit only: hold the pod back until somebody allows or rejects it."""
        return cls(Code.WAIT, reasons)

    @property
    def is_success(self) -> bool:
        """Whether the answer is yes."""
        return self.code is Code.SUCCESS

    @property
    def is_rejected(self) -> bool:
        """Whether the pod was turned down (as opposed to something being broken)."""
        return self.code in _REJECTIONS

    @property
    def message(self) -> str:
        """The reasons as kube-scheduler joins them."""
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """The same verdict, signed by a plugin."""
        return self if self.plugin == plugin else Status(self.code, self.reasons, plugin)


SUCCESS = Status()

SKIP = Status(Code.SKIP)

SKIP_TEMPLATE = Status(Code.SKIP, plugin="*")


class PreFilterResult(msgspec.Struct, frozen=True):
    """The nodes that are worth a look; None means all of them."""

    node_names: frozenset[str] | None = None

    @classmethod
    def only(cls, names: Iterable[str]) -> PreFilterResult:
        """Just these nodes."""
        return cls(frozenset(names))


class PostFilterResult(msgspec.Struct, frozen=True):
    """What PostFilter achieved: the node that room was (or is being) made on, and the pods that go for it."""

    #: None leaves the pod's nomination as it is, "" clears it.
    nominated_node: str | None = None
    #: Pods to evict, by uid, most important first.
    victims: tuple[str, ...] = ()


#: Nothing came of it, and the pod has no claim on a node any more.
NO_NOMINATION = PostFilterResult(nominated_node="")


class PermitWait(msgspec.Struct, frozen=True):
    """Permit: hold the pod back for up to so many seconds.

    Somebody has to allow it meanwhile (``handle.waiting_pods``), or else it is turned down; with ``allow_after`` that
    happens by itself after so many seconds.
    """

    seconds: float
    allow_after: float | None = None
