"""Dashboard: the pages and the data of the dashboard, as endpoints of the scheduler's secure port.

Call path of a request: EndpointServer (thread) -> Dashboard -> EndpointAuth (API server) -> views (scheduler's loop).
"""

from __future__ import annotations

import html
from collections.abc import Awaitable, Callable, Sequence
from importlib import resources
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from mooring import __version__
from mooring.api.label_selectors import parse_int
from mooring.api.meta import KubeObject
from mooring.config import SchedulerConfiguration
from mooring.dashboard.browser_sessions import COOKIE, BrowserSessions
from mooring.dashboard.cluster_view import ClusterView
from mooring.dashboard.event_stream import EventStream
from mooring.dashboard.pod_view import PodView
from mooring.dashboard.queue_view import QueueView
from mooring.dashboard.settings_view import configuration_view, plugins_view
from mooring.late_certificates import web
from mooring.live.endpoints.endpoint_auth import HttpError
from mooring.live.endpoints.endpoint_server import EndpointServer
from mooring.live.reload.reloader import Reloader
from mooring.loading.plugin_rows import PluginRow
from mooring.scheduler.engine import Engine
from mooring.scheduler.pod_explanation import Gangs
from mooring.unexpected_errors import shortened

ROOT: Final = "/dashboard"
_API: Final = f"{ROOT}/api"
#: Nothing is loaded from elsewhere, and nothing inline is executed. No other page may embed the dashboard.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    # With "no-referrer", browsers hide the origin of forms, which is checked.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TYPES: Final = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}
#: The maximum length of names in queries.
_MAX_QUERY: Final = 600
_MAX_OFFSET: Final = 1_000_000
_ROLE_HINT: Final = (
    "An administrator can grant it with a ClusterRole for the nonResourceURLs /dashboard and /dashboard/* with the "
    "verb get. `mooring rbac --dashboard` prints one, and the chart has the value rbac.dashboardUsers."
)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
#: Answers a what-if request, given a function that reads the objects of the cluster. Raises HttpError.
WhatIf = Callable[[bytes, Callable[[], Awaitable[list[KubeObject]]]], Awaitable[object]]


class DashboardSource(msgspec.Struct, frozen=True, kw_only=True):
    """The scheduler that a dashboard shows. All functions are called in its loop."""

    engine: Engine
    config: Callable[[], SchedulerConfiguration]
    plugins: Callable[[], list[PluginRow]]
    reloader: Callable[[], Reloader | None] = lambda: None
    #: The batch sessions, if there are any.
    gangs: Gangs | None = None
    #: Whether another scheduler decides: the conditions of pods tell why they wait.
    reported: bool = False
    #: Answers what-if requests, about the objects of some kinds; None if there is no such view.
    what_if: WhatIf | None = None
    kinds: Callable[[], Sequence[type[KubeObject]]] = tuple


class Dashboard:
    """The dashboard of one scheduler: an extension of its endpoints."""

    def __init__(self, source: DashboardSource, sessions: BrowserSessions | None = None) -> None:
        self._source = source
        self.sessions = sessions or BrowserSessions()
        self._cluster = ClusterView(source.engine)
        self._queue = QueueView(source.engine, batch=source.gangs is not None, reported=source.reported)
        self._pod = PodView(source.engine, gangs=source.gangs, reported=source.reported)
        self.stream = EventStream(self._read_updates)
        self._server: EndpointServer

    def add_routes(self, app: web.Application, server: EndpointServer) -> None:
        """Add the pages and the API."""
        self._server = server
        router = app.router
        router.add_get(ROOT, self._page(self._index))
        router.add_get(f"{ROOT}/", self._page(self._index))
        router.add_get(f"{ROOT}/login", self._page(self._login_page, open_to_all=True))
        router.add_post(f"{ROOT}/login", self._page(self._login, open_to_all=True))
        router.add_post(f"{ROOT}/logout", self._page(self._logout, open_to_all=True))
        # The style and the icon of the sign-in page are open to all.
        router.add_get(f"{ROOT}/static/{{name:[a-z_]+[.](?:css|svg)}}", self._page(self._static, open_to_all=True))
        router.add_get(f"{ROOT}/static/{{name}}", self._page(self._static))
        handlers: dict[str, Handler] = {
            "summary": self._get_summary,
            "cluster": self._get_cluster,
            "node": self._get_node,
            "queue": self._get_queue,
            "pods": self._get_pods,
            "pod": self._get_pod,
            "matrix": self._get_matrix,
            "scores": self._get_scores,
            "plugins": self._get_plugins,
            "configuration": self._get_configuration,
            "events": self._get_events,
        }
        for name, handler in handlers.items():
            router.add_get(f"{_API}/{name}", self._authorized(handler))
        router.add_post(f"{_API}/what-if", self._authorized(self._post_what_if))
        app.on_shutdown.append(self._stop)

    async def _stop(self, _app: web.Application) -> None:
        await self.stream.stop()

    # Authentication

    @property
    def cookie_name(self) -> str:
        """The name of the session cookie. Browsers send cookies to all ports, so it contains the port."""
        return f"{COOKIE}-{self._server.port}"

    async def _admit(self, request: web.Request) -> None:
        """Authorize a request with the session's token, or with its own credentials. Raises HttpError."""
        bearer = self.sessions.bearer(request.cookies.get(self.cookie_name, ""))
        if bearer is None and not self._server.delegates:
            raise HttpError(401, "Unauthorized: open the link that the command printed; it works once")
        if request.method == "POST":
            _check_origin(request)
        await self._server.authorize(request, bearer or "")

    def _authorized(self, handler: Handler) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            await self._admit(request)
            return await handler(request)

        return handle

    def _page(self, handler: Handler, *, open_to_all: bool = False) -> Handler:
        """Return a handler whose errors are pages for people."""

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                if not open_to_all and (found := self._redeemed(request)) is not None:
                    return found
                if not open_to_all:
                    await self._admit(request)
                return await handler(request)
            except HttpError as error:
                return self._error_page(request, error)

        return handle

    def _redeemed(self, request: web.Request) -> web.StreamResponse | None:
        """Exchange the one-time token in the URL for a cookie; None if there is no token."""
        token = request.query.get("token")
        if token is None or request.path not in (ROOT, f"{ROOT}/"):
            return None
        cookie = self.sessions.redeem(token)
        if cookie is None and self.sessions.bearer(request.cookies.get(self.cookie_name, "")) is None:
            raise HttpError(401, "Unauthorized: this link was used before or has expired")
        return self._redirect(request, ROOT, cookie)

    def _redirect(self, request: web.Request, target: str, cookie: str | None) -> web.Response:
        response = web.Response(status=303, headers={**_HEADERS, "Location": target})
        if cookie is not None:
            response.set_cookie(
                self.cookie_name,
                cookie,
                path=ROOT,
                httponly=True,
                samesite="Strict",
                secure=request.secure,
            )
        return response

    async def _login_page(self, _request: web.Request) -> web.StreamResponse:
        return _html("login.html", message="", hint="")

    async def _login(self, request: web.Request) -> web.StreamResponse:
        """Open a session for a bearer token that may read the dashboard."""
        _check_origin(request)
        form = await request.post()
        token = str(form.get("token", "")).strip()
        if not token or not self._server.delegates:
            raise HttpError(401, "Unauthorized: enter a token of the cluster")
        await self._server.authorize(request, token, path=ROOT, verb="get")
        return self._redirect(request, ROOT, self.sessions.open(token))

    async def _logout(self, request: web.Request) -> web.StreamResponse:
        _check_origin(request)
        self.sessions.close(request.cookies.get(self.cookie_name, ""))
        response = self._redirect(request, f"{ROOT}/login", None)
        response.del_cookie(self.cookie_name, path=ROOT)
        return response

    def _error_page(self, request: web.Request, error: HttpError) -> web.StreamResponse:
        """Return a page that says what is missing, with a form for a token if the API server reviews tokens."""
        forbidden = error.status == 403
        name = "login.html" if error.status in (401, 403) and self._server.delegates else "error.html"
        hint = _ROLE_HINT if forbidden else ""
        return _html(name, message=shortened(error.text, 500), hint=hint, status=error.status)

    # Pages

    async def _index(self, _request: web.Request) -> web.StreamResponse:
        return _html("index.html", version=__version__)

    async def _static(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        kind = _TYPES.get(f".{name.rpartition('.')[2]}")
        found = _files().get(name)
        if kind is None or found is None:
            raise HttpError(404, "there is no such file")
        response = web.Response(body=found, headers=_HEADERS, content_type=kind, charset="utf-8")
        response.headers["Cache-Control"] = "no-cache"
        return response

    # Data

    async def _get_summary(self, _request: web.Request) -> web.StreamResponse:
        return await self._json(self._summary)

    async def _get_cluster(self, request: web.Request) -> web.StreamResponse:
        group, resource = _text(request, "group"), _text(request, "resource")
        return await self._json(lambda: self._cluster.columns(group, resource))

    async def _get_node(self, request: web.Request) -> web.StreamResponse:
        name = _text(request, "name")
        return await self._json(lambda: self._cluster.node(name))

    async def _get_queue(self, _request: web.Request) -> web.StreamResponse:
        return _encoded(await self._server.in_scheduler_loop(self._queue.overview))

    async def _get_pods(self, request: web.Request) -> web.StreamResponse:
        text = _text(request, "search")
        return _encoded(await self._server.in_scheduler_loop(lambda: self._pod.search(text)))

    async def _get_pod(self, request: web.Request) -> web.StreamResponse:
        key = _text(request, "name")
        return _encoded(await self._server.in_scheduler_loop(lambda: self._pod.details(key)))

    async def _get_matrix(self, request: web.Request) -> web.StreamResponse:
        key, search = _text(request, "name"), _text(request, "search")
        offset, limit = _number(request, "offset", 0), _number(request, "limit", 40)
        return await self._json(lambda: self._pod.matrix(key, offset=offset, limit=limit, search=search))

    async def _get_scores(self, request: web.Request) -> web.StreamResponse:
        key, plugin = _text(request, "name"), _text(request, "plugin")
        return await self._json(lambda: self._pod.scores(key, plugin))

    async def _get_plugins(self, _request: web.Request) -> web.StreamResponse:
        return await self._json(lambda: plugins_view(self._source.plugins(), self._source.reloader()))

    async def _get_configuration(self, _request: web.Request) -> web.StreamResponse:
        return await self._json(lambda: configuration_view(self._source.config()))

    async def _get_events(self, request: web.Request) -> web.StreamResponse:
        resource = _text(request, "resource") or "cpu"
        return await self.stream.serve(request, resource, _HEADERS)

    async def _post_what_if(self, request: web.Request) -> web.StreamResponse:
        if self._source.what_if is None:
            raise HttpError(404, "what-if is not available here")
        return _encoded(await self._source.what_if(await request.read(), self._read_objects))

    async def _read_objects(self) -> list[KubeObject]:
        from mooring.simulation.what_if_question import objects_of  # imported with the first question

        return await self._server.read(lambda: objects_of(self._source.engine, self._source.kinds()))

    async def _json(self, read: Callable[[], object]) -> web.Response:
        return _encoded(await self._server.read(read))

    # Updates

    def _summary(self) -> dict[str, Any]:
        table, source = self._source.engine.cache.table, self._source
        return {
            "nodes": len(table),
            "pods": len(table.pods),
            "queue": self._queue.counts(),
            "attempts": source.engine.queue.cycle,
            "batch": source.gangs is not None,
            "gangChanges": self._queue.gang_changes(),
            "reported": source.reported,
            "whatIf": source.what_if is not None,
            "profiles": list(source.engine.profiles.runners),
            "decidesAs": source.config().release.reference,
        }

    async def _read_updates(self, shown: frozenset[str]) -> dict[str, Any]:
        def read() -> dict[str, Any]:
            changes = self._cluster.changes()
            nodes = {}
            if changes["rows"] != []:
                known = self._source.engine.cache.table.slots
                nodes = {each: self._cluster.values(changes, each) for each in shown if each in known or each == "pods"}
            return {"summary": self._summary(), "nodes": nodes}

        return await self._server.read(read)


def _check_origin(request: web.Request) -> None:
    """Raise HttpError for a request that a page of another site has sent."""
    origin = request.headers.get("Origin")
    site = request.headers.get("Sec-Fetch-Site", "same-origin")
    foreign = origin is not None and urlsplit(origin).netloc != request.host
    if foreign or site not in ("same-origin", "none"):
        raise HttpError(403, "Forbidden: the request comes from a page of another site")


def _text(request: web.Request, name: str) -> str:
    value = request.query.get(name, "")
    if len(value) > _MAX_QUERY:
        raise HttpError(400, f"{name}: longer than {_MAX_QUERY} characters")
    return value


def _number(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    number = parse_int(text)
    if number is None or not 0 <= number <= _MAX_OFFSET:
        raise HttpError(400, f"{name}: {shortened(text, 60)!r} is not a number from 0 to {_MAX_OFFSET}")
    return number


def _encoded(value: object) -> web.Response:
    response = web.Response(body=msgspec.json.encode(value), headers=_HEADERS, content_type="application/json")
    response.enable_compression()
    return response


_CONTENT: dict[str, bytes] = {}


def _files() -> dict[str, bytes]:
    """Return the files of the pages, which are read once."""
    if not _CONTENT:
        folder = resources.files("mooring.dashboard") / "static"
        _CONTENT.update({each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()})
    return _CONTENT


def _html(name: str, *, status: int = 200, **texts: str) -> web.Response:
    """Return a page; ``{{name}}`` in it stands for an escaped text."""
    page = _files()[name].decode()
    for key, text in texts.items():
        page = page.replace(f"{{{{{key}}}}}", html.escape(text))
    return web.Response(status=status, text=page, headers=_HEADERS, content_type="text/html")
