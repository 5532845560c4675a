"""Membership by leases, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from mooring.api import Lease
from mooring.kube import Conflict, NotFound
from mooring.kube.decoding import Page
from mooring.kube.membership import Member, MembershipSettings, MembersSnapshot, Published


class Leases:
    """Leases in memory, with the rules of an API server."""

    def __init__(self) -> None:
        self.found: dict[str, Lease] = {}
        self.version = 0

    async def get(self, kind: type[Lease], name: str, *, namespace: str) -> Lease:
        if name not in self.found:
            raise NotFound(404)
        return self.found[name]

    async def create(self, value: Lease) -> Lease:
        return self._write(value)

    async def replace(self, value: Lease) -> Lease:
        if value.name not in self.found:
            raise NotFound(404)
        if value.metadata.resource_version != self.found[value.name].metadata.resource_version:
            raise Conflict(409)
        return self._write(value)

    async def list(self, kind: type[Lease], *, namespace: str, labels: str) -> Page[Lease]:
        return Page(list(self.found.values()), str(self.version), "")

    async def delete(self, kind: type[Lease], name: str, *, namespace: str, uid: str, version: str) -> None:
        if name not in self.found:
            raise NotFound(404)
        if self.found[name].metadata.resource_version != version:
            raise Conflict(409)
        self.version += 1
        del self.found[name]

    def _write(self, value: Lease) -> Lease:
        self.version += 1
        metadata = msgspec.structs.replace(value.metadata, resource_version=str(self.version), uid=value.name)
        self.found[value.name] = Lease(metadata=metadata, spec=value.spec)
        return self.found[value.name]


class Group:
    """Members with a common clock, which ticks by hand."""

    def __init__(self, count: int) -> None:
        self.now = 0.0
        self.leases = Leases()
        self.snapshots: list[list[MembersSnapshot]] = [[] for _ in range(count)]
        self.members = [
            Member(self.leases, MembershipSettings(f"m{number}"), seen.append, clock=lambda: self.now)
            for number, seen in enumerate(self.snapshots)
        ]

    def tick(self, *numbers: int, seconds: float = 0.15) -> None:
        self.now += seconds
        for number in numbers:
            asyncio.run(self.members[number].tick())

    def last(self, number: int) -> MembersSnapshot:
        return self.snapshots[number][-1]


def test_members_see_each_other_and_what_they_publish() -> None:
    group = Group(2)
    group.tick(0, 1)
    group.members[1].wanted = Published(frozenset(("x", "y")), ("z",))
    group.tick(1, 0)
    (other,) = group.last(0).others
    assert other.name == group.members[1].name
    assert other.published == Published(frozenset(("x", "y")), ("z",))
    assert group.last(1).published == other.published


def test_a_member_that_does_not_renew_is_expelled_after_it_knows_that_it_has_expired() -> None:
    group = Group(2)
    group.tick(0, 1)
    silent = group.members[1]
    silent.wanted = Published(frozenset((silent.name,)))
    group.tick(1, 0)
    while not group.last(0).expelled:
        assert silent.holds(silent.name) or group.now > 0.89
        group.tick(0, seconds=0.1)
    assert not silent.holds(silent.name)
    (expelled,) = group.last(0).expelled
    assert (expelled.name, expelled.published.view) == (silent.name, frozenset((silent.name,)))
    assert group.now < 0.3 + 0.6 + 0.25
    group.tick(0)
    assert group.last(0).expelled == ()


def test_a_member_that_renews_in_the_last_moment_stays() -> None:
    group = Group(2)
    group.tick(0, 1)
    group.tick(0, 1)
    stale = dict(group.leases.found)
    group.now += 0.7
    asyncio.run(group.members[1]._renew())
    lease = stale[group.members[1].name]
    assert not asyncio.run(group.members[0]._expel(lease))
    assert group.members[1].name in group.leases.found


def test_an_expelled_member_joins_again_under_another_name_and_publishes_nothing() -> None:
    group = Group(2)
    group.tick(0, 1)
    former = group.members[1].name
    group.members[1].wanted = Published(frozenset((former,)))
    group.tick(1)
    group.tick(0, seconds=0.1)
    group.tick(0, seconds=1.0)
    assert former not in group.leases.found
    assert not group.members[1].holds(former)
    group.tick(1)
    assert group.members[1].name != former
    assert group.members[1].holds(group.members[1].name)
    assert group.last(1).published == Published()
    assert group.last(1).me == group.members[1].name


def test_a_lost_response_of_a_renewal_is_no_loss_of_membership() -> None:
    group = Group(1)
    group.tick(0)
    (member,) = group.members
    name = member.name
    lease: Any = group.leases.found[name]
    asyncio.run(group.leases.replace(lease))  # the response did not arrive
    group.tick(0)
    assert member.name == name
    assert member.holds(name)


def test_a_lease_with_an_invalid_duration_expires_after_that_of_its_spec() -> None:
    group = Group(2)
    group.tick(0, 1)
    other = group.members[1].name
    lease = group.leases.found[other]
    metadata = msgspec.structs.replace(lease.metadata, annotations={"mooring.dev/active-active-lease-duration": "x"})
    asyncio.run(group.leases.replace(Lease(metadata=metadata, spec=lease.spec)))
    group.tick(0)
    group.tick(0, seconds=0.9)
    assert other in group.leases.found
    group.tick(0, seconds=0.2)
    assert other not in group.leases.found
