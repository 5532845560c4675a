"""Requests to extenders in the JSON of k8s.io/kube-scheduler/extender/v1.

Field names and their case are those of the Go structs, which declare no JSON names: ``Pod``, ``NodeNames``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from mooring.api.codec import raw_json
from mooring.api.node import Node
from mooring.api.pod import Pod

if TYPE_CHECKING:
    from mooring.scheduler.extenders.extender import Extender


T = TypeVar("T")


class Request(msgspec.Struct, frozen=True):
    """A request to post to an extender."""

    extender: Extender
    verb: str
    #: Encodes the body when it is sent. The body may contain thousands of nodes.
    body: Callable[[], bytes]

    @property
    def url(self) -> str:
        """The URL to post to."""
        return f"{self.extender.name.rstrip('/')}/{self.verb}"


class Reply(msgspec.Struct, frozen=True):
    """The body of a response with status 200, or an error message for the user."""

    body: bytes = b""
    error: str = ""


#: Posts a request and returns the reply; failures of the extender are in the reply.
Send = Callable[[Request], Awaitable[Reply]]
#: A computation that yields requests, is sent the replies in the same order, and returns a T.
Steps = Generator[tuple[Request, ...], tuple[Reply, ...], T]


class _NodeList(msgspec.Struct):
    items: list[msgspec.Raw]
    metadata: dict[str, str] = {}


class _Args(msgspec.Struct, rename="pascal"):
    pod: msgspec.Raw
    nodes: _NodeList | None
    node_names: list[str] | None


class _Victims(msgspec.Struct, rename={"pods": "Pods", "violations": "NumPDBViolations"}):
    pods: list[msgspec.Raw]
    violations: int


class _PreemptionArgs(msgspec.Struct, rename="pascal"):
    pod: msgspec.Raw
    node_name_to_victims: dict[str, _Victims] | None
    node_name_to_meta_victims: dict[str, _Victims] | None


class _BindingArgs(
    msgspec.Struct,
    rename={"name": "PodName", "namespace": "PodNamespace", "uid": "PodUID", "node": "Node"},
):
    name: str
    namespace: str
    uid: str
    node: str


def nodes_body(pod: Pod, nodes: Sequence[Node], *, names_only: bool) -> bytes:
    """Encode the request of filter and prioritize: a pod and some nodes."""
    if names_only:
        args = _Args(raw_json(pod), None, [node.name for node in nodes])
    else:
        args = _Args(raw_json(pod), _NodeList([raw_json(node) for node in nodes]), None)
    return msgspec.json.encode(args)


def victims_body(pod: Pod, victims: Mapping[str, tuple[Sequence[Pod], int]], *, names_only: bool) -> bytes:
    """Encode the request of preempt: a pod and, for each node, the victims and how many of them violate a budget."""

    def shown(victim: Pod) -> msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode({"UID": victim.uid})) if names_only else raw_json(victim)

    by_node = {
        node: _Victims([shown(victim) for victim in pods], violations)
        for node, (pods, violations) in sorted(victims.items())
    }
    whole, meta = (None, by_node) if names_only else (by_node, None)
    return msgspec.json.encode(_PreemptionArgs(raw_json(pod), whole, meta))


def binding_body(pod: Pod, node_name: str) -> bytes:
    """Encode the request of bind."""
    return msgspec.json.encode(_BindingArgs(pod.name, pod.namespace, pod.uid, node_name))
