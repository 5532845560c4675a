"""ClaimBinder: what is written, in which order, and what happens after conflicts and failures."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec
import pytest

from mooring.api.devices import CLAIM_FINALIZER, ResourceClaim
from mooring.api.pod import NodeAllocatableResourceClaimStatus
from mooring.framework.api_clients import ClaimConflictError, ClaimWriteError
from mooring.framework.handle import Handle
from mooring.plugins.dynamic_resources.claim_binder import ClaimBinder, ClaimBindingError, PodBinding
from mooring.plugins.dynamic_resources.claim_tracker import ClaimTracker
from mooring.testing import make_pod
from tests.plugins.device_world import allocated, claim

POD = make_pod("p").resource_claim("gpu", "c").obj()
ALLOCATION = claim(status=allocated("gpu-0")).status.allocation


class Server:
    """A claim writer that keeps one claim, and fails as told."""

    shares_allocations = True
    patient = False

    def __init__(self, stored: ResourceClaim, *failures: Exception | None) -> None:
        self.stored = self._versioned(stored)
        self.failures = list(failures)
        self.calls: list[str] = []
        self.pauses = 0
        #: The outcomes of waits for binding conditions.
        self.waits: list[str] = []

    def _versioned(self, made: ResourceClaim) -> ResourceClaim:
        version = int(getattr(self, "stored", made).metadata.resource_version or 0) + 1
        metadata = msgspec.structs.replace(made.metadata, resource_version=str(version))
        return msgspec.structs.replace(made, metadata=metadata)

    def _write(self, call: str, made: ResourceClaim) -> ResourceClaim:
        self.calls.append(call)
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        self.stored = self._versioned(made)
        return self.stored

    async def until_written(
        self, claim: ResourceClaim, outcome: asyncio.Future[ResourceClaim | None]
    ) -> ResourceClaim | None:
        return await outcome

    async def get(self, claim: ResourceClaim) -> ResourceClaim:
        self.calls.append("get")
        return self.stored

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        metadata = msgspec.structs.replace(claim.metadata, name=f"{claim.metadata.generate_name}x", uid="created")
        return self._write("create", msgspec.structs.replace(claim, metadata=metadata))

    async def update(self, claim: ResourceClaim) -> ResourceClaim:
        return self._write("update", claim)

    async def update_status(self, claim: ResourceClaim, before: ResourceClaim) -> ResourceClaim:
        return self._write("update status", claim)

    async def unreserve(self, claim: ResourceClaim, uid: str) -> ResourceClaim:
        self.calls.append(f"unreserve {uid}")
        users = tuple(each for each in claim.status.reserved_for if each.uid != uid)
        self.stored = self._versioned(
            msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, reserved_for=users))
        )
        return self.stored

    async def delete(self, claim: ResourceClaim) -> None:
        self.calls.append("delete")

    async def patch_pod_status(self, pod: Any, patch: dict[str, Any], *, merge: bool = False) -> None:
        self.calls.append("clear pod status" if merge else "patch pod")

    async def pause(self, seconds: float) -> None:
        self.pauses += 1

    def start(self, work: Coroutine[Any, Any, None], what: str) -> None:
        asyncio.run(work)

    def waited(self, profile: str, claims: Sequence[ResourceClaim], status: str, seconds: float) -> None:
        self.waits.append(f"{profile} {status} {len(claims)} {seconds:.0f}")


def bind(server: Server, *, allocate: bool = True) -> tuple[ClaimTracker, PodBinding]:
    handle = Handle(clock=lambda: 1_700_000_000.0)
    lister = handle.objects.lister(ResourceClaim)
    lister.put(server.stored)
    tracker = ClaimTracker(lister)
    binding = PodBinding([server.stored], None)
    if allocate:
        assert ALLOCATION is not None
        binding.allocations[0] = ALLOCATION
        tracker.start("uid-c", ALLOCATION)
    try:
        asyncio.run(ClaimBinder(handle, tracker).bind(server, POD, "n0", binding, 600.0))
    finally:
        server.tracker = tracker  # type: ignore[attr-defined]
    return tracker, binding


def test_writes() -> None:
    server = Server(claim())
    tracker, binding = bind(server)
    assert server.calls == ["update", "update status"]
    assert server.stored.metadata.finalizers == (CLAIM_FINALIZER,)
    assert server.stored.is_reserved_for(POD.uid)
    assert server.stored.status.allocation is not None
    assert server.stored.status.allocation.allocation_timestamp == "2023-11-14T22:13:20Z"
    assert not tracker.is_in_flight("uid-c")
    assert len(tracker.usage.view.allocated) == 1  # assumed until the informer has it
    assert binding.claims == [server.stored]


def test_an_allocated_claim_is_only_reserved() -> None:
    server = Server(claim(status=allocated("gpu-0")))
    bind(server, allocate=False)
    assert server.calls == ["update status"]


def test_a_reserved_claim_is_left_alone() -> None:
    reserved = {**allocated("gpu-0"), "reservedFor": [{"resource": "pods", "name": "p", "uid": POD.uid}]}
    server = Server(claim(status=reserved))
    bind(server, allocate=False)
    assert server.calls == []


def test_conflicts_are_retried_with_the_newest_version() -> None:
    server = Server(claim(), ClaimConflictError("changed"), None, ClaimConflictError("changed"))
    bind(server)
    assert server.calls == ["update", "get", "update", "update status", "get", "update status"]
    assert server.stored.is_reserved_for(POD.uid)


@pytest.mark.parametrize(
    ("server", "text"),
    [
        (Server(claim(), ClaimWriteError("no")), "add finalizer to claim default/c: no"),
        (Server(claim(), None, ClaimWriteError("no")), "add allocation and reservation to claim default/c: no"),
        (
            Server(claim(), *[ClaimConflictError("changed")] * 9),
            "add finalizer to claim default/c: changed",
        ),
        (Server(claim(status=allocated("gpu-1"))), "claim default/c got allocated elsewhere in the meantime"),
        (
            Server(claim(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})),
            "claim default/c got deleted in the meantime",
        ),
    ],
)
def test_failures_give_the_devices_back(server: Server, text: str) -> None:
    with pytest.raises(ClaimBindingError) as raised:
        bind(server)
    assert str(raised.value) == text
    tracker: ClaimTracker = server.tracker  # type: ignore[attr-defined]
    assert not tracker.is_in_flight("uid-c")
    assert ("gpu.example.com", "n0", "gpu-0") not in tracker.usage.view.allocated


def test_a_claim_that_was_deallocated_cannot_be_reserved() -> None:
    with pytest.raises(ClaimBindingError, match="got deallocated elsewhere in the meantime"):
        bind(Server(claim()), allocate=False)


def test_unreserve_removes_the_reservation() -> None:
    server = Server(claim())
    tracker, binding = bind(server)
    ClaimBinder(Handle(), tracker).unreserve(server, POD, binding)
    assert server.calls[-1] == f"unreserve {POD.uid}"


def test_deletion_removes_the_finalizer_first() -> None:
    stored = claim(metadata={"finalizers": [CLAIM_FINALIZER, "other"]})
    server = Server(stored, ClaimConflictError("changed"))
    asyncio.run(ClaimBinder(Handle(), ClaimTracker(Handle().objects.lister(ResourceClaim))).delete(server, stored))
    assert server.calls == ["update", "get", "update", "delete"]
    assert server.stored.metadata.finalizers == ("other",)


@pytest.mark.parametrize(
    ("stamp", "conditions", "status"),
    [
        ("2023-11-14T22:13:00Z", [{"type": "ready", "status": "True"}], "success"),
        ("2023-11-14T22:13:00Z", [{"type": "broken", "status": "True"}], "failure"),
        ("2023-11-14T21:00:00Z", [], "timeout"),
    ],
)
def test_waits_for_binding_conditions_are_recorded(stamp: str, conditions: list[Any], status: str) -> None:
    made = allocated("gpu-0", bindingConditions=["ready"], bindingFailureConditions=["broken"])
    made["allocation"]["allocationTimestamp"] = stamp
    device = {"driver": "gpu.example.com", "pool": "n0", "device": "gpu-0", "conditions": conditions}
    server = Server(claim(status={**made, "devices": [device]}))
    if status == "success":
        bind(server, allocate=False)
    else:
        with pytest.raises(ClaimBindingError):
            bind(server, allocate=False)
    assert server.waits == [f"default-scheduler {status} 1 0"]


def test_a_pod_is_tried_again_when_its_left_over_claim_is_gone() -> None:
    activated: list[str] = []
    handle = Handle(activate=activated.extend)
    lister = handle.objects.lister(ResourceClaim)
    stored = claim(name="left-over")
    lister.put(stored)
    binder = ClaimBinder(handle, ClaimTracker(lister))
    server = Server(stored)
    binder.delete_left_over(server, stored, POD)
    assert server.calls == ["update", "delete"]
    assert activated == []
    lister.remove("left-over", "default")
    assert activated == [POD.key]
    lister.put(stored)
    lister.remove("left-over", "default")
    assert activated == [POD.key]


@pytest.mark.parametrize("method", ["delete_left_over", "deallocate"])
def test_a_pod_is_tried_again_if_its_claim_cannot_be_freed(method: str) -> None:
    """Otherwise nothing happens to the claim, and the pod waits for five minutes."""
    activated: list[str] = []
    handle = Handle(activate=activated.extend)
    stored = claim(status=allocated("gpu-0"))
    server = Server(stored, ClaimWriteError("not now"))
    with pytest.raises(ClaimWriteError):
        getattr(ClaimBinder(handle, ClaimTracker(handle.objects.lister(ResourceClaim))), method)(server, stored, POD)
    assert activated == [POD.key]
    assert server.pauses == 1


class SlowServer(Server):
    """A server that removes reservations when it is asked to pause."""

    def __init__(self, stored: ResourceClaim) -> None:
        super().__init__(stored)
        self.waiting: list[Coroutine[Any, Any, None]] = []

    def start(self, work: Coroutine[Any, Any, None], what: str) -> None:
        self.waiting.append(work)

    async def pause(self, seconds: float) -> None:
        while self.waiting:
            await self.waiting.pop()


def test_the_next_attempt_reserves_again_while_the_reservation_of_a_failed_bind_is_being_removed() -> None:
    reserved = {**allocated("gpu-0"), "reservedFor": [{"resource": "pods", "name": "p", "uid": POD.uid}]}
    server = SlowServer(claim(status=reserved))
    handle = Handle(clock=lambda: 1_700_000_000.0)
    lister = handle.objects.lister(ResourceClaim)
    lister.put(server.stored)
    tracker = ClaimTracker(lister)
    binder = ClaimBinder(handle, tracker)
    binder.unreserve(server, POD, PodBinding([server.stored], None))
    asyncio.run(binder.bind(server, POD, "n0", PodBinding([server.stored], None), 600.0))
    assert server.calls == [f"unreserve {POD.uid}", "get", "update status"]
    assert server.stored.is_reserved_for(POD.uid)
    # Later attempts see the newest version before the informer does.
    binder.unreserve(server, POD, PodBinding([server.stored], None))
    asyncio.run(server.pause(0))
    found = tracker.get("c", "default")
    assert found is not None
    assert not found.is_reserved_for(POD.uid)


@pytest.mark.parametrize(("bound", "calls"), [(True, ["patch pod", "clear pod status"]), (False, [])])
def test_amounts_of_devices_are_removed_from_the_status_if_they_were_written(*, bound: bool, calls: list[str]) -> None:
    server = Server(claim(status=allocated("gpu-0")))
    handle, binding = Handle(), PodBinding([], None)
    binding.statuses = (NodeAllocatableResourceClaimStatus(resource_claim_name="c"),)
    binder = ClaimBinder(handle, ClaimTracker(handle.objects.lister(ResourceClaim)))
    if bound:
        asyncio.run(binder.bind(server, POD, "n0", binding, 1.0))
    binder.unreserve(server, POD, binding)
    binder.unreserve(server, POD, binding)
    assert server.calls == calls
