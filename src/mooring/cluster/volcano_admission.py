"""Admission of Volcano's objects in the embedded cluster, by the rules of the webhook of `mooring controller`."""

from collections.abc import Mapping
from typing import Final

from mooring.api.codec import fit
from mooring.api.decode_errors import ConversionError
from mooring.api.volcano import SCHEDULING_GROUP, Queue
from mooring.apiserver.documents import Document
from mooring.apiserver.volcano_admission.review import (
    EXEMPT_NAMESPACES,
    Admission,
    AdmissionSettings,
    Request,
    hooks_for,
    refused_by,
)
from mooring.cluster.api_resource import Resource
from mooring.cluster.errors import ApiError
from mooring.cluster.store import Store

_QUEUES: Final = f"queues.{SCHEDULING_GROUP}"


class _State:
    """The queues and namespaces of the cluster."""

    def __init__(self, store: Store) -> None:
        self._store = store
        #: The decoded queues, with their resource versions.
        self._queues: dict[str, tuple[str, Queue]] = {}

    def queues(self) -> Mapping[str, Queue]:
        """Return all queues by name."""
        fresh: dict[str, tuple[str, Queue]] = {}
        for stored in self._store.objects(_QUEUES):
            name, version = stored.document["metadata"]["name"], stored.document["metadata"]["resourceVersion"]
            known = self._queues.get(name)
            if known is None or known[0] != version:
                try:
                    known = (version, fit(stored.document, Queue))
                except ConversionError:
                    continue
            fresh[name] = known
        self._queues = fresh
        return {name: queue for name, (_, queue) in fresh.items()}

    def namespace_annotations(self, name: str) -> Mapping[str, str]:
        """Return the annotations of a namespace."""
        found = self._store.get("namespaces", "", name)
        return {} if found is None else found.document["metadata"].get("annotations") or {}


class VolcanoAdmission:
    """Sets the defaults of Volcano's objects, and refuses invalid ones."""

    def __init__(self, store: Store, settings: AdmissionSettings | None = None) -> None:
        self._admission = Admission(_State(store), settings)

    def set_defaults(self, resource: Resource, document: Document) -> None:
        """Set the defaults of a new object in place."""
        request = _request("CREATE", resource, document, None)
        if request is not None and any(each.mutates for each in hooks_for(resource.group, resource.plural, "CREATE")):
            fresh = self._admission.defaulted(request)
            document.update(fresh)

    def check(self, operation: str, resource: Resource, document: Document, old: Document | None = None) -> None:
        """Raise ApiError if a request is refused. For a deletion, ``document`` is the object to delete."""
        hook = next((each for each in hooks_for(resource.group, resource.plural, operation) if not each.mutates), None)
        request = None if hook is None else _request(operation, resource, document, old)
        if request is not None and hook is not None and (reason := self._admission.refusal(request)):
            raise ApiError(400, "", refused_by(hook, reason))


def _request(operation: str, resource: Resource, document: Document, old: Document | None) -> Request | None:
    """Return the request to review; None for a namespace that is exempt."""
    metadata = document["metadata"]
    namespace = metadata.get("namespace", "")
    if namespace in EXEMPT_NAMESPACES:
        return None
    return Request(operation, resource.group, resource.plural, namespace, metadata.get("name", ""), document, old)
