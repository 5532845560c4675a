"""Running a batch session on a few objects, for tests of session plugins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from mooring.api.codec import to_dict
from mooring.api.meta import KubeObject, ObjectMeta
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.volcano import PodGroup, PodGroupSpec, Queue, QueueSpec
from mooring.batch.evaluate import evaluate
from mooring.batch.plugins import PLUGINS

_GROUP = "scheduling.k8s.io/group-name"


def run_session(
    conf: str,
    *,
    pods: Iterable[Pod],
    nodes: Iterable[Node],
    objects: Iterable[KubeObject] = (),
    plugins: Mapping[str, type[Any]] | None = None,
) -> dict[str, str]:
    """The nodes that a session with this configuration gives to pods, by ``namespace/name``.

    ``plugins`` are your own, by name. A queue ``default``, and a group with one member at least for each group that a
    pod names (annotation ``scheduling.k8s.io/group-name``), are made unless they are among the objects.
    """
    pods, given = list(map(_with_phase, pods)), list(objects)
    there = {(type(each), each.namespace, each.name) for each in given}
    made: list[KubeObject] = []
    if (Queue, "", "default") not in there:
        made.append(Queue(metadata=ObjectMeta(name="default"), spec=QueueSpec(weight=1)))
    for namespace, name in dict.fromkeys((pod.namespace, pod.annotations.get(_GROUP, "")) for pod in pods):
        if name and (PodGroup, namespace, name) not in there:
            metadata = ObjectMeta(name=name, namespace=namespace)
            made.append(PodGroup(metadata=metadata, spec=PodGroupSpec(min_member=1, queue="default")))
    raw = [_document(each) for each in (*nodes, *given, *made, *pods)]
    answer = evaluate({"conf": conf, "objects": raw}, plugins={**PLUGINS, **(plugins or {})})
    bound: dict[str, str] = answer["bound"]
    return bound


def _with_phase(pod: Pod) -> Pod:
    """The API server gives every pod a phase, and sessions go by it."""
    if pod.status.phase:
        return pod
    status = msgspec.structs.replace(pod.status, phase="Running" if pod.node_name else "Pending")
    return msgspec.structs.replace(pod, status=status)


def _document(item: KubeObject) -> dict[str, Any]:
    written = to_dict(item)
    if "kind" not in written:
        kind = type(item).__name__
        version = "scheduling.volcano.sh/v1beta1" if kind in ("Queue", "PodGroup") else "v1"
        written = {"apiVersion": version, "kind": kind, **written}
    return written
