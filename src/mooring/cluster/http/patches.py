"""PATCH requests, and server-side apply."""

from typing import Any, Final

import msgspec
from aiohttp import web

from mooring.apiserver.documents import Document, rfc3339
from mooring.cluster import managed
from mooring.cluster.calls import Call
from mooring.cluster.errors import (
    MODIFIED,
    bad_request,
    conflict,
    invalid,
    invalid_object,
    required,
    unnamed_failure,
    unsupported_media,
    unsupported_patch,
)
from mooring.cluster.http.bodies import check_kind, checked, cleaned, metadata_of, parse_body
from mooring.cluster.http.context import Api
from mooring.cluster.http.paths import Place
from mooring.cluster.http.reading import answer_object
from mooring.cluster.http.writing import create_document, update_document
from mooring.cluster.patching import json_patch, merge_patch, strategic_merge_patch
from mooring.cluster.resources import Resource
from mooring.cluster.schema.check import DecodeError, check
from mooring.cluster.schema.structural import prune_custom
from mooring.cluster.store import Stored
from mooring.cluster.views import seen_as

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
_PATCHES: Final = frozenset({JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH})
_decode: Final = msgspec.json.Decoder().decode


async def patch(api: Api, place: Place, request: web.BaseRequest, call: Call) -> web.Response:
    """Patch an object."""
    resource = place.resource
    media = request.headers.get("Content-Type", "").partition(";")[0].strip()
    if media not in _PATCHES:
        raise unsupported_patch()
    body = parse_body(await request.read(), media)
    if media == APPLY_PATCH:
        return _apply(api, place, body, request, call)
    old = api.registry.get(resource, place.namespace or "", place.name)
    patched = apply_patch(media, seen_as(_decode(old.encoded), resource), body, resource)
    call.patching = True
    new = _prepared(resource, patched, old, call, body if media == STRATEGIC_PATCH else None)
    stored = update_document(api, place, new, call)
    return answer_object(api, resource, stored, request, 200, call.warnings)


def apply_patch(media: str, target: Document, body: Any, resource: Resource) -> Document:
    """Return a document after a patch of a media type."""
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


def _prepared(resource: Resource, patched: Document, old: Stored, call: Call, patch: Any) -> Document:
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
        return cleaned(new, resource, call)
    except DecodeError as error:
        shown = encoded.decode() if patch is None else _go_map(patch)
        raise invalid_object("", "", "", [invalid("patch", shown, str(error))]) from None


def _apply(api: Api, place: Place, body: Any, request: web.BaseRequest, call: Call) -> web.Response:
    """Apply the fields of the body for a manager, and create the object if it is missing."""
    resource = place.resource
    if not isinstance(body, dict):
        raise bad_request("error decoding YAML: the body must be an object")
    if not request.query.get("fieldManager"):
        error = required("fieldManager", "is required for apply patch")
        raise invalid_object("PatchOptions", "meta.k8s.io", "", [error])
    config = _config(place, body)
    old = api.store.get(resource.stored_as, place.namespace or "", place.name)
    if old is None and place.subresource:
        # A subresource can be applied only to an existing object.
        api.registry.get(resource, place.namespace or "", place.name)
    live = None if old is None else seen_as(_decode(old.encoded), resource)
    given = config["metadata"].get("resourceVersion")
    if given and (live is None or given != live["metadata"]["resourceVersion"]):
        raise conflict(resource.target(place.name), MODIFIED)
    now = rfc3339(api.clock())
    result = managed.apply(live, config, resource, call.manager, now, force=call.force, subresource=place.subresource)
    return _store(api, place, result, request, call, created=old is None)


def _config(place: Place, body: Document) -> Document:
    """Return the applied document, checked and without defaults, which the manager would own otherwise."""
    resource = place.resource
    if (body.get("kind"), body.get("apiVersion")) != (resource.kind, resource.group_version):
        group, _, version = str(body.get("apiVersion", "")).rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={body.get('kind', '')}")
    metadata = metadata_of(body)
    name = metadata.setdefault("name", place.name)
    if name != place.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({place.name})")
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
    api: Api, place: Place, result: Document, request: web.BaseRequest, call: Call, *, created: bool
) -> web.Response:
    resource = place.resource
    result.update(apiVersion=resource.group_version, kind=resource.kind)
    entries = result["metadata"].get("managedFields")
    result = _decode(msgspec.json.encode(result))
    booked = Call(call.user, dry_run=call.dry_run, validation="Ignore")
    checked(result, resource, booked)
    result["metadata"]["name"] = place.name
    if not created:
        stored = update_document(api, place, result, booked)
    else:
        booked.entries = entries
        stored = create_document(api, resource, place.namespace or "", result, booked)
    warnings = [*call.warnings, *booked.warnings]
    return answer_object(api, resource, stored, request, 201 if created else 200, warnings)


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
