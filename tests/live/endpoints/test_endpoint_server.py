"""The server of the endpoints: responses, health checks and addresses."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request

import pytest

from mooring.checkpoints import checkpoint
from mooring.http_listener import ConnectionLimits
from mooring.live.endpoints import endpoint_server as server_module
from mooring.live.endpoints.endpoint_auth import EndpointAuth
from mooring.live.endpoints.endpoint_server import EndpointServer, ServerError, ServerSettings
from tests.live.endpoints.serving import GIVEN, Cluster, get, serving, sources, trusting_context
from tests.log_capture import capture_logs
from tests.waiting import PATIENCE, wait_until


@pytest.mark.parametrize(
    ("settings", "auth", "problem"),
    [
        (ServerSettings(bind_address="0.0.0.0"), None, "loopback address only"),
        (ServerSettings(bind_address="10.1.2.3"), None, "loopback address only"),
        (ServerSettings(bind_address="0.0.0.0", insecure=True), EndpointAuth(Cluster().call), "plain HTTP"),
        (ServerSettings(bind_address="::1"), None, ""),
        (ServerSettings(bind_address="localhost"), None, ""),
        (ServerSettings(bind_address="0.0.0.0"), EndpointAuth(Cluster().call), ""),
    ],
)
def test_remote_clients_need_authentication_and_tls(settings, auth, problem):
    if problem:
        with pytest.raises(ServerError, match=problem):
            EndpointServer(settings, sources(), auth)
    else:
        EndpointServer(settings, sources(), auth)


async def test_answers():
    async with serving() as (_, session):
        assert await get(session, "/metrics") == (200, "# metrics\n")
        assert json.loads((await get(session, "/configz"))[1]) == {"componentconfig": {}}
        assert json.loads((await get(session, "/decisions/default/web"))[1]) == {"pod": "default/web"}
        status, text = await get(session, "/decisions/default/nobody")
        assert (status, "pod default/nobody not found" in text) == (404, True)
        assert json.loads((await get(session, "/decisions?limit=7"))[1]) == {"decisions": [{"limit": 7}]}
        for limit in ("0", "x", "-1", "1001", "٣", "9" * 4400):
            assert (await get(session, f"/decisions?limit={limit}"))[0] == 400, limit


async def test_an_internal_error_returns_no_traceback_and_is_logged_once():
    def broken(_key: str) -> object:
        raise RuntimeError("secret")

    with capture_logs() as logs:
        async with serving(decision=broken) as (_, session):
            for _ in range(3):
                status, text = await get(session, "/decisions/default/web")
    assert status == 500
    assert "secret" not in text
    assert [each["error"] for each in logs if each["log_level"] == "error"] == ["RuntimeError: secret"]


@pytest.mark.parametrize("token", [b"\xff\xfe", b"\xd9\xa1", b"\xed\xa0\x80", b"a\x7f\x80"])
async def test_a_token_that_is_not_text_is_refused_without_asking_the_cluster(token):
    cluster = Cluster()
    async with serving(auth=EndpointAuth(cluster.call)) as (server, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + b"\r\n\r\n")
        answer = await reader.readline()
        writer.close()
        await writer.wait_closed()
    assert answer.split()[1] in {b"400", b"401"}  # the parser refuses some itself
    assert cluster.calls == []


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/healthz", 200, "ok"),
        ("/livez?verbose", 200, "[+]ping ok\n[+]loop ok\n[+]leaderElection ok\nlivez check passed\n"),
        ("/readyz", 500, "[-]sched-handler-sync failed: not synced yet: Pod\nreadyz check failed\n"),
        ("/readyz?exclude=sched-handler-sync", 200, "ok"),
        ("/readyz/sched-handler-sync", 500, "[-]sched-handler-sync failed"),
        ("/readyz/leaderElection", 200, "ok"),
        ("/readyz/nonsense", 404, "no such check: nonsense"),
    ],
)
async def test_checks(path, status, says):
    live = {"leaderElection": lambda: None}
    ready = {"sched-handler-sync": lambda: "not synced yet: Pod"}
    async with serving(live=live, ready=ready) as (_, session):
        found, text = await get(session, path)
    assert found == status
    assert says in text


async def test_a_hanging_scheduler_is_unhealthy(monkeypatch):
    monkeypatch.setattr(server_module, "_HANGING_SECONDS", 0.2)
    monkeypatch.setattr(server_module, "_HEARTBEAT_SECONDS", 0.05)

    def unhealthy(url: str) -> tuple[int, str] | None:
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE):
                return None
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    async with serving() as (server, session):
        # This loop, the scheduler's, stands still meanwhile.
        status, text = wait_until(lambda: unhealthy(f"{server.url}/livez"))
        assert status == 500
        assert "[-]loop failed: no heartbeat from the scheduler's event loop" in text
        async with asyncio.timeout(PATIENCE):  # the next heartbeat
            while await get(session, "/livez") != (200, "ok"):
                await asyncio.sleep(0.01)


@pytest.mark.parametrize(("works", "status"), [(True, 200), (False, 500)])
async def test_liveness_distinguishes_work_from_a_hang(monkeypatch: pytest.MonkeyPatch, works: bool, status: int):
    monkeypatch.setattr(server_module, "_HEARTBEAT_SECONDS", 3600.0)
    async with serving() as (server, session):
        assert (await get(session, "/livez"))[0] == 200
        server._beat -= 60.0  # no heartbeat for a minute
        server._progress -= 60.0
        if works:
            checkpoint()
        assert (await get(session, "/livez"))[0] == status
        server._beat -= 600.0  # a loop without end also passes checkpoints
        checkpoint()
        assert (await get(session, "/livez"))[0] == 500


async def test_a_port_in_use_is_reported():
    async with serving() as (server, _):
        other = EndpointServer(ServerSettings(port=server.port, insecure=True), sources(), None)
        with pytest.raises(ServerError, match=r"cannot listen on 127\.0\.0\.1:\d+.*--secure-port"):
            await other.start()


@pytest.mark.parametrize("address", ["203.0.113.7", "no.such.host.invalid"])
async def test_an_address_of_another_machine_is_reported(address):
    settings = ServerSettings(port=0, bind_address=address, tls=GIVEN)
    server = EndpointServer(settings, sources(), EndpointAuth(Cluster().call))
    with pytest.raises(ServerError, match=rf"cannot listen on {address}:0: .*; give another --bind-address"):
        await server.start()


async def test_connections_are_limited_in_number_and_time():
    limits = ConnectionLimits(connections=4, header_seconds=0.5, check_seconds=0.02)
    async with serving(ServerSettings(port=0, tls=GIVEN), limits=limits) as (server, session):
        context = trusting_context()
        idle = [await asyncio.open_connection("127.0.0.1", server.port, ssl=context) for _ in range(3)]
        idle[0][1].write(b"GET /healthz HTTP/1.1\r\nHost:")
        for _ in range(3):
            async with session.get("/healthz", ssl=context) as answer:
                assert await answer.text() == "ok"
        assert len(server.listener) <= 4
        async with asyncio.timeout(PATIENCE):
            while len(server.listener) != 1:  # the client that has sent requests
                await asyncio.sleep(0.01)
        for _, writer in idle:
            writer.transport.abort()
