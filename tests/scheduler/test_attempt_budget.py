"""AttemptBudget: pauses never change a decision, and a pod that is too expensive is rejected with a reason."""

from __future__ import annotations

import asyncio
import random

import msgspec
import pytest

from bench.hostile.shapes import SHAPES, manifest
from bench.workloads import node
from mooring.api.pod import Pod
from mooring.config import default_config
from mooring.scheduler.attempt_budget import BACKOFF_SECONDS, AttemptBudget, largest_part
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt, PendingAttempt
from mooring.scheduler.engine import Engine
from mooring.scheduler.queue import Place
from mooring.testing import make_node, make_pod
from tests.log_capture import capture_logs

#: Pauses at every checkpoint.
RESTLESS = {"slice_seconds": 0.0}


def make_engine(budget: AttemptBudget | None, *, nodes: int = 20, now: list[float] | None = None) -> Engine:
    now = now or [1000.0]
    engine = Engine(default_config(), rng=random.Random(5), budget=budget, clock=lambda: now[0])
    for number in range(nodes):
        engine.put(node(number))
    return engine


def hostile(shape: str, name: str, scale: float = 0.002, **spec: object) -> Pod:
    document = manifest(shape, name, scale)
    document["metadata"]["uid"] = name
    document["spec"].update(spec)
    return msgspec.json.decode(msgspec.json.encode(document), type=Pod)


async def decide(engine: Engine) -> tuple[AssumedPod | FailedAttempt | None, int]:
    """Run the next attempt to its end; return the outcome and the number of pauses, at least."""
    outcome = engine.schedule_one()
    if isinstance(outcome, PendingAttempt):
        return await engine.complete(outcome), 1
    return outcome, 0


def described(outcome: object) -> str:
    if isinstance(outcome, AssumedPod):
        return outcome.node_name
    assert isinstance(outcome, FailedAttempt)
    return outcome.failure.message


async def test_pauses_do_not_change_decisions():
    plain, restless = make_engine(None), make_engine(AttemptBudget(**RESTLESS))
    paused = 0
    for round_ in range(2):
        for shape in SHAPES:
            pods = [hostile(shape, f"{shape}-{round_}"), make_pod(f"plain-{shape}-{round_}").req(cpu="100m").obj()]
            for pod in pods:
                for engine in (plain, restless):
                    engine.put(pod)
                expected, _ = await decide(plain)
                found, pauses = await decide(restless)
                assert described(found) == described(expected), (shape, pod.name)
                paused += pauses
    assert paused > len(SHAPES)
    assert restless.cache.table.check() == []


async def test_attempts_of_one_call_pause_and_decide_the_same():
    plain, restless = make_engine(None), make_engine(AttemptBudget(**RESTLESS))
    pods = [
        pod for shape in SHAPES for pod in (hostile(shape, shape), make_pod(f"plain-{shape}").req(cpu="100m").obj())
    ]
    outcomes: dict[str, list[str]] = {}
    for name, engine in (("plain", plain), ("restless", restless)):
        found = outcomes[name] = []
        for pod in pods:
            engine.put(pod)

        def attempt_all(engine: Engine = engine, found: list[str] = found) -> None:
            while engine.ready:
                found.append(described(engine.schedule_one()))

        call = engine.pausable(attempt_all)
        pauses = 0
        if call is None:
            attempt_all()
        else:
            while not call.advance():
                pauses += 1
        assert (pauses > len(SHAPES)) == (name == "restless")
    assert outcomes["plain"] == outcomes["restless"]
    assert len(outcomes["plain"]) >= len(pods)


async def test_an_expensive_attempt_of_a_call_is_rejected_and_the_others_are_not():
    engine = make_engine(AttemptBudget(slice_seconds=0.0, large_pod_seconds=0.0), nodes=2)
    engine.put(hostile("Gt on the hostname", "big", 0.2))
    engine.put(make_pod("ordinary").obj())
    outcomes: list[object] = []
    call = engine.pausable(lambda: outcomes.extend([engine.schedule_one(), engine.schedule_one()]))
    assert call is not None
    while not call.advance():
        pass
    messages = [described(outcome) for outcome in outcomes]
    assert messages[0].startswith("the scheduling attempt was stopped after ")
    assert messages[1].startswith("node-")


async def test_preemption_with_pauses_chooses_the_same_victims():
    chosen = []
    for budget in (None, AttemptBudget(**RESTLESS)):
        engine = make_engine(budget, nodes=0)
        for number in range(6):
            engine.put(make_node(f"n{number}").capacity(cpu="4", memory="8Gi", pods="10").obj())
            for part in range(4):
                low = make_pod(f"low-{number}-{part}").req(cpu="1").priority(part).node(f"n{number}").obj()
                engine.put(low)
        engine.put(make_pod("high").req(cpu="2").priority(100).obj())
        outcome, _ = await decide(engine)
        assert isinstance(outcome, FailedAttempt)
        chosen.append((outcome.victims, outcome.nominated_node))
    assert chosen[0] == chosen[1]
    assert chosen[0][0]


async def test_events_during_a_pause_apply_afterwards():
    engine = make_engine(AttemptBudget(**RESTLESS), nodes=2)
    engine.put(hostile("Gt on the hostname", "a"))
    pending = engine.schedule_one()
    assert isinstance(pending, PendingAttempt)
    assert pending.requests == ()
    assert engine.lock.held
    engine.put(make_pod("later").obj())
    assert engine.queue.find("default/later") is None
    outcome = await engine.complete(pending)
    assert isinstance(outcome, FailedAttempt)
    assert not engine.lock.held
    assert engine.queue.find("default/later") is not None
    assert isinstance((await decide(engine))[0], AssumedPod)


async def test_other_tasks_run_during_an_attempt():
    engine = make_engine(AttemptBudget(**RESTLESS), nodes=2)
    engine.put(hostile("Gt on the hostname", "a", 0.01))
    pending = engine.schedule_one()
    assert isinstance(pending, PendingAttempt)
    turns = 0
    attempt = asyncio.ensure_future(engine.complete(pending))
    while not attempt.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 100


async def test_a_cancelled_attempt_releases_the_lock():
    engine = make_engine(AttemptBudget(**RESTLESS), nodes=2)
    engine.put(hostile("Gt on the hostname", "a"))
    pending = engine.schedule_one()
    assert isinstance(pending, PendingAttempt)
    attempt = asyncio.ensure_future(engine.complete(pending))
    await asyncio.sleep(0)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert not engine.lock.held
    engine.put(make_pod("next").obj())
    assert isinstance((await decide(engine))[0], AssumedPod)


async def test_rejects_an_expensive_pod_with_the_reason_and_a_long_backoff():
    now = [1000.0]
    engine = make_engine(AttemptBudget(slice_seconds=0.0, large_pod_seconds=0.0), nodes=2, now=now)
    engine.put(hostile("Gt on the hostname", "big", 0.2))
    with capture_logs() as logs:
        outcome, _ = await decide(engine)
    assert isinstance(outcome, FailedAttempt)
    assert outcome.reason == "SchedulerError"
    message = outcome.failure.message
    assert message.startswith("the scheduling attempt was stopped after ")
    assert "the pod has 2,000 required node affinity terms and values; reduce them" in message
    assert not logs, "it is not an unexpected error"
    assert engine.queue.find("default/big")[0] is Place.BACKOFF
    assert not engine.queue.ready, "it is not retried early"
    engine.put(make_node("n9").capacity(cpu="4", memory="8Gi", pods="10").obj())
    now[0] += BACKOFF_SECONDS - 1
    engine.queue.tick()
    assert engine.queue.find("default/big")[0] is Place.BACKOFF
    engine.put(make_pod("ordinary").obj())
    assert isinstance((await decide(engine))[0], AssumedPod), "an ordinary pod may use more time"
    now[0] += 2
    engine.queue.tick()
    assert engine.queue.find("default/big")[0] is Place.ACTIVE


async def test_stops_an_ordinary_pod_only_at_the_higher_limit():
    engine = make_engine(AttemptBudget(slice_seconds=0.0, pod_seconds=0.0), nodes=2)
    engine.put(make_pod("ordinary").obj())
    outcome, _ = await decide(engine)
    assert isinstance(outcome, FailedAttempt)
    assert "the reason is not the size of the pod" in outcome.failure.message


LARGEST = {
    "Gt on the hostname": (1000, "required node affinity terms and values"),
    "In with many values": (3000, "required node affinity terms and values"),
    "preferred Gt": (900, "preferred node affinity terms and values"),
    "a large nodeSelector": (2000, "nodeSelector labels"),
    "tolerations of many keys": (1400, "tolerations"),
    "soft spread keys": (1600, "topology spread constraints and selector values"),
    "pod affinity terms": (1600, "pod affinity terms and values"),
    "preferred anti-affinity keys": (1400, "pod anti-affinity terms and values"),
    "containers": (1600, "resource requests"),
    "images": (1000, "containers"),
    "extended resources": (900, "resource requests"),
    "host ports": (1500, "container ports"),
    "volumes": (1500, "volumes"),
    "labels": (1501, "labels"),
}


@pytest.mark.parametrize("shape", LARGEST)
def test_names_the_largest_part(shape: str):
    assert largest_part(hostile(shape, "p", 0.1)) == LARGEST[shape]
