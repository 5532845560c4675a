"""Answers of the extension points: statuses, and the results of PreFilter, PostFilter and Permit."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import msgspec


class Code(IntEnum):
    """The meaning of a status; numbers and names are kube-scheduler's."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6

    @property
    def title(self) -> str:
        """The name as kube-scheduler prints it, for example ``UnschedulableAndUnresolvable``."""
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
    """A plugin's answer. Where a plugin may return a Status, ``None`` means success."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @classmethod
    def unschedulable(cls, *reasons: str) -> Status:
        """Reject the node (or pod); evicting other pods might help."""
        return cls(Code.UNSCHEDULABLE, reasons)

    @classmethod
    def unresolvable(cls, *reasons: str) -> Status:
        """Reject the node (or pod); evicting pods cannot change that."""
        return cls(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)

    @classmethod
    def error(cls, *reasons: str) -> Status:
        """Report an internal error: the attempt is aborted and retried after a backoff."""
        return cls(Code.ERROR, reasons)

    @classmethod
    def skip(cls, *, template: bool = False) -> Status:
        """Return the status of a plugin that has nothing to do for this pod; see each extension point.

        ``template=True`` says that this holds for every pod of the same template, in any state of the cluster, so that
        the result is cached.
        """
        return SKIP_TEMPLATE if template else SKIP

    @classmethod
    def pending(cls, *reasons: str) -> Status:
        """Reject the pod until an event that the plugin registered for occurs."""
        return cls(Code.PENDING, reasons)

    @classmethod
    def wait(cls, *reasons: str) -> Status:
        """Permit only: keep the pod waiting until it is allowed or rejected."""
        return cls(Code.WAIT, reasons)

    @property
    def is_success(self) -> bool:
        """Whether the status means success."""
        return self.code is Code.SUCCESS

    @property
    def is_rejected(self) -> bool:
        """Whether the pod was rejected, as opposed to an internal error."""
        return self.code in _REJECTIONS

    @property
    def message(self) -> str:
        """The reasons, joined as kube-scheduler joins them."""
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """Return the same status with the plugin's name."""
        return self if self.plugin == plugin else Status(self.code, self.reasons, plugin)


SUCCESS = Status()

SKIP = Status(Code.SKIP)

SKIP_TEMPLATE = Status(Code.SKIP, plugin="*")


class PreFilterResult(msgspec.Struct, frozen=True):
    """The nodes to evaluate; None means all nodes."""

    node_names: frozenset[str] | None = None

    @classmethod
    def only(cls, names: Iterable[str]) -> PreFilterResult:
        """Restrict the attempt to these nodes."""
        return cls(frozenset(names))


class PostFilterResult(msgspec.Struct, frozen=True):
    """The outcome of PostFilter: the nominated node and the pods to evict."""

    #: None keeps the pod's nomination unchanged, "" clears it.
    nominated_node: str | None = None
    #: Pods to evict, by uid, most important first.
    victims: tuple[str, ...] = ()


#: PostFilter found no node; the pod's nomination is cleared.
NO_NOMINATION = PostFilterResult(nominated_node="")


class PermitWait(msgspec.Struct, frozen=True):
    """Permit: keep the pod waiting for up to ``seconds`` seconds.

    The pod is rejected unless ``handle.waiting_pods`` allows it in that time. With ``allow_after`` it is allowed
    automatically after that many seconds.
    """

    seconds: float
    allow_after: float | None = None
