"""Expansion of workloads: the ReplicaSets, pods and claims that the controllers create from them.

The functions take the documents that the API server has stored, with defaults set, and never change them.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from mooring.api.affinity import Taint
from mooring.api.node import Node
from mooring.api.node_selectors import required_node_affinity
from mooring.api.pod import Pod, PodSpec
from mooring.api.tolerations import untolerated
from mooring.apiserver.documents import Document, deep_copy, nested_field
from mooring.apiserver.names import template_hash

TEMPLATE_HASH: Final = "pod-template-hash"
REVISION_HASH: Final = "controller-revision-hash"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
JOB_TRACKING: Final = "batch.kubernetes.io/job-tracking"
_TEMPLATE_GENERATION: Final = "pod-template-generation"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_NODE_NAME: Final = "metadata.name"
_DAEMON_TOLERATIONS: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_HOST_NETWORK_TOLERATIONS: Final = (("node.kubernetes.io/network-unavailable", "NoSchedule"),)


def owner_reference(owner: Document) -> Document:
    """Return an owner reference to a controller."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_from_template(template: Document, owner: Document, **metadata: Any) -> Document:
    """Return a pod from a template, controlled by the owner."""
    given = deep_copy(template)
    inside = given.get("metadata") or {}
    kept = {key: inside[key] for key in ("labels", "annotations", "finalizers") if key in inside}
    if "generateName" not in metadata and "name" not in metadata:
        metadata["generateName"] = f"{owner['metadata']['name']}-"
    return {"metadata": {**kept, **metadata, "ownerReferences": [owner_reference(owner)]}, "spec": given["spec"]}


def _add_labels(pod: Document, labels: dict[str, str]) -> None:
    """Add labels to a pod in place."""
    pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), **labels}


# Deployments


def replica_set_of(deployment: Document, replicas: int) -> Document:
    """Return the ReplicaSet for the current template of a Deployment."""
    metadata, spec = deployment["metadata"], deployment["spec"]
    short = template_hash(spec["template"], nested_field(deployment, "status", "collisionCount"))
    template, selector = deep_copy(spec["template"]), deep_copy(spec["selector"])
    template.setdefault("metadata", {}).setdefault("labels", {})[TEMPLATE_HASH] = short
    selector.setdefault("matchLabels", {})[TEMPLATE_HASH] = short
    made: Document = {
        "metadata": {
            "name": f"{metadata['name']}-{short}",
            "labels": dict(template["metadata"]["labels"]),
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }
    if spec.get("minReadySeconds"):
        made["spec"]["minReadySeconds"] = spec["minReadySeconds"]
    return made


# StatefulSets


def stateful_revision(stateful_set: Document) -> str:
    """Return the revision of the current template."""
    return f"{stateful_set['metadata']['name']}-{template_hash(stateful_set['spec']['template'])}"


def stateful_ordinals(stateful_set: Document) -> range:
    """Return the ordinals that the pods of a StatefulSet should have."""
    start = nested_field(stateful_set, "spec", "ordinals", "start") or 0
    return range(start, start + stateful_set["spec"].get("replicas", 1))


def stateful_pod(stateful_set: Document, ordinal: int, revision: str) -> Document:
    """Return the pod with an ordinal. Its volumes include its own claims."""
    spec, name = stateful_set["spec"], f"{stateful_set['metadata']['name']}-{ordinal}"
    pod = pod_from_template(spec["template"], stateful_set, name=name)
    _add_labels(
        pod,
        {
            "apps.kubernetes.io/pod-index": str(ordinal),
            REVISION_HASH: revision,
            "statefulset.kubernetes.io/pod-name": name,
        },
    )
    own = [each["metadata"]["name"] for each in spec.get("volumeClaimTemplates") or ()]
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": f"{each}-{name}"}} for each in own]
    volumes += [each for each in pod["spec"].get("volumes") or () if each["name"] not in own]
    pod["spec"]["hostname"] = name
    if spec.get("serviceName"):
        pod["spec"]["subdomain"] = spec["serviceName"]
    if volumes:
        pod["spec"]["volumes"] = volumes
    return pod


def stateful_claims(stateful_set: Document, ordinal: int) -> Iterator[Document]:
    """Yield the claims of the pod with an ordinal."""
    spec = stateful_set["spec"]
    for claim in spec.get("volumeClaimTemplates") or ():
        name = f"{claim['metadata']['name']}-{stateful_set['metadata']['name']}-{ordinal}"
        labels = {**(claim["metadata"].get("labels") or {}), **(nested_field(spec, "selector", "matchLabels") or {})}
        yield {"metadata": {**claim["metadata"], "name": name, "labels": labels}, "spec": deep_copy(claim["spec"])}


# DaemonSets


def daemon_pod(daemon_set: Document, revision: str) -> Document:
    """Return a pod of a DaemonSet that is not assigned to a node yet."""
    pod = pod_from_template(daemon_set["spec"]["template"], daemon_set)
    generation = str(daemon_set["metadata"].get("generation", 1))
    _add_labels(pod, {REVISION_HASH: revision, _TEMPLATE_GENERATION: generation})
    pod["spec"]["tolerations"] = _daemon_tolerations(pod["spec"])
    return pod


def _daemon_tolerations(spec: Document) -> list[Document]:
    """Return the tolerations of a pod, and those of all daemons, which replace tolerations for a limited time."""
    tolerations = list(spec.get("tolerations") or ())
    for key, effect in (*_DAEMON_TOLERATIONS, *(_HOST_NETWORK_TOLERATIONS if spec.get("hostNetwork") else ())):
        wanted = {"key": key, "operator": "Exists", "effect": effect}
        same = [
            index
            for index, each in enumerate(tolerations)
            if {name: value for name, value in each.items() if name != "tolerationSeconds"} == wanted
        ]
        for index in same:
            tolerations[index] = wanted
        if not same:
            tolerations.append(wanted)
    return tolerations


def daemon_affinity(affinity: Document | None, node: str) -> Document:
    """Return an affinity with the name of a node as the only required node affinity term."""
    term = {"matchFields": [{"key": _NODE_NAME, "operator": "In", "values": [node]}]}
    node_affinity = {**(nested_field(affinity, "nodeAffinity") or {}), _REQUIRED: {"nodeSelectorTerms": [term]}}
    return {**(affinity or {}), "nodeAffinity": node_affinity}


def daemon_nodes(daemon_set: Document, nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield the nodes that should run a pod of a DaemonSet, regardless of their free resources."""
    spec = daemon_set["spec"]["template"]["spec"]
    wanted = msgspec.convert({**spec, "tolerations": _daemon_tolerations(spec)}, PodSpec)
    required = required_node_affinity(Pod(spec=wanted))
    for node in nodes:
        taints = node.taints
        if node.unschedulable:
            taints = (*taints, Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule"))
        if (
            wanted.node_name in ("", node.name)
            and required.matches(node.labels, node.name)
            and untolerated(taints, wanted.tolerations, ("NoSchedule", "NoExecute")) is None
        ):
            yield node


def daemon_target(pod: Document) -> str:
    """Return the node that a pod of a DaemonSet is bound to or created for, or an empty string."""
    if node := pod["spec"].get("nodeName"):
        return str(node)
    for term in nested_field(pod, "spec", "affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field["key"] == _NODE_NAME and field["operator"] == "In" and len(field.get("values") or ()) == 1:
                return str(field["values"][0])
    return ""


# Jobs


def label_job(job: Document) -> None:
    """Add the selector of a new Job, and the labels that it selects, in place."""
    spec, metadata = job["spec"], job["metadata"]
    if spec.get("manualSelector"):
        return
    uid, name = metadata["uid"], metadata.get("name", "")
    labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
    for key, value in (("controller-uid", uid), ("job-name", name)):
        labels.setdefault(key, value)
        labels.setdefault(f"batch.kubernetes.io/{key}", value)
    if not metadata.get("labels"):
        metadata["labels"] = dict(labels)
    spec.setdefault("selector", {}).setdefault("matchLabels", {})["batch.kubernetes.io/controller-uid"] = uid


def job_pod(job: Document, index: int | None) -> Document:
    """Return a pod of a Job; `index` is the completion index in an indexed Job."""
    template = job["spec"]["template"]
    if index is None:
        pod = pod_from_template(template, job)
    else:
        name = job["metadata"]["name"]
        pod = pod_from_template(template, job, generateName=f"{name}-{index}-")
        metadata = pod["metadata"]
        metadata["annotations"] = {**metadata.get("annotations", {}), COMPLETION_INDEX: str(index)}
        _add_labels(pod, {COMPLETION_INDEX: str(index)})
        pod["spec"].setdefault("hostname", f"{name}-{index}")
        for container in pod["spec"].get("containers", ()):
            source = {"fieldRef": {"fieldPath": f"metadata.annotations['{COMPLETION_INDEX}']"}}
            container["env"] = [*container.get("env", ()), {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}]
    pod["metadata"]["finalizers"] = [*pod["metadata"].get("finalizers", ()), JOB_TRACKING]
    return pod


# Pods


def ephemeral_claims(pod: Document) -> Iterator[Document]:
    """Yield the claims of the generic ephemeral volumes of a pod."""
    for volume in pod["spec"].get("volumes") or ():
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template is None:
            continue
        given = template.get("metadata") or {}
        metadata = {key: dict(given[key]) for key in ("labels", "annotations") if key in given}
        name = f"{pod['metadata']['name']}-{volume['name']}"
        yield {
            "metadata": {**metadata, "name": name, "ownerReferences": [owner_reference(pod)]},
            "spec": deep_copy(template["spec"]),
        }
