"""Workloads become pods, as their controllers would make them: names, labels, owners, claims.

What is there already counts: a ReplicaSet of five with three pods among the manifests makes two more, so that the
objects of a live cluster can be given together with new ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from mooring.api.core import ReplicationController
from mooring.api.meta import KubeObject, LabelSelector, NamespacedObject, ObjectMeta, OwnerReference
from mooring.api.node import Node
from mooring.api.pod import Pod, PodTemplateSpec
from mooring.api.selectors import SelectorError, compile_selector
from mooring.api.storage import PersistentVolumeClaim
from mooring.api.volumes import PersistentVolumeClaimVolume, Volume
from mooring.api.workloads import DaemonSet, Deployment, Job, ReplicaSet, StatefulSet
from mooring.simulate.admission import Admission, AdmissionError
from mooring.simulate.daemons import daemon_template, fitting_nodes, target_node, tied_to
from mooring.simulate.naming import generated_names, template_hash, uid_of
from mooring.simulate.sources import Given

_replace = msgspec.structs.replace

#: The kinds that make pods here.
KINDS: Final = (Deployment, ReplicaSet, ReplicationController, StatefulSet, DaemonSet, Job)
#: More pods of one workload than this are a slip of the finger.
MOST_PODS: Final = 1_000_000
_TEMPLATE: Final = ("spec", "template")
_JOB_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_Key = tuple[str, str, str]


class Made(msgspec.Struct, frozen=True):
    """What a controller made: pods, and the objects that go with them."""

    pods: list[Pod] = []
    objects: list[KubeObject] = []


class Expander:
    """Does what the controllers do, once."""

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
        #: Deployments that have a ReplicaSet already: it makes their pods.
        self._rolled_out = {controller_of(each) for each in replica_sets}

    def expand(self, given: Given) -> Made:
        """What a workload's controller would make of it now. Raises ManifestError."""
        item = given.item
        try:
            match item:
                case Deployment():
                    return self._deployment(given, item)
                case ReplicaSet():
                    return Made(self._replicas(given, item, item.spec.template, item.spec.replicas, item.spec.selector))
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
        return Made()

    # The kinds

    def _deployment(self, given: Given, item: Deployment) -> Made:
        spec, template = item.spec, item.spec.template
        check_selector(given, spec.selector, template)
        count = _count(given, spec.replicas, "replicas")
        if key_of(item) in self._rolled_out:
            return Made()
        code = template_hash(template)
        marked = _labelled(template, {"pod-template-hash": code})
        selector = spec.selector or LabelSelector()
        name = f"{item.name}-{code}"
        made = ReplicaSet(
            metadata=ObjectMeta(
                name=name,
                namespace=item.namespace,
                uid=uid_of("ReplicaSet", item.namespace, name),
                labels=marked.metadata.labels,
                owner_references=(_owner(item),),
            ),
            spec=_replace(
                spec,
                replicas=count,
                selector=_replace(selector, match_labels=selector.match_labels | {"pod-template-hash": code}),
                template=marked,
            ),
        )
        return Made(self._replicas(given, made, marked, count, made.spec.selector), [made])

    def _replication_controller(self, given: Given, item: ReplicationController) -> Made:
        template = item.spec.template
        if template is None:
            raise given.fault("is required", *_TEMPLATE, remedy="say which pods to run")
        selector = LabelSelector(match_labels=item.spec.selector or template.metadata.labels)
        return Made(self._replicas(given, item, template, item.spec.replicas, selector))

    def _replicas(
        self,
        given: Given,
        owner: NamespacedObject,
        template: PodTemplateSpec,
        replicas: int | None,
        selector: LabelSelector | None,
    ) -> list[Pod]:
        """Equal pods with random names, as many as are missing."""
        check_selector(given, selector, template)
        missing = _count(given, replicas, "replicas") - len(self._pods_of.get(key_of(owner), ()))
        return list(self._alike(owner, template, missing))

    def _alike(self, owner: NamespacedObject, template: PodTemplateSpec, count: int, prefix: str = "") -> Iterator[Pod]:
        if count <= 0:
            return
        prefix = prefix or f"{owner.name}-"
        names = generated_names(prefix, seed=self._seed, owner=f"{owner.kind}/{owner.namespace}/{prefix}")
        pattern = self._admission.admit(_pod(template, owner, name="", prefix=prefix))
        for _ in range(count):
            name = next(name for name in names if f"{owner.namespace}/{name}" not in self._names)
            yield _renamed(pattern, name)

    def _stateful_set(self, given: Given, item: StatefulSet) -> Made:
        spec, template = item.spec, item.spec.template
        check_selector(given, spec.selector, template)
        first = spec.ordinals.start if spec.ordinals is not None else 0
        revision = {"controller-revision-hash": f"{item.name}-{template_hash(template)}"}
        pods: list[Pod] = []
        claims: list[KubeObject] = []
        for ordinal in range(first, first + _count(given, spec.replicas, "replicas")):
            name = f"{item.name}-{ordinal}"
            if f"{item.namespace}/{name}" in self._names:
                continue
            identity = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(ordinal)}
            pod = _pod(_labelled(template, revision | identity), item, name=name)
            pod, own = _with_claims(pod, item)
            pods.append(self._admission.admit(pod))
            claims += own
        return Made(pods, claims)

    def _daemon_set(self, given: Given, item: DaemonSet) -> Made:
        template = item.spec.template
        check_selector(given, item.spec.selector, template)
        template = _labelled(daemon_template(template), {"controller-revision-hash": template_hash(template)})
        served = {target_node(pod) for pod in self._pods_of.get(key_of(item), ())}
        wanted = [node for node in fitting_nodes(self._nodes, template) if node.name not in served]
        pods = self._alike(item, template, len(wanted))
        return Made([tied_to(pod, node.name) for pod, node in zip(pods, wanted, strict=True)])

    def _job(self, given: Given, item: Job) -> Made:
        spec = item.spec
        indexed = spec.completion_mode == "Indexed"
        if indexed and spec.completions is None:
            raise given.fault("is required when completionMode is Indexed", "spec", "completions")
        parallel = _count(given, spec.parallelism, "parallelism")
        if spec.completions is not None:
            parallel = min(parallel, _count(given, spec.completions, "completions"))
        if spec.suspend:
            return Made()
        uid = _uid(item)
        marks = {f"{domain}{key}": value
                 for key, value in (("controller-uid", uid), ("job-name", item.name))
                 for domain in ("batch.kubernetes.io/", "")}  # fmt: skip
        template = _labelled(spec.template, marks)
        present = self._pods_of.get(key_of(item), [])
        if not indexed:
            return Made(list(self._alike(item, template, parallel - len(present))))
        taken = {pod.annotations.get(_JOB_INDEX) for pod in present}
        free = [index for index in range(spec.completions or 0) if str(index) not in taken]
        pods: list[Pod] = []
        for index in free[: max(parallel - len(present), 0)]:
            numbered = _labelled(template, {_JOB_INDEX: str(index)}, {_JOB_INDEX: str(index)})
            pods += self._alike(item, numbered, 1, prefix=f"{item.name}-{index}-")
        return Made(pods)


def controller_of(item: NamespacedObject) -> _Key | None:
    """Kind, namespace and name of the object that manages this one."""
    for reference in item.metadata.owner_references:
        if reference.controller:
            return reference.kind, item.namespace, reference.name
    return None


def key_of(item: NamespacedObject) -> _Key:
    """Kind, namespace and name."""
    return item.kind, item.namespace, item.name


def check_selector(given: Given, selector: LabelSelector | None, template: PodTemplateSpec) -> None:
    """A workload must select the pods it makes, or it would make them for ever."""
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


def _count(given: Given, number: int | None, field: str) -> int:
    if number is None:
        return 1
    if number < 0:
        raise given.fault(f"must not be negative, but is {number}", "spec", field)
    if number > MOST_PODS:
        raise given.fault(f"{number} pods are more than a simulation takes ({MOST_PODS})", "spec", field)
    return number


def _uid(item: NamespacedObject) -> str:
    return item.uid or uid_of(item.kind, item.namespace, item.name)


def _owner(item: NamespacedObject) -> OwnerReference:
    return OwnerReference(
        api_version=item.api_version,
        kind=item.kind,
        name=item.name,
        uid=_uid(item),
        controller=True,
        block_owner_deletion=True,
    )


def _pod(template: PodTemplateSpec, owner: NamespacedObject, *, name: str, prefix: str = "") -> Pod:
    written = template.metadata
    metadata = ObjectMeta(
        name=name,
        generate_name=prefix,
        namespace=owner.namespace,
        uid=uid_of("Pod", owner.namespace, name) if name else "",
        labels=written.labels,
        annotations=written.annotations,
        finalizers=written.finalizers,
        owner_references=(_owner(owner),),
    )
    return Pod(metadata=metadata, spec=template.spec)


def _renamed(pod: Pod, name: str) -> Pod:
    uid = uid_of("Pod", pod.namespace, name)
    return _replace(pod, metadata=_replace(pod.metadata, name=name, uid=uid))


def _labelled(
    template: PodTemplateSpec, labels: Mapping[str, str], annotations: Mapping[str, str] | None = None
) -> PodTemplateSpec:
    metadata = template.metadata
    metadata = _replace(
        metadata, labels={**metadata.labels, **labels}, annotations={**metadata.annotations, **(annotations or {})}
    )
    return _replace(template, metadata=metadata)


def _with_claims(pod: Pod, item: StatefulSet) -> tuple[Pod, list[PersistentVolumeClaim]]:
    """Give a pod the claims of its own that its set wants it to have."""
    templates = item.spec.volume_claim_templates
    if not templates:
        return pod, []
    selected = item.spec.selector.match_labels if item.spec.selector is not None else {}
    claims, volumes = [], []
    for template in templates:
        name = f"{template.name}-{pod.name}"
        metadata = _replace(
            template.metadata,
            name=name,
            namespace=pod.namespace,
            uid=uid_of("PersistentVolumeClaim", pod.namespace, name),
            labels=template.labels | selected,
        )
        claims.append(_replace(template, metadata=metadata))
        volumes.append(Volume(name=template.name, persistent_volume_claim=PersistentVolumeClaimVolume(claim_name=name)))
    own = {template.name for template in templates}
    kept = (volume for volume in pod.spec.volumes if volume.name not in own)
    return _replace(pod, spec=_replace(pod.spec, volumes=(*volumes, *kept))), claims
