"""Installs the CustomResourceDefinitions of batch jobs. Definitions that other tools manage are not changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from mooring.controllers.definitions import DEFINITIONS, MANAGED_BY, MOORING
from mooring.kube import AlreadyExists, Client, Conflict, KubeError, NotFound

_PATH: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_POLL_SECONDS: Final = 0.1
_ESTABLISHED_SECONDS: Final = 30.0
_ATTEMPTS: Final = 5


class Installed(NamedTuple):
    """The outcome for one definition: created, updated, unchanged, or kept (another tool manages it)."""

    name: str
    outcome: str


class InstallError(Exception):
    """A definition could not be installed. The message names the definition and the cause."""


async def install(
    client: Client, definitions: Iterable[dict[str, Any]] = DEFINITIONS, *, dry_run: bool = False
) -> list[Installed]:
    """Create or update definitions and wait until they are served. Raises InstallError."""
    done = []
    for document in definitions:
        name = document["metadata"]["name"]
        try:
            done.append(Installed(name, await _install(client, document, dry_run=dry_run)))
        except KubeError as error:
            raise InstallError(f"{name}: {error}") from None
    if not dry_run:
        await _wait(client, [each.name for each in done])
    return done


async def _install(client: Client, document: dict[str, Any], *, dry_run: bool) -> str:
    query = "?dryRun=All" if dry_run else ""
    path = f"{_PATH}/{document['metadata']['name']}"
    for attempt in range(_ATTEMPTS):
        try:
            found = await client.send("GET", path)
        except NotFound:
            try:
                await client.send("POST", _PATH + query, document)
            except AlreadyExists:
                continue
            return "created"
        if (found["metadata"].get("labels") or {}).get(MANAGED_BY) != MOORING:
            return "kept"
        wanted = {**found, "spec": {**found["spec"], **document["spec"]}}
        try:
            after = await client.send("PUT", path + query, wanted)
        except Conflict:
            if attempt == _ATTEMPTS - 1:
                raise
            continue
        same = after["metadata"].get("generation") == found["metadata"].get("generation")
        return "unchanged" if same and after["spec"] == found["spec"] else "updated"
    raise InstallError(
        f"{document['metadata']['name']}: it keeps changing; another process installs it at the same time"
    )


async def _wait(client: Client, names: Iterable[str]) -> None:
    try:
        async with asyncio.timeout(_ESTABLISHED_SECONDS):
            for name in names:
                while not _established(await client.send("GET", f"{_PATH}/{name}")):
                    await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise InstallError(f"{name}: not served after {_ESTABLISHED_SECONDS:.0f} s; see its conditions") from None
    except KubeError as error:
        raise InstallError(f"{name}: {error}") from None


def _established(document: dict[str, Any]) -> bool:
    conditions = (document.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
