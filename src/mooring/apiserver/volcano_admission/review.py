"""Admission: the defaults of an object, and the reasons to refuse a request."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar

import msgspec

from mooring.api.codec import fit
from mooring.api.decode_errors import ConversionError, path_text
from mooring.api.hyper_nodes import TOPOLOGY_GROUP, HyperNode
from mooring.api.meta import KubeObject
from mooring.api.quantity import QuantityError
from mooring.api.volcano import SCHEDULING_GROUP, PodGroup, Queue
from mooring.api.volcano_jobs import FLOW_GROUP, JOB_GROUP, JobFlow, VolcanoCronJob, VolcanoJob
from mooring.apiserver.documents import Document, deep_copy
from mooring.apiserver.quantities import QuantityTextError
from mooring.apiserver.volcano_admission.cron_jobs import cron_job_errors
from mooring.apiserver.volcano_admission.hyper_nodes import hyper_node_errors
from mooring.apiserver.volcano_admission.job_flows import flow_errors
from mooring.apiserver.volcano_admission.jobs import (
    job_errors,
    job_template_errors,
    job_update_error,
    needed_plugins,
    set_job_defaults,
    with_job_defaults,
)
from mooring.apiserver.volcano_admission.pod_groups import group_errors, set_group_defaults
from mooring.apiserver.volcano_admission.pods import (
    ResourceGroup,
    pod_errors,
    set_pod_defaults_of_group,
    set_queue_gate,
)
from mooring.apiserver.volcano_admission.queues import (
    QueueTree,
    job_queue_errors,
    queue_deletion_error,
    queue_errors,
    set_queue_defaults,
)

ObjectT = TypeVar("ObjectT", bound=KubeObject)

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"
#: Namespaces whose objects are not reviewed.
EXEMPT_NAMESPACES: Final = ("kube-system",)


class Hook(msgspec.Struct, frozen=True):
    """A review of one kind of object: its path in Volcano's webhook server, and the requests that it is for."""

    path: str
    group: str
    version: str
    operations: tuple[str, ...]

    @property
    def resource(self) -> str:
        """The resource in the plural."""
        return self.path.split("/")[1]

    @property
    def mutates(self) -> bool:
        """Whether the review sets defaults; otherwise it validates."""
        return self.path.endswith("/mutate")


#: All reviews, with the paths of Volcano.
HOOKS: Final = (
    Hook("/jobs/mutate", JOB_GROUP, "v1alpha1", (CREATE,)),
    Hook("/jobs/validate", JOB_GROUP, "v1alpha1", (CREATE, UPDATE)),
    Hook("/cronjobs/validate", JOB_GROUP, "v1alpha1", (CREATE, UPDATE)),
    Hook("/jobflows/validate", FLOW_GROUP, "v1alpha1", (CREATE, UPDATE)),
    Hook("/queues/mutate", SCHEDULING_GROUP, "v1beta1", (CREATE,)),
    Hook("/queues/validate", SCHEDULING_GROUP, "v1beta1", (CREATE, UPDATE, DELETE)),
    Hook("/podgroups/mutate", SCHEDULING_GROUP, "v1beta1", (CREATE,)),
    Hook("/podgroups/validate", SCHEDULING_GROUP, "v1beta1", (CREATE,)),
    Hook("/hypernodes/validate", TOPOLOGY_GROUP, "v1alpha1", (CREATE, UPDATE)),
    Hook("/pods/mutate", "", "v1", (CREATE,)),
    Hook("/pods/validate", "", "v1", (CREATE,)),
)


class Request(msgspec.Struct, frozen=True):
    """A request to create, change or delete an object."""

    operation: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""
    object: Document | None = None
    old_object: Document | None = None


class AdmissionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of admission, as Volcano's webhook manager has them."""

    scheduler_names: tuple[str, ...] = ("volcano",)
    default_queue: str = "default"
    #: The maximum number of queues from the root to a leaf, without the root.
    max_queue_depth: int = 5
    #: Whether the amounts of the root queue cannot change.
    protect_root_queue: bool = True
    #: Whether a queue with allocated pods cannot be deleted.
    check_allocated_pods: bool = False
    resource_groups: tuple[ResourceGroup, ...] = ()
    #: Whether pods that request it get the scheduling gate of queue admission (SchedulingGatesQueueAdmission).
    adds_queue_gates: bool = False


class ClusterState(Protocol):
    """The objects that reviews look up."""

    def queues(self) -> Mapping[str, Queue]:
        """Return all queues by name."""

    def namespace_annotations(self, name: str) -> Mapping[str, str]:
        """Return the annotations of a namespace; empty if it does not exist."""


class JobPluginRules(Protocol):
    """What is known about job plugins. Users can add their own."""

    def names(self) -> Collection[str] | None:
        """Return the names of all plugins; None if any plugin may exist."""

    def required(self, names: Collection[str]) -> Iterable[str]:
        """Return the plugins that some plugins need besides themselves."""

    def errors(self, job: VolcanoJob) -> Iterable[str]:
        """Return the errors of a job's plugins and their arguments."""

    def warnings(self, job: VolcanoJob) -> Iterable[str]:
        """Return messages about a valid job's arguments that have no effect."""


class AnyJobPlugins:
    """The rules where users' job plugins are not known."""

    def names(self) -> None:
        """Return None: any plugin may exist."""

    def required(self, names: Collection[str]) -> Iterable[str]:
        """Return the plugins that Volcano's own plugins need."""
        return needed_plugins(names)

    def errors(self, _job: VolcanoJob) -> Iterable[str]:
        """Return no errors: the arguments are not known."""
        return ()

    def warnings(self, _job: VolcanoJob) -> Iterable[str]:
        """Return no warnings: the arguments are not known."""
        return ()


class Admission:
    """Reviews requests by Volcano's rules."""

    def __init__(
        self, state: ClusterState, settings: AdmissionSettings | None = None, plugins: JobPluginRules | None = None
    ) -> None:
        self._state = state
        self._settings = settings or AdmissionSettings()
        self._plugins = plugins or AnyJobPlugins()
        self._defaults: dict[str, Callable[[Request, Document], None]] = {
            "jobs": self._set_job_defaults,
            "queues": lambda _request, document: set_queue_defaults(document),
            "podgroups": self._set_group_defaults,
            "pods": self._set_pod_defaults,
        }
        self._rules: dict[str, Callable[[Request], Iterable[str]]] = {
            "jobs": self._job_errors,
            "cronjobs": lambda request: cron_job_errors(_decoded(request, VolcanoCronJob)),
            "jobflows": lambda request: flow_errors(_decoded(request, JobFlow)),
            "queues": self._queue_errors,
            "podgroups": lambda request: group_errors(_decoded(request, PodGroup), self._tree()),
            "hypernodes": lambda request: hyper_node_errors(_decoded(request, HyperNode)),
            "pods": lambda request: pod_errors(request.object or {}, self._settings.scheduler_names),
        }

    def defaulted(self, request: Request) -> Document:
        """Return the object with defaults. An object that cannot be read gets none: it is refused later."""
        assert request.object is not None
        document: Document = deep_copy(request.object)
        try:
            self._defaults[request.resource](request, document)
        except (ConversionError, AttributeError, TypeError, KeyError, ValueError):
            return request.object
        return document

    def refusal(self, request: Request) -> str:
        """Return why a request is refused, or ""."""
        try:
            return "; ".join(each.strip() for each in self._rules[request.resource](request))
        except ConversionError as error:
            return f"{path_text(error.fault.steps)}: {error}"
        except (QuantityError, QuantityTextError) as error:
            return str(error)

    def warnings(self, request: Request) -> list[str]:
        """Return what the client is told about a request that is not refused."""
        if request.resource != "jobs" or request.operation != CREATE:
            return []
        return list(self._plugins.warnings(self._with_defaults(_decoded(request, VolcanoJob))))

    def _tree(self) -> QueueTree:
        return QueueTree(self._state.queues())

    # Jobs

    def _with_defaults(self, job: VolcanoJob) -> VolcanoJob:
        settings, required = self._settings, self._plugins.required
        return with_job_defaults(
            job, scheduler_name=settings.scheduler_names[0], queue=settings.default_queue, required=required
        )

    def _set_job_defaults(self, request: Request, document: Document) -> None:
        set_job_defaults(document, self._with_defaults(_decoded(request, VolcanoJob)))

    def _job_errors(self, request: Request) -> Iterable[str]:
        job = _decoded(request, VolcanoJob)
        if request.operation == UPDATE:
            old = Request(CREATE, request.group, request.resource, object=request.old_object or {})
            # A client that omits a default, as the manifest that it applies does, does not change the field.
            before, after = (self.defaulted(each).get("spec") or {} for each in (old, request))
            error = job_update_error(job, before, after)
            return (error,) if error else ()
        job = self._with_defaults(job)
        found = [*job_errors(job, self._plugins.names()), *job_template_errors(job)]
        return [*found, *(() if found else self._plugins.errors(job)), *job_queue_errors(job.spec.queue, self._tree())]

    # Queues and pod groups

    def _queue_errors(self, request: Request) -> Iterable[str]:
        settings, tree = self._settings, self._tree()
        if request.operation == DELETE:
            error = queue_deletion_error(request.name, tree, check_allocated_pods=settings.check_allocated_pods)
            return (error,) if error else ()
        old = None if request.old_object is None else fit(request.old_object, Queue)
        queue = _decoded(request, Queue)
        return queue_errors(
            queue, old, tree, max_depth=settings.max_queue_depth, protect_root=settings.protect_root_queue
        )

    def _set_group_defaults(self, request: Request, document: Document) -> None:
        set_group_defaults(document, self._state.namespace_annotations(request.namespace))

    def _set_pod_defaults(self, request: Request, document: Document) -> None:
        set_pod_defaults_of_group(document, request.namespace, self._settings.resource_groups)
        if self._settings.adds_queue_gates:
            set_queue_gate(document, self._settings.scheduler_names)


def _decoded(request: Request, kind: type[ObjectT]) -> ObjectT:
    """Return the object of a request. Raises ConversionError."""
    document: Any = request.object or {}
    # The schema of the definition has removed unknown fields and checked most types, but not those of metadata.
    return fit(document, kind)


def hooks_for(group: str, resource: str, operation: str) -> tuple[Hook, ...]:
    """Return the reviews of a request."""
    return tuple(
        each for each in HOOKS if each.group == group and each.resource == resource and operation in each.operations
    )


def refused_by(hook: Hook, reason: str) -> str:
    """Return the message of the API server for a request that a webhook refuses."""
    return f'admission webhook "{hook_name(hook)}" denied the request: {reason}'


def hook_name(hook: Hook) -> str:
    """Return the name of a webhook, as in Volcano."""
    verb = "mutate" if hook.mutates else "validate"
    return f"{verb}{hook.resource.removesuffix('s')}.volcano.sh"
