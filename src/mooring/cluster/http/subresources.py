"""Requests other than for objects and lists: version, OpenAPI, bindings, evictions, scales, tokens and reviews."""

import datetime
import os
import platform
from typing import Final

from mooring.apiserver.documents import Document, nested_field, rfc3339
from mooring.cluster.auth.authentication import BoundObject
from mooring.cluster.errors import (
    ApiError,
    Target,
    bad_request,
    conflict,
    method_not_allowed,
    no_such_path,
    not_acceptable,
)
from mooring.cluster.http.api import Api
from mooring.cluster.http.patch_handler import apply_patch
from mooring.cluster.http.request_body import check_kind, checked, parse_body, read_plain
from mooring.cluster.http.request_info import RequestInfo
from mooring.cluster.http.responses import JSON, json_response, raw_response
from mooring.cluster.kinds.namespace import finalize_namespace
from mooring.cluster.kinds.pod import bind
from mooring.cluster.kinds.pod_disruption_budget import evict
from mooring.cluster.openapi_protobuf import OPENAPI_V2_PROTOBUF
from mooring.cluster.request_context import RequestContext, User
from mooring.cluster.scale import scale_of, set_scale
from mooring.cluster.schema.shape import VERSION
from mooring.late_certificates import web

_BINDING: Final = "io.k8s.api.core.v1.Binding"
_EVICTION: Final = "io.k8s.api.policy.v1.Eviction"
_SCALE: Final = "io.k8s.api.autoscaling.v1.Scale"
_TOKEN_REQUEST: Final = "io.k8s.api.authentication.v1.TokenRequest"
_PATHS: Final = ("/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version")
_CREATED: Final = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
_ACTIONS: Final = {"attach": "attach to", "exec": "run commands in", "portforward": "connect to", "proxy": "connect to"}
#: The resources of the objects that tokens can be bound to.
_BOUND_KINDS: Final = {"Node": "nodes", "Pod": "pods", "Secret": "secrets"}
#: The path with the process ID, for `mooring cluster status` and `stop`.
PROCESS: Final = "/mooring/process"


def document(api: Api, path: str, accept: str) -> web.Response:
    """Return a document about the server."""
    if path == "/version":
        return json_response(version())
    if path == "/openapi/v2":
        return _openapi_v2(api, accept)
    if path == "/openapi/v3":
        return json_response(api.openapi.index())
    if path.startswith("/openapi/v3/"):
        if _media_type(accept, (JSON,)) is None:
            raise not_acceptable([JSON])
        return raw_response(api.openapi.version3(path.removeprefix("/openapi/v3/")))
    if path == PROCESS:
        return json_response({"pid": os.getpid(), "dataDir": str(api.data or "")})
    if path == "/":
        return json_response({"paths": list(_PATHS)})
    raise no_such_path()


def _openapi_v2(api: Api, accept: str) -> web.Response:
    chosen = _media_type(accept, (JSON, *OPENAPI_V2_PROTOBUF))
    if chosen is None:
        raise not_acceptable([JSON, *OPENAPI_V2_PROTOBUF])
    if chosen == JSON:
        return raw_response(api.openapi.version2())
    response = raw_response(api.openapi.version2_protobuf())
    response.headers["Content-Type"] = OPENAPI_V2_PROTOBUF[0]
    return response


def _media_type(accept: str, offered: tuple[str, ...]) -> str | None:
    """Return the first offered media type in an Accept header, or None."""
    for part in (accept or "*/*").split(","):
        media = part.partition(";")[0].strip()
        if media in offered:
            return media
        if media in {"*/*", "application/*"}:
            return offered[0]
    return None


def version() -> Document:
    """Return the document at `/version`."""
    major, minor, _ = VERSION.lstrip("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": datetime.date(2026, 1, 1).isoformat() + "T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }


async def subresource(api: Api, info: RequestInfo, request: web.BaseRequest, context: RequestContext) -> web.Response:
    """Handle a request to a subresource that is not part of the stored object."""
    namespace, name = info.namespace or "", info.name
    match request.method, info.subresource:
        case "POST", "binding":
            body = read_plain(await request.read(), request.headers.get("Content-Type", ""), _BINDING, "Binding")
            bind(api.registry, namespace, name, body, context)
            return json_response(_CREATED, 201)
        case "POST", "eviction":
            body = read_plain(await request.read(), request.headers.get("Content-Type", ""), _EVICTION, "Eviction")
            evict(api.registry, info.resource, namespace, name, body, context)
            return json_response(_CREATED, 201)
        case "POST", "token":
            return await _token(api, info, request)
        case (("GET" | "PUT" | "PATCH"), "scale"):
            return await _scale(api, info, request, context)
        case "PUT", "finalize":
            body = parse_body(await request.read(), request.headers.get("Content-Type", ""))
            stored = finalize_namespace(api.registry, info.resource, name, body)
            return raw_response(stored.encoded)
        case _, ("attach" | "exec" | "portforward" | "proxy"):
            api.registry.get(info.resource, namespace, name)
            raise bad_request(f'pod "{name}" runs on a fake node of Mooring: nothing is executed there, so there is'
                              f" nothing to {_ACTIONS[info.subresource]}")  # fmt: skip
        case "GET", "log":
            api.registry.get(info.resource, namespace, name)
            raise ApiError(
                400,
                "BadRequest",
                f'pod "{name}" runs on a fake node of Mooring: nothing is executed there, so there are no logs',
            )
    raise method_not_allowed(request.method.lower(), info.resource.target(name))


async def _scale(api: Api, info: RequestInfo, request: web.BaseRequest, context: RequestContext) -> web.Response:
    resource, namespace, name = info.resource, info.namespace or "", info.name
    stored = api.registry.get(resource, namespace, name)
    paths = api.custom.scale(resource)
    if request.method == "GET":
        return json_response(scale_of(resource, stored.document, paths))
    body = await request.read()
    media = request.headers.get("Content-Type", "").partition(";")[0].strip()
    if request.method == "PUT":
        wanted = read_plain(body, media, _SCALE, "Scale")
    else:
        current = scale_of(resource, stored.document, paths)
        kind = "application/merge-patch+json" if media != "application/json-patch+json" else media
        wanted = apply_patch(kind, current, parse_body(body, media), resource)
        if not isinstance(nested_field(wanted, "spec", "replicas") or 0, int):
            raise bad_request("spec.replicas of a Scale must be a whole number")
    fresh = set_scale(api.registry, resource, namespace, name, wanted, context, paths)
    return json_response(scale_of(resource, fresh.document, paths))


async def _token(api: Api, info: RequestInfo, request: web.BaseRequest) -> web.Response:
    body = read_plain(await request.read(), request.headers.get("Content-Type", ""), _TOKEN_REQUEST, "TokenRequest")
    account = api.registry.get(info.resource, info.namespace or "", info.name)
    seconds = max(nested_field(body, "spec", "expirationSeconds") or 3600, 600)
    uid, bound = account.document["metadata"]["uid"], _bound_objects(api, info, body)
    token = api.tokens.issue(info.namespace or "", info.name, uid, seconds, bound)
    status = {"token": token, "expirationTimestamp": rfc3339(api.clock() + seconds)}
    return json_response({**body, "status": status}, 201)


def _bound_objects(api: Api, info: RequestInfo, body: Document) -> tuple[BoundObject, ...]:
    """Return the pod, secret or node that a token request names."""
    reference = nested_field(body, "spec", "boundObjectRef")
    if not reference:
        return ()
    kind, name = str(reference.get("kind", "")), str(reference.get("name", ""))
    if kind not in _BOUND_KINDS:
        raise bad_request(f"cannot bind token to object of type {kind}: the types are {', '.join(_BOUND_KINDS)}")
    storage = _BOUND_KINDS[kind]
    namespace = "" if storage == "nodes" else info.namespace or ""
    uid = api.registry.get(api.mapper.of(storage), namespace, name).document["metadata"]["uid"]
    if reference.get("uid", uid) != uid:
        raise conflict(Target("", storage, name), f"the UID in the bound object reference ({reference['uid']}) does not"
                       f" match the UID in record ({uid})")  # fmt: skip
    return (BoundObject(storage, namespace, name, uid),)


async def create_review(
    api: Api, info: RequestInfo, request: web.BaseRequest, context: RequestContext, user: User
) -> web.Response:
    """Create an object that is not stored: a review, such as a SubjectAccessReview, or a binding."""
    if request.method != "POST":
        raise method_not_allowed(request.method.lower(), info.resource.target(info.name))
    media = request.headers.get("Content-Type", "")
    if info.resource.kind == "Binding":
        body = read_plain(await request.read(), media, _BINDING, "Binding")
        bind(api.registry, info.namespace or "", nested_field(body, "metadata", "name") or "", body, context)
        return json_response(_CREATED, 201)
    body = parse_body(await request.read(), media)
    if not isinstance(body, dict):
        raise bad_request(f"the body must be a {info.resource.kind}")
    check_kind(body, info.resource)
    checked(body, info.resource, context)
    return json_response(api.reviews.evaluate(info.resource.kind, body, user), 201, context.warnings)
