"""What the extension points answer beside a Status."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


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
