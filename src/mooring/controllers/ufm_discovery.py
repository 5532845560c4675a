"""Discovery of HyperNodes from the REST API of a UFM server, which manages InfiniBand networks.

A port of a computer names the leaf switch that it is connected to. Leaf switches that share computers are one HyperNode
of tier 1, and all of them are one of tier 2, with the names that Volcano gives them.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from mooring.api.hyper_nodes import HyperNode
from mooring.apiserver.object_names import dns_subdomain
from mooring.controllers.hyper_nodes import DiscoveryReconciler
from mooring.controllers.reconciler import Selection
from mooring.controllers.topology_discovery import (
    MAX_HYPER_NODES,
    SOURCE_LABEL,
    UFM,
    Discovery,
    UfmSettings,
    hyper_node,
    some_of,
)
from mooring.kube import Change, KubeError
from mooring.late_certificates import aiohttp
from mooring.logs import get_logger

log = get_logger("mooring.controller")

_PORTS: Final = "/ufmRest/resources/ports"
#: The limits of an answer, as in Volcano.
_TIMEOUT_SECONDS: Final = 30.0
_MAX_BYTES: Final = 100 << 20
#: How long to wait after a failure, if the interval is not shorter.
_RETRY_SECONDS: Final = 60.0
_COMPUTER: Final = "Computer"
_SPINE: Final = "spine-hn"


class UfmError(Exception):
    """The topology cannot be read. The message says why; it never has credentials."""


class Port(msgspec.Struct, frozen=True):
    """A port of a computer or a switch, and the switch at the other end of its cable."""

    description: str | None = None
    system_name: str | None = None
    peer_node_name: str | None = None


class Credentials(msgspec.Struct, frozen=True):
    """A user of the server, and the CA of the server's certificate (PEM) unless it is one of the system's."""

    username: str
    password: str
    authority: str = ""

    def __repr__(self) -> str:
        return "Credentials(...)"


class UfmDiscoveryReconciler(DiscoveryReconciler):
    """Asks a UFM server periodically, and makes its HyperNodes equal to the answer."""

    name = "hypernode-discovery-ufm"
    source = UFM

    def selections(self) -> Iterable[Selection]:
        """Watch HyperNodes."""
        return (Selection.of(HyperNode),)

    def initial_keys(self) -> Iterable[str]:
        """Return the only key, if the source is configured."""
        return (UFM,) if self.context.settings.topology.ufm is not None else ()

    def affected_keys(self, change: Change[Any]) -> Iterable[str]:
        """Return nothing: the server is asked periodically."""
        return ()

    async def reconcile(self, key: str) -> float | None:
        """Ask the server, write the differences, and return the seconds until it is asked again."""
        settings = self.context.settings.topology.ufm
        if settings is None:
            return None
        existing = dict(self.cache.all(HyperNode))
        try:
            ports = await read_ports(settings, await self._credentials(settings))
            found = await asyncio.to_thread(discover, ports, existing)
        except UfmError as error:
            self.warn([f"{settings.endpoint}: {error}; no HyperNode is changed"])
            return min(settings.interval, _RETRY_SECONDS)
        self.warn(found.warnings)
        await self.write(existing, found.hyper_nodes)
        log.debug("Asked a UFM server", endpoint=settings.endpoint, ports=len(ports), hyperNodes=len(found.hyper_nodes))
        return settings.interval

    async def _credentials(self, settings: UfmSettings) -> Credentials:
        """Read the Secret. It is read each time, so that new credentials take effect. Raises UfmError."""
        name = f"Secret {settings.secret_namespace}/{settings.secret_name}"
        path = f"/api/v1/namespaces/{settings.secret_namespace}/secrets/{settings.secret_name}"
        try:
            secret = await self.context.client.send("GET", path)
        except KubeError as error:
            raise UfmError(f"{name} cannot be read: {error}") from None
        return decode_credentials(secret.get("data") or {}, name)


def decode_credentials(data: Mapping[str, str], name: str) -> Credentials:
    """Return the credentials in the data of a Secret. Raises UfmError, which names the Secret and the key."""
    found = {}
    for key in ("username", "password", "ca.crt"):
        try:
            found[key] = base64.b64decode(data.get(key, "")).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise UfmError(f"{name}: {key} is not text") from None
        if not found[key] and key != "ca.crt":
            raise UfmError(f"{name} has no {key}")
    return Credentials(found["username"], found["password"], found["ca.crt"])


async def read_ports(settings: UfmSettings, credentials: Credentials) -> list[Port]:
    """Return all ports that the server knows. Raises UfmError."""
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
    user = base64.b64encode(f"{credentials.username}:{credentials.password}".encode()).decode()
    headers = {"Authorization": f"Basic {user}", "Accept": "application/json", "Accept-Encoding": "identity"}
    try:
        # Answers that are compressed nevertheless are not decompressed: a small one could have any size.
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers, auto_decompress=False) as session,
            session.get(
                f"{settings.endpoint}{_PORTS}", ssl=_verification(settings, credentials), allow_redirects=False
            ) as reply,
        ):
            if reply.status != 200:
                raise UfmError(f"the status is {reply.status}{_hint(reply.status)}")
            body = bytearray()
            async for chunk in reply.content.iter_any():
                body += chunk
                if len(body) > _MAX_BYTES:
                    raise UfmError(f"the answer has more than {_MAX_BYTES >> 20} MiB")
    except TimeoutError:
        raise UfmError(f"there is no complete answer within {_TIMEOUT_SECONDS:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise UfmError(_without(credentials, str(error) or type(error).__name__)) from None
    return await asyncio.to_thread(_decode, bytes(body))


def _verification(settings: UfmSettings, credentials: Credentials) -> ssl.SSLContext | bool:
    if not settings.verify or not credentials.authority:
        return settings.verify
    try:
        return ssl.create_default_context(cadata=credentials.authority)
    except (ssl.SSLError, ValueError) as error:
        raise UfmError(f"ca.crt of the Secret cannot be used: {error}") from None


def _hint(status: int) -> str:
    return "; check username and password in the Secret" if status in (401, 403) else ""


def _without(credentials: Credentials, text: str) -> str:
    """Return an error without the credentials, in case that a library repeats them."""
    for secret in (credentials.password, credentials.username):
        text = text.replace(secret, "...")
    return text


def _decode(body: bytes) -> list[Port]:
    try:
        return msgspec.json.decode(body, type=list[Port])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise UfmError("the answer is not a list of ports in JSON") from None


def discover(ports: Iterable[Port], existing: Mapping[str, HyperNode]) -> Discovery:
    """Return the HyperNodes of ports. Raises UfmError if nothing could be done with them.

    Volcano also makes members of names that no node can have, and a HyperNode of all computers without a switch; and it
    deletes all HyperNodes if there is no port of a computer.
    """
    switches: dict[str, set[str]] = {}
    invalid: set[str] = set()
    for port in ports:
        if _COMPUTER not in (port.description or ""):
            continue
        node, switch = port.system_name or "", port.peer_node_name or ""
        if not switch or not node or dns_subdomain(node):
            invalid.add(repr(node[:64]) if node else "a port without a name")
        else:
            switches.setdefault(switch, set()).add(node)
    if not switches:
        raise UfmError("it knows no port of a computer that is connected to a switch")
    groups = _connected(switches)
    if len(groups) >= MAX_HYPER_NODES:
        raise UfmError(f"it knows {len(groups)} groups of switches, but at most {MAX_HYPER_NODES} are used")
    names = [f"leaf-hn-{number}" for number in range(len(groups))]
    labels = {SOURCE_LABEL: UFM}
    found = {name: hyper_node(name, 1, nodes, labels) for name, nodes in zip(names, groups, strict=True)}
    found[_SPINE] = hyper_node(_SPINE, 2, names, labels)
    foreign = {name for name in found if name in existing and existing[name].labels.get(SOURCE_LABEL) != UFM}
    warnings = []
    if invalid:
        warnings.append(f"computers that cannot be nodes, or have no switch, are ignored: {some_of(invalid)}")
    if foreign:
        warnings.append(f"HyperNodes that UFM did not create are not changed; delete them: {some_of(foreign)}")
    return Discovery({name: each for name, each in found.items() if name not in foreign}, warnings)


def _connected(switches: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the computers of each group of switches that share computers, in the order of the switches' names."""
    by_node: dict[str, list[str]] = {}
    for switch, nodes in switches.items():
        for node in nodes:
            by_node.setdefault(node, []).append(switch)
    groups: list[set[str]] = []
    seen: set[str] = set()
    for first in sorted(switches):
        if first in seen:
            continue
        seen.add(first)
        group, waiting = set[str](), [first]
        while waiting:
            for node in switches[waiting.pop()] - group:
                group.add(node)
                near = [each for each in by_node[node] if each not in seen]
                seen.update(near)
                waiting += near
        groups.append(group)
    return groups
