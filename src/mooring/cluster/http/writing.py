"""POST, PUT, PATCH and DELETE on objects and their subresources."""

from typing import Any, Final

import msgspec
from aiohttp import web

from mooring.cluster import managed
from mooring.cluster.calls import Call
from mooring.cluster.deletion import DeleteOptions, Deletion, delete, deletion_answer
from mooring.cluster.documents import Document, rfc3339
from mooring.cluster.errors import ApiError, bad_request, conflict, unsupported_media
from mooring.cluster.http.answers import answer_document
from mooring.cluster.http.bodies import check_kind, checked, parse_body, read_document, read_plain
from mooring.cluster.http.context import Api
from mooring.cluster.http.paths import Place
from mooring.cluster.http.queries import filter_of
from mooring.cluster.http.reading import answer_object
from mooring.cluster.patching import json_patch, merge_patch, strategic_merge_patch
from mooring.cluster.resources import Resource
from mooring.cluster.store import Stored
from mooring.cluster.views import seen_as

_DELETE_OPTIONS: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_PATCHES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_decode: Final = msgspec.json.Decoder().decode


async def create(api: Api, place: Place, request: web.BaseRequest, call: Call) -> web.Response:
    """Create an object."""
    resource = place.resource
    body = await request.read()
    document = read_document(body, request.headers.get("Content-Type", ""), resource, call)
    stored = create_document(api, resource, place.namespace or "", document, call)
    return answer_object(api, resource, stored, request, 201, call.warnings)


def create_document(api: Api, resource: Resource, namespace: str, document: Document, call: Call) -> Stored:
    """Create an object from a document that is read and checked."""
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
    """Whether a PUT makes a new object: leases and events may be made so."""
    if place.subresource or place.resource.stored_as not in {"leases.coordination.k8s.io", "events"}:
        return False
    return api.store.get(place.resource.stored_as, place.namespace or "", place.name) is None


def update_document(api: Api, place: Place, document: Document, call: Call) -> Stored:
    """Replace an object by a document that is read and checked."""
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


async def patch(api: Api, place: Place, request: web.BaseRequest, call: Call) -> web.Response:
    """Change parts of an object."""
    resource = place.resource
    media = request.headers.get("Content-Type", "").partition(";")[0].strip()
    if media not in _PATCHES:
        raise unsupported_media(media, _PATCHES)
    body = parse_body(await request.read(), media)
    if media == "application/apply-patch+yaml":
        return _apply(api, place, body, request, call)
    old = api.registry.get(resource, place.namespace or "", place.name)
    patched = apply_patch(
        media,
        _decode(old.encoded) if _is_native(resource, old) else seen_as(_decode(old.encoded), resource),
        body,
        resource,
    )
    new = _prepared(resource, patched, old, call)
    stored = update_document(api, place, new, call)
    return answer_object(api, resource, stored, request, 200, call.warnings)


def _is_native(resource: Resource, stored: Stored) -> bool:
    return bool(stored.document["apiVersion"] == resource.group_version)


def apply_patch(media: str, target: Document, body: Any, resource: Resource) -> Document:
    """The document after a patch of the given media type."""
    if media == "application/json-patch+json":
        result = json_patch(target, body)
    elif not isinstance(body, dict):
        raise bad_request("the patch must be an object")
    elif media == "application/merge-patch+json":
        result = merge_patch(target, body)
    elif resource.is_custom:
        raise unsupported_media(media, [each for each in _PATCHES if "strategic" not in each])
    else:
        result = strategic_merge_patch(target, body, resource.shape)
    if not isinstance(result, dict):
        raise bad_request("the patched object is not an object any more")
    return dict(result)


def _prepared(resource: Resource, patched: Document, old: Stored, call: Call) -> Document:
    # What the patch left alone is shared with the stored document; the checks clean in place.
    new: Document = _decode(msgspec.json.encode(patched))
    check_kind(new, resource)
    metadata = new.setdefault("metadata", {})
    before = old.document["metadata"]
    if metadata.get("name") != before["name"]:
        raise bad_request(
            f"the name of the object ({metadata.get('name', '')}) does not match the name on the URL ({before['name']})"
        )
    checked(new, resource, call)
    return new


def _apply(api: Api, place: Place, body: Any, request: web.BaseRequest, call: Call) -> web.Response:
    """Server-side apply: the fields of the body become the manager's; the object is created where it is missing."""
    resource, query = place.resource, request.query
    if not isinstance(body, dict):
        raise bad_request("error decoding YAML: the body must be an object")
    if not query.get("fieldManager"):
        raise ApiError(
            422,
            "Invalid",
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
            details={"group": "meta.k8s.io", "kind": "PatchOptions"},
        )
    check_kind(body, resource)
    name = body.setdefault("metadata", {}).setdefault("name", place.name)
    if name != place.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({place.name})")
    if body["metadata"].get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    always = {key: body.get(key) for key in resource.shape.always}
    checked(body, resource, call)
    for key, value in always.items():
        if value is None:
            body.pop(key, None)
    old = api.store.get(resource.stored_as, place.namespace or "", place.name)
    if old is None and place.subresource:
        api.registry.get(resource, place.namespace or "", place.name)
    live = None if old is None else seen_as(_decode(old.encoded), resource)
    given = body["metadata"].get("resourceVersion")
    if given and (live is None or given != live["metadata"]["resourceVersion"]):
        raise conflict(resource.target(name), "the object has been modified; please apply your changes to the latest"
                       " version and try again")  # fmt: skip
    result = managed.apply(live, body, resource, call.manager, rfc3339(api.clock()), force=call.force,
                           subresource=place.subresource)  # fmt: skip
    return _store_applied(api, place, result, request, call, created=old is None)


def _store_applied(
    api: Api, place: Place, result: Document, request: web.BaseRequest, call: Call, *, created: bool
) -> web.Response:
    resource = place.resource
    result.update(apiVersion=resource.group_version, kind=resource.kind)
    entries = result["metadata"].get("managedFields")
    result = _decode(msgspec.json.encode(result))
    checked(result, resource, Call(call.user, validation="Ignore"))
    booked = Call(call.user, dry_run=call.dry_run, validation="Ignore")
    if not created:
        stored = update_document(api, place, result, booked)
        return answer_object(api, resource, stored, request, 200, call.warnings)
    result["metadata"]["name"] = place.name
    booked.entries = entries
    stored = create_document(api, resource, place.namespace or "", result, booked)
    return answer_object(api, resource, stored, request, 201, call.warnings)


async def remove(api: Api, place: Place, request: web.BaseRequest, call: Call) -> web.Response:
    """Delete an object."""
    options = await _delete_options(request, call)
    result = delete(api.registry, place.resource, place.namespace or "", place.name, options, call)
    if not call.dry_run:
        api.custom.removed(place.resource, result.stored, gone=result.gone)
    return answer_document(_deleted(api, place.resource, result))


async def remove_all(api: Api, place: Place, request: web.BaseRequest, call: Call) -> web.Response:
    """Delete all objects of a collection that a selector chooses."""
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
    returns = api.registry.strategy(resource).returns_deleted
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
