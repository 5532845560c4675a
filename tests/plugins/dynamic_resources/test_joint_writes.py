"""Pods that share a claim: one write reserves it for all of them."""

from __future__ import annotations

import asyncio

import pytest

from mooring.api.devices import ResourceClaim, ResourceClaimConsumerReference
from mooring.api.pod import Pod
from mooring.framework.api_clients import ClaimConflictError, ClaimWriteError
from mooring.framework.handle import Handle
from mooring.plugins.dynamic_resources.claim_binder import ClaimBinder, ClaimBindingError, PodBinding
from mooring.plugins.dynamic_resources.claim_tracker import ClaimTracker
from mooring.testing import make_pod
from tests.plugins.device_world import allocated, claim
from tests.plugins.dynamic_resources.test_claim_binder import ALLOCATION, Server
from tests.waiting import PATIENCE

GROUP = ResourceClaimConsumerReference(api_group="scheduling.k8s.io", resource="podgroups", name="g", uid="uid-g")
LOST = "claim default/c got deallocated elsewhere in the meantime"


class World:
    """A claim whose allocation is in flight for the first pod, and a server that writes when the gate is open."""

    def __init__(self, *failures: Exception | None, status: dict[str, object] | None = None) -> None:
        world = self

        class Gated(Server):
            async def update_status(self, claim: ResourceClaim, before: ResourceClaim) -> ResourceClaim:
                world.sent.append([user.name for user in claim.status.reserved_for])
                await world.gate.wait()
                return await super().update_status(claim, before)

        self.gate = asyncio.Event()
        self.sent: list[list[str]] = []
        self.server = Gated(claim(status=status) if status is not None else claim(), *failures)
        self.server.start = lambda work, what: self.started.append(asyncio.ensure_future(work))  # type: ignore[method-assign]
        self.started: list[asyncio.Future[None]] = []
        handle = Handle(clock=lambda: 1_700_000_000.0)
        lister = handle.objects.lister(ResourceClaim)
        lister.put(self.server.stored)
        self.tracker = ClaimTracker(lister)
        self.binder = ClaimBinder(handle, self.tracker)
        self.bindings: dict[str, PodBinding] = {}

    def decide(self, name: str, group: bool = False) -> Pod:
        """Decide on a pod, as PreFilter and Reserve do; the claim may be that of its group."""
        pod = make_pod(name).uid(name).obj()
        known = self.tracker.get("c", "default")
        assert known is not None
        claim = self.tracker.with_allocation_in_flight(known)
        users, of_group = ((GROUP,), "g") if group else ((), None)
        binding = self.bindings[name] = PodBinding([claim], None, users, of_group)
        if claim.status.allocation is None:
            assert ALLOCATION is not None
            binding.allocations[0] = ALLOCATION
            self.tracker.start(claim.uid, ALLOCATION)
        return pod

    def bind(self, pod: Pod) -> asyncio.Task[None]:
        work = self.binder.bind(self.server, pod, "n0", self.bindings[pod.name], 600.0)
        return asyncio.get_running_loop().create_task(work)

    async def rest(self) -> None:
        for _ in range(8):
            await asyncio.sleep(0)

    @property
    def users(self) -> list[str]:
        return [user.name for user in self.server.stored.status.reserved_for]


async def test_one_write_reserves_the_claim_for_all_pods_that_share_it() -> None:
    world = World()
    pods = [world.decide(name) for name in ("a", "b", "c")]
    others = [world.bind(pod) for pod in pods[1:]]
    await world.rest()
    assert world.server.calls == [], "the allocation is written by the pod that it was decided for"
    first = world.bind(pods[0])
    world.gate.set()
    await asyncio.gather(first, *others)
    assert world.server.calls == ["update", "update status"]
    assert world.users == ["a", "b", "c"]
    assert all(each.claims == [world.server.stored] for each in world.bindings.values())
    assert len(world.tracker.usage.view.allocated) == 1
    assert not world.tracker.is_in_flight("uid-c")


async def test_the_claim_of_a_group_is_reserved_once_for_the_group() -> None:
    world = World()
    pods = [world.decide(name, group=True) for name in ("a", "b", "c", "d")]
    first = world.bind(pods[0])
    await world.rest()
    others = [world.bind(pod) for pod in pods[1:]]
    await world.rest()
    world.gate.set()
    await asyncio.wait_for(asyncio.gather(first, *others), PATIENCE)
    assert world.sent == [["g"]]
    assert world.server.stored.status.reserved_for == (GROUP,)
    late = world.decide("e", group=True)
    await asyncio.wait_for(world.bind(late), PATIENCE)
    world.binder.unreserve(world.server, late, world.bindings["e"])
    assert world.server.calls == ["update", "update status"], "the reservation of the group stays"


async def test_pods_that_join_during_a_write_share_the_next_one() -> None:
    world = World()
    pods = [world.decide(name) for name in ("a", "b", "c")]
    first = world.bind(pods[0])
    await world.rest()
    others = [world.bind(pod) for pod in pods[1:]]
    await world.rest()
    world.gate.set()
    await asyncio.gather(first, *others)
    assert world.sent == [["a"], ["a", "b", "c"]]


async def test_a_conflict_keeps_those_who_joined() -> None:
    world = World(None, ClaimConflictError("changed"))
    pods = [world.decide(name) for name in ("a", "b")]
    other = world.bind(pods[1])
    world.gate.set()
    await asyncio.gather(other, world.bind(pods[0]))
    assert world.sent == [["a", "b"], ["a", "b"]]
    assert world.users == ["a", "b"]


async def test_without_an_allocation_all_fail_and_nothing_is_in_use() -> None:
    world = World(None, ClaimWriteError("no"))
    pods = [world.decide(name) for name in ("a", "b")]
    other = world.bind(pods[1])
    await world.rest()
    world.gate.set()
    with pytest.raises(ClaimBindingError, match="no"):
        await world.bind(pods[0])
    with pytest.raises(ClaimBindingError) as failed:
        await other
    assert str(failed.value) == LOST
    assert world.tracker.usage.view.allocated == {}


async def test_an_allocation_that_is_given_up_before_its_write() -> None:
    world = World()
    pods = [world.decide(name) for name in ("a", "b")]
    other = world.bind(pods[1])
    await world.rest()
    world.binder.unreserve(world.server, pods[0], world.bindings["a"])
    with pytest.raises(ClaimBindingError, match="got deallocated elsewhere"):
        await other
    assert world.server.calls == []


async def test_a_pod_that_gives_up_leaves_the_allocation_of_the_other() -> None:
    world = World()
    pods = [world.decide(name) for name in ("a", "b")]
    world.binder.unreserve(world.server, pods[1], world.bindings["b"])
    assert world.tracker.is_in_flight("uid-c")
    world.gate.set()
    await world.bind(pods[0])
    assert world.users == ["a"]


async def test_a_failed_reservation_is_not_that_of_others() -> None:
    world = World(ClaimWriteError("no"), status=allocated("gpu-0"))
    pods = [world.decide(name) for name in ("a", "b")]
    binds = [world.bind(pod) for pod in pods]
    await world.rest()
    world.gate.set()
    first, second = await asyncio.gather(*binds, return_exceptions=True)
    assert isinstance(first, ClaimBindingError)
    assert second is None
    assert world.users == ["b"]


async def test_the_next_pod_writes_if_the_one_whose_turn_it_is_is_cancelled() -> None:
    world = World(status=allocated("gpu-0"))
    world.gate.set()
    world.tracker.writes.begin("uid-c")
    binds = [world.bind(world.decide(name)) for name in ("a", "b")]
    await world.rest()
    world.tracker.writes.pass_on("uid-c")
    binds[0].cancel()  # it is its turn, and it has not begun
    await asyncio.wait(binds)
    assert world.users == ["b"]


async def test_a_cancelled_pod_loses_its_reservation() -> None:
    world = World()
    pods = [world.decide(name) for name in ("a", "b")]
    binds = [world.bind(pod) for pod in reversed(pods)]
    await world.rest()
    assert world.sent == [["a", "b"]]
    binds[0].cancel()
    await world.rest()
    world.gate.set()
    await binds[1]
    await asyncio.gather(*world.started)
    assert world.users == ["a"]


async def test_no_more_pods_than_a_claim_can_have() -> None:
    users = [{"resource": "pods", "name": f"u{n}", "uid": f"u{n}"} for n in range(254)]
    world = World(status={**allocated("gpu-0"), "reservedFor": users})
    pods = [world.decide(name) for name in ("a", "b", "c")]
    world.tracker.writes.begin("uid-c")
    binds = [world.bind(pod) for pod in pods]
    await world.rest()
    world.gate.set()
    world.tracker.writes.pass_on("uid-c")
    await asyncio.gather(*binds)
    assert [len(each) for each in world.sent] == [256, 257], "the server rejects the last pod only"


async def test_another_allocation_than_the_one_that_was_decided_for() -> None:
    world = World(status=allocated("gpu-0"))
    pod = world.decide("a")
    world.tracker.assume(world.server._versioned(claim(status=allocated("gpu-1"))))
    with pytest.raises(ClaimBindingError, match="got allocated elsewhere in the meantime"):
        await world.bind(pod)


async def test_pods_that_joined_a_pod_that_cannot_write_do_not_wait_for_it() -> None:
    """The claim was allocated elsewhere: the pod that is to write it next fails before it writes."""
    world = World(ClaimWriteError("refused"), status=allocated("d0"))
    tasks = [world.bind(world.decide(name)) for name in ("a", "b", "c")]
    await world.rest()
    world.tracker.assume(claim(status=allocated("d1"), version="9"))
    world.gate.set()
    _, waiting = await asyncio.wait(tasks, timeout=PATIENCE)
    assert not waiting
    texts = [str(task.exception()) for task in tasks]
    assert "refused" in texts[0]
    assert texts[1:] == ["claim default/c got allocated elsewhere in the meantime"] * 2
