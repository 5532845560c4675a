"""The evaluator: pods that may not preempt."""

from __future__ import annotations

from mooring.config import default_config
from mooring.scheduler.cache import Cache
from mooring.scheduler.profiles import Profiles
from mooring.scheduler.schedule_one import schedule_pod
from mooring.testing import make_node, make_pod


def test_a_pod_that_may_not_preempt():
    cache = Cache()
    cache.put(make_node("a").capacity(cpu="1", pods="10").obj())
    cache.put(make_pod("low").req(cpu="1").node("a").obj())
    cycle = Profiles(default_config(), cache).first
    pod = make_pod("polite").req(cpu="1").priority(9).preemption_policy("Never").obj()
    decision = schedule_pod(cycle, pod)
    assert decision.message == (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
        "preemption: not eligible due to preemptionPolicy=Never."
    )
