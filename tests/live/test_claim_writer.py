"""ApiClaimWriter: patches with the version they are based on, and lost responses."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from mooring.api.devices import CLAIM_FINALIZER, ResourceClaim
from mooring.framework.api_clients import ClaimConflictError, ClaimWriteError
from mooring.kube import Conflict, KubeError, NotFound
from mooring.live.claim_writer import ApiClaimWriter
from tests.plugins.device_world import allocated, claim


class Lost(KubeError):
    outcome_unknown = True


class Client:
    """Stores one claim; the next write fails as told, before or after it is carried out."""

    def __init__(self, stored: ResourceClaim | None) -> None:
        self.stored = stored
        self.failure: Exception | None = None
        self.carried_out = True
        self.sent: list[tuple[str, Any]] = []
        self.random = random.Random(0)
        self.others: list[ResourceClaim] = []

    def _answer(self, result: ResourceClaim) -> ResourceClaim:
        failure, self.failure = self.failure, None
        if failure is None or self.carried_out:
            self.stored = result
        if failure is not None:
            raise failure
        return result

    async def get(self, _kind: Any, name: str, *, namespace: str) -> ResourceClaim:
        if self.stored is None:
            raise NotFound("gone")
        return self.stored

    async def list(self, _kind: Any, *, namespace: str) -> Any:
        return SimpleNamespace(items=[*self.others, *([self.stored] if self.stored is not None else [])])

    async def create(self, made: ResourceClaim) -> ResourceClaim:
        return self._answer(msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, name="x")))

    async def patch(self, _kind: Any, name: str, body: Any, *, namespace: str, subresource: str = "", **_: Any) -> Any:
        self.sent.append((subresource, body))
        assert self.stored is not None
        document = msgspec.to_builtins(self.stored)
        for part in ("metadata", "status"):
            merged = {**document.get(part, {}), **body.get(part, {})}
            document[part] = {name: value for name, value in merged.items() if value is not None}
        return self._answer(msgspec.convert(document, ResourceClaim))

    async def delete(self, _kind: Any, name: str, *, namespace: str, uid: str) -> None:
        self.sent.append(("delete", uid))
        raise NotFound("gone")


BEFORE = claim(metadata={"resourceVersion": "7"})
AFTER = claim(
    metadata={"resourceVersion": "7"},
    status={**allocated("gpu-0"), "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]},
)


def writer(client: Client) -> ApiClaimWriter:
    return ApiClaimWriter(client, asyncio.run)  # type: ignore[arg-type]


def test_the_status_patch_has_the_version_and_only_what_changes() -> None:
    client = Client(BEFORE)
    asyncio.run(writer(client).update_status(AFTER, BEFORE))
    ((subresource, body),) = client.sent
    assert subresource == "status"
    assert body["metadata"] == {"uid": "uid-c", "resourceVersion": "7"}
    assert body["status"].keys() == {"allocation", "reservedFor"}
    reserved = Client(claim(status=allocated("gpu-0")))
    asyncio.run(writer(reserved).update_status(AFTER, claim(status=allocated("gpu-0"))))
    assert reserved.sent[0][1]["status"].keys() == {"reservedFor"}


def test_deallocation_clears_the_status() -> None:
    client = Client(AFTER)
    asyncio.run(writer(client).update_status(BEFORE, AFTER))
    assert client.sent[0][1]["status"] == {"allocation": None, "devices": None, "reservedFor": None}


@pytest.mark.parametrize("failure", [Lost("lost"), Conflict("changed")])
def test_a_write_that_was_carried_out_succeeds(failure: Exception) -> None:
    client = Client(BEFORE)
    client.failure = failure
    written = asyncio.run(writer(client).update_status(AFTER, BEFORE))
    assert written.is_reserved_for("u")


@pytest.mark.parametrize(
    ("failure", "error"), [(Lost("lost"), ClaimWriteError), (Conflict("changed"), ClaimConflictError)]
)
def test_a_write_that_was_not_carried_out_fails(failure: Exception, error: type[Exception]) -> None:
    client = Client(BEFORE)
    client.failure, client.carried_out = failure, False
    with pytest.raises(error):
        asyncio.run(writer(client).update_status(AFTER, BEFORE))


def test_finalizers() -> None:
    client = Client(BEFORE)
    with_finalizer = claim(metadata={"resourceVersion": "7", "finalizers": [CLAIM_FINALIZER]})
    asyncio.run(writer(client).update(with_finalizer))
    assert client.sent == [
        ("", {"metadata": {"uid": "uid-c", "resourceVersion": "7", "finalizers": [CLAIM_FINALIZER]}})
    ]


SPECIAL = claim(
    metadata={
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [{"uid": "pod", "controller": True}],
    }
)


@pytest.mark.parametrize("carried_out", [True, False])
def test_a_lost_creation_is_looked_up(carried_out: bool) -> None:
    client = Client(None)
    client.failure, client.carried_out = Lost("lost"), carried_out
    client.others = [claim(name="other")]
    if carried_out:
        created = asyncio.run(writer(client).create(SPECIAL))
        assert (created.name, created.metadata.finalizers) == ("x", (CLAIM_FINALIZER,))
    else:
        with pytest.raises(ClaimWriteError):
            asyncio.run(writer(client).create(SPECIAL))


def test_background_failures_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> None:
        raise ClaimWriteError("no")

    writer(Client(None)).start(fails(), "deallocate claim default/c")
    assert "a claim cannot be written" in caplog.text
    asyncio.run(writer(Client(None)).delete(BEFORE))  # it is gone already
