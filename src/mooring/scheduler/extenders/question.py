"""Questions to extenders and the replies, as they go over the wire.

Field names and their case are those of k8s.io/kube-scheduler/extender/v1, which has no JSON names of its own: ``Pod``,
``NodeNames``. A question is made of whole objects, and put into JSON only when it is sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.raw_objects import whole_json

if TYPE_CHECKING:
    from mooring.scheduler.extenders.extender import Extender


class Question(msgspec.Struct, frozen=True):
    """Something to post to an extender."""

    extender: Extender
    verb: str
    #: The body, made when it is needed: it may hold thousands of nodes.
    body: Callable[[], bytes]

    @property
    def url(self) -> str:
        """Where to post it."""
        return f"{self.extender.name.rstrip('/')}/{self.verb}"


class Reply(msgspec.Struct, frozen=True):
    """The body of an answer with status 200, or what went wrong, in the words that users see."""

    body: bytes = b""
    error: str = ""


#: Posts a question and waits for the reply; never raises for what an extender does.
Send = Callable[[Question], Awaitable[Reply]]


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
    """What filter and prioritize are asked: about a pod and some nodes."""
    if names_only:
        args = _Args(whole_json(pod), None, [node.name for node in nodes])
    else:
        args = _Args(whole_json(pod), _NodeList([whole_json(node) for node in nodes]), None)
    return msgspec.json.encode(args)


def victims_body(pod: Pod, victims: Mapping[str, tuple[Sequence[Pod], int]], *, names_only: bool) -> bytes:
    """What preempt is asked: about a pod, and for each node the pods that would go and how many violate a budget."""

    def shown(victim: Pod) -> msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode({"UID": victim.uid})) if names_only else whole_json(victim)

    by_node = {
        node: _Victims([shown(victim) for victim in pods], violations)
        for node, (pods, violations) in sorted(victims.items())
    }
    whole, meta = (None, by_node) if names_only else (by_node, None)
    return msgspec.json.encode(_PreemptionArgs(whole_json(pod), whole, meta))


def binding_body(pod: Pod, node_name: str) -> bytes:
    """What bind is asked: to bind a pod."""
    return msgspec.json.encode(_BindingArgs(pod.name, pod.namespace, pod.uid, node_name))
