"""The endpoints: who may read what, what health says, and which certificates are served."""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import msgspec
import pytest

from mooring.certificates import make_certificate
from mooring.config import default_config
from mooring.kube import ConnectionFailed
from mooring.live.endpoints import endpoint_server as server_module
from mooring.live.endpoints.endpoint_auth import Guard, GuardSettings, Refusal
from mooring.live.endpoints.endpoint_server import Server, ServerError, ServerSettings, Sources
from mooring.live.endpoints.endpoint_tls import CertificateError, ServerTls, TlsSettings
from mooring.live.endpoints.scheduler_endpoints import make_server, make_watch
from mooring.scheduler.engine import Engine
from mooring.testing import make_node, make_pod

CERTS = Path(__file__).parents[1] / "kube" / "certs"
PLAIN = ServerSettings(port=0, insecure=True)
GIVEN = TlsSettings(cert_file=str(CERTS / "server.pem"), key_file=str(CERTS / "server.key"))


class Cluster:
    """Answers reviews: tokens are known by name, and may read what the table says."""

    def __init__(self, **may: tuple[str, ...]) -> None:
        self.may = may
        self.calls: list[str] = []
        self.down = False

    async def call(self, method: str, target: str, body: bytes) -> bytes:
        if self.down:
            raise ConnectionFailed("connection refused")
        review = msgspec.json.decode(body)
        self.calls.append(review["kind"])
        assert method == "POST"
        assert target.endswith(review["kind"].lower() + "s")
        spec = review["spec"]
        if review["kind"] == "TokenReview":
            known = spec["token"] in self.may
            user = {"username": spec["token"], "groups": ["system:authenticated"]} if known else {}
            return msgspec.json.encode({"status": {"authenticated": known, "user": user}})
        attributes = spec["nonResourceAttributes"]
        anonymous = spec["user"] == "system:anonymous"
        assert spec["groups"][-1] == ("system:unauthenticated" if anonymous else "system:authenticated")
        assert attributes["verb"] == "get"
        return msgspec.json.encode({"status": {"allowed": attributes["path"] in self.may.get(spec["user"], ())}})


def sources(**given: Any) -> Sources:
    values: dict[str, Any] = {
        "metrics": lambda accept: (b"# metrics\n", "text/plain"),
        "resources": lambda accept: (b"# resources\n", "text/plain"),
        "config": lambda: {"componentconfig": {}},
        "decision": lambda key: {"pod": key} if key == "default/web" else None,
        "decisions": lambda limit: [{"limit": limit}],
        "live": {},
        "ready": {},
    }
    return Sources(**(values | given))


@asynccontextmanager
async def serving(
    settings: ServerSettings = PLAIN, guard: Guard | None = None, **given: Any
) -> AsyncIterator[tuple[Server, aiohttp.ClientSession]]:
    server = Server(settings, sources(**given), guard)
    await server.start()
    try:
        async with aiohttp.ClientSession(server.url) as session:
            yield server, session
    finally:
        await server.stop()


async def get(session: aiohttp.ClientSession, path: str, token: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with session.get(path, headers=headers) as answer:
        return answer.status, await answer.text()


# Who may read


OPEN = ("/healthz", "/livez", "/readyz", "/readyz/ping")
GUARDED = ("/metrics", "/metrics/resources", "/configz", "/version", "/decisions", "/decisions/default/web")


async def test_health_is_open_and_the_rest_is_for_those_the_cluster_lets():
    cluster = Cluster(admin=GUARDED, viewer=("/metrics",))
    async with serving(guard=Guard(cluster.call)) as (_, session):
        for path in OPEN:
            assert await get(session, path) == (200, "ok"), path
        for path in GUARDED:
            assert (await get(session, path))[0] == 403, path
            assert (await get(session, path, "stranger"))[0] == 401, path
            assert (await get(session, path, "admin"))[0] == 200, path
            assert (await get(session, path, "viewer"))[0] == (200 if path == "/metrics" else 403), path
        assert (await get(session, "/nothing", "admin"))[0] == 404


async def test_the_cluster_is_asked_again_after_ten_seconds():
    cluster, now = Cluster(admin=("/metrics",)), [0.0]
    guard = Guard(cluster.call, clock=lambda: now[0])
    for moment, calls in ((0.0, 2), (9.0, 2), (10.5, 4)):
        now[0] = moment
        await guard.check("Bearer admin", "/metrics")
        assert len(cluster.calls) == calls


@pytest.mark.parametrize("header", ["", "Basic YTpi", "Bearer", "Bearer  "])
async def test_without_a_token_a_client_is_anonymous(header):
    cluster = Cluster()
    with pytest.raises(Refusal) as refused:
        await Guard(cluster.call).check(header, "/metrics")
    assert (refused.value.status, cluster.calls) == (403, ["SubjectAccessReview"])
    assert 'user "system:anonymous" cannot get path "/metrics"; send a token' in refused.value.text
    await Guard(Cluster(**{"system:anonymous": ("/metrics",)}).call).check(header, "/metrics")


async def test_a_cluster_that_cannot_be_asked_lets_nobody_in():
    cluster = Cluster(admin=GUARDED)
    cluster.down = True
    with pytest.raises(Refusal, match="connection refused") as refused:
        await Guard(cluster.call).check("Bearer admin", "/metrics")
    assert refused.value.status == 503


@pytest.mark.parametrize(
    ("settings", "guard", "problem"),
    [
        (ServerSettings(bind_address="0.0.0.0"), None, "loopback address only"),
        (ServerSettings(bind_address="10.1.2.3"), None, "loopback address only"),
        (ServerSettings(bind_address="0.0.0.0", insecure=True), Guard(Cluster().call), "plain HTTP"),
        (ServerSettings(bind_address="::1"), None, ""),
        (ServerSettings(bind_address="localhost"), None, ""),
        (ServerSettings(bind_address="0.0.0.0"), Guard(Cluster().call), ""),
    ],
)
def test_other_machines_are_served_only_with_authentication_and_tls(settings, guard, problem):
    if problem:
        with pytest.raises(ServerError, match=problem):
            Server(settings, sources(), guard)
    else:
        Server(settings, sources(), guard)


# What is answered


async def test_answers():
    async with serving() as (_, session):
        assert await get(session, "/metrics") == (200, "# metrics\n")
        assert json.loads((await get(session, "/configz"))[1]) == {"componentconfig": {}}
        assert json.loads((await get(session, "/decisions/default/web"))[1]) == {"pod": "default/web"}
        status, text = await get(session, "/decisions/default/nobody")
        assert (status, "nothing is known of pod default/nobody" in text) == (404, True)
        assert json.loads((await get(session, "/decisions?limit=7"))[1]) == {"decisions": [{"limit": 7}]}
        for limit in ("0", "x", "-1", "1001", "٣"):
            assert (await get(session, f"/decisions?limit={limit}"))[0] == 400, limit


async def test_a_fault_in_an_answer_is_no_traceback():
    def broken(_key: str) -> object:
        raise RuntimeError("secret")

    async with serving(decision=broken) as (_, session):
        status, text = await get(session, "/decisions/default/web")
    assert status == 500
    assert "secret" not in text


# Health


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/healthz", 200, "ok"),
        ("/livez?verbose", 200, "[+]ping ok\n[+]loop ok\n[+]leaderElection ok\nlivez check passed\n"),
        ("/readyz", 500, "[-]sched-handler-sync failed: not read yet: Pod\nreadyz check failed\n"),
        ("/readyz?exclude=sched-handler-sync", 200, "ok"),
        ("/readyz/sched-handler-sync", 500, "[-]sched-handler-sync failed"),
        ("/readyz/leaderElection", 200, "ok"),
        ("/readyz/nonsense", 404, "no such check: nonsense"),
    ],
)
async def test_checks(path, status, says):
    live = {"leaderElection": lambda: None}
    ready = {"sched-handler-sync": lambda: "not read yet: Pod"}
    async with serving(live=live, ready=ready) as (_, session):
        found, text = await get(session, path)
    assert found == status
    assert says in text


async def test_a_scheduler_that_hangs_is_told_while_it_hangs(monkeypatch):
    monkeypatch.setattr(server_module, "_HANGING_SECONDS", 0.2)
    monkeypatch.setattr(server_module, "_BEAT_SECONDS", 0.05)

    async def ask(url: str, hold: float) -> tuple[int, str]:
        """Ask from a thread while this loop, the scheduler's, stands still."""

        def fetch() -> tuple[int, str]:
            import urllib.error
            import urllib.request

            time.sleep(hold)
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, error.read().decode()

        asked = asyncio.get_running_loop().run_in_executor(None, fetch)
        time.sleep(hold * 2)
        return await asked

    async with serving() as (server, session):
        status, text = await ask(f"{server.url}/livez", 0.5)
        assert status == 500
        assert "[-]loop failed: the scheduler's loop has not turned" in text
        await asyncio.sleep(0.1)
        assert await get(session, "/livez") == (200, "ok")


# TLS


async def test_a_certificate_is_made_where_none_is_given(tmp_path):
    settings = ServerSettings(port=0, tls=TlsSettings(cert_dir=str(tmp_path / "certs")))
    server = Server(settings, sources(), None)
    await server.start()
    try:
        context = ssl.create_default_context(cafile=str(tmp_path / "certs" / "mooring.crt"))
        async with aiohttp.ClientSession() as session, session.get(f"{server.url}/healthz", ssl=context) as answer:
            assert (answer.status, server.url.startswith("https://127.0.0.1:")) == (200, True)
    finally:
        await server.stop()
    assert (tmp_path / "certs" / "mooring.key").stat().st_mode & 0o077 == 0


async def test_given_certificates_are_served():
    settings = ServerSettings(port=0, tls=GIVEN)
    server = Server(settings, sources(), None)
    await server.start()
    try:
        context = ssl.create_default_context(cafile=str(CERTS / "ca.pem"))
        async with aiohttp.ClientSession() as session, session.get(f"{server.url}/healthz", ssl=context) as answer:
            assert answer.status == 200
    finally:
        await server.stop()


async def test_a_client_is_known_by_its_certificate():
    certified = Cluster(alice=("/metrics",))
    settings = ServerSettings(port=0, tls=msgspec.structs.replace(GIVEN, client_ca_file=str(CERTS / "ca.pem")))
    server = Server(settings, sources(), Guard(certified.call))
    await server.start()
    try:
        context = ssl.create_default_context(cafile=str(CERTS / "ca.pem"))
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{server.url}/metrics", ssl=context) as answer:
                assert answer.status == 403
            context.load_cert_chain(CERTS / "client.pem", CERTS / "client.key")
            async with aiohttp.ClientSession() as other, other.get(f"{server.url}/metrics", ssl=context) as answer:
                assert answer.status == 200
        assert certified.calls == ["SubjectAccessReview", "SubjectAccessReview"]
    finally:
        await server.stop()


async def statuses(server: Server) -> Any:
    """What a client with a certificate, and one without, get as an answer; None if the handshake fails."""
    found = []
    for certified in (True, False):
        context = ssl.create_default_context(cafile=str(CERTS / "ca.pem"))
        if certified:
            context.load_cert_chain(CERTS / "client.pem", CERTS / "client.key")
        try:
            async with aiohttp.ClientSession() as session, session.get(f"{server.url}/metrics", ssl=context) as answer:
                found.append(answer.status)
        except aiohttp.ClientError:
            found.append(None)
    return tuple(found)


async def test_the_authority_of_clients_may_be_learned_later_and_change():
    server = Server(ServerSettings(port=0, tls=GIVEN), sources(), Guard(Cluster(alice=("/metrics",)).call))
    theirs, others = ((CERTS / name).read_text() for name in ("ca.pem", "other-ca.pem"))
    await server.start()
    try:
        assert await statuses(server) == (403, 403)
        server.trust_clients(theirs)
        assert await statuses(server) == (200, 403)
        server.trust_clients(others)
        assert await statuses(server) == (None, 403)
        server.trust_clients(others + theirs)
        assert await statuses(server) == (200, 403)
        with pytest.raises(CertificateError, match="the cluster's client-ca-file: no certificates"):
            server.trust_clients("nonsense")
        assert await statuses(server) == (200, 403)
    finally:
        await server.stop()


async def test_the_cluster_s_authority_of_clients_is_followed(monkeypatch):
    asked = asyncio.Event()

    class Telling(Cluster):
        authority: str | None = None

        async def call(self, method: str, target: str, body: bytes) -> bytes:
            if "configmaps/extension-apiserver-authentication" not in target:
                return await super().call(method, target, body)
            asked.set()
            if self.authority is None:
                raise ConnectionFailed("connection refused")
            return msgspec.json.encode({"data": {"client-ca-file": self.authority}})

    monkeypatch.setattr("mooring.live.endpoints.client_ca._LOOK_SECONDS", 0.001)
    cluster = Telling(alice=("/metrics",))
    endpoints = make_server(
        ServerSettings(port=0, tls=GIVEN),
        engine=Engine(default_config(), watch=make_watch(time.time)),
        config=default_config,
        client=cast(Any, cluster),
        informers=cast(Any, SimpleNamespace(lagging=list)),
        election=lambda: None,
    )
    await endpoints.start()
    try:
        theirs, others = ((CERTS / name).read_text() for name in ("ca.pem", "other-ca.pem"))
        # An empty one, and no answer, leave things as they are.
        for authority, expected in [(None, 403), (theirs, 200), ("", 200), (others, None), (None, None), (theirs, 200)]:
            cluster.authority = authority
            for _ in range(2):  # the second question is asked when the first is answered
                asked.clear()
                await asked.wait()
            assert await statuses(cast(Any, endpoints)) == (expected, 403), authority
    finally:
        await endpoints.stop()


async def test_certificates_in_files_are_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(server_module, "_RENEW_SECONDS", 0.001)
    names = {"cert_file": "server.pem", "key_file": "server.key", "client_ca_file": "other-ca.pem"}
    paths = {field: tmp_path / field for field in names}
    for field, name in names.items():
        paths[field].write_bytes((CERTS / name).read_bytes())
    settings = TlsSettings(**{field: str(path) for field, path in paths.items()})
    server = Server(ServerSettings(port=0, tls=settings), sources(), Guard(Cluster(alice=("/metrics",)).call))
    await server.start()

    async def eventually(expected: tuple[int | None, int | None]) -> None:
        async with asyncio.timeout(10):
            while await statuses(server) != expected:
                pass

    try:
        assert await statuses(server) == (None, 403)
        paths["client_ca_file"].write_bytes((CERTS / "ca.pem").read_bytes())
        await eventually((200, 403))
        # A certificate whose key is not there yet changes nothing; with its key it is served, and not trusted here.
        made = make_certificate()
        paths["cert_file"].write_text(made.certificate)
        with pytest.raises(CertificateError, match="not a certificate with its key"):
            ServerTls(settings)
        assert await statuses(server) == (200, 403)
        paths["key_file"].write_text(made.key)
        await eventually((None, None))
    finally:
        await server.stop()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (TlsSettings(min_version="VersionTLS11"), "not safe any more; use VersionTLS12"),
        (TlsSettings(min_version="1.2"), "unknown version '1.2'"),
        (TlsSettings(cipher_suites=("TLS_NULL",)), "'TLS_NULL' is unknown"),
        (TlsSettings(client_ca_file="nothing.pem"), "--client-ca-file nothing.pem: No such file"),
        (TlsSettings(client_ca_file=__file__), "no certificates in PEM form"),
    ],
)
def test_tls_that_cannot_be_had(settings, problem):
    with pytest.raises(CertificateError, match=problem):
        ServerTls(settings)


def test_versions_and_ciphers_are_the_users_choice():
    suites = ("TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")
    context = ServerTls(TlsSettings(min_version="VersionTLS13", cipher_suites=suites)).context
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    old = [each["name"] for each in context.get_ciphers() if not each["name"].startswith("TLS_")]
    assert old == ["ECDHE-RSA-AES256-GCM-SHA384"]


@pytest.mark.parametrize(
    ("paths", "path", "is_open"),
    [
        (("/healthz", "/livez", "/readyz"), "/healthz/ping", True),
        (("/healthz",), "/readyz", False),
        (("/metrics*",), "/metrics/resources", True),
        (("/metrics",), "/metrics/resources", False),
        ((), "/healthz", False),
    ],
)
def test_what_is_open(paths, path, is_open):
    assert Guard(Cluster().call, settings=GuardSettings(open_paths=paths)).is_open(path) is is_open


@pytest.mark.parametrize(
    ("cert", "key", "problem"),
    [
        ("server.pem", "", "--tls-private-key-file is missing"),
        ("", "server.key", "--tls-cert-file is missing"),
        ("nothing.pem", "server.key", "nothing.pem: no such file"),
        ("server.pem", "client.key", "not a certificate with its key"),
        ("README.md", "server.key", "not a certificate with its key"),
    ],
)
def test_certificates_that_cannot_be_served(cert, key, problem):
    with pytest.raises(CertificateError, match=problem):
        ServerTls(TlsSettings(cert_file=str(CERTS / cert) if cert else "", key_file=str(CERTS / key) if key else ""))


async def test_a_port_that_is_taken():
    async with serving() as (server, _):
        other = Server(ServerSettings(port=server.port, insecure=True), sources(), None)
        with pytest.raises(ServerError, match=r"cannot listen on 127\.0\.0\.1:\d+.*--secure-port"):
            await other.start()


@pytest.mark.parametrize("address", ["203.0.113.7", "no.such.host.invalid"])
async def test_an_address_of_another_machine(address):
    settings = ServerSettings(port=0, bind_address=address, tls=GIVEN)
    server = Server(settings, sources(), Guard(Cluster().call))
    with pytest.raises(ServerError, match=rf"cannot listen on {address}:0: .*; give another --bind-address"):
        await server.start()


# All of it


async def test_the_endpoints_of_an_engine():
    engine = Engine(default_config(), rng=random.Random(0), watch=make_watch(time.time))
    engine.put(make_node("n").capacity(cpu="2", memory="4Gi", pods="5").obj())
    engine.put(make_pod("web").req(cpu="1").obj())
    engine.schedule_one()
    cluster = Cluster(admin=GUARDED)
    lagging: list[str] = []
    server = make_server(
        PLAIN,
        engine=engine,
        config=default_config,
        client=cast(Any, cluster),
        informers=cast(Any, SimpleNamespace(lagging=lambda: lagging)),
        election=lambda: cast(Any, SimpleNamespace(overdue=lambda: 30.0)),
    )
    await server.start()
    try:
        async with aiohttp.ClientSession(server.url) as session:
            explained = json.loads((await get(session, "/decisions/default/web", "admin"))[1])
            assert (explained["state"], explained["decision"]["node"]) == ("binding", "n")
            listed = json.loads((await get(session, "/decisions", "admin"))[1])
            assert [each["pod"] for each in listed["decisions"]] == ["default/web"]
            assert 'scheduler_cache_size{type="nodes"} 1.0' in (await get(session, "/metrics", "admin"))[1]
            profiles = json.loads((await get(session, "/configz", "admin"))[1])["componentconfig"]["profiles"]
            assert [each["schedulerName"] for each in profiles] == ["default-scheduler"]
            assert "the lease ran out 30 s ago" in (await get(session, "/healthz"))[1]
    finally:
        await server.stop()
