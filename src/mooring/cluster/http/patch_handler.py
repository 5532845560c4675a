"""PATCH requests, and server-side apply."""

from typing import Any, Final

import msgspec

from mooring.apiserver.documents import Document, rfc3339
from mooring.apiserver.field_errors import invalid, required
from mooring.cluster.api_resource import Resource
from mooring.cluster.conversion import convert
from mooring.cluster.errors import (
    MODIFIED,
    bad_request,
    conflict,
    invalid_object,
    unnamed_failure,
    unsupported_media,
    unsupported_patch,
)
from mooring.cluster.http.api import Api
from mooring.cluster.http.read_handlers import object_response
from mooring.cluster.http.request_body import check_kind, checked, cleaned, metadata_of, parse_body
from mooring.cluster.http.request_info import RequestInfo
from mooring.cluster.http.write_handlers import authorize_creation, create_document, update_document
from mooring.cluster.patching.json_patch import json_patch, merge_patch
from mooring.cluster.patching.strategic_merge_patch import strategic_merge_patch
from mooring.cluster.request_context import RequestContext
from mooring.cluster.schema.strict_decoding import DecodeError, check, prune_custom
from mooring.cluster.server_side_apply import managed_fields
from mooring.cluster.store import Stored
from mooring.late_certificates import web

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
_PATCHES: Final = frozenset({JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH})
_decode: Final = msgspec.json.Decoder().decode


async def patch(api: Api, info: RequestInfo, request: web.BaseRequest, context: RequestContext) -> web.Response:
    """Patch an object."""
    resource = info.resource
    media = request.headers.get("Content-Type", "").partition(";")[0].strip()
    if media not in _PATCHES:
        raise unsupported_patch()
    body = parse_body(await request.read(), media)
    if media == APPLY_PATCH:
        return _apply(api, info, body, request, context)
    old = api.registry.get(resource, info.namespace or "", info.name)
    patched = apply_patch(media, convert(_decode(old.encoded), resource), body, resource)
    context.patching = True
    new = _prepared(resource, patched, old, context, body if media == STRATEGIC_PATCH else None)
    stored = update_document(api, info, new, context)
    return object_response(api, resource, stored, request, 200, context.warnings)


def apply_patch(media: str, target: Document, body: Any, resource: Resource) -> Document:
    """Apply a patch of a media type to a document, and return the result."""
    if media == JSON_PATCH:
        result = json_patch(target, body)
    elif not isinstance(body, dict):
        raise bad_request("json: cannot unmarshal array into Go value of type map[string]interface {}")
    elif media == MERGE_PATCH:
        result = merge_patch(target, body)
    elif resource.is_custom:
        raise unsupported_media("", (JSON_PATCH, MERGE_PATCH, APPLY_PATCH))
    else:
        result = strategic_merge_patch(target, body, resource.shape)
    if not isinstance(result, dict):
        raise bad_request("the patched object is not an object any more")
    return dict(result)


def _prepared(resource: Resource, patched: Document, old: Stored, context: RequestContext, patch: Any) -> Document:
    encoded = msgspec.json.encode(patched)
    # Unpatched parts are shared with the stored document, and checks change documents in place.
    new: Document = _decode(encoded)
    check_kind(new, resource)
    metadata = metadata_of(new)
    before = old.document["metadata"]
    if metadata.get("name") != before["name"]:
        raise bad_request(
            f"the name of the object ({metadata.get('name', '')}) does not match the name on the URL ({before['name']})"
        )
    try:
        return cleaned(new, resource, context)
    except DecodeError as error:
        shown = encoded.decode() if patch is None else _go_map(patch)
        raise invalid_object("", "", "", [invalid("patch", shown, str(error))]) from None


def _apply(api: Api, info: RequestInfo, body: Any, request: web.BaseRequest, context: RequestContext) -> web.Response:
    """Apply the fields of the body for a manager, and create the object if it is missing."""
    resource = info.resource
    if not isinstance(body, dict):
        raise bad_request("error decoding YAML: the body must be an object")
    if not request.query.get("fieldManager"):
        error = required("fieldManager", "is required for apply patch")
        raise invalid_object("PatchOptions", "meta.k8s.io", "", [error])
    config = _config(info, body)
    old = api.store.get(resource.stored_as, info.namespace or "", info.name)
    if old is None and info.subresource:
        # A subresource can be applied only to an existing object.
        api.registry.get(resource, info.namespace or "", info.name)
    if old is None:
        authorize_creation(api, info, context)
    live = None if old is None else convert(_decode(old.encoded), resource)
    given = config["metadata"].get("resourceVersion")
    if given and (live is None or given != live["metadata"]["resourceVersion"]):
        raise conflict(resource.target(info.name), MODIFIED)
    now = rfc3339(api.clock())
    result = managed_fields.apply(
        live, config, resource, context.manager, now, force=context.force, subresource=info.subresource
    )
    return _store(api, info, result, request, context, created=old is None)


def _config(info: RequestInfo, body: Document) -> Document:
    """Return the applied document, checked and without defaults. Otherwise the manager would own the defaults."""
    resource = info.resource
    if (body.get("kind"), body.get("apiVersion")) != (resource.kind, resource.group_version):
        group, _, version = str(body.get("apiVersion", "")).rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={body.get('kind', '')}")
    metadata = metadata_of(body)
    name = metadata.setdefault("name", info.name)
    if name != info.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({info.name})")
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    what = f"({metadata.get('namespace', '')}/{name}; {resource.group}/{resource.version}, Kind={resource.kind})"
    try:
        unknown = prune_custom(body, resource.shape) if resource.is_custom else check(body, resource.shape, fill=False)
    except DecodeError as error:
        raise unnamed_failure(f"failed to create typed patch object {what}: {error}") from None
    if unknown:
        faults = [f".{each}: field not declared in schema" for each in unknown]
        shown = faults[0] if len(faults) == 1 else "errors:\n" + "\n".join(f"  {each}" for each in faults)
        raise unnamed_failure(f"failed to create typed patch object {what}: {shown}")
    return body


def _store(
    api: Api, info: RequestInfo, result: Document, request: web.BaseRequest, context: RequestContext, *, created: bool
) -> web.Response:
    resource = info.resource
    result.update(apiVersion=resource.group_version, kind=resource.kind)
    entries = result["metadata"].get("managedFields")
    result = _decode(msgspec.json.encode(result))
    booked = RequestContext(context.user, dry_run=context.dry_run, validation="Ignore")
    checked(result, resource, booked)
    result["metadata"]["name"] = info.name
    if not created:
        stored = update_document(api, info, result, booked)
    else:
        booked.entries = entries
        stored = create_document(api, resource, info.namespace or "", result, booked)
    warnings = [*context.warnings, *booked.warnings]
    return object_response(api, resource, stored, request, 201 if created else 200, warnings)


def _go_map(value: Any) -> str:
    """Format a value as `%v` of Go does: `map[spec:map[replicas:3]]`."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{_go_map(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(_go_map, value)) + "]"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
