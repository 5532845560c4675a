"""The heap keeps pods in order however they come, change and go."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.scheduler.queue.lazy_heap import LazyHeap, key_from_less
from mooring.scheduler.queue.queued_pod import QueuedPod, SortKey, priority_key
from mooring.testing import make_pod


def less(a: QueuedPod, b: QueuedPod) -> bool:
    return priority_key(a) < priority_key(b)


ORDERS: list[Any] = [pytest.param(priority_key, id="key"), pytest.param(key_from_less(less), id="less")]


def queued(name: str, priority: int, time: float = 0.0) -> QueuedPod:
    return QueuedPod.new(make_pod(name).priority(priority).obj(), time)


def names(heap: LazyHeap) -> list[str]:
    found = []
    while (pod := heap.pop()) is not None:
        found.append(pod.pod.name)
    return found


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], []),
        ([("a", 1, 0), ("b", 2, 0)], ["b", "a"]),
        ([("a", 1, 5), ("b", 1, 4)], ["b", "a"]),
        ([("a", 1, 5), ("b", 1, 5), ("c", 1, 5)], ["a", "b", "c"]),
        ([("a", -1, 0), ("b", 0, 9), ("c", -5, 0)], ["b", "a", "c"]),
    ],
    ids=["empty", "priority", "time", "arrival", "negative priority"],
)
def test_order(order: SortKey, pods: list[tuple[str, int, float]], expected: list[str]) -> None:
    heap = LazyHeap(order)
    for pod in pods:
        heap.push(queued(*pod))
    assert [pod.pod.name for pod in heap] == expected
    assert names(heap) == expected


@pytest.mark.parametrize("order", ORDERS)
def test_a_pod_among_equals_keeps_its_turn_when_it_is_reordered(order: SortKey) -> None:
    heap = LazyHeap(order)
    pods = [queued(name, 1) for name in "abc"]
    for pod in pods:
        heap.push(pod)
    heap.reorder(pods[0])
    pods[1].pod = make_pod("b").priority(2).obj()
    heap.reorder(pods[1])
    pods[1].pod = make_pod("b").priority(1).obj()
    heap.reorder(pods[1])
    assert names(heap) == ["a", "b", "c"]


@pytest.mark.parametrize("order", ORDERS)
def test_what_became_of_a_removed_pod_does_not_disturb_the_rest(order: SortKey) -> None:
    heap = LazyHeap(order)
    pods = [queued(f"p{number}", 0, time=number) for number in range(20)]
    for pod in pods:
        heap.push(pod)
    for pod in pods[::3]:
        heap.remove(pod.key)
        pod.timestamp = 100.0 - pod.timestamp
    assert names(heap) == [f"p{number}" for number in range(20) if number % 3]


def test_pushing_a_key_again_replaces_it() -> None:
    heap = LazyHeap(priority_key)
    heap.push(queued("a", 1))
    heap.push(queued("a", 5))
    heap.push(queued("b", 3))
    assert len(heap) == 2
    assert names(heap) == ["a", "b"]


def test_struck_entries_do_not_pile_up() -> None:
    heap = LazyHeap(priority_key)
    pod = queued("a", 0)
    for priority in range(10_000):
        pod.pod = make_pod("a").priority(priority).obj() if priority % 100 == 0 else pod.pod
        heap.push(pod)
        heap.remove(pod.key)
    assert len(heap._heap) + len(heap._run) < 200


def test_order_outlives_tidying_up() -> None:
    heap = LazyHeap(priority_key)
    pods = [queued(f"p{number}", number) for number in range(500)]
    for pod in pods:
        heap.push(pod)
    for pod in pods[::-1][:400]:
        heap.remove(pod.key)
    assert len(heap._heap) + len(heap._run) < 300
    assert names(heap) == [f"p{number}" for number in range(99, -1, -1)]


Step = tuple[str, int, int]


@pytest.mark.parametrize("order", ORDERS)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["push", "remove", "reorder", "pop"]), st.integers(0, 5), st.integers(0, 3))
    )
)
def test_agrees_with_a_sorted_list(order: SortKey, steps: list[Step]) -> None:
    heap = LazyHeap(order)
    model: dict[str, tuple[int, int, QueuedPod]] = {}
    for arrival, (step, number, priority) in enumerate(steps):
        pod = queued(f"p{number}", priority)
        if step == "push":
            heap.push(pod)
            model[pod.key] = (-priority, arrival, pod)
        elif step == "remove":
            known = model.pop(pod.key, None)
            assert heap.remove(pod.key) is (known and known[2])
        elif step == "reorder" and pod.key in model:
            _, first, known_pod = model[pod.key]
            known_pod.pod = pod.pod
            heap.reorder(known_pod)
            model[pod.key] = (-priority, first, known_pod)
        elif step == "pop":
            best = min(model.values(), key=lambda entry: entry[:2], default=None)
            assert heap.peek() is (best and best[2])
            assert heap.pop() is (best and best[2])
            if best is not None:
                del model[best[2].key]
        assert len(heap) == len(model)
        assert [pod.key for pod in heap] == [entry[2].key for entry in sorted(model.values(), key=lambda e: e[:2])]
        assert all(key in heap and heap.get(key) is entry[2] for key, entry in model.items())
