"""POST, PUT, PATCH and DELETE on objects and their subresources."""

from typing import Final

from mooring.apiserver.documents import Document
from mooring.cluster.api_resource import Resource
from mooring.cluster.auth.authorization import Attributes, forbidden_message, is_allowed
from mooring.cluster.auth.escalation import check_escalation
from mooring.cluster.conversion import convert
from mooring.cluster.deletion import DeleteOptions, Deletion, delete, deletion_response
from mooring.cluster.errors import forbidden, invalid_object
from mooring.cluster.http.api import Api
from mooring.cluster.http.read_handlers import object_response
from mooring.cluster.http.request_body import read_document, read_plain
from mooring.cluster.http.request_info import RequestInfo, selection_predicate
from mooring.cluster.http.responses import json_response
from mooring.cluster.kinds.event import new_event_errors
from mooring.cluster.request_context import RequestContext
from mooring.cluster.store import Stored
from mooring.late_certificates import web

_ORPHANS: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set"
    " propagationPolicy=Orphan to suppress this warning"
)
#: The subresources that are parts of stored objects, and what the registry calls them.
STORED_SUBRESOURCES: Final = {
    "approval": "status",
    "ephemeralcontainers": "ephemeralcontainers",
    "resize": "resize",
    "status": "status",
}
_DELETE_OPTIONS: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"


async def create(api: Api, info: RequestInfo, request: web.BaseRequest, context: RequestContext) -> web.Response:
    """Create an object."""
    resource = info.resource
    body = await request.read()
    document = read_document(body, request.headers.get("Content-Type", ""), resource, context)
    stored = create_document(api, resource, info.namespace or "", document, context)
    return object_response(api, resource, stored, request, 201, context.warnings)


def create_document(
    api: Api, resource: Resource, namespace: str, document: Document, context: RequestContext
) -> Stored:
    """Create an object from a checked document."""
    if resource.stored_as == "events" and resource.group and (errors := new_event_errors(document)):
        raise invalid_object("Event", "", document["metadata"].get("name", ""), errors)
    check_escalation(api.store, context.user, resource, namespace, document)
    native = api.custom.native(resource)
    api.custom.complete(resource, document)
    stored = api.registry.create(native, namespace, convert(document, native), context)
    if not context.dry_run:
        api.custom.stored(resource, stored)
    return stored


async def update(api: Api, info: RequestInfo, request: web.BaseRequest, context: RequestContext) -> web.Response:
    """Replace an object."""
    resource = info.resource
    body = await request.read()
    document = read_document(body, request.headers.get("Content-Type", ""), resource, context)
    if _may_be_created(api, info):
        authorize_creation(api, info, context)
        stored = create_document(api, resource, info.namespace or "", document, context)
        return object_response(api, resource, stored, request, 201, context.warnings)
    stored = update_document(api, info, document, context)
    return object_response(api, resource, stored, request, 200, context.warnings)


def _may_be_created(api: Api, info: RequestInfo) -> bool:
    """Return whether a PUT can create an object, as for leases and events."""
    if info.subresource or info.resource.stored_as not in {"leases.coordination.k8s.io", "events"}:
        return False
    return api.store.get(info.resource.stored_as, info.namespace or "", info.name) is None


def authorize_creation(api: Api, info: RequestInfo, context: RequestContext) -> None:
    """Raise ApiError unless the user may create the object of an update or apply request that does not exist."""
    resource = info.resource
    wanted = Attributes("create", resource.group, resource.plural, "", info.namespace or "", info.name)
    if not is_allowed(api.store, context.user, wanted):
        raise forbidden(resource.target(info.name), forbidden_message(context.user, wanted))


def update_document(api: Api, info: RequestInfo, document: Document, context: RequestContext) -> Stored:
    """Replace an object with a checked document."""
    resource = info.resource
    old = api.store.get(resource.stored_as, info.namespace or "", info.name)
    if old is not None:
        check_escalation(api.store, context.user, resource, info.namespace or "", document, old.document)
    native = api.custom.native(resource)
    api.custom.complete(resource, document)
    subresource = STORED_SUBRESOURCES.get(info.subresource, "")
    stored = api.registry.update(
        native, info.namespace or "", info.name, convert(document, native), context, subresource=subresource
    )
    if not context.dry_run:
        api.custom.stored(resource, stored)
    return stored


async def remove(api: Api, info: RequestInfo, request: web.BaseRequest, context: RequestContext) -> web.Response:
    """Delete an object."""
    options = await _delete_options(request, context)
    if info.resource.stored_as == "jobs.batch" and not options.propagation:
        # Jobs have this default for compatibility, as in Kubernetes.
        options = options._replace(propagation="Orphan")
        context.warnings.append(_ORPHANS)
    result = delete(api.registry, info.resource, info.namespace or "", info.name, options, context)
    if not context.dry_run:
        api.custom.removed(info.resource, result.stored, gone=result.gone)
    return json_response(_deleted(api, info.resource, result), warnings=context.warnings)


async def remove_all(api: Api, info: RequestInfo, request: web.BaseRequest, context: RequestContext) -> web.Response:
    """Delete all objects of a collection that match the selectors."""
    resource = info.resource
    options = await _delete_options(request, context)
    predicate = selection_predicate(api, resource, info.namespace, request.query)
    found = [each.document["metadata"] for each in api.paginator.first(resource, predicate, 0).items]
    items = []
    for metadata in found:
        space = metadata.get("namespace", "")
        result = delete(api.registry, resource, space, metadata["name"], options, context)
        if not context.dry_run:
            api.custom.removed(resource, result.stored, gone=result.gone)
        items.append(convert(result.stored.document, resource))
    version = {"resourceVersion": str(api.store.version)}
    return json_response(
        {"kind": resource.lists_as, "apiVersion": resource.group_version, "metadata": version, "items": items}
    )


def _deleted(api: Api, resource: Resource, result: Deletion) -> Document:
    returns = api.mapper.kind(resource).returns_deleted
    return (
        convert(deletion_response(resource, result, returns_object=returns), resource)
        if (returns or not result.gone)
        else deletion_response(resource, result, returns_object=False)
    )


async def _delete_options(request: web.BaseRequest, context: RequestContext) -> DeleteOptions:
    body = await request.read()
    document = read_plain(body, request.headers.get("Content-Type", ""), _DELETE_OPTIONS, "DeleteOptions")
    if document.get("dryRun"):
        context.dry_run = True
    return DeleteOptions.read(document, dict(request.query))
