"""EndpointServer: the endpoints of a running scheduler (health, metrics, configuration and decisions).

The server has its own thread and event loop, so that it can report the health of a scheduler that hangs. The
scheduler's data is read in the scheduler's loop. Health checks need no authorization. All other paths are authorized by
the API server, or, without one, are served on a loopback address only.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from mooring.certificates import Certificate
from mooring.checkpoints import checkpoints_passed
from mooring.kube import Access
from mooring.listening_sockets import open_sockets, port_of
from mooring.live.endpoints.endpoint_auth import AuthSettings, EndpointAuth, HttpError
from mooring.live.endpoints.endpoint_tls import CertificateError, ServerTls, TlsSettings
from mooring.logs import get_logger

if TYPE_CHECKING:
    from mooring.http_listener import ConnectionLimits, Listener
    from mooring.late_certificates import web

log = get_logger("mooring.live")

T = TypeVar("T")
#: A health check. It returns the problem, or None.
Check = Callable[[], str | None]

#: The timeout of a request to the scheduler's loop, and the time without a heartbeat after which it is unhealthy.
_REQUEST_SECONDS, _HANGING_SECONDS = 10.0, 20.0
#: The same time if the scheduler passes checkpoints: it works, but does not return to its loop.
_WORKING_SECONDS = 300.0
_HEARTBEAT_SECONDS = 1.0
#: The time between two checks for changed certificate files.
_RENEW_SECONDS = 10.0


class ServerError(ValueError):
    """An error that prevents serving the endpoints. The message contains the remedy."""


class ServerSettings(msgspec.Struct, frozen=True):
    """The address, TLS and authorization of the endpoints."""

    bind_address: str = "127.0.0.1"
    #: 0 for any free port.
    port: int = 10259
    tls: TlsSettings = TlsSettings()
    #: Whether to serve plain HTTP, on a loopback address only.
    insecure: bool = False
    #: If given, serve only these paths (health and metrics), over plain HTTP on any address without authorization.
    plain_paths: tuple[str, ...] = ()
    auth: AuthSettings = AuthSettings()
    #: The access for TokenReviews and SubjectAccessReviews; None for the scheduler's own.
    authentication: Access | None = None
    authorization: Access | None = None
    #: Whether to read the client CA from the cluster, and whether that may fail.
    look_up_authority: bool = True
    tolerate_lookup_failure: bool = True
    #: SO_REUSEADDR and SO_REUSEPORT; None is the system's default.
    share_address: bool | None = None
    share_port: bool = False

    @property
    def on_loopback(self) -> bool:
        """Whether the endpoints are reachable only from this machine."""
        if self.bind_address == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.bind_address).is_loopback
        except ValueError:
            return False


class Sources:
    """The functions that return the data to serve. All except the checks are called in the scheduler's loop."""

    def __init__(
        self,
        *,
        metrics: Callable[[str], tuple[bytes, str]],
        resources: Callable[[str], tuple[bytes, str]],
        config: Callable[[], object],
        decision: Callable[[str], Coroutine[Any, Any, object | None]] | None = None,
        decisions: Callable[[int], list[Any]],
        live: Mapping[str, Check],
        ready: Mapping[str, Check],
        plugins: Callable[[], list[Any]] = list,
        version: Mapping[str, str] | None = None,
    ) -> None:
        #: The emulated release, for /version.
        self.version = version or {}
        self.metrics = metrics
        self.resources = resources
        self.config = config
        self.decision = decision or _no_decision
        self.decisions = decisions
        self.plugins = plugins
        #: The checks of /healthz and /livez. They are fast and can be called from any thread.
        self.live = live
        #: The additional checks of /readyz.
        self.ready = ready


async def _no_decision(_pod: str) -> None:
    """Return the decision about a pod where none are made."""


class Extension(Protocol):
    """Additional endpoints of the secure server, such as the dashboard."""

    def add_routes(self, app: web.Application, server: EndpointServer) -> None:
        """Add the routes. Each handler authorizes its requests itself, with ``server.authorize``."""


class LateExtensions:
    """Extensions that are made for the first client, because they take long to import."""

    def __init__(self, make: Callable[[], Iterable[Extension]]) -> None:
        self._make = make

    def add_routes(self, app: web.Application, server: EndpointServer) -> None:
        """Make the extensions and add their routes."""
        for each in self._make():
            each.add_routes(app, server)


class EndpointServer:
    """A server of the endpoints on its own thread, between ``start`` and ``stop``."""

    def __init__(
        self,
        settings: ServerSettings,
        sources: Sources,
        auth: EndpointAuth | None,
        *,
        limits: ConnectionLimits | None = None,
        extensions: Sequence[Extension] = (),
    ) -> None:
        if auth is None and not settings.on_loopback and not settings.plain_paths:
            raise ServerError(
                f"--bind-address {settings.bind_address}: without an API server to authorize requests, the endpoints "
                "are served on a loopback address only, such as 127.0.0.1"
            )
        if settings.insecure and not settings.on_loopback:
            raise ServerError(
                f"--bind-address {settings.bind_address}: plain HTTP is served on a loopback address only; use TLS"
            )
        self._settings = settings
        self._sources = sources
        self._auth = auth
        self._limits = limits
        self._extensions = extensions
        #: Accepts the connections, in the server's thread, once there is a client.
        self.listener: Listener
        self._tls: ServerTls | None = None
        self._scheduler: asyncio.AbstractEventLoop
        self._loop: asyncio.AbstractEventLoop
        self._beat = time.monotonic()
        #: The number of checkpoints that were passed at the last check, and when it was last seen to grow.
        self._passed, self._progress = checkpoints_passed(), self._beat
        self._beating: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._end: asyncio.Event
        self._started: Future[int]
        #: The port, once the server is listening.
        self.port = 0

    @property
    def url(self) -> str:
        """The URL of the endpoints."""
        address = self._settings.bind_address
        host = f"[{address}]" if ":" in address else address
        return f"{'http' if self._tls is None else 'https'}://{host}:{self.port}"

    async def start(self) -> None:
        """Start serving; return when the port is open. Raises ServerError."""
        settings = self._settings
        self._tls = await asyncio.to_thread(_tls, settings)
        self._scheduler = asyncio.get_running_loop()
        self._beating = self._scheduler.create_task(self._run_heartbeat(), name="endpoints heartbeat")
        self._started = Future()
        self._thread = threading.Thread(target=self._main, name="mooring-endpoints", daemon=True)
        self._thread.start()
        try:
            self.port = await asyncio.wrap_future(self._started)
        except OSError as error:
            self._beating.cancel()
            where = f"{settings.bind_address}:{settings.port}"
            flag = "--secure-port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "--bind-address"
            flag = "address" if settings.plain_paths else flag
            raise ServerError(f"cannot listen on {where}: {error.strerror or error}; give another {flag}") from None
        log.info("Serving endpoints", url=self.url)

    def trust_clients(self, authorities: str) -> None:
        """Accept client certificates signed by these CAs (PEM). Raises CertificateError."""
        if self._tls is not None:
            self._tls.trust_clients(authorities)

    def serve_as(self, names: frozenset[str], certificate: Certificate) -> None:
        """Use another certificate for clients that connect by these names. Raises CertificateError."""
        if self._tls is not None:
            self._tls.serve_as(names, certificate)

    async def stop(self) -> None:
        """Stop serving and wait for the thread to end."""
        if self._beating is not None:
            self._beating.cancel()
        thread = self._thread
        if thread is not None and thread.is_alive():
            with contextlib.suppress(RuntimeError):  # the loop may be closed already
                self._loop.call_soon_threadsafe(self._end.set)
            await asyncio.to_thread(thread.join, _REQUEST_SECONDS)

    # The thread

    def _main(self) -> None:
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            self._loop = runner.get_loop()
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._end = asyncio.Event()
        settings = self._settings
        try:
            sockets = await open_sockets(
                settings.bind_address,
                settings.port,
                share_address=settings.share_address,
                share_port=settings.share_port,
            )
        except Exception as error:
            self._started.set_exception(error)
            return
        self._started.set_result(port_of(sockets))
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(self._serve_clients(sockets))
            await self._renew_certificates()
            serving.cancel()

    async def _serve_clients(self, sockets: list[socket.socket]) -> None:
        """Accept connections until cancelled. What serves them is imported for the first one."""
        listener: Listener | None = None
        try:
            await _readable(sockets)
            from mooring.http_listener import ConnectionLimits, Listener
            from mooring.late_certificates import web
            from mooring.live.endpoints.endpoint_app import EndpointApp

            app = EndpointApp(self, self._sources).make(self._settings.plain_paths, self._extensions)
            tls = self._tls.context if self._tls is not None else None
            limits = self._limits or ConnectionLimits()
            listener = Listener(web.AppRunner(app, shutdown_timeout=1.0), limits, tls=tls)
            self.listener = listener
            await listener.serve(sockets)
            await asyncio.Event().wait()
        finally:
            if listener is not None:
                await listener.stop()
            for each in sockets:
                each.close()

    async def _renew_certificates(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._end.wait(), _RENEW_SECONDS)
                return
            try:
                if self._tls is not None:
                    self._tls.renew()
            except CertificateError as error:
                log.warning("Failed to reload certificates; the previous ones stay in effect", error=str(error))

    # Health

    def check_loop(self) -> str | None:
        """Return the problem if the scheduler's loop hangs."""
        now, passed = time.monotonic(), checkpoints_passed()
        if passed != self._passed:
            self._passed, self._progress = passed, now
        silent, idle = now - self._beat, now - self._progress
        if silent <= _HANGING_SECONDS or (idle <= _HANGING_SECONDS and silent <= _WORKING_SECONDS):
            return None
        return f"no heartbeat from the scheduler's event loop for {silent:.0f} s"

    async def _run_heartbeat(self) -> None:
        while True:
            self._beat = time.monotonic()
            await asyncio.sleep(_HEARTBEAT_SECONDS)

    # Requests

    @property
    def delegates(self) -> bool:
        """Whether the API server authorizes requests. Otherwise everyone on this machine can send them."""
        return self._auth is not None

    async def authorize(self, request: web.Request, token: str = "", *, path: str = "", verb: str = "") -> None:
        """Check that a client may send a request, with its own credentials or with a token. Raises HttpError.

        ``path`` and ``verb`` are authorized instead of those of the request.
        """
        auth, path = self._auth, path or request.path
        # Open paths do not use the scheduler's loop, because they have to work even if it hangs. Only reviews do.
        if auth is not None and not auth.is_open(path):
            authorization = f"Bearer {token}" if token else request.headers.get("Authorization", "")
            certificate = None if token else request.get_extra_info("peercert")
            await auth.check(
                authorization,
                path,
                verb or request.method.lower(),
                certificate=certificate,
                review_in=self.in_scheduler_loop,
            )

    async def read(self, read: Callable[[], T]) -> T:
        """Call a function in the scheduler's loop and return its result."""

        async def inside() -> T:
            return read()

        return await self.in_scheduler_loop(inside)

    async def in_scheduler_loop(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in the scheduler's loop and return its result."""
        future = asyncio.run_coroutine_threadsafe(make(), self._scheduler)
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise HttpError(503, f"Unavailable: the scheduler did not answer within {_REQUEST_SECONDS:.0f} s") from None


async def _readable(sockets: Sequence[socket.socket]) -> None:
    """Wait until there is a connection to accept."""
    loop, found = asyncio.get_running_loop(), asyncio.Event()
    for each in sockets:
        loop.add_reader(each.fileno(), found.set)
    try:
        await found.wait()
    finally:
        for each in sockets:
            loop.remove_reader(each.fileno())


def _tls(settings: ServerSettings) -> ServerTls | None:
    """Return the TLS settings; None for plain HTTP."""
    if settings.insecure or settings.plain_paths:
        return None
    try:
        return ServerTls(settings.tls, host=settings.bind_address)
    except CertificateError as error:
        raise ServerError(str(error)) from None
