"""Decision records: bounded, and never without those of pods that wait."""

from __future__ import annotations

import gc
import tracemalloc

import msgspec
import pytest

from mooring.observe.decision_records import Candidate, Decision, DecisionRecords, Phases, Preemption, Verdict
from mooring.observe.explanation import DecisionView, view


def placed(name: str, *, time: float = 0.0, uid: str = "", candidates: int = 4) -> Decision:
    return Decision(
        pod=name,
        uid=uid or name,
        profile="default-scheduler",
        time=time,
        attempt=1,
        outcome="bound",
        phases=Phases(pre_filter=0.001, filter=0.002, score=0.003),
        node="n0",
        evaluated=10,
        feasible=9,
        scorers=("A", "B"),
        candidates=tuple(Candidate(f"n{i}", 100 + int(time) - i, (60, 40 - i)) for i in range(candidates)),
    )


def waiting(name: str, *, time: float = 0.0, uid: str = "", verdicts: tuple[Verdict, ...] = ()) -> Decision:
    return Decision(
        pod=name,
        uid=uid or name,
        profile="default-scheduler",
        time=time,
        attempt=2,
        outcome="unschedulable",
        phases=Phases(),
        message="0/1 nodes are available",
        verdicts=verdicts,
    )


def test_the_oldest_settled_go_first():
    records = DecisionRecords(limit=3)
    for name in "abcd":
        records.put(placed(name))
    assert [records.get(name) is not None for name in "abcd"] == [False, True, True, True]


def test_pods_that_wait_are_never_dropped():
    records = DecisionRecords(limit=2, max_bytes=3000)
    for number in range(50):
        records.put(waiting(f"w{number}"))
    for number in range(20):
        records.put(placed(f"p{number}"))
    assert all(records.get(f"w{number}") is not None for number in range(50))
    assert not any(records.get(f"p{number}") for number in range(20))  # the waiting ones need all the room


def test_bytes_bound_the_settled():
    records = DecisionRecords(limit=1000, max_bytes=20_000)
    for number in range(100):
        records.put(placed(f"p{number}"))
    assert 5 < len(records) < 30
    assert records.bytes <= 20_000


def test_a_newer_decision_replaces_the_older():
    records = DecisionRecords()
    records.put(waiting("p"))
    records.put(placed("p"))
    assert len(records) == 1
    assert records.get("p").outcome == "bound"
    size = records.bytes
    records.put(placed("p"))
    assert records.bytes == size
    records.put(waiting("p"))
    assert (len(records), records.get("p").outcome) == (1, "unschedulable")


@pytest.mark.parametrize(("uid", "kept"), [("p", False), ("other", True)])
def test_a_pod_that_is_gone_counts_as_settled_unless_it_is_a_namesake(uid, kept):
    records = DecisionRecords(limit=0)
    records.put(waiting("p"))
    records.finish("p", uid)
    assert (records.get("p") is not None) is kept
    assert (records.bytes > 0) is kept


def test_pods_with_the_same_verdicts_share_them():
    records = DecisionRecords()
    one, other = ((Verdict("Fit", "Unschedulable", ("x",), 5, ("n1",)),) for _ in range(2))
    assert one is not other
    assert records.share(one) is records.share(other)


def test_the_newest_come_first():
    records = DecisionRecords()
    for name, time in (("a", 3.0), ("b", 1.0)):
        records.put(placed(name, time=time))
    records.put(waiting("c", time=2.0))
    assert [decision.pod for decision in records.latest(2)] == ["a", "c"]


def test_the_estimate_of_bytes_is_about_right():
    gc.collect()
    records = DecisionRecords(limit=10_000, max_bytes=1 << 30)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(2000):
        records.put(placed(f"namespace-{number}/pod-{number}", time=float(number)))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.6 < records.bytes / (after - before) < 2.0


def test_a_view_is_what_json_makes_of_it():
    decision = waiting("default/p", verdicts=(Verdict("Fit", "Unschedulable", ("x",), 5, ("n1", "n2")),))
    decision.preemption = Preemption("DefaultPreemption", "Success", "", "n1", ("default/victim",))
    for each in (placed("default/q"), decision):
        shown = view(each)
        assert msgspec.json.decode(msgspec.json.encode(shown), type=DecisionView) == shown
    encoded = msgspec.to_builtins(view(decision))
    assert encoded["verdicts"] == [
        {"plugin": "Fit", "code": "Unschedulable", "reasons": ["x"], "nodes": 5, "examples": ["n1", "n2"]}
    ]
    assert encoded["preemption"]["nominatedNode"] == "n1"
    assert msgspec.to_builtins(view(placed("default/q")))["candidates"][0]["scores"] == {"A": 60, "B": 40}
