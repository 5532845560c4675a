"""Answers of the extension points: statuses, and the results of PreFilter, PostFilter and Permit."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import msgspec


class Code(IntEnum):
    """The meaning of a status; numbers and names are kube-scheduler's.

    Attributes:
        SUCCESS: The plugin has no objection.
        ERROR: An internal error: the attempt ends and is repeated after a backoff.
        UNSCHEDULABLE: The node or pod is rejected. Evicting other pods might help.
        UNSCHEDULABLE_AND_UNRESOLVABLE: The node or pod is rejected. Evicting other pods cannot help.
        WAIT: At Permit, the pod waits until it is allowed or rejected.
        SKIP: The plugin has nothing to do for this pod.
        PENDING: The pod is rejected until an event that the plugin registered for; there is no backoff then.
    """

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
    """A plugin's answer. Where a plugin may return a Status, ``None`` means success.

    Create one with the class methods: ``Status.unschedulable("the node has no GPU")``.

    Attributes:
        code: The meaning of the answer.
        reasons: Why, for users: they are part of the pod's condition and events.
        plugin: The plugin that answered; the scheduler sets it.
    """

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

#: For built-in plugins only: Skip for every pod of the template while ``Plugin.skip_version`` stays the same.
SKIP_THIS_VERSION = Status(Code.SKIP, plugin="=")


class PreFilterResult(msgspec.Struct, frozen=True):
    """An answer of ``pre_filter``: the nodes to evaluate.

    Attributes:
        node_names: The names of the nodes; None for all nodes.
    """

    node_names: frozenset[str] | None = None

    @classmethod
    def only(cls, names: Iterable[str]) -> PreFilterResult:
        """Restrict the attempt to these nodes."""
        return cls(frozenset(names))


class PostFilterResult(msgspec.Struct, frozen=True):
    """An answer of ``post_filter``: the nominated node and the pods to evict.

    Attributes:
        nominated_node: The node that will have room. None keeps the pod's nomination, an empty string clears it.
        victims: The uids of the pods to evict, the most important pod first.
    """

    nominated_node: str | None = None
    victims: tuple[str, ...] = ()


#: PostFilter found no node; the pod's nomination is cleared.
NO_NOMINATION = PostFilterResult(nominated_node="")


class PermitWait(msgspec.Struct, frozen=True):
    """An answer of ``permit``: the pod waits.

    Attributes:
        seconds: The pod is rejected if it is not allowed within this time:
            ``handle.waiting_pods.get(uid).allow(self.name)``. The maximum is 15 minutes.
        allow_after: If set, the pod is allowed automatically after this many seconds.
    """

    seconds: float
    allow_after: float | None = None
