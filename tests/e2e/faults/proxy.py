"""A proxy between a scheduler and the API server, which injects faults. It runs on a thread.

It speaks HTTP/1.1 over TLS on both sides, with the API server's own certificate to the client, and one connection to
the server for each connection of a client.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import sys
import threading
import time
from pathlib import Path
from typing import Final, NoReturn
from urllib.parse import urlsplit

from tests.e2e.controlplane import ControlPlane
from tests.e2e.controlplane.credentials import write_kubeconfig
from tests.e2e.faults.plans import NOTHING, Fault, Plan, call_of

_REASONS: Final = {"409": "Conflict", "429": "TooManyRequests", "500": "InternalError", "503": "ServiceUnavailable"}
#: What is sent with code 200 instead of an answer: the media type, and the body.
_PAGES: Final = {
    "portal": ("text/html", b"<!DOCTYPE html><html><body>Please log in</body></html>"),
    "failure": (
        "application/json",
        b'{"kind":"Status","metadata":{},"status":"Failure","code":409,"reason":"Conflict"}',
    ),
    "stranger": (
        "application/json",
        b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"stranger","namespace":"default","uid":"x"},"spec":{}}',
    ),
}
_SLOW_SECONDS: Final = 2.0
_BYTES: Final = 1 << 16


class FaultProxy:
    """Passes requests on, except where the plan says otherwise. A context manager."""

    def __init__(self, plane: ControlPlane, plan: Plan = NOTHING, *, watch_delay: float = 0.0) -> None:
        self._plane = plane
        self.plan = plan
        #: How much later clients see the events of watches, in seconds.
        self.watch_delay = watch_delay
        #: When which request came: time.monotonic(), method, target.
        self.requests: list[tuple[float, str, str]] = []
        self._binds_left = sys.maxsize
        self._binds_released: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self._end: asyncio.Event
        self._port = 0
        #: The loop itself would forget a session whose client is gone.
        self._sessions: set[asyncio.Task[None] | None] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="fault-proxy", daemon=True)

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def kubeconfig(self, user: str = "scheduler") -> Path:
        """A kubeconfig that leads through here."""
        path = self._plane.folder / f"{user}.proxied-{self._port}.kubeconfig"
        server = f"https://127.0.0.1:{self._port}"
        return write_kubeconfig(path, server=server, ca=self._plane.ca, user=self._plane.users[user])

    def hold_binds(self, after: int) -> None:
        """Pass on that many binds; hold further ones until `release_binds`. Call it before a client connects."""
        self._binds_left = after

    def release_binds(self) -> None:
        """Pass on the binds that are held, and all further ones."""
        self._loop.call_soon_threadsafe(self._binds_released.set)

    async def bind_may_pass(self) -> None:
        """Wait while binds are held."""
        if self._binds_left <= 0:
            await self._binds_released.wait()
        self._binds_left -= 1

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        self._binds_released = asyncio.Event()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._plane.ca, self._plane.ca.with_suffix(".key"))
        server = await asyncio.start_server(self._client, "127.0.0.1", 0, ssl=context)
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._end.wait()
        server.close()
        while sessions := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in sessions:
                task.cancel()
            await asyncio.wait(sessions, timeout=1.0)
        await asyncio.sleep(0.05)  # connections end in the next rounds of the loop

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._sessions.add(asyncio.current_task())
        session = _Session(self, reader, writer)
        with contextlib.suppress(OSError, EOFError, asyncio.CancelledError, _Broken):
            while True:
                await session.exchange()
        session.close()
        self._sessions.discard(asyncio.current_task())

    def server_address(self) -> tuple[str, int, ssl.SSLContext]:
        """Where the API server is, and how it is trusted."""
        parts = urlsplit(self._plane.server)
        context = ssl.create_default_context(cafile=str(self._plane.ca))
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return parts.hostname or "", parts.port or 443, context


class _Broken(Exception):
    """The connection to the client is over."""


class _Session:
    """One connection of a client."""

    def __init__(self, proxy: FaultProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._reader = reader
        self._writer = writer
        self._server: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def exchange(self) -> None:
        """One request and its answer, or what happens instead."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
        body = await self._reader.readexactly(_length(head) or 0)
        self._proxy.requests.append((time.monotonic(), method, target))
        if call_of(method, target) == "bind":
            await self._proxy.bind_may_pass()
        fault = self._proxy.plan.draw(method, target)
        if fault is not None and await self._instead(fault, target):
            return
        await self._pass_on(head + body, fault, watch="watch=true" in target)

    async def _instead(self, fault: Fault, target: str) -> bool:
        """Do what happens instead of passing the request on; False if it is to be passed on."""
        if fault.kind in _REASONS or (fault.kind == "gone" and "watch=true" not in target):
            await self._refuse(int(fault.kind) if fault.kind in _REASONS else 410)
            return True
        if fault.kind == "gone":
            await self._refuse_watch()
            return True
        if fault.kind == "late":
            await asyncio.sleep(_SLOW_SECONDS * fault.amount)
            await self._refuse(500)
            return True
        if fault.kind in _PAGES and (fault.amount < 0.5 or "watch=true" in target):
            await self._send_page(fault.kind)
            return True
        if fault.kind == "unsaid":
            self._break()
        if fault.kind == "silent":
            await self._reader.read()  # until the client gives up
            self._break()
        if fault.kind == "slow":
            await asyncio.sleep(_SLOW_SECONDS * fault.amount)
        return False

    async def _pass_on(self, request: bytes, fault: Fault | None, *, watch: bool) -> None:
        reader, writer = await self._connected()
        try:
            writer.write(request)
            await writer.drain()
            head = await reader.readuntil(b"\r\n\r\n")
            # The answer to a watch that the server refuses, with 429 for example, is not a stream.
            watch = watch and head.split(b" ", 2)[1] == b"200"
            if watch and fault is None and self._proxy.watch_delay:
                await self._relay_late(head, reader)
            if watch:
                await self._relay_watch(head, reader, fault)
                return
            body = await _read_body(head, reader)
        except (OSError, EOFError):
            self._break()  # the server is gone, or going
        if fault is not None and fault.kind == "unheard":
            self._break()
        if fault is not None and fault.kind in _PAGES:
            await self._send_page(fault.kind)
            return
        if fault is not None and fault.kind == "mute":
            await self._reader.read()
            self._break()
        part = body
        if fault is not None and fault.kind in {"torn", "garbled"} and len(body) > 2:
            part = body[: 1 + int((len(body) - 2) * fault.amount)]
        length = len(part) if fault is not None and fault.kind == "garbled" else len(body)
        self._writer.write(_with_length(head, length) + part)
        await self._writer.drain()
        if len(part) < length:
            self._break()

    async def _send_page(self, kind: str) -> None:
        media, page = _PAGES[kind]
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {media}\r\nContent-Length: {len(page)}\r\n\r\n"
        self._writer.write(head.encode() + page)
        await self._writer.drain()

    async def _relay_watch(self, head: bytes, reader: asyncio.StreamReader, fault: Fault | None) -> None:
        """Pass a stream on as it comes; a torn one breaks after some of it, or after a while without any."""
        torn = fault is not None and fault.kind in {"torn", "garbled", "unheard", "mute"}
        left = int(40_000 * fault.amount) if torn and fault is not None else 1 << 60
        self._writer.write(head)
        while left > 0:
            try:
                async with asyncio.timeout(2.0 if torn else None):
                    data = await reader.read(_BYTES)
            except TimeoutError:
                break
            if not data:
                break
            self._writer.write(data[:left])
            await self._writer.drain()
            left -= len(data)
        self._break()

    async def _relay_late(self, head: bytes, reader: asyncio.StreamReader) -> None:
        """Pass a stream on, each part of it after the delay."""
        parts: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def read() -> None:
            try:
                while data := await reader.read(_BYTES):
                    parts.put_nowait((time.monotonic() + self._proxy.watch_delay, data))
            finally:
                parts.put_nowait((0.0, b""))  # the stream is over

        self._writer.write(head)
        reading = asyncio.create_task(read())
        try:
            while True:
                due, data = await parts.get()
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    break
                self._writer.write(data)
                await self._writer.drain()
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await reading
        self._break()

    async def _refuse(self, status: int) -> None:
        reason = _REASONS.get(str(status), "Expired")
        said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": reason}
        body = json.dumps({**said, "message": "injected"}).encode()
        more = "Retry-After: 1\r\n" if status == 429 else ""
        head = (
            f"HTTP/1.1 {status} Injected\r\nContent-Type: application/json\r\n{more}Content-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        await self._writer.drain()

    async def _refuse_watch(self) -> None:
        status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: injected"}
        body = json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        await self._writer.drain()

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._server is None:
            host, port, context = self._proxy.server_address()
            try:
                self._server = await asyncio.open_connection(host, port, ssl=context, limit=1 << 20)
            except OSError:
                self._break()
        return self._server

    def _break(self) -> NoReturn:
        self._writer.transport.abort()
        raise _Broken

    def close(self) -> None:
        """Let go of both connections."""
        self._writer.transport.abort()
        if self._server is not None:
            self._server[1].transport.abort()


def _length(head: bytes) -> int | None:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return None


async def _read_body(head: bytes, reader: asyncio.StreamReader) -> bytes:
    length = _length(head)
    if length is not None:
        return await reader.readexactly(length)
    chunks = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        chunks.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readexactly(2)
    return b"".join(chunks)


def _with_length(head: bytes, length: int) -> bytes:
    """The head of an answer for a body that is sent in one piece."""
    lines = [line for line in head.rstrip(b"\r\n").split(b"\r\n") if not line.lower().startswith(_FRAMING)]
    return b"\r\n".join([*lines, b"Content-Length: %d" % length, b"", b""])


_FRAMING: Final = (b"content-length:", b"transfer-encoding:", b"audit-id:")
