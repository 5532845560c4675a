"""Workloads: the objects that make pods."""

from msgspec import field

from mooring.api.meta import LabelSelector, Model, NamespacedObject
from mooring.api.pod import PodTemplateSpec
from mooring.api.storage import PersistentVolumeClaim


class ReplicaSetSpec(Model, kw_only=True):
    """How many pods of which template."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicaSet(NamespacedObject, kw_only=True):
    """Keeps a number of equal pods running."""

    api_version: str = field(default_factory=lambda: "apps/v1")
    kind: str = field(default_factory=lambda: "ReplicaSet")
    spec: ReplicaSetSpec = ReplicaSetSpec()


class Deployment(NamespacedObject, kw_only=True):
    """Keeps a number of equal pods running and replaces them step by step."""

    api_version: str = field(default_factory=lambda: "apps/v1")
    kind: str = field(default_factory=lambda: "Deployment")
    spec: ReplicaSetSpec = ReplicaSetSpec()


class StatefulSetOrdinals(Model, kw_only=True):
    """The number that counting starts at."""

    start: int = 0


class StatefulSetSpec(Model, kw_only=True):
    """How many pods of which template, each with claims of its own."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    volume_claim_templates: tuple[PersistentVolumeClaim, ...] = ()
    service_name: str = ""
    pod_management_policy: str = ""
    ordinals: StatefulSetOrdinals | None = None


class StatefulSet(NamespacedObject, kw_only=True):
    """Keeps numbered pods with storage of their own running."""

    api_version: str = field(default_factory=lambda: "apps/v1")
    kind: str = field(default_factory=lambda: "StatefulSet")
    spec: StatefulSetSpec = StatefulSetSpec()


class DaemonSetSpec(Model, kw_only=True):
    """The template of the pod that every fitting node gets."""

    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class DaemonSet(NamespacedObject, kw_only=True):
    """Runs one pod on every fitting node."""

    api_version: str = field(default_factory=lambda: "apps/v1")
    kind: str = field(default_factory=lambda: "DaemonSet")
    spec: DaemonSetSpec = DaemonSetSpec()


class JobSpec(Model, kw_only=True):
    """How many pods run at a time and how many must succeed."""

    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class Job(NamespacedObject, kw_only=True):
    """Runs pods until enough have succeeded."""

    api_version: str = field(default_factory=lambda: "batch/v1")
    kind: str = field(default_factory=lambda: "Job")
    spec: JobSpec = JobSpec()
