"""EndpointApp: the routes of the endpoints and their responses, as an application of aiohttp.

It is imported for the first client, because aiohttp takes long to import, and many schedulers have no client while they
start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

import msgspec

from mooring import __version__
from mooring.api.label_selectors import parse_int
from mooring.late_certificates import web
from mooring.live.endpoints.endpoint_auth import HttpError
from mooring.live.endpoints.endpoint_server import Check, EndpointServer, Extension, Sources
from mooring.unexpected_errors import report_unexpected, shortened

#: The default and the maximum number of listed decisions.
_DECISIONS, _MAX_DECISIONS = 100, 1000


class EndpointApp:
    """The handlers of the requests to a server."""

    def __init__(self, server: EndpointServer, sources: Sources) -> None:
        self._server = server
        self._sources = sources

    def make(self, paths: Collection[str], extensions: Iterable[Extension]) -> web.Application:
        """Return the application, with only these paths if there are any."""
        app = web.Application(middlewares=[_error_responses])
        handlers = {
            "/healthz": self._healthy,
            "/healthz/{check}": self._healthy,
            "/livez": self._healthy,
            "/livez/{check}": self._healthy,
            "/readyz": self._ready,
            "/readyz/{check}": self._ready,
            "/metrics": self._metrics,
            "/metrics/resources": self._resources,
            "/configz": self._configz,
            "/plugins": self._plugins,
            "/decisions": self._decisions,
            "/decisions/{namespace}/{name}": self._decision,
            "/version": self._version,
        }
        for path, handler in handlers.items():
            if paths and path not in paths:
                continue
            app.router.add_get(path, self._authorized(handler))
        for extension in extensions:
            extension.add_routes(app, self._server)
        return app

    # Health

    async def _healthy(self, request: web.Request) -> web.Response:
        return _health(request, {"loop": self._server.check_loop, **self._sources.live})

    async def _ready(self, request: web.Request) -> web.Response:
        return _health(request, {"loop": self._server.check_loop, **self._sources.live, **self._sources.ready})

    # Authorized endpoints

    def _authorized(
        self, handler: Callable[[web.Request], Awaitable[web.Response]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            await self._server.authorize(request)
            return await handler(request)

        return handle

    async def _metrics(self, request: web.Request) -> web.Response:
        accept = request.headers.get("Accept", "")
        body, content_type = await self._server.read(lambda: self._sources.metrics(accept))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _resources(self, request: web.Request) -> web.Response:
        accept = request.headers.get("Accept", "")
        body, content_type = await self._server.read(lambda: self._sources.resources(accept))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _version(self, _request: web.Request) -> web.Response:
        return _json({"gitVersion": f"v{__version__}", **self._sources.version})

    async def _configz(self, _request: web.Request) -> web.Response:
        return _json(await self._server.read(self._sources.config))

    async def _plugins(self, _request: web.Request) -> web.Response:
        return _json({"plugins": await self._server.read(self._sources.plugins)})

    async def _decisions(self, request: web.Request) -> web.Response:
        text = request.query.get("limit", str(_DECISIONS))
        limit = parse_int(text)
        if limit is None or not 0 < limit <= _MAX_DECISIONS:
            raise HttpError(400, f"limit: {shortened(text, 60)!r} is not a number from 1 to {_MAX_DECISIONS}")
        return _json({"decisions": await self._server.read(lambda: self._sources.decisions(limit))})

    async def _decision(self, request: web.Request) -> web.Response:
        key = f"{request.match_info['namespace']}/{request.match_info['name']}"
        found = await self._server.in_scheduler_loop(lambda: self._sources.decision(key))
        if found is None:
            raise HttpError(404, f"pod {key} not found: it does not exist, or belongs to another scheduler")
        return _json(found)


@web.middleware
async def _error_responses(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except HttpError as error:
        headers = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "1"}}.get(error.status)
        return web.Response(status=error.status, text=shortened(error.text, 1000) + "\n", headers=headers)
    except UnicodeEncodeError:
        return web.Response(status=400, text="the request has a path, a query or a header that is not UTF-8\n")
    except (web.HTTPException, asyncio.CancelledError, ConnectionError):
        raise
    except Exception as error:
        report_unexpected("a request to the endpoints failed", error, path=request.path)
        return web.Response(status=500, text="internal error: see the log\n")


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


def _health(request: web.Request, checks: Mapping[str, Check]) -> web.Response:
    """Return ``ok``, or a line for each check, as Kubernetes components do."""
    wanted = request.match_info.get("check")
    kind = request.path.split("/")[1]
    if wanted is not None:
        if wanted != "ping" and wanted not in checks:
            raise HttpError(404, f"no such check: {wanted}; the checks are ping, {', '.join(checks)}")
        checks = {name: check for name, check in checks.items() if name == wanted}
    excluded = frozenset(request.query.getall("exclude", []))
    lines, well = ["[+]ping ok"], True
    for name, check in checks.items():
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok")
            continue
        problem = check()
        well = well and problem is None
        lines.append(f"[+]{name} ok" if problem is None else f"[-]{name} failed: {problem}")
    if well and "verbose" not in request.query:
        return web.Response(text="ok")
    lines.append(f"{kind} check {'passed' if well else 'failed'}")
    return web.Response(status=200 if well else 500, text="\n".join(lines) + "\n")
