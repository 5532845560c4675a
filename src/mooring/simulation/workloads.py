"""Expansion of the workloads in manifests into the pods that their controllers would create.

Existing pods count: a ReplicaSet of five with three pods among the manifests gets two more. Therefore, the objects of a
live cluster can be combined with new ones.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from mooring.api.affinity import Affinity
from mooring.api.codec import to_dict
from mooring.api.core import ReplicationController
from mooring.api.label_selectors import SelectorError, compile_selector
from mooring.api.manifest_checks import without_nulls
from mooring.api.meta import KubeObject, LabelSelector, NamespacedObject
from mooring.api.node import Node
from mooring.api.pod import Pod, PodTemplateSpec
from mooring.api.storage import PersistentVolumeClaim
from mooring.api.workloads import DaemonSet, Deployment, Job, ReplicaSet, StatefulSet
from mooring.apiserver.documents import Document, deep_copy
from mooring.apiserver.names import generated_name, template_hash
from mooring.apiserver.pod_defaults import set_template_defaults
from mooring.apiserver.workloads import (
    COMPLETION_INDEX,
    daemon_affinity,
    daemon_nodes,
    daemon_pod,
    daemon_target,
    job_pod,
    label_job,
    pod_from_template,
    replica_set_of,
    stateful_claims,
    stateful_ordinals,
    stateful_pod,
    stateful_revision,
)
from mooring.simulation.admission import Admission, AdmissionError
from mooring.simulation.sources import Given

_replace = msgspec.structs.replace

#: The kinds that are expanded.
KINDS: Final = (Deployment, ReplicaSet, ReplicationController, StatefulSet, DaemonSet, Job)
#: The maximum number of pods of a workload. More are probably a typing error.
MOST_PODS: Final = 1_000_000
_TEMPLATE: Final = ("spec", "template")
_Key = tuple[str, str, str]


class Expansion(msgspec.Struct, frozen=True):
    """The pods that a controller creates, and the objects that belong to them."""

    pods: list[Pod] = []
    objects: list[KubeObject] = []


class Expander:
    """The workload controllers' reconciliation of new workloads."""

    def __init__(
        self,
        *,
        admission: Admission,
        nodes: Sequence[Node],
        pods: Sequence[Pod],
        replica_sets: Iterable[ReplicaSet],
        seed: int,
    ) -> None:
        self._admission = admission
        self._nodes = nodes
        self._seed = seed
        self._pods_of: dict[_Key, list[Pod]] = {}
        self._names = {pod.key for pod in pods}
        for pod in pods:
            if (owner := controller_of(pod)) is not None:
                self._pods_of.setdefault(owner, []).append(pod)
        #: The Deployments that already have a ReplicaSet, which creates their pods.
        self._rolled_out = {controller_of(each) for each in replica_sets}

    def expand(self, given: Given) -> Expansion:
        """Return the objects that the controller of a workload creates. Raises ManifestError."""
        item = given.item
        try:
            match item:
                case Deployment():
                    return self._deployment(given, item)
                case ReplicaSet():
                    check_selector(given, item.spec.selector, item.spec.template)
                    return Expansion(self._replicas(given, _document(given, item), item.spec.replicas))
                case ReplicationController():
                    return self._replication_controller(given, item)
                case StatefulSet():
                    return self._stateful_set(given, item)
                case DaemonSet():
                    return self._daemon_set(given, item)
                case Job():
                    return self._job(given, item)
        except AdmissionError as error:
            raise given.fault(error.problem, *_TEMPLATE, *error.steps, remedy=error.remedy) from None
        return Expansion()

    # The kinds

    def _deployment(self, given: Given, item: Deployment) -> Expansion:
        check_selector(given, item.spec.selector, item.spec.template)
        count = _count(given, item.spec.replicas, "replicas")
        if key_of(item) in self._rolled_out:
            return Expansion()
        made = replica_set_of(_document(given, item), count)
        _identify(made, "apps/v1", "ReplicaSet", item.namespace)
        return Expansion(self._replicas(given, made, count), [msgspec.convert(made, ReplicaSet)])

    def _replication_controller(self, given: Given, item: ReplicationController) -> Expansion:
        template = item.spec.template
        if template is None:
            raise given.fault("is required", *_TEMPLATE, remedy="say which pods to run")
        selector = LabelSelector(match_labels=item.spec.selector or template.metadata.labels)
        check_selector(given, selector, template)
        return Expansion(self._replicas(given, _document(given, item), item.spec.replicas))

    def _replicas(self, given: Given, owner: Document, replicas: int | None) -> list[Pod]:
        """Return the missing pods, which are equal except for their generated names."""
        key = (owner["kind"], owner["metadata"]["namespace"], owner["metadata"]["name"])
        missing = _count(given, replicas, "replicas") - len(self._pods_of.get(key, ()))
        return self._alike(owner, pod_from_template(owner["spec"]["template"], owner), missing)

    def _alike(self, owner: Document, pod: Document, count: int) -> list[Pod]:
        """Return copies of a pod with generated names."""
        if count <= 0:
            return []
        namespace, prefix = owner["metadata"]["namespace"], pod["metadata"]["generateName"]
        names = _generated_names(prefix, seed=self._seed, owner=f"{owner['kind']}/{namespace}/{prefix}")
        pattern = self._admitted(pod, namespace)
        free = (name for name in names if f"{namespace}/{name}" not in self._names)
        return [_renamed(pattern, next(free)) for _ in range(count)]

    def _admitted(self, pod: Document, namespace: str) -> Pod:
        pod["metadata"]["namespace"] = namespace
        self._admission.complete(pod)
        return msgspec.convert({"apiVersion": "v1", "kind": "Pod", **pod}, Pod)

    def _stateful_set(self, given: Given, item: StatefulSet) -> Expansion:
        check_selector(given, item.spec.selector, item.spec.template)
        document = _document(given, item)
        document["spec"]["replicas"] = _count(given, item.spec.replicas, "replicas")
        revision = stateful_revision(document)
        pods: list[Pod] = []
        claims: list[KubeObject] = []
        for ordinal in stateful_ordinals(document):
            pod = stateful_pod(document, ordinal, revision)
            name = pod["metadata"]["name"]
            if f"{item.namespace}/{name}" in self._names:
                continue
            pods.append(_renamed(self._admitted(pod, item.namespace), name))
            claims += [claim_of(each, item.namespace) for each in stateful_claims(document, ordinal)]
        return Expansion(pods, claims)

    def _daemon_set(self, given: Given, item: DaemonSet) -> Expansion:
        check_selector(given, item.spec.selector, item.spec.template)
        document = _document(given, item)
        served = {daemon_target(to_dict(pod)) for pod in self._pods_of.get(key_of(item), ())}
        wanted = [node for node in daemon_nodes(document, self._nodes) if node.name not in served]
        pod = daemon_pod(document, template_hash(document["spec"]["template"]))
        pods = self._alike(document, pod, len(wanted))
        affinity = pod["spec"].get("affinity")
        return Expansion(
            [
                _replace(each, spec=_replace(each.spec, affinity=_only_on(affinity, node.name)))
                for each, node in zip(pods, wanted, strict=True)
            ]
        )

    def _job(self, given: Given, item: Job) -> Expansion:
        spec = item.spec
        indexed = spec.completion_mode == "Indexed"
        if indexed and spec.completions is None:
            raise given.fault("is required when completionMode is Indexed", "spec", "completions")
        parallel = _count(given, spec.parallelism, "parallelism")
        if spec.completions is not None:
            parallel = min(parallel, _count(given, spec.completions, "completions"))
        if spec.suspend:
            return Expansion()
        document = _document(given, item)
        label_job(document)
        present = self._pods_of.get(key_of(item), [])
        missing = max(parallel - len(present), 0)
        if not indexed:
            return Expansion(self._alike(document, job_pod(document, None), missing))
        taken = {pod.annotations.get(COMPLETION_INDEX) for pod in present}
        free = [index for index in range(spec.completions or 0) if str(index) not in taken]
        return Expansion(
            [pod for index in free[:missing] for pod in self._alike(document, job_pod(document, index), 1)]
        )


def controller_of(item: NamespacedObject) -> _Key | None:
    """Return kind, namespace and name of the controller of an object."""
    for reference in item.metadata.owner_references:
        if reference.controller:
            return reference.kind, item.namespace, reference.name
    return None


def key_of(item: NamespacedObject) -> _Key:
    """Return kind, namespace and name."""
    return item.kind, item.namespace, item.name


def uid_of(kind: str, namespace: str, name: str) -> str:
    """Return the uid of an object without one. It is the same for the same object."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{kind}/{namespace}/{name}"))


def claim_of(document: Document, namespace: str) -> PersistentVolumeClaim:
    """Return a claim that a controller creates."""
    _identify(document, "v1", "PersistentVolumeClaim", namespace)
    return msgspec.convert(document, PersistentVolumeClaim)


def check_selector(given: Given, selector: LabelSelector | None, template: PodTemplateSpec) -> None:
    """Raise ManifestError unless the selector of a workload matches its template."""
    steps = ("spec", "selector")
    if selector is None or not (selector.match_labels or selector.match_expressions):
        labels = ", ".join(f"{key}: {value}" for key, value in template.metadata.labels.items())
        raise given.fault("is required", *steps, remedy=f"write matchLabels: {{{labels or 'app: NAME'}}}")
    try:
        compiled = compile_selector(selector)
    except SelectorError as error:
        raise given.fault(str(error), *steps) from None
    if not compiled.matches(template.metadata.labels):
        remedy = "give the template the labels that spec.selector asks for"
        raise given.fault("does not match the selector", *_TEMPLATE, "metadata", "labels", remedy=remedy)


def _document(given: Given, item: NamespacedObject) -> Document:
    """Return the document of a workload as the API server would store it, as far as its pods depend on it."""
    document: Document = deep_copy(without_nulls(given.document))
    _identify(document, item.api_version, item.kind, item.namespace)
    set_template_defaults(document["spec"].setdefault("template", {}))
    return document


def _identify(document: Document, api_version: str, kind: str, namespace: str) -> None:
    """Add, in place, the metadata that the API server sets on a new object."""
    document.update(apiVersion=api_version, kind=kind)
    metadata = document["metadata"]
    metadata["namespace"] = namespace
    metadata["uid"] = metadata.get("uid") or uid_of(kind, namespace, metadata["name"])


def _count(given: Given, number: int | None, field: str) -> int:
    if number is None:
        return 1
    if number > MOST_PODS:
        raise given.fault(f"{number} pods are more than a simulation takes ({MOST_PODS})", "spec", field)
    return number


def _generated_names(prefix: str, *, seed: int, owner: str) -> Iterator[str]:
    """Yield unique names as `generateName` creates them.

    They depend only on the seed and the owner, so that the pods of a workload have the same names regardless of the
    other manifests.
    """
    rng = random.Random(f"{seed}/{owner}")
    seen: set[str] = set()
    while True:
        name = generated_name(prefix, rng)
        if name not in seen:
            seen.add(name)
            yield name


def _renamed(pod: Pod, name: str) -> Pod:
    uid = uid_of("Pod", pod.namespace, name)
    return _replace(pod, metadata=_replace(pod.metadata, name=name, uid=uid))


def _only_on(affinity: dict[str, Any] | None, node: str) -> Affinity:
    return msgspec.convert(daemon_affinity(affinity, node), Affinity)
