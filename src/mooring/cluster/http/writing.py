"""POST, PUT, PATCH and DELETE on objects and their subresources."""

from typing import Final

from aiohttp import web

from mooring.apiserver.documents import Document
from mooring.cluster.calls import Call
from mooring.cluster.deletion import DeleteOptions, Deletion, delete, deletion_answer
from mooring.cluster.errors import invalid_object
from mooring.cluster.http.answers import answer_document
from mooring.cluster.http.bodies import read_document, read_plain
from mooring.cluster.http.context import Api
from mooring.cluster.http.paths import Place
from mooring.cluster.http.queries import filter_of
from mooring.cluster.http.reading import answer_object
from mooring.cluster.kinds.event import new_event_errors
from mooring.cluster.resources import Resource
from mooring.cluster.store import Stored
from mooring.cluster.views import seen_as

_ORPHANS: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set"
    " propagationPolicy=Orphan to suppress this warning"
)
_DELETE_OPTIONS: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"


async def create(api: Api, place: Place, request: web.BaseRequest, call: Call) -> web.Response:
    """Create an object."""
    resource = place.resource
    body = await request.read()
    document = read_document(body, request.headers.get("Content-Type", ""), resource, call)
    stored = create_document(api, resource, place.namespace or "", document, call)
    return answer_object(api, resource, stored, request, 201, call.warnings)


def create_document(api: Api, resource: Resource, namespace: str, document: Document, call: Call) -> Stored:
    """Create an object from a checked document."""
    if resource.stored_as == "events" and resource.group and (errors := new_event_errors(document)):
        raise invalid_object("Event", "", document["metadata"].get("name", ""), errors)
    native = api.custom.native(resource)
    api.custom.complete(resource, document)
    stored = api.registry.create(native, namespace, seen_as(document, native), call)
    if not call.dry_run:
        api.custom.stored(resource, stored)
    return stored


async def update(api: Api, place: Place, request: web.BaseRequest, call: Call) -> web.Response:
    """Replace an object."""
    resource = place.resource
    body = await request.read()
    document = read_document(body, request.headers.get("Content-Type", ""), resource, call)
    if _may_be_created(api, place):
        stored = create_document(api, resource, place.namespace or "", document, call)
        return answer_object(api, resource, stored, request, 201, call.warnings)
    stored = update_document(api, place, document, call)
    return answer_object(api, resource, stored, request, 200, call.warnings)


def _may_be_created(api: Api, place: Place) -> bool:
    """Return whether a PUT can create an object, as for leases and events."""
    if place.subresource or place.resource.stored_as not in {"leases.coordination.k8s.io", "events"}:
        return False
    return api.store.get(place.resource.stored_as, place.namespace or "", place.name) is None


def update_document(api: Api, place: Place, document: Document, call: Call) -> Stored:
    """Replace an object with a checked document."""
    resource = place.resource
    native = api.custom.native(resource)
    api.custom.complete(resource, document)
    subresource = place.subresource if place.subresource in {"status", "ephemeralcontainers", "resize"} else ""
    stored = api.registry.update(
        native, place.namespace or "", place.name, seen_as(document, native), call, subresource=subresource
    )
    if not call.dry_run:
        api.custom.stored(resource, stored)
    return stored


async def remove(api: Api, place: Place, request: web.BaseRequest, call: Call) -> web.Response:
    """Delete an object."""
    options = await _delete_options(request, call)
    if place.resource.stored_as == "jobs.batch" and not options.propagation:
        # Jobs keep this default for compatibility, as in Kubernetes.
        options = options._replace(propagation="Orphan")
        call.warnings.append(_ORPHANS)
    result = delete(api.registry, place.resource, place.namespace or "", place.name, options, call)
    if not call.dry_run:
        api.custom.removed(place.resource, result.stored, gone=result.gone)
    return answer_document(_deleted(api, place.resource, result), warnings=call.warnings)


async def remove_all(api: Api, place: Place, request: web.BaseRequest, call: Call) -> web.Response:
    """Delete all objects of a collection that match the selectors."""
    resource = place.resource
    options = await _delete_options(request, call)
    chosen = filter_of(api, resource, place.namespace, request.query)
    found = [each.document["metadata"] for each in api.lists.first(resource, chosen, 0).items]
    items = []
    for metadata in found:
        space = metadata.get("namespace", "")
        result = delete(api.registry, resource, space, metadata["name"], options, call)
        if not call.dry_run:
            api.custom.removed(resource, result.stored, gone=result.gone)
        items.append(seen_as(result.stored.document, resource))
    version = {"resourceVersion": str(api.store.version)}
    return answer_document(
        {"kind": resource.lists_as, "apiVersion": resource.group_version, "metadata": version, "items": items}
    )


def _deleted(api: Api, resource: Resource, result: Deletion) -> Document:
    returns = api.table.kind(resource).returns_deleted
    return (
        seen_as(deletion_answer(resource, result, returns_object=returns), resource)
        if (returns or not result.gone)
        else deletion_answer(resource, result, returns_object=False)
    )


async def _delete_options(request: web.BaseRequest, call: Call) -> DeleteOptions:
    body = await request.read()
    document = read_plain(body, request.headers.get("Content-Type", ""), _DELETE_OPTIONS, "DeleteOptions")
    if document.get("dryRun"):
        call.dry_run = True
    return DeleteOptions.read(document, dict(request.query))
