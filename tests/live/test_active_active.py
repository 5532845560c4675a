"""The protocol of an active-active group: members join, crash, sleep and wake at random, and no node has two users."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from mooring.api.pod import Pod
from mooring.columns.node_share import decides
from mooring.framework.api_clients import Binding
from mooring.kube import Access, Conflict
from mooring.kube.decoding import Page
from mooring.kube.membership import Member, MembershipSettings, MembersSnapshot, Published
from mooring.live.active_active import FENCE, ActiveActive, FencedBinder
from mooring.testing import make_pod
from tests.kube.test_membership import Leases

NODES = [f"node-{number}" for number in range(40)]


class World:
    """Leases, pods and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.leases = Leases()
        self.pods: dict[str, Pod] = {}
        for number in range(20):
            self.write(make_pod(f"pod-{number}").scheduler("default-scheduler").obj())

    def write(self, pod: Pod) -> Pod:
        self.leases.version += 1
        metadata = msgspec.structs.replace(pod.metadata, resource_version=str(self.leases.version))
        self.pods[pod.key] = msgspec.structs.replace(pod, metadata=metadata)
        return self.pods[pod.key]

    async def list(self, kind: type[Pod], *, fields: str) -> Page[Pod]:
        return Page([pod for pod in self.pods.values() if not pod.node_name], str(self.leases.version), "")

    async def send(self, method: str, path: str, body: Any, *, type: str) -> Any:
        pod = self.pods[path.split("/")[4] + "/" + path.split("/")[6]]
        metadata = msgspec.structs.replace(pod.metadata, annotations=body["metadata"]["annotations"])
        pod = self.write(msgspec.structs.replace(pod, metadata=metadata))
        return {"metadata": {"resourceVersion": pod.metadata.resource_version}, "spec": {"nodeName": pod.node_name}}

    async def bind(self, binding: Binding, node: str, annotations: object = None, *, version: str) -> None:
        pod = self.pods[f"{binding.namespace}/{binding.name}"]
        if pod.metadata.resource_version != version or pod.node_name:
            raise Conflict(409)
        self.write(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node)))

    async def get(self, kind: type[Pod], name: str, *, namespace: str) -> Pod:
        return self.pods[f"{namespace}/{name}"]


class Scheduler:
    """One member on a world. It sees pods with a delay, and works only when told to."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.seen: dict[str, Pod] = {}
        self.version = "0"
        self.awake = True
        self.tasks: list[Coroutine[Any, Any, None]] = []
        self.snapshots: list[MembersSnapshot] = []
        settings = MembershipSettings(name)
        engine: Any = SimpleNamespace(
            cache=SimpleNamespace(table=SimpleNamespace(share=None), assumed={}),
            lock=SimpleNamespace(held=False, defer=lambda *_: None),
            queue=SimpleNamespace(activate=None),
            profiles=SimpleNamespace(runners={"default-scheduler": None}),
            share_changed=lambda: None,
        )
        self.group = ActiveActive(
            Access(server="https://127.0.0.1:1"),
            settings,
            engine,
            informers=self,  # type: ignore[arg-type]  # the parts that are used
            start=self.tasks.append,
            wake=lambda: None,
            clock=lambda: world.now,
        )
        self.member = Member(world.leases, settings, self.snapshots.append, clock=lambda: world.now)
        self.group._thread = self  # type: ignore[assignment]  # without a thread
        self.group._client = world  # type: ignore[assignment]
        self.binder = FencedBinder(world, lambda: self.group, self.pod)  # type: ignore[arg-type]

    # What the thread of the membership and the informers do.

    def publish(self, me: str, published: Published) -> None:
        if self.member.name == me:
            self.member.wanted = published

    def holds(self, me: str) -> bool:
        return self.member.holds(me)

    @property
    def pods_version(self) -> str:
        return self.version

    def pods(self) -> list[Pod]:
        return list(self.seen.values())

    def pod(self, key: str) -> Pod | None:
        return self.seen.get(key)

    def watch(self) -> None:
        """See all changes until now."""
        self.seen, self.version = dict(self.world.pods), str(self.world.leases.version)

    def step(self) -> None:
        """Renew the lease and follow the members."""
        self.tick()
        self.observe()

    def tick(self) -> None:
        """Renew the lease and read the others."""
        asyncio.run(self.member.tick())

    def observe(self) -> None:
        """Follow the members."""
        for snapshot in self.snapshots:
            self.group.observe(snapshot)
        self.snapshots.clear()

    def work(self) -> None:
        """Run the tasks, such as fences."""
        tasks = list(self.tasks)
        self.tasks.clear()
        for task in tasks:
            asyncio.run(_ended(task))

    def users(self) -> set[str]:
        """The nodes that this member would choose for pods now."""
        return {node for node in NODES if self.group.may_write() and self.group.share.usable(node)}

    def binds(self) -> set[str]:
        """The nodes that this member would bind pods to now that it has chosen nodes for before."""
        share = self.group.share
        pods = [pod for pod in self.seen.values() if decides(pod, share.published) == share.me]
        return {node for node in NODES if self.group.may_write() and pods and share.may_bind(pods[0], node)}


async def _ended(task: Coroutine[Any, Any, None]) -> None:
    await task


def _check(members: list[Scheduler]) -> None:
    used: dict[str, Scheduler] = {}
    for member in members:
        for node in member.users() | member.binds():
            assert node not in used, f"{node} has two users"
            used[node] = member


@pytest.mark.parametrize("seed", range(25))
def test_no_node_has_two_users_while_members_come_go_sleep_and_wake(seed: int) -> None:
    rng = random.Random(seed)
    world = World()
    members = [Scheduler(world, f"m{number}") for number in range(3)]
    for _ in range(120):
        world.now += rng.choice((0.0, 0.02, 0.05, 0.15))
        member = rng.choice(members)
        if not member.awake:
            member.awake = rng.random() < 0.1
        else:
            action = rng.choice(
                (member.step, member.tick, member.tick, member.observe, member.observe, member.watch, member.work, None)
            )
            if action is not None:
                action()
            elif rng.random() < 0.3:
                member.awake = False
            elif rng.random() < 0.2 and len(members) < 6:
                members.append(Scheduler(world, f"m{len(members)}"))
        _check(members)
    _settle(world, members)
    _check(members)
    assert set().union(*(member.users() for member in members)) == set(NODES)
    for member in members:
        for task in member.tasks:
            task.close()


def _settle(world: World, members: list[Scheduler]) -> None:
    for _ in range(40):
        world.now += 0.1
        for member in members:
            member.watch()
            member.step()
            member.work()


def _together(count: int) -> tuple[World, list[Scheduler]]:
    world = World()
    members = [Scheduler(world, f"m{number}") for number in range(count)]
    _settle(world, members)
    return world, members


def test_a_bind_of_a_member_that_slept_fails_after_the_fence() -> None:
    world, (sleeper, other) = _together(2)
    pod = next(pod for pod in sleeper.pods() if sleeper.group.share.takes(pod))
    node = next(iter(sleeper.users()))
    late = world.bind(Binding.of(pod, node), node, version=pod.metadata.resource_version)  # on its way, and slow
    for _ in range(12):
        world.now += 0.1
        other.watch()
        other.step()
        other.work()
        assert not other.users() & sleeper.users()
    assert other.users() == set(NODES)
    with pytest.raises(Conflict):
        asyncio.run(late)


def test_a_bind_that_arrived_before_the_fence_is_observed_before_the_node_is_used() -> None:
    world, (sleeper, other) = _together(2)
    pod = next(pod for pod in sleeper.pods() if sleeper.group.share.takes(pod))
    node = next(iter(sleeper.users()))
    asyncio.run(world.bind(Binding.of(pod, node), node, version=pod.metadata.resource_version))
    for _ in range(12):  # the other member sees no changes of pods
        world.now += 0.1
        other.step()
        other.work()
        assert not other.group.share.usable(node)
    other.watch()
    other.step()
    assert other.group.share.usable(node)
    assert other.seen[pod.key].node_name == node


def test_a_new_member_waits_until_binds_to_its_nodes_have_ended() -> None:
    world, (first,) = _together(1)
    pod = first.pods()[0]
    first.group.in_flight[pod.key, "node-1"] += 1
    joiner = Scheduler(world, "joiner")
    joiners = set()
    for _ in range(8):
        world.now += 0.1
        for member in (first, joiner):
            member.watch()
            member.step()
        joiners |= joiner.users()
    share = first.group.share
    moves = share.owner("node-1") == joiner.member.name or not share.takes(pod)
    assert bool(joiners) != moves
    assert share.may_bind(pod, "node-1")  # chosen before
    del first.group.in_flight[pod.key, "node-1"]
    _settle(world, [first, joiner])
    assert joiner.users()
    assert first.users() | joiner.users() == set(NODES)


def test_a_member_that_was_expelled_binds_nothing_before_it_has_noticed() -> None:
    """Its thread has joined again, so that there is a valid lease, but the event loop does not know that yet."""
    world, (sleeper, other) = _together(2)
    nodes = sleeper.users()
    for _ in range(12):
        world.now += 0.1
        other.watch()
        other.step()
        other.work()
    sleeper.tick()
    sleeper.watch()
    assert sleeper.users() == set()
    for pod in sleeper.pods():
        assert asyncio.run(sleeper.binder.bind(Binding.of(pod, next(iter(nodes))))) is not None
    assert not [pod for pod in world.pods.values() if pod.node_name]
    first, *_, last = sleeper.pods()
    sleeper.group._engine.cache.assumed[first.uid] = first
    sleeper.observe()  # now it has noticed
    sleeper.group._engine.cache.assumed[last.uid] = last
    _settle(world, [sleeper, other])
    for pod in (first, last):
        foreign = next(node for node in NODES if node not in sleeper.users())
        assert asyncio.run(sleeper.binder.bind(Binding.of(pod, foreign))) is not None
    assert sleeper.group.conflicts == {"expelled": len(world.pods) + 1, "moved": 1}


def test_the_binder_refuses_nodes_of_others_and_counts_conflicts() -> None:
    world, (first, other) = _together(2)
    pod = next(pod for pod in first.pods() if first.group.share.takes(pod))
    foreign, own = next(iter(other.users())), next(iter(first.users()))
    status = asyncio.run(first.binder.bind(Binding.of(pod, foreign)))
    assert status is not None
    assert first.group.conflicts == {"moved": 1}
    asyncio.run(world.bind(Binding.of(pod, foreign), foreign, version=pod.metadata.resource_version))
    assert asyncio.run(first.binder.bind(Binding.of(pod, own))) is not None
    assert first.group.conflicts == {"moved": 1, "bind": 1}
    assert not first.group.in_flight


def test_the_binder_binds_a_pod_whose_status_has_changed() -> None:
    world, (first,) = _together(1)
    pod = first.pods()[0]
    asyncio.run(first.group.touch(pod, "x"))
    assert asyncio.run(first.binder.bind(Binding.of(pod, "node-1"))) is None
    assert world.pods[pod.key].node_name == "node-1"


def test_the_pods_of_a_crashed_member_are_decided_before_the_fence_is_complete() -> None:
    world, (sleeper, other) = _together(2)
    lost = [pod for pod in sleeper.pods() if sleeper.group.share.takes(pod)]
    for _ in range(12):
        world.now += 0.1
        other.watch()
        other.step()  # but its tasks do not run
    assert lost
    assert all(other.group.share.takes(pod) for pod in lost)
    assert other.users() != set(NODES)
    other.work()


def test_members_wait_for_the_one_that_announces_a_fence() -> None:
    world, members = _together(3)
    _crashed, *rest = members
    for _ in range(60):  # the one that expelled it is slow
        world.now += 0.1
        for member in rest:
            member.watch()
            member.step()
    fences = [task for member in rest for task in member.tasks if task.__name__ == "_fence"]
    assert len(fences) == 1
    fencer = next(member for member in rest if member.tasks)
    fencer.awake = False  # it crashes too
    (last,) = [member for member in rest if member is not fencer]
    for _ in range(60):
        world.now += 0.1
        last.watch()
        last.step()
        last.work()
    assert last.users() == set(NODES)
    for task in fencer.tasks:
        task.close()


def test_a_fence_leaves_out_pods_that_are_known_to_be_bound() -> None:
    world, (sleeper, other) = _together(2)
    lost = [pod for pod in sleeper.pods() if sleeper.group.share.takes(pod)]
    for _ in range(12):
        world.now += 0.1
        other.watch()
        other.step()
    bound, former = lost[0], sleeper.member.name
    world.write(msgspec.structs.replace(bound, spec=msgspec.structs.replace(bound.spec, node_name="node-1")))
    stale = [world.pods[pod.key] if pod is not bound else bound for pod in lost]

    async def list_before(*_: object, **__: object) -> Page[Pod]:
        return Page(stale, str(world.leases.version - 1), "")

    world.list = list_before  # type: ignore[method-assign]  # the list is older than the watch
    other.watch()
    other.work()
    assert other.group.fenced_pods == len(lost) - 1
    assert world.pods[bound.key].annotations.get(FENCE) != former


def test_a_node_that_was_given_up_is_not_bound_to_before_the_renewal_is_confirmed() -> None:
    """The joiner may read the lease before its holder knows that the renewal has succeeded."""
    world, (first,) = _together(1)
    joiner = Scheduler(world, "joiner")
    joiner.step()  # creates its lease
    first.watch()
    first.step()  # sees the joiner, and asks for the publication
    first.tick()  # publishes it
    for _ in range(4):
        joiner.watch()
        joiner.step()
        _check([first, joiner])
    assert joiner.users()
    first.group.observe(
        msgspec.structs.replace(first.snapshots[0], published=Published(frozenset((first.member.name,))))
    )
    _check([first, joiner])  # also not if an older snapshot arrives late
    first.work()
    joiner.work()
