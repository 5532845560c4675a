"""How each resource differs from the others when it is created and changed."""

from collections.abc import Callable
from typing import Final, NamedTuple

from mooring.apiserver.documents import Document
from mooring.cluster.errors import FieldError

Validate = Callable[[Document], list[FieldError]]
ValidateUpdate = Callable[[Document, Document], list[FieldError]]


def _no_errors(_document: Document) -> list[FieldError]:
    return []


def _no_update_errors(_new: Document, _old: Document) -> list[FieldError]:
    return []


class Strategy(NamedTuple):
    """The rules of one resource."""

    validate: Validate = _no_errors
    #: What may not change; the new object has passed `validate` already.
    validate_update: ValidateUpdate = _no_update_errors
    #: What may not change in the status, where it is written through its own subresource.
    validate_status: ValidateUpdate = _no_update_errors
    #: Whether `status` is written only through its own subresource.
    status: bool = False
    #: Whether `metadata.generation` counts the changes of the rest.
    generation: bool = False
    #: Whether an update may leave out the version that it is based on.
    unconditional: bool = True
    #: Whether a deletion answers with the deleted object rather than a Status.
    returns_deleted: bool = False


#: Resources whose objects a client cannot simply overwrite.
CONDITIONAL: Final = frozenset(
    {
        "customresourcedefinitions.apiextensions.k8s.io",
        "leases.coordination.k8s.io",
        "poddisruptionbudgets.policy",
        "runtimeclasses.node.k8s.io",
        "volumeattachments.storage.k8s.io",
        "csinodes.storage.k8s.io",
        "csidrivers.storage.k8s.io",
        "csistoragecapacities.storage.k8s.io",
    }
)

#: Resources whose generation is counted.
GENERATIONS: Final = frozenset(
    {
        "customresourcedefinitions.apiextensions.k8s.io",
        "cronjobs.batch",
        "daemonsets.apps",
        "deployments.apps",
        "deviceclasses.resource.k8s.io",
        "endpointslices.discovery.k8s.io",
        "ingressclasses.networking.k8s.io",
        "ingresses.networking.k8s.io",
        "jobs.batch",
        "networkpolicies.networking.k8s.io",
        "poddisruptionbudgets.policy",
        "pods",
        "podtemplates",
        "priorityclasses.scheduling.k8s.io",
        "replicasets.apps",
        "replicationcontrollers",
        "resourceslices.resource.k8s.io",
        "statefulsets.apps",
    }
)

_RETURNING: Final = frozenset(
    {
        "csidrivers.storage.k8s.io",
        "csinodes.storage.k8s.io",
        "deviceclasses.resource.k8s.io",
        "namespaces",
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "podtemplates",
        "resourceclaims.resource.k8s.io",
        "resourceclaimtemplates.resource.k8s.io",
        "resourcequotas",
        "resourceslices.resource.k8s.io",
        "serviceaccounts",
        "services",
        "storageclasses.storage.k8s.io",
        "volumeattachments.storage.k8s.io",
        "volumeattributesclasses.storage.k8s.io",
    }
)


def strategy_for(
    storage: str,
    *,
    status: bool,
    rules: tuple[Validate, ValidateUpdate] | None,
    status_rule: ValidateUpdate | None = None,
) -> Strategy:
    """The strategy of one of Kubernetes' own resources, with its rules of validation."""
    validate, validate_update = rules or (_no_errors, _no_update_errors)
    return Strategy(
        validate=validate,
        validate_update=validate_update,
        validate_status=status_rule or _no_update_errors,
        status=status,
        generation=storage in GENERATIONS,
        unconditional=storage not in CONDITIONAL,
        returns_deleted=storage in _RETURNING,
    )
