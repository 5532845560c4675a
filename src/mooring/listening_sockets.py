"""Sockets that listen on an address, without the library that serves it, which takes long to import."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
from typing import Any


async def open_sockets(
    host: str, port: int, *, backlog: int = 128, share_address: bool | None = None, share_port: bool = False
) -> list[socket.socket]:
    """Listen on all addresses of a host and return the sockets, which do not block. Raises OSError.

    Port 0 selects a free one, the same for all addresses.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    opened: list[socket.socket] = []
    for family, (name, _, *rest) in dict.fromkeys((each[0], each[4]) for each in found):
        address = (name, port_of(opened) or port, *rest)
        try:
            made = _listening(family, address, backlog, share_address=share_address, share_port=share_port)
        except OSError as error:
            # The name of this machine can have an IPv6 address where IPv6 is disabled.
            if error.errno == errno.EADDRNOTAVAIL and opened:
                continue
            for each in opened:
                each.close()
            raise
        opened.append(made)
    return opened


def port_of(sockets: list[socket.socket]) -> int:
    """Return the port of listening sockets; 0 if there are none."""
    return int(sockets[0].getsockname()[1]) if sockets else 0


def _listening(
    family: int, address: tuple[Any, ...], backlog: int, *, share_address: bool | None, share_port: bool
) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        # asyncio has the same default.
        if share_address or (share_address is None and os.name == "posix" and sys.platform != "cygwin"):
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if share_port:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
        made.listen(backlog)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made
