"""ScheduleOne: a search, Reserve and Permit are separate steps of a scheduling cycle."""

from __future__ import annotations

from mooring.config import default_config
from mooring.scheduler.attempt_results import AssumedPod, ScheduleResult
from mooring.scheduler.engine import Engine
from mooring.testing import make_node, make_pod


def test_reserve_and_permit_are_steps_of_their_own() -> None:
    engine = Engine(default_config(), clock=lambda: 1000.0)
    engine.put(make_node("n").capacity(cpu="2", memory="4Gi", pods=9).obj())
    engine.put(make_pod("p").req(cpu="1").obj())
    assert engine.ready
    queued = engine.queue.pop()
    assert queued is not None
    runner = engine.profiles.runners[queued.profile]
    steps = engine.attempt(queued, runner)
    try:
        next(steps)
    except StopIteration as done:
        result = done.value
    assert isinstance(result, ScheduleResult)
    assert not engine.cache.table.pods
    reserved = engine.reserve(queued, runner, result, 0.0)
    assert isinstance(reserved, AssumedPod)
    assert list(engine.cache.table.pods) == [queued.uid]
    permitted = engine.permit(reserved)
    assert isinstance(permitted, AssumedPod)
    assert not permitted.waits
    engine.decided.append(permitted)
    assert engine.ready
    assert engine.schedule_one() is permitted
    assert not engine.ready
