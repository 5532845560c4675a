"""The HTTP server: authenticates, authorizes and dispatches requests."""

import asyncio
import ssl
from typing import Any, Final

import structlog
from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage
from aiohttp.web_protocol import RequestHandler

from mooring.cluster.access.rbac import Attributes, is_allowed, refusal
from mooring.cluster.calls import Call, User
from mooring.cluster.errors import ApiError, Target, forbidden, method_not_allowed, no_such_path
from mooring.cluster.http import patches, reading, special, writing
from mooring.cluster.http.answers import answer_document, answer_error
from mooring.cluster.http.context import Api
from mooring.cluster.http.metrics import measured
from mooring.cluster.http.negotiation import wants_aggregated_discovery
from mooring.cluster.http.paths import Place, parse_place
from mooring.cluster.http.queries import call_of, flag
from mooring.cluster.resources import METRICS

_log: Final = structlog.get_logger("mooring.cluster")
_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_HEALTH: Final = frozenset({"/healthz", "/livez", "/readyz", "/healthz/ping"})
#: The largest accepted body.
_LARGEST_BODY: Final = 64 * 1024 * 1024


class HttpServer:
    """Serves on the loopback interface only."""

    def __init__(self, api: Api, *, tls: ssl.SSLContext | None) -> None:
        self._api = api
        self._tls = tls
        self._runner: web.ServerRunner | None = None
        self.port = 0

    async def start(self, port: int) -> None:
        """Listen on a port of 127.0.0.1; 0 selects a free one."""
        server = web.Server(self.handle, request_factory=_request, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port, ssl_context=self._tls, backlog=1024)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close all streams and stop listening."""
        self._api.watches.cut()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Handle one request."""
        try:
            response = await self._route(request)
        except ApiError as error:
            response = answer_error(error)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:
            _log.exception("a request failed", method=request.method, path=request.path)
            response = answer_error(
                ApiError(500, "InternalError", "Internal error occurred: see the log of the embedded cluster")
            )
        if not response.prepared:
            await self._api.flush()
        return response

    async def _route(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        if path in _HEALTH or path.startswith(("/livez/", "/readyz/", "/healthz/")):
            return web.Response(text="ok")
        user = self._api.tokens.authenticate(request.headers)
        if path.startswith("/api/v1/") or (path.startswith("/apis/") and path.count("/") >= 4):
            return await self._resource(request, path, user)
        return self._document(request, path, user)

    def _document(self, request: web.BaseRequest, path: str, user: User) -> web.Response:
        """Everything that is about the API itself."""
        self._authorize(user, Attributes(request.method.lower(), path=path))
        api, accept = self._api, request.headers.get("Accept", "")
        parts = path.strip("/").split("/")
        if parts in (["api"], ["apis"]):
            if wants_aggregated_discovery(accept):
                found = api.discovery.aggregated(core=parts == ["api"])
                response = answer_document(found)
                response.headers["Content-Type"] = _AGGREGATED
                return response
            return answer_document(api.discovery.versions() if parts == ["api"] else api.discovery.groups())
        if parts[0] == "api" and len(parts) == 2:
            return answer_document(api.discovery.resources("", parts[1]))
        if parts[0] == "apis" and len(parts) == 2:
            return answer_document(api.discovery.group(parts[1]))
        if parts[0] == "apis" and len(parts) == 3:
            return answer_document(api.discovery.resources(parts[1], parts[2]))
        return special.document(api, path, accept)

    async def _resource(self, request: web.BaseRequest, path: str, user: User) -> web.StreamResponse:
        place = parse_place(path, self._api.table)
        method, query = request.method, request.query
        watching = method == "GET" and (flag(query, "watch"))
        verb = _verb(method, place, watching=watching)
        self._authorize(
            user,
            Attributes(
                verb, place.resource.group, place.resource.plural, place.subresource, place.namespace or "", place.name
            ),
            place,
        )
        if place.resource.group == METRICS:
            return measured(self._api, place, request)
        if watching:
            return await reading.watch(self._api, place, request)
        if place.subresource and place.subresource not in {"status", "ephemeralcontainers", "resize"}:
            return await special.subresource(self._api, place, request, call_of(user, query, request.headers))
        if "list" not in place.resource.verbs:
            return await special.question(self._api, place, request, call_of(user, query, request.headers), user)
        if method == "GET":
            reader = reading.read_one if place.name else reading.read_list
            return reader(self._api, place, request)
        return await self._write(place, request, call_of(user, query, request.headers))

    async def _write(self, place: Place, request: web.BaseRequest, call: Call) -> web.Response:
        match request.method, bool(place.name):
            case "POST", False:
                if place.resource.namespaced and place.namespace is None:
                    raise method_not_allowed("create", place.resource.target())
                return await writing.create(self._api, place, request, call)
            case "PUT", True:
                return await writing.update(self._api, place, request, call)
            case "PATCH", True:
                return await patches.patch(self._api, place, request, call)
            case "DELETE", True:
                return await writing.remove(self._api, place, request, call)
            case "DELETE", False:
                return await writing.remove_all(self._api, place, request, call)
        raise method_not_allowed(request.method.lower(), place.resource.target())

    def _authorize(self, user: User, attributes: Attributes, place: Place | None = None) -> None:
        if user.is_admin or is_allowed(self._api.store, user, attributes):
            return
        target = place.resource.target(place.name) if place else Target("", "")
        if place is None:
            raise ApiError(403, "Forbidden", f"forbidden: {refusal(user, attributes)}", details={})
        raise forbidden(target, refusal(user, attributes))


def _request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: RequestHandler,
    writer: AbstractStreamWriter,
    task: "asyncio.Task[None]",
) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=_LARGEST_BODY)


def _verb(method: str, place: Place, *, watching: bool) -> str:
    if watching:
        return "watch"
    named: dict[str, Any] = {
        "GET": "get" if place.name else "list",
        "POST": "create",
        "PUT": "update",
        "PATCH": "patch",
    }
    if method == "DELETE":
        return "delete" if place.name else "deletecollection"
    if method not in named:
        raise no_such_path()
    return str(named[method])
