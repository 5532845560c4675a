"""Leader election, in virtual time, on a store that fails at random."""

import asyncio
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mooring.api import Lease, LeaseSpec, ObjectMeta, parse_time
from mooring.kube import (
    Access,
    AlreadyExists,
    Conflict,
    ElectionSettings,
    ElectionThread,
    NotFound,
    OutcomeUnknown,
)
from mooring.kube.client_errors import Forbidden
from mooring.kube.leader_election import LeaseElector
from tests.kube.server import Api, Fault
from tests.kube.virtual import run
from tests.log_capture import capture_logs
from tests.waiting import PATIENCE, until


class Store:
    """Leases in memory, with the rules of an API server, and faults."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.version = 0
        self.fault: Callable[[str], Any] = lambda operation: None
        self.writes: list[tuple[float, str]] = []

    async def get(self, namespace: str, name: str) -> Lease:
        await self._fail("get")
        if self.lease is None:
            raise NotFound(404)
        return self.lease

    async def create(self, lease: Lease) -> Lease:
        await self._fail("create")
        if self.lease is not None:
            raise AlreadyExists(409)
        return await self._write(lease)

    async def replace(self, lease: Lease) -> Lease:
        await self._fail("replace")
        if self.lease is None:
            raise NotFound(404)
        if lease.metadata.resource_version != self.lease.metadata.resource_version:
            raise Conflict(409)
        return await self._write(lease)

    async def _write(self, lease: Lease) -> Lease:
        self.version += 1
        metadata = ObjectMeta(name=lease.name, namespace=lease.namespace, resource_version=str(self.version))
        self.lease = Lease(metadata=metadata, spec=lease.spec)
        self.writes.append((asyncio.get_running_loop().time(), lease.spec.holder_identity or ""))
        await self._fail("answer")
        return self.lease

    async def _fail(self, operation: str) -> None:
        found = self.fault(operation)
        if isinstance(found, int | float):
            await asyncio.sleep(found)
        elif found is not None:
            raise found


def settings(identity: str, **options: Any) -> ElectionSettings:
    return ElectionSettings(identity, **options)


def elector(store: Store, identity: str, seed: int = 0, **options: Any) -> LeaseElector:
    return LeaseElector(store, settings(identity), rng=random.Random(seed), **options)


def test_the_first_creates_the_lease_and_renews_it_every_two_seconds() -> None:
    async def main() -> None:
        store = Store()
        one = elector(store, "a", now=lambda: 1e9 + asyncio.get_running_loop().time())
        await one.acquire()
        assert one.is_leader
        task = asyncio.create_task(one.hold())
        await asyncio.sleep(9)
        task.cancel()
        assert store.writes == [(0, "a"), (2, "a"), (4, "a"), (6, "a"), (8, "a")]
        assert store.lease is not None
        spec = store.lease.spec
        assert (spec.lease_duration_seconds, spec.lease_transitions) == (15, 0)
        assert spec.acquire_time == "2001-09-09T01:46:40.000000Z"
        assert parse_time(spec.renew_time or "") == 1e9 + 8

    run(main())


def test_another_waits_until_the_lease_has_not_changed_for_its_duration() -> None:
    async def main() -> None:
        store = Store()
        leaders: list[str] = []
        one, two = elector(store, "a"), elector(store, "b", on_new_leader=leaders.append)
        await one.acquire()
        holding = asyncio.create_task(one.hold())
        waiting = asyncio.create_task(two.acquire())
        await asyncio.sleep(60)
        assert not waiting.done()
        assert leaders == ["a"]
        holding.cancel()
        last = store.writes[-1][0]
        await waiting
        # It counts from when it saw the last change: no sooner than the duration, and soon after.
        assert 15 <= asyncio.get_running_loop().time() - last <= 15 + 3 * 2 * 2.2
        assert store.lease is not None
        assert store.lease.spec.lease_transitions == 1
        assert leaders == ["a", "b"]

    run(main())


def test_a_lease_given_back_is_free_at_once() -> None:
    async def main() -> None:
        store = Store()
        one, two = elector(store, "a"), elector(store, "b")
        await one.acquire()
        waiting = asyncio.create_task(two.acquire())
        await asyncio.sleep(1)
        await one.release()
        assert not one.is_leader
        begun = asyncio.get_running_loop().time()
        await waiting
        assert asyncio.get_running_loop().time() - begun <= 2 * 2.2

    run(main())


def test_one_who_does_not_hold_it_does_not_give_it_back() -> None:
    async def main() -> None:
        store = Store()
        await elector(store, "a").acquire()
        await elector(store, "b").release()
        assert store.lease is not None
        assert store.lease.spec.holder_identity == "a"

    run(main())


@pytest.mark.parametrize("fault", [OutcomeUnknown("gone"), 60.0], ids=["refuses", "hangs"])
def test_who_cannot_renew_for_the_deadline_has_lost_it(fault: Any) -> None:
    async def main() -> float:
        store = Store()
        one = elector(store, "a")
        await one.acquire()
        store.fault = lambda operation: fault
        await one.hold()
        return asyncio.get_running_loop().time()

    # Two seconds until the next renewal, ten of trying: well before another may take it at fifteen.
    assert run(main()) == pytest.approx(12, abs=0.1)


def test_a_renewal_that_got_through_without_an_answer_costs_nothing() -> None:
    async def main() -> None:
        store = Store()
        one = elector(store, "a")
        await one.acquire()
        lost = [True]
        store.fault = lambda operation: OutcomeUnknown("?") if operation == "answer" and lost and lost.pop() else None
        task = asyncio.create_task(one.hold())
        await asyncio.sleep(30)
        assert not task.done()
        assert one.is_leader
        task.cancel()

    run(main())


def test_the_health_check_sees_a_lease_that_ran_out() -> None:
    async def main() -> None:
        one = elector(Store(), "a")
        assert one.overdue(1000) == 0
        await one.acquire()
        assert one.overdue(15) == 0
        assert one.overdue(20) == 5

    run(main())


@pytest.mark.parametrize("seed", range(30))
def test_there_are_never_two_leaders_on_a_flaky_store(seed: int) -> None:
    """Each leads, stops or dies at random; from when one may act to when it must not, nobody else may."""

    async def main() -> int:
        rng = random.Random(seed)
        store = Store()

        def fault(operation: str) -> Any:
            draw = rng.random()
            if draw < 0.15:
                return OutcomeUnknown("?")
            return rng.choice([0.5, 3.0, 20.0]) if draw < 0.25 else 0.01

        store.fault = fault
        loop = asyncio.get_running_loop()
        acting: set[str] = set()
        terms: list[str] = []

        async def contender(name: str) -> None:
            for life in range(1000):
                one = elector(store, f"{name}-{life}", seed)
                await one.acquire()
                assert not acting, f"{name} began while {acting} led"
                acting.add(name)
                terms.append(name)
                try:
                    async with asyncio.timeout(rng.choice([10, 100, 1000])):
                        await one.hold()
                except TimeoutError:
                    pass
                acting.discard(name)
                if rng.random() < 0.5:
                    await one.release()
                await asyncio.sleep(rng.random() * 5)

        tasks = [asyncio.create_task(contender(name)) for name in "abc"]
        await asyncio.sleep(3600)
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert loop.time() >= 3600
        return len(terms)

    assert run(main()) > 5


#: What a thief or vandal writes to the lease; None deletes it.
VANDALISM: list[LeaseSpec | None] = [
    None,
    LeaseSpec(),
    LeaseSpec(holder_identity=""),
    LeaseSpec(holder_identity="thief", lease_duration_seconds=15),
    LeaseSpec(holder_identity="thief", lease_duration_seconds=0),
    LeaseSpec(holder_identity="thief", lease_duration_seconds=-1),
    LeaseSpec(holder_identity="thief"),
    # Clocks that are years ahead or behind, and texts that are no times.
    LeaseSpec(holder_identity="thief", lease_duration_seconds=3, renew_time="2099-01-01T00:00:00.000000Z"),
    LeaseSpec(holder_identity="thief", lease_duration_seconds=3, renew_time="1970-01-01T00:00:00.000000Z"),
    LeaseSpec(holder_identity="thief", lease_duration_seconds=3, renew_time="soon", acquire_time="never"),
]


@pytest.mark.parametrize("seed", range(6))
def test_a_vandal_causes_no_two_leaders_for_longer_than_a_retry(seed: int) -> None:
    """Whoever may write the lease can replace the leader at once. The former one knows at its next renewal."""

    async def main() -> int:
        rng, store = random.Random(seed), Store()
        loop = asyncio.get_running_loop()
        electors: dict[str, LeaseElector] = {}
        clocks = {"a": 0.0, "b": 1e9, "c": -1e9}

        async def contender(name: str) -> None:
            for life in range(1000):
                settings = ElectionSettings(identity=f"{name}-{life}")
                now = lambda: loop.time() + 2e9 + clocks[name]  # noqa: E731
                one = electors[name] = LeaseElector(store, settings, rng=random.Random(seed), now=now)
                await one.acquire()
                await one.hold()
                assert not one.holds(loop.time())

        async def vandal() -> None:
            while True:
                await asyncio.sleep(rng.random() * 60)
                spec = rng.choice(VANDALISM)
                store.version += 1
                metadata = ObjectMeta(
                    name="kube-scheduler", namespace="kube-system", resource_version=str(store.version)
                )
                store.lease = None if spec is None else Lease(metadata=metadata, spec=spec)
                changed.append(loop.time())

        changed = [-100.0]
        tasks = [asyncio.create_task(each) for each in (*map(contender, clocks), vandal())]
        led = 0
        for _ in range(12_000):
            await asyncio.sleep(0.1)
            leaders = [name for name, one in electors.items() if one.holds(loop.time())]
            led += bool(leaders)
            assert len(leaders) < 2 or loop.time() - changed[-1] < 2.2, leaders
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return led

    assert run(main()) > 6_000, "most of the time there is a leader"


def test_a_response_that_shows_another_holder_is_no_success() -> None:
    async def main() -> None:
        store = Store()
        one = elector(store, "a")
        await one.acquire()
        write = store._write

        async def answer(lease: Lease) -> Lease:
            await write(lease)
            return Lease(metadata=lease.metadata, spec=LeaseSpec(holder_identity="b", lease_duration_seconds=15))

        store._write = answer  # type: ignore[method-assign]
        await one.hold()
        assert not one.holds(asyncio.get_running_loop().time())

    run(main())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"identity": ""}, "a unique identity is required"),
        ({"lease_duration": 10}, "leaseDuration: must be greater than renewDeadline"),
        ({"retry_period": 9}, "renewDeadline: must be greater than 1.2 times retryPeriod"),
        ({"retry_period": 0}, "durations must be greater than zero"),
    ],
)
def test_settings_that_cannot_work(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        replace(settings("a"), **options)


#: Renewals are frequent, and no pause of a busy machine makes one late.
QUICK = {"lease_duration": 900, "renew_deadline": 600, "retry_period": 0.1}
PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"


class Candidate:
    def __init__(self, api: Api, name: str, **changes: float) -> None:
        self.started = threading.Event()
        self.lost = threading.Event()
        self.thread = ElectionThread(
            Access(server=api.url),
            settings(name, **(QUICK | changes)),
            on_started=self.started.set,
            on_lost=self.lost.set,
        )
        self.thread.start()

    async def leads(self) -> None:
        assert await asyncio.to_thread(self.started.wait, PATIENCE)


async def test_two_threads_one_after_the_other(api: Api) -> None:
    one = Candidate(api, "a")
    await one.leads()
    assert one.thread.is_leader
    two = Candidate(api, "b")
    await until(lambda: two.thread.leader == "a")
    renewed = api.objects[PATH]["spec"]["renewTime"]
    await until(lambda: api.objects[PATH]["spec"]["renewTime"] != renewed)
    assert not two.started.is_set()
    assert one.thread.overdue() == 0
    await asyncio.to_thread(one.thread.stop, PATIENCE)
    assert not one.lost.is_set()
    await two.leads()
    await asyncio.to_thread(two.thread.stop, PATIENCE)
    assert api.objects[PATH]["spec"]["holderIdentity"] == ""
    assert api.objects[PATH]["spec"]["leaseTransitions"] == 1


async def test_a_thread_that_loses_the_lease_says_so_and_ends(api: Api) -> None:
    one = Candidate(api, "a", renew_deadline=0.6)
    await one.leads()
    api.fault = lambda request: Fault(status=500)
    assert await asyncio.to_thread(one.lost.wait, PATIENCE)
    await asyncio.to_thread(one.thread.stop, PATIENCE)
    assert not one.thread._thread.is_alive()


async def test_a_lease_stolen_by_hand_is_lost(api: Api) -> None:
    one = Candidate(api, "a")
    await one.leads()
    api.put(PATH, {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3600}})
    assert await asyncio.to_thread(one.lost.wait, PATIENCE)
    await asyncio.to_thread(one.thread.stop, PATIENCE)
    assert api.objects[PATH]["spec"]["holderIdentity"] == "thief"


def test_stopping_what_never_started() -> None:
    ElectionThread(Access(server="http://x"), settings("a"), on_started=print, on_lost=print).stop()


async def test_stopping_before_ever_leading(api: Api) -> None:
    api.put(PATH, {"spec": {"holderIdentity": "other", "leaseDurationSeconds": 3600}})
    one = Candidate(api, "a")
    await until(lambda: one.thread.leader == "other")
    await asyncio.to_thread(one.thread.stop, PATIENCE)
    assert not one.started.is_set()
    assert not one.lost.is_set()
    assert api.objects[PATH]["spec"]["holderIdentity"] == "other"


def test_the_spec_is_complete_enough_to_be_replaced() -> None:
    fields = set(LeaseSpec.__struct_fields__)
    assert fields == {
        "holder_identity", "lease_duration_seconds", "acquire_time", "renew_time", "lease_transitions", "strategy",
        "preferred_holder",
    }  # fmt: skip


def test_one_from_whom_it_was_taken_knows_at_the_next_renewal() -> None:
    async def main() -> float:
        store = Store()
        one = elector(store, "a")
        await one.acquire()
        assert store.lease is not None
        thief = LeaseSpec(holder_identity="thief", lease_duration_seconds=15)
        store.lease = Lease(metadata=ObjectMeta(name="kube-scheduler", resource_version="stolen"), spec=thief)
        await one.hold()
        assert (one.leader, one.holds(asyncio.get_running_loop().time())) == ("thief", False)
        return asyncio.get_running_loop().time()

    assert run(main()) == pytest.approx(2, abs=0.1)


def test_nobody_acts_on_a_lease_that_ran_out_while_they_slept() -> None:
    async def main() -> None:
        store = Store()
        one = elector(store, "a")
        assert not one.holds(0)
        # The answer takes three seconds, which others need not have waited for.
        store.fault = lambda operation: 3.0 if operation == "answer" else None
        await one.acquire()
        assert [one.holds(time) for time in (3, 14.9, 15, 100)] == [True, True, False, False]
        assert one.is_leader

    run(main())


@pytest.mark.parametrize(
    ("fault", "level"),
    [
        (OutcomeUnknown("gone"), "warning"),
        (Forbidden(403, "Forbidden", 'cannot get "leases"'), "warning"),
        (Conflict(409, "Conflict", "somebody was quicker"), "debug"),
    ],
)
def test_what_is_in_the_way_is_told_once(fault: Exception, level: str) -> None:
    async def main() -> None:
        store = Store()
        store.fault = lambda operation: fault
        waiting = asyncio.create_task(elector(store, "a").acquire())
        await asyncio.sleep(30)
        waiting.cancel()

    with capture_logs() as lines:
        run(main())
    told = [line["log_level"] for line in lines if line["event"] == "the lease was not acquired or renewed"]
    assert len(told) > 3
    assert (told[0], set(told[1:])) == (level, {"debug"})
