"""Deletion of objects: immediately, after a grace period, or when the last finalizer is removed."""

from typing import Final, NamedTuple

from mooring.api.label_selectors import parse_int
from mooring.apiserver.documents import Document, replaced, rfc3339, with_metadata
from mooring.apiserver.field_errors import not_supported
from mooring.cluster.api_resource import Resource
from mooring.cluster.errors import Target, bad_request, conflict, invalid_object
from mooring.cluster.registry import Registry, is_finished
from mooring.cluster.request_context import RequestContext
from mooring.cluster.store import Stored

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
#: The finalizer that a CustomResourceDefinition has until its objects are deleted.
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
_DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
_FINALIZERS: Final = {"Orphan": ORPHAN, "Foreground": FOREGROUND}


class DeleteOptions(NamedTuple):
    """Options of a deletion."""

    grace: int | None = None
    uid: str = ""
    version: str = ""
    propagation: str = ""

    @classmethod
    def read(cls, body: Document, query: dict[str, str]) -> "DeleteOptions":
        """Read options from the body, or from the query if there is no body."""
        conditions = body.get("preconditions") or {}
        grace = body.get("gracePeriodSeconds")
        if grace is None and query.get("gracePeriodSeconds"):
            grace = parse_int(query["gracePeriodSeconds"])
            if grace is None:
                raise bad_request("gracePeriodSeconds: Invalid value: must be a number of seconds")
        policy = body.get("propagationPolicy") or query.get("propagationPolicy", "")
        orphan = body.get("orphanDependents")
        if orphan is not None and policy:
            raise bad_request("orphanDependents and deletionPropagation cannot be both set")
        if orphan is not None:
            policy = "Orphan" if orphan else "Background"
        if policy not in {"", "Orphan", "Foreground", "Background"}:
            error = not_supported("propagationPolicy", policy, ("Foreground", "Background", "Orphan", "nil"))
            raise invalid_object("DeleteOptions", "meta.k8s.io", "", [error])
        return cls(grace, conditions.get("uid", ""), conditions.get("resourceVersion", ""), policy)


class Deletion(NamedTuple):
    """The result of a deletion: the object, and whether it is gone."""

    stored: Stored
    gone: bool


def delete(
    registry: Registry, resource: Resource, namespace: str, name: str, options: DeleteOptions, context: RequestContext
) -> Deletion:
    """Delete an object, or mark it as terminating."""
    old = registry.get(resource, namespace, name)
    _check_preconditions(resource, old, options)
    registry.mapper.kind(resource).check_deletion(old.document)
    if registry.reviews is not None:
        registry.reviews.check("DELETE", resource, old.document)
    document = old.document
    grace = _grace(document, options)
    metadata = document["metadata"]
    finalizers = _with_policy(metadata.get("finalizers", []), options.propagation)
    if resource.stored_as == _DEFINITIONS and not metadata.get("deletionTimestamp"):
        # The objects of the definition are deleted first.
        finalizers = [*finalizers, CLEANUP]
    if metadata.get("deletionTimestamp"):
        shorter = grace < (metadata.get("deletionGracePeriodSeconds") or 0)
        if not shorter and finalizers == metadata.get("finalizers", []) and not is_finished(document):
            return Deletion(old, False)
        grace = min(grace, metadata.get("deletionGracePeriodSeconds") or 0)
    new = _marked(document, finalizers, registry.clock(), grace)
    if context.dry_run:
        return Deletion(Stored(new, old.version), is_finished(new))
    if is_finished(new):
        registry.store.remove(resource.stored_as, namespace, name)
        return Deletion(Stored(with_metadata(new, resourceVersion=metadata["resourceVersion"]), old.version), True)
    return Deletion(registry.store.put(resource.stored_as, namespace, name, new), False)


def _marked(document: Document, finalizers: list[str], now: float, grace: int) -> Document:
    parts: Document = {
        "deletionTimestamp": rfc3339(now + grace),
        "deletionGracePeriodSeconds": grace,
        "finalizers": finalizers or None,
    }
    if not document["metadata"].get("deletionTimestamp") and "generation" in document["metadata"]:
        parts["generation"] = document["metadata"]["generation"] + 1
    if document["metadata"].get("deletionTimestamp") and not grace:
        parts["deletionTimestamp"] = document["metadata"]["deletionTimestamp"]
    if not finalizers and "finalizers" not in document["metadata"]:
        del parts["finalizers"]
    new = with_metadata(document, **parts)
    if document.get("kind") == "Namespace":
        new["status"] = replaced(document.get("status", {}), phase="Terminating")
    return new


def _check_preconditions(resource: Resource, old: Stored, options: DeleteOptions) -> None:
    metadata = old.document["metadata"]
    name = metadata["name"]
    if options.uid and options.uid != metadata["uid"]:
        raise conflict(
            Target(resource.group, resource.kind, name),
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({metadata['uid']})."
            " The object might have been deleted and then recreated",
        )
    if options.version and options.version != metadata["resourceVersion"]:
        raise conflict(
            Target(resource.group, resource.kind, name),
            f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion in record"
            f" ({metadata['resourceVersion']}). The object might have been modified",
        )


def _grace(document: Document, options: DeleteOptions) -> int:
    """Return the grace period, which only running pods have."""
    if document.get("kind") != "Pod":
        return 0
    spec, status = document["spec"], document.get("status", {})
    grace = options.grace if options.grace is not None else spec.get("terminationGracePeriodSeconds", 30)
    if not spec.get("nodeName") or status.get("phase") in {"Succeeded", "Failed"}:
        return 0
    return 1 if grace < 0 else int(grace)


def _with_policy(finalizers: list[str], policy: str) -> list[str]:
    """Return the finalizers for a propagation policy, or the existing ones if there is none."""
    if not policy:
        return list(finalizers)
    kept = [each for each in finalizers if each not in _FINALIZERS.values()]
    return [*kept, _FINALIZERS[policy]] if policy in _FINALIZERS else kept


def deletion_response(resource: Resource, result: Deletion, *, returns_object: bool) -> Document:
    """Return the response: the object if it still exists or its kind returns it, and a Status otherwise."""
    if returns_object or not result.gone:
        return result.stored.document
    metadata = result.stored.document["metadata"]
    details = {**resource.target(metadata["name"]).details, "uid": metadata["uid"]}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
