"""What one call into a guest is about, and what the guest said meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from mooring.api.pod import Pod
from mooring.framework import ClusterEvent


class Call(msgspec.Struct, kw_only=True):
    """Questions that the guest may ask, and its answers beyond a number."""

    pod: Pod | None = None
    #: The pod that is added or removed (AddPod, RemovePod).
    target: Pod | None = None
    node_name: str = ""
    #: JSON texts, made when the guest asks: names of the feasible nodes (PreScore), codes by node (PostFilter), scores
    #: by node (NormalizeScore).
    filtered_nodes: Callable[[], bytes] | None = None
    statuses: Callable[[], bytes] | None = None
    scores: Callable[[], bytes] | None = None

    node_names: tuple[str, ...] | None = None
    nominated_node: str = ""
    events: tuple[ClusterEvent, ...] = ()
    normalized: dict[str, int] | None = None


NO_CALL = Call()


def json_text(value: Any) -> bytes:
    """As Go writes maps: with sorted keys."""
    return msgspec.json.encode(value, order="deterministic")
