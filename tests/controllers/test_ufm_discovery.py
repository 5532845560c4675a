"""Discovery of HyperNodes from a UFM server: a small HTTPS server with the REST API that it has."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from mooring.certificates import make_certificate
from mooring.controllers import ufm_discovery as module
from mooring.controllers.reconciler import Settings
from mooring.controllers.topology_discovery import SOURCE_LABEL, TopologySettings, UfmSettings, read_topologies
from mooring.controllers.ufm_discovery import Credentials, Port, UfmError, decode_credentials, discover, read_ports
from tests.controllers.test_hyper_nodes import HYPER_NODES, hyper_node, named
from tests.controllers.world import World, controllers
from tests.log_capture import capture_logs
from tests.waiting import until

SECRETS = "/api/v1/namespaces/default/secrets"
USER, PASSWORD = "admin", "pa55-word"
MADE = make_certificate(names=("127.0.0.1",))


def port(node: str | None, switch: str | None, description: str = "Computer IB Port") -> dict[str, Any]:
    """A port as UFM describes it, with fields that are not used."""
    return {"description": description, "tier": 1, "system_name": node, "peer_node_name": switch, "lid": 7}


#: Two leaf switches with two common nodes, and one alone; a port of a switch.
PORTS = [
    port("node-0", "leaf-1"), port("node-1", "leaf-1"), port("node-1", "leaf-2"), port("node-2", "leaf-2"),
    port("node-3", "leaf-3"), port("leaf-1", "spine-1", "Switch IB Port"),
]  # fmt: skip


class Server:
    """A UFM server."""

    def __init__(self) -> None:
        self.ports: Any = PORTS
        self.requests: list[str] = []
        self.answer: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path}")
        expected = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if request.headers.get("Authorization") != f"Basic {expected}":
            return web.Response(status=401, text="no")
        if self.answer is not None:
            return await self.answer(request)
        return web.json_response(self.ports)


@contextlib.asynccontextmanager
async def ufm(folder: Path) -> AsyncIterator[Server]:
    """Serve on the loopback interface, with a certificate of an own CA."""
    server = Server()
    (folder / "crt").write_text(MADE.certificate)
    (folder / "key").write_text(MADE.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "crt", folder / "key")
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    server.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


def settings(url: str, **more: Any) -> UfmSettings:
    return UfmSettings(url, "default", "ufm", **more)


KNOWN = Credentials(USER, PASSWORD, MADE.authority)


async def failure(url: str, credentials: Credentials = KNOWN, **more: Any) -> str:
    with pytest.raises(UfmError) as error:
        await read_ports(settings(url, **more), credentials)
    assert PASSWORD not in str(error.value)
    return str(error.value)


# The server


async def test_ports_are_read_with_the_credentials(tmp_path: Path) -> None:
    async with ufm(tmp_path) as server:
        found = await read_ports(settings(server.url), KNOWN)
        assert server.requests == ["GET /ufmRest/resources/ports"]
    assert found[0] == Port("Computer IB Port", "node-0", "leaf-1")
    assert len(found) == 6


async def test_certificates_are_verified_unless_the_configuration_says_otherwise(tmp_path: Path) -> None:
    async with ufm(tmp_path) as server:
        plain = Credentials(USER, PASSWORD)
        assert "certificate" in await failure(server.url, plain)
        assert server.requests == [], "no credentials for a server that is not trusted"
        assert len(await read_ports(settings(server.url, verify=False), plain)) == 6
        assert "ca.crt" in await failure(server.url, Credentials(USER, PASSWORD, "nonsense"))


async def test_failures_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(_request: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    async def large(request: web.Request) -> web.StreamResponse:
        reply = web.StreamResponse()
        await reply.prepare(request)
        with contextlib.suppress(ConnectionError):
            for _ in range(64):
                await reply.write(b" " * 65536)
        return reply

    async def packed(_request: web.Request) -> web.Response:
        body = gzip.compress(json.dumps(PORTS).encode())
        return web.Response(body=body, headers={"Content-Encoding": "gzip"})

    def fixed(text: str, status: int = 200, **headers: str) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(_request: web.Request) -> web.Response:
            return web.Response(text=text, status=status, headers=headers)

        return answer

    monkeypatch.setattr(module, "_TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(module, "_MAX_BYTES", 1 << 20)
    async with ufm(tmp_path) as server:
        wrong = Credentials(USER, "other", MADE.authority)
        assert await failure(server.url, wrong) == "the status is 401; check username and password in the Secret"
        for answer, message in (
            (slow, "no complete answer within 0.5 s"),
            (large, "more than 1 MiB"),
            (packed, "not a list of ports"),
            (fixed("", 500), "the status is 500"),
            (fixed("", 302, Location=f"{server.url}/elsewhere"), "the status is 302"),
            (fixed("<html>"), "not a list of ports"),
            (fixed('{"ports": []}'), "not a list of ports"),
            (fixed('[{"system_name": 7}]'), "not a list of ports"),
            (fixed("[" * 100_000), "not a list of ports"),
            (fixed('["\ud800"]'.encode("utf-8", "replace").decode()), "not a list of ports"),
        ):
            server.answer = answer
            assert message in await failure(server.url)
    assert "Cannot connect" in await failure(server.url)


def test_credentials_are_never_printed() -> None:
    assert PASSWORD not in repr(KNOWN) + str(KNOWN)
    assert module._without(KNOWN, f"cannot use {PASSWORD} of {USER}") == "cannot use ... of ..."


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "Secret x has no username"),
        ({"username": "YQ=="}, "Secret x has no password"),
        ({"username": "YQ==", "password": ""}, "Secret x has no password"),
        ({"username": "/w==", "password": "YQ=="}, "Secret x: username is not text"),
    ],
)
def test_secrets_without_credentials(data: dict[str, str], message: str) -> None:
    with pytest.raises(UfmError, match=message):
        decode_credentials(data, "Secret x")


# The topology


def shape(*ports: dict[str, Any]) -> dict[str, list[str]]:
    found = discover([Port(each["description"], each["system_name"], each["peer_node_name"]) for each in ports], {})
    assert found.warnings == []
    return {name: _members(each) for name, each in found.hyper_nodes.items()}


def _members(item: Any) -> list[str]:
    assert item.labels == {SOURCE_LABEL: "ufm"}
    assert {each.type for each in item.spec.members} == {"Node" if item.spec.tier == 1 else "HyperNode"}
    return [each.selector.exact_match.name for each in item.spec.members]


def test_switches_that_share_computers_are_one_hyper_node() -> None:
    assert shape(*PORTS) == {
        "leaf-hn-0": ["node-0", "node-1", "node-2"],
        "leaf-hn-1": ["node-3"],
        "spine-hn": ["leaf-hn-0", "leaf-hn-1"],
    }
    chain = [port(f"n{number // 2}", f"s{(number + 1) // 2}") for number in range(6)]
    assert shape(*chain)["leaf-hn-0"] == ["n0", "n1", "n2"], "groups are transitive"
    assert shape(port("b", "z"), port("a", "m"))["leaf-hn-0"] == ["a"], "in the order of the switches' names"


def test_many_switches_take_linear_time() -> None:
    ports = [Port("Computer", f"n{number}", f"s{number + offset}") for number in range(20_000) for offset in (0, 1)]
    assert len(discover(ports, {}).hyper_nodes) == 2


def test_computers_that_cannot_be_nodes_are_left_out() -> None:
    odd = [Port("Computer", name, switch) for name, switch in (("Bad Name", "s"), ("", "s"), (None, "s"), ("n2", None))]
    found = discover([*odd, Port("Computer", "n1", "s"), Port(None, "n3", "s")], {})
    assert _members(found.hyper_nodes["leaf-hn-0"]) == ["n1"]
    assert found.warnings == [
        "computers that cannot be nodes, or have no switch, are ignored: 'Bad Name', 'n2', a port without a name"
    ]


@pytest.mark.parametrize("ports", [[], [Port("Switch", "s", "t")], [Port("Computer", "n", "")]])
def test_an_answer_without_computers_changes_nothing(ports: list[Port]) -> None:
    with pytest.raises(UfmError, match="no port of a computer"):
        discover(ports, {})


def test_too_many_groups_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_HYPER_NODES", 3)
    assert len(discover([Port("Computer", f"n{number}", f"s{number}") for number in range(2)], {}).hyper_nodes) == 3
    with pytest.raises(UfmError, match="3 groups of switches, but at most 3"):
        discover([Port("Computer", f"n{number}", f"s{number}") for number in range(3)], {})


# The configuration


def configured(source: str, warnings: list[str] | None = None) -> UfmSettings | None:
    text = f"networkTopologyDiscovery: [{{source: ufm, enabled: true, {source}}}]"
    return read_topologies(text, pytest.fail if warnings is None else warnings.append).ufm


SECRET = "credentials: {secretRef: {name: s, namespace: ns}}"


def test_the_configuration() -> None:
    found = configured(f'{SECRET}, config: {{endpoint: "ufm.example.com/"}}')
    assert found == UfmSettings("https://ufm.example.com", "ns", "s", verify=True, interval=3600.0)
    for interval, seconds in (("10m", 600.0), ("5000000000", 5.0), ("0", 3600.0), ("1ms", 1.0)):
        found = configured(f"{SECRET}, interval: {interval}, config: {{endpoint: u}}")
        assert found is not None
        assert found.interval == seconds
    warnings: list[str] = []
    configured(f'{SECRET}, config: {{endpoint: "http://u"}}', warnings)
    configured(f"{SECRET}, config: {{endpoint: u, insecureSkipVerify: true}}", warnings)
    assert ["without encryption" in warnings[0], "insecureSkipVerify" in warnings[1]] == [True, True]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("config: {endpoint: u}", r"networkTopologyDiscovery\[0\].credentials.secretRef: name the Secret"),
        ("credentials: {}, config: {endpoint: u}", "credentials.secretRef"),
        ("credentials: {secretRef: {name: s, namespace: ''}}, config: {endpoint: u}", "credentials.secretRef"),
        (SECRET, "config.endpoint: write the URL"),
        (f'{SECRET}, config: {{endpoint: "https://user:secret@u"}}', "without a user"),
        (f'{SECRET}, config: {{endpoint: "ftp://u"}}', "config.endpoint"),
        (f"{SECRET}, interval: soon, config: {{endpoint: u}}", "interval"),
    ],
)
def test_errors_name_the_field(source: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        configured(source)
    assert "secret@" not in str(error.value)


# The controller


async def spec_of(world: World) -> dict[str, list[str]]:
    items = await world.items(HYPER_NODES)
    return {
        each["metadata"]["name"]: [member["selector"]["exactMatch"]["name"] for member in each["spec"]["members"]]
        for each in items
        if each["metadata"].get("labels", {}).get(SOURCE_LABEL) == "ufm"
    }


async def becomes(world: World, expected: dict[str, list[str]]) -> None:
    async def done() -> bool:
        return await spec_of(world) == expected

    await until(done)


async def test_hyper_nodes_follow_the_server(world: World, tmp_path: Path) -> None:
    await hyper_node(world, "mine", named("node-0"))
    await hyper_node(world, "leaf-hn-7", named("node-9"), labels={SOURCE_LABEL: "ufm"})
    await hyper_node(world, "rack", named("node-0"), labels={SOURCE_LABEL: "label"})
    secret = {"username": USER, "password": "old", "ca.crt": MADE.authority}
    with capture_logs() as logs:
        async with ufm(tmp_path) as server:
            asked = Settings(topology=TopologySettings(ufm=settings(server.url, interval=0.1)))
            async with controllers(world, settings=asked):
                await until(lambda: any("cannot be read" in str(each) for each in logs))
                await world.post(SECRETS, kind="Secret", metadata={"name": "ufm"}, stringData=secret)
                await until(lambda: any("the status is 401" in str(each) for each in logs))
                assert await spec_of(world) == {"leaf-hn-7": ["node-9"]}, "a failure changes nothing"
                # New credentials take effect without a restart.
                new = {"data": {"password": base64.b64encode(PASSWORD.encode()).decode()}}
                await world.merge(f"{SECRETS}/ufm", new)
                first = {"leaf-hn-0": ["node-0", "node-1", "node-2"], "leaf-hn-1": ["node-3"]}
                await becomes(world, {**first, "spine-hn": ["leaf-hn-0", "leaf-hn-1"]})
                server.ports = PORTS[:2]
                await becomes(world, {"leaf-hn-0": ["node-0", "node-1"], "spine-hn": ["leaf-hn-0"]})
                server.ports = []
                await until(lambda: any("no port of a computer" in str(each) for each in logs))
                assert await spec_of(world) == {"leaf-hn-0": ["node-0", "node-1"], "spine-hn": ["leaf-hn-0"]}
                # A HyperNode of the same name that somebody else made is left alone.
                await world.client.send("DELETE", f"{HYPER_NODES}/spine-hn")
                await hyper_node(world, "spine-hn", named("node-0"))
                server.ports = PORTS[:1]
                await becomes(world, {"leaf-hn-0": ["node-0"]})
                await until(lambda: any("did not create" in str(each) for each in logs))
    names = {each["metadata"]["name"] for each in await world.items(HYPER_NODES)}
    assert {"mine", "rack", "spine-hn"} <= names
    text = "\n".join(map(str, logs))
    encoded = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    assert PASSWORD not in text
    assert encoded not in text
