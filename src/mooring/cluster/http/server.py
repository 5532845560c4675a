"""The HTTP server, which authenticates, authorizes and dispatches requests."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any, Final

from mooring.cluster.api_resource import METRICS
from mooring.cluster.auth.authorization import Attributes, forbidden_message, is_allowed
from mooring.cluster.errors import (
    ApiError,
    Target,
    bad_request,
    forbidden,
    method_not_allowed,
    no_such_path,
    request_too_large,
)
from mooring.cluster.http import read_handlers, subresources, write_handlers
from mooring.cluster.http.api import Api
from mooring.cluster.http.metrics_api import read_metrics
from mooring.cluster.http.patch_handler import patch
from mooring.cluster.http.request_info import RequestInfo, flag, parse_path, request_context
from mooring.cluster.http.responses import error_response, json_response, wants_aggregated_discovery
from mooring.cluster.request_context import RequestContext, User
from mooring.http_listener import ConnectionLimits, Listener
from mooring.late_certificates import web

if TYPE_CHECKING:
    from aiohttp import StreamReader
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.http_parser import RawRequestMessage
    from aiohttp.web_protocol import RequestHandler
from mooring.unexpected_errors import report_unexpected

_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_HEALTH: Final = frozenset({"/healthz", "/livez", "/readyz", "/healthz/ping"})
#: The maximum size of a request body; that of the API server.
_LARGEST_BODY: Final = 3 * 1024 * 1024
#: Every watch has its own connection. Most systems allow 1024 open files for each process.
_LIMITS: Final = ConnectionLimits(connections=800)


class HttpServer:
    """An HTTP server that listens only on the loopback interface."""

    def __init__(self, api: Api, *, tls: ssl.SSLContext | None, limits: ConnectionLimits = _LIMITS) -> None:
        self._api = api
        self._tls = tls
        self._limits = limits
        self.listener: Listener | None = None
        self.port = 0

    async def start(self, port: int) -> None:
        """Listen on a port of 127.0.0.1; 0 selects a free one."""
        server = web.Server(self.handle, request_factory=_request)
        runner = web.ServerRunner(server, shutdown_timeout=0.5)
        self.listener = Listener(runner, self._limits, tls=self._tls, backlog=1024)
        self.port = await self.listener.start("127.0.0.1", port)

    async def stop(self) -> None:
        """Close all streams and stop listening."""
        self._api.broadcaster.cut()
        if self.listener is not None:
            await self.listener.stop()
            self.listener = None

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Handle one request."""
        try:
            response = await self._answer(request)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except UnicodeEncodeError:
            response = error_response(bad_request("the request has a header or a query that is not UTF-8"))
        except RecursionError:
            response = error_response(bad_request("the object provided is nested too deeply"))
        except Exception as error:
            report_unexpected("a request failed", error, method=request.method, path=request.path)
            response = error_response(
                ApiError(500, "InternalError", "Internal error occurred: see the log of the embedded cluster")
            )
        if not response.prepared:
            try:
                await self._api.flush()
            except ApiError as error:
                response = error_response(error)
        return response

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._route(request)
        except ApiError as error:
            return error_response(error)
        except web.HTTPRequestEntityTooLarge:
            return error_response(request_too_large(_LARGEST_BODY))

    async def _route(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        if path in _HEALTH or path.startswith(("/livez/", "/readyz/", "/healthz/")):
            return web.Response(text="ok")
        user = self._api.tokens.authenticate(request.headers)
        # Clients such as kr8s ask for `/version/` and `/api/v1/`.
        path = path.rstrip("/") or "/"
        if path.startswith("/api/v1/") or (path.startswith("/apis/") and path.count("/") >= 4):
            return await self._resource(request, path, user)
        return self._document(request, path, user)

    def _document(self, request: web.BaseRequest, path: str, user: User) -> web.Response:
        """Handle a request for a document about the server itself."""
        self._authorize(user, Attributes(request.method.lower(), path=path))
        api, accept = self._api, request.headers.get("Accept", "")
        parts = path.strip("/").split("/")
        if parts in (["api"], ["apis"]):
            if wants_aggregated_discovery(accept):
                found = api.discovery.aggregated(core=parts == ["api"])
                response = json_response(found)
                response.headers["Content-Type"] = _AGGREGATED
                return response
            return json_response(api.discovery.versions() if parts == ["api"] else api.discovery.groups())
        if parts[0] == "api" and len(parts) == 2:
            return json_response(api.discovery.resources("", parts[1]))
        if parts[0] == "apis" and len(parts) == 2:
            return json_response(api.discovery.group(parts[1]))
        if parts[0] == "apis" and len(parts) == 3:
            return json_response(api.discovery.resources(parts[1], parts[2]))
        return subresources.document(api, path, accept)

    async def _resource(self, request: web.BaseRequest, path: str, user: User) -> web.StreamResponse:
        info = parse_path(path, self._api.mapper)
        method, query = request.method, request.query
        watching = method == "GET" and (flag(query, "watch"))
        verb = _verb(method, info, watching=watching)
        self._authorize(
            user,
            Attributes(
                verb, info.resource.group, info.resource.plural, info.subresource, info.namespace or "", info.name
            ),
            info,
        )
        if method != "GET":
            self._api.check_writable()
        if info.resource.group == METRICS:
            return read_metrics(self._api, info, request)
        if watching:
            return await read_handlers.watch(self._api, info, request)
        if info.subresource and info.subresource not in write_handlers.STORED_SUBRESOURCES:
            return await subresources.subresource(
                self._api, info, request, request_context(user, query, request.headers)
            )
        if "list" not in info.resource.verbs:
            return await subresources.create_review(
                self._api, info, request, request_context(user, query, request.headers), user
            )
        if method == "GET":
            reader = read_handlers.read_one if info.name else read_handlers.read_list
            return reader(self._api, info, request)
        return await self._write(info, request, request_context(user, query, request.headers))

    async def _write(self, info: RequestInfo, request: web.BaseRequest, context: RequestContext) -> web.Response:
        match request.method, bool(info.name):
            case "POST", False:
                if info.resource.namespaced and info.namespace is None:
                    raise method_not_allowed("create", info.resource.target())
                return await write_handlers.create(self._api, info, request, context)
            case "PUT", True:
                return await write_handlers.update(self._api, info, request, context)
            case "PATCH", True:
                return await patch(self._api, info, request, context)
            case "DELETE", True:
                return await write_handlers.remove(self._api, info, request, context)
            case "DELETE", False:
                return await write_handlers.remove_all(self._api, info, request, context)
        raise method_not_allowed(request.method.lower(), info.resource.target())

    def _authorize(self, user: User, attributes: Attributes, info: RequestInfo | None = None) -> None:
        if user.is_admin or is_allowed(self._api.store, user, attributes):
            return
        target = info.resource.target(info.name) if info else Target("", "")
        if info is None:
            raise ApiError(403, "Forbidden", f"forbidden: {forbidden_message(user, attributes)}", details={})
        raise forbidden(target, forbidden_message(user, attributes))


def _request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=_LARGEST_BODY)


def _verb(method: str, info: RequestInfo, *, watching: bool) -> str:
    if watching:
        return "watch"
    named: dict[str, Any] = {
        "GET": "get" if info.name else "list",
        "POST": "create",
        "PUT": "update",
        "PATCH": "patch",
    }
    if method == "DELETE":
        return "delete" if info.name else "deletecollection"
    if method not in named:
        raise no_such_path()
    return str(named[method])
