"""Handles own the subscriptions of their plugins."""

from __future__ import annotations

import pytest

from mooring.api.core import Service
from mooring.api.meta import ObjectMeta
from mooring.framework import Handle, PodListener
from mooring.testing import make_node, make_pod


class Counting(PodListener):
    def __init__(self) -> None:
        self.pods = 0

    def pod_added(self, info: object, row: int) -> None:
        self.pods += 1


def service(name: str) -> Service:
    return Service(metadata=ObjectMeta(name=name, namespace="default"))


def place(handle: Handle, name: str) -> None:
    handle.table.add_pod(make_pod(name).node("n").obj())


@pytest.fixture
def handle() -> Handle:
    made = Handle()
    made.table.add_node(make_node("n").obj())
    return made


def test_closing_a_handle_ends_its_subscription_to_pods(handle: Handle) -> None:
    first, second = handle.for_plugin(), handle.for_plugin()
    closed, other = Counting(), Counting()
    first.listen(closed)
    second.listen(other)
    place(handle, "a")
    first.close()
    place(handle, "b")
    assert (closed.pods, other.pods) == (1, 2)


def test_closing_a_handle_ends_its_subscriptions_to_objects(handle: Handle) -> None:
    first, second = handle.for_plugin(), handle.for_plugin()
    closed: list[object] = []
    other: list[object] = []
    first.lister(Service).listen(lambda _, new: closed.append(new))
    second.lister(Service).listen(lambda _, new: other.append(new))
    handle.objects.put(service("a"))
    first.close()
    handle.objects.put(service("b"))
    assert (len(closed), len(other)) == (1, 2)


def test_a_closed_handle_takes_no_new_subscriptions(handle: Handle) -> None:
    plugin, late = handle.for_plugin(), Counting()
    plugin.close()
    plugin.listen(late)
    place(handle, "a")
    assert late.pods == 0


def test_a_subscription_can_be_ended_by_itself(handle: Handle) -> None:
    heard: list[object] = []
    unsubscribe = handle.for_plugin().lister(Service).listen(lambda _, new: heard.append(new))
    unsubscribe()
    handle.objects.put(service("a"))
    assert heard == []


def test_the_listers_of_all_handles_show_the_same_objects(handle: Handle) -> None:
    lister, index = handle.for_plugin().lister(Service), handle.lister(Service).index(lambda each: each.name)
    before = lister.version
    handle.objects.put(service("a"))
    assert lister.version > before
    assert lister.get("a", "default") is handle.lister(Service).get("a", "default")
    assert (len(lister), index.count("a")) == (1, 1)


def test_all_plugins_use_the_runner_of_the_active_profile(handle: Handle) -> None:
    plugin = handle.for_plugin()
    with pytest.raises(RuntimeError, match="not active"):
        _ = plugin.runner
    runner = object()
    handle.runner = runner  # type: ignore[assignment]  # any object will do
    assert plugin.runner is runner
