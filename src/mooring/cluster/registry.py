"""The registry, which creates, updates and reads objects by the rules of their kinds.

There is no await between reading an object and writing it, so the checked resource version is current.
"""

import random
import time
import uuid
from collections.abc import Callable
from typing import Final, Protocol

from mooring.apiserver.admission import add_tolerations
from mooring.apiserver.documents import Document, deep_copy, rfc3339
from mooring.apiserver.field_errors import FieldError, invalid
from mooring.apiserver.field_rules import IMMUTABLE
from mooring.apiserver.names import MAX_PREFIX_LENGTH, generated_name
from mooring.apiserver.object_meta import metadata_errors, metadata_update_errors
from mooring.cluster.api_resource import Resource
from mooring.cluster.errors import (
    MODIFIED,
    ApiError,
    Target,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid_object,
    not_found,
    storage_conflict,
    unnamed_failure,
)
from mooring.cluster.kind import Kind
from mooring.cluster.request_context import RequestContext
from mooring.cluster.rest_mapper import RestMapper
from mooring.cluster.server_side_apply import managed_fields
from mooring.cluster.store import Store, Stored

#: The maximum number of attempts to generate an unused name.
_DRAWS: Final = 8
#: Metadata that only the server writes.
_SYSTEM_METADATA: Final = (
    "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink",
)  # fmt: skip


class Quotas(Protocol):
    """The quotas of the cluster."""

    def charge(self, resource: Resource, document: Document, old: Document | None, *, dry_run: bool) -> None:
        """Add the usage of a new or changed object. Raises ApiError if it exceeds a quota."""


class Reviews(Protocol):
    """Admission of requests beyond the rules of the kinds."""

    def set_defaults(self, resource: Resource, document: Document) -> None:
        """Set the defaults of a new object in place."""

    def check(self, operation: str, resource: Resource, document: Document, old: Document | None = None) -> None:
        """Raise ApiError if a request (CREATE, UPDATE or DELETE) is refused."""


class Registry:
    """The objects of the cluster and the rules of their kinds."""

    def __init__(
        self,
        store: Store,
        mapper: RestMapper,
        *,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        quotas: "Quotas | None" = None,
        reviews: Reviews | None = None,
    ) -> None:
        self.store = store
        self.mapper = mapper
        self.clock = clock
        self._random = rng or random.Random()
        self._quotas = quotas
        #: Reviews requests; None for no reviews.
        self.reviews = reviews

    def get(self, resource: Resource, namespace: str, name: str) -> Stored:
        """Return an object. Raises ApiError if it does not exist."""
        found = self.store.get(resource.stored_as, namespace, name)
        if found is None:
            raise not_found(resource.target(name))
        return found

    def create(self, resource: Resource, namespace: str, document: Document, context: RequestContext) -> Stored:
        """Store a new object. The document is completed in place."""
        storage, kind = resource.stored_as, self.mapper.kind(resource)
        metadata = document.setdefault("metadata", {})
        self._set_identity(resource, namespace, metadata)
        if kind.counts_generation:
            metadata["generation"] = 1
        else:
            metadata.pop("generation", None)
        kind.set_defaults(document)
        # No manager owns the fields that the server sets below, so a later apply without them does not remove them.
        self._track(resource, document, context)
        if self.reviews is not None:
            self.reviews.set_defaults(resource, document)
        self._prepare(kind, document)
        self._check_namespace(resource, document)
        kind.admit(self.store, document)
        errors = metadata_errors(document, kind.name_errors, namespaced=resource.namespaced)
        self._reject_invalid(resource, document, errors + kind.validate(document))
        if self.reviews is not None:
            self.reviews.check("CREATE", resource, document)
        context.warnings += kind.warnings(document)
        name, space = self._free_name(resource, metadata), metadata.get("namespace", "")
        if self._quotas is not None:
            self._quotas.charge(resource, document, None, dry_run=context.dry_run)
        if context.dry_run:
            return Stored(document, self.store.version)
        return self.store.put(storage, space, name, document)

    def _prepare(self, kind: Kind, document: Document) -> None:
        if kind.resource.is_custom:
            if kind.has_status:
                document.pop("status", None)
        elif kind.prepare is not None:
            kind.prepare(document, self.store, self.clock())
        elif "status" in document and not kind.keeps_status:
            document["status"] = dict(kind.initial_status)

    def _check_namespace(self, resource: Resource, document: Document) -> None:
        if not resource.namespaced:
            return
        name = document["metadata"]["namespace"]
        found = self.store.get("namespaces", "", name)
        if found is None:
            raise not_found(Target("", "namespaces", name))
        if found.document["metadata"].get("deletionTimestamp"):
            error = forbidden(
                resource.target(document["metadata"].get("name", "")),
                f"unable to create new content in namespace {name} because it is being terminated",
            )
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {name} is being terminated",
                "field": "metadata.namespace",
            }
            details = {**(error.details or {}), "causes": [cause]}
            raise ApiError(error.code, error.reason, error.message, details=details)

    def _track(self, resource: Resource, document: Document, context: RequestContext) -> None:
        document["metadata"].pop("managedFields", None)
        if context.entries:
            document["metadata"]["managedFields"] = context.entries
        elif context.manager:
            managed_fields.track(None, document, resource, context.manager, rfc3339(self.clock()))

    def _set_identity(self, resource: Resource, namespace: str, metadata: Document) -> None:
        if metadata.get("resourceVersion") not in {None, "", "0"}:
            raise unnamed_failure("resourceVersion should not be set on objects to be created")
        for key in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            metadata.pop(key, None)
        if resource.namespaced:
            if metadata.get("namespace", namespace) != namespace:
                raise bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request"
                )
            metadata["namespace"] = namespace
        elif metadata.get("namespace"):
            del metadata["namespace"]
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = generated_name(metadata["generateName"], self._random)
        metadata["uid"] = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        metadata["creationTimestamp"] = rfc3339(self.clock())

    def _free_name(self, resource: Resource, metadata: Document) -> str:
        """Return the name of a new object. A generated name is one that is not in use."""
        space = metadata.get("namespace", "")
        for _ in range(_DRAWS):
            if self.store.get(resource.stored_as, space, metadata["name"]) is None:
                return str(metadata["name"])
            prefix = metadata.get("generateName")
            if not prefix or not metadata["name"].startswith(prefix[:MAX_PREFIX_LENGTH]):
                break
            metadata["name"] = generated_name(prefix, self._random)
        raise already_exists(resource.target(metadata["name"]))

    def _reject_invalid(self, resource: Resource, document: Document, errors: list[FieldError]) -> None:
        if errors:
            raise invalid_object(resource.kind, resource.group, document["metadata"].get("name", ""), errors)

    def update(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        document: Document,
        context: RequestContext,
        *,
        subresource: str = "",
        owning_subresource: str = "",
    ) -> Stored:
        """Replace an object. The document is completed in place.

        `owning_subresource` is the subresource that owns the changed fields, if it differs from `subresource`.
        """
        old = self.get(resource, namespace, name)
        metadata = document.setdefault("metadata", {})
        self._check_identity(resource, namespace, name, metadata)
        self._check_version(resource, old, metadata, context)
        new = self._merged(resource, document, old, subresource)
        kind = self.mapper.kind(resource)
        kind.set_defaults(new)
        if resource.stored_as == "pods" and not subresource:
            add_tolerations(new["spec"])
        errors = metadata_update_errors(new, old.document)
        if subresource == "status":
            errors += kind.validate_status(new, old.document)
        elif subresource:
            errors += kind.validate(new)
            errors += kind.validate_subresource(subresource, new["spec"], old.document["spec"])
        if not subresource or resource.is_custom:
            errors += kind.validate(new)
            errors += kind.validate_update(new, old.document)
        self._reject_invalid(resource, new, errors)
        if self.reviews is not None and not subresource:
            self.reviews.check("UPDATE", resource, new, old.document)
        changed = _spec_changed(new, old.document) or (
            kind.counts_annotations
            and new["metadata"].get("annotations") != old.document["metadata"].get("annotations")
        )
        if subresource != "status" and kind.counts_generation and changed:
            new["metadata"]["generation"] = old.document["metadata"].get("generation", 0) + 1
        if self._quotas is not None and subresource in {"", "resize"}:
            self._quotas.charge(resource, new, old.document, dry_run=context.dry_run)
        return self._write(resource, new, old, context, subresource or owning_subresource)

    def _check_identity(self, resource: Resource, namespace: str, name: str, metadata: Document) -> None:
        if metadata.setdefault("name", name) != name:
            raise bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
            )
        if resource.namespaced and metadata.setdefault("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")

    def _check_version(self, resource: Resource, old: Stored, metadata: Document, context: RequestContext) -> None:
        name, before = metadata["name"], old.document["metadata"]
        uid = metadata.get("uid") or before["uid"]
        if uid != before["uid"]:
            if context.patching:
                raise invalid_object(resource.kind, resource.group, name, [invalid("metadata.uid", uid, IMMUTABLE)])
            raise storage_conflict(resource.target(name), _path(resource, old.document), uid, before["uid"])
        given = metadata.get("resourceVersion") or ""
        if given in {"", "0"}:
            if not self.mapper.kind(resource).unconditional_update:
                error = invalid("metadata.resourceVersion", 0, "must be specified for an update")
                raise invalid_object(resource.plural, resource.group, name, [error])
        elif given != before["resourceVersion"]:
            raise conflict(resource.target(name), MODIFIED)

    def _merged(self, resource: Resource, document: Document, old: Stored, subresource: str) -> Document:
        """Return the new object with the fields of the old one that the request cannot change."""
        before = old.document["metadata"]
        metadata = document["metadata"]
        for key in _SYSTEM_METADATA:
            if key in before:
                metadata[key] = before[key]
            else:
                metadata.pop(key, None)
        metadata["resourceVersion"] = before["resourceVersion"]
        if subresource == "status":
            for key in self.mapper.kind(resource).status_protects:
                if key in before:
                    metadata[key] = before[key]
                else:
                    metadata.pop(key, None)
            merged = {**deep_copy(old.document), "metadata": metadata}
            merged.pop("status", None)
            return {**merged, "status": document["status"]} if "status" in document else merged
        if self.mapper.kind(resource).has_status:
            document.pop("status", None)
            if "status" in old.document:
                document["status"] = deep_copy(old.document["status"])
        return document

    def _write(
        self, resource: Resource, new: Document, old: Stored, context: RequestContext, subresource: str
    ) -> Stored:
        metadata = new["metadata"]
        entries = managed_fields.previous_entries(old.document, metadata)
        metadata.pop("managedFields", None)
        if entries:
            metadata["managedFields"] = entries
        if new == old.document:
            return old
        if context.manager and (subresource != "status" or entries):
            now = rfc3339(self.clock())
            managed_fields.track(old.document, new, resource, context.manager, now, subresource=subresource)
        if context.dry_run:
            return Stored(new, old.version)
        name, namespace = metadata["name"], metadata.get("namespace", "")
        if is_finished(new):
            self.store.put(resource.stored_as, namespace, name, new)
            return self.store.remove(resource.stored_as, namespace, name)
        return self.store.put(resource.stored_as, namespace, name, new)

    def modify(
        self, storage: str, namespace: str, name: str, change: Callable[[Document], Document | None]
    ) -> Stored | None:
        """Change an object without validation, for controllers.

        `change` receives the stored document and must not modify it. It returns a new document, or None for no change.
        """
        old = self.store.get(storage, namespace, name)
        if old is None:
            return None
        new = change(old.document)
        if new is None or new == old.document:
            return old
        stored = self.store.put(storage, namespace, name, new)
        return self.store.remove(storage, namespace, name) if is_finished(new) else stored


def _path(resource: Resource, document: Document) -> str:
    """Return the path of an object in etcd, without the prefix."""
    metadata = document["metadata"]
    return "/".join(filter(None, (resource.plural, metadata.get("namespace"), metadata["name"])))


def is_finished(document: Document) -> bool:
    """Return whether a terminating object can be removed: it has no finalizers and no grace period."""
    metadata = document["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if document.get("kind") == "Namespace" and document["spec"].get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds")


def _spec_changed(new: Document, old: Document) -> bool:
    """Return whether any field other than metadata and status differs."""
    ignored = {"metadata", "status", "apiVersion"}
    return any(new.get(key) != old.get(key) for key in {*new, *old} - ignored)
