"""Sockets that listen on all addresses of a host."""

import socket
from typing import Any

import pytest

from mooring import listening_sockets
from mooring.listening_sockets import open_sockets, port_of


async def test_all_addresses_have_one_port() -> None:
    sockets = await open_sockets("localhost", 0)
    try:
        assert {each.getsockname()[1] for each in sockets} == {port_of(sockets)}
        with socket.create_connection(("127.0.0.1", port_of(sockets))):
            pass
        with pytest.raises(OSError, match="in use"):
            await open_sockets("127.0.0.1", port_of(sockets))
    finally:
        for each in sockets:
            each.close()
    assert port_of([]) == 0


async def test_a_failure_closes_the_sockets_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[socket.socket] = []
    open_one = listening_sockets._listening

    def listening(*arguments: Any, **options: Any) -> socket.socket:
        if opened:
            raise OSError("no more")
        opened.append(open_one(*arguments, **options))
        return opened[-1]

    async def addresses(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, 0, 0, "", (host, 0)) for host in ("127.0.0.1", "127.0.0.2")]

    monkeypatch.setattr(listening_sockets, "_listening", listening)
    monkeypatch.setattr("asyncio.BaseEventLoop.getaddrinfo", addresses)
    with pytest.raises(OSError, match="no more"):
        await open_sockets("two.example", 0)
    assert [each.fileno() for each in opened] == [-1]
