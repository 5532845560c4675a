"""Handles own the subscriptions of their plugins, describe themselves, and retry pods."""

from __future__ import annotations

import inspect
import pydoc
import re

import pytest

from mooring.api.core import Service
from mooring.api.meta import ObjectMeta
from mooring.config import load_config
from mooring.framework import ClusterEvent, CycleState, Handle, NodeInfo, Plugin, Pod, PodListener
from mooring.loading import plugin_spec
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
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


def test_help_lists_the_attributes_with_descriptions() -> None:
    text = pydoc.render_doc(Handle, renderer=pydoc.plaintext)
    described = dict(re.findall(r"^ \|\s+(\w+): (\w.*)$", text, re.MULTILINE))
    public = {name for name in vars(Handle()) if not name.startswith("_")}
    assert public <= described.keys()
    properties = {name for name, member in vars(Handle).items() if isinstance(member, property)}
    assert all(inspect.getdoc(getattr(Handle, name)) for name in properties)


CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: Shop}]}}
"""


class Shop(Plugin):
    open = False

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> str | None:
        return None if self.open else "the shop is closed"

    def events_to_register(self) -> list[ClusterEvent]:
        return []


def test_a_plugin_retries_the_pods_that_it_rejected() -> None:
    config = load_config(CONFIG, source="test", plugins={"Shop": plugin_spec(Shop)})
    now = 1000.0
    engine = Engine(config, plugins={"Shop": Shop}, clock=lambda: now)
    engine.put(make_node("n").capacity(cpu="1", memory="1Gi", pods="10").obj())
    engine.put(make_pod("p").obj())
    assert isinstance(engine.schedule_one(), FailedAttempt)
    now += 60
    assert not engine.queue.ready
    shop = engine.profiles.first.profile.plugins["Shop"]
    assert isinstance(shop, Shop)
    shop.open = True
    shop.handle.retry()
    assert engine.queue.ready
    assert isinstance(engine.schedule_one(), AssumedPod)


def test_without_a_queue_or_with_a_closed_handle_a_retry_has_no_effect() -> None:
    Handle().retry()
    asked: list[tuple[str, str]] = []
    plugin = Handle(retry=lambda *given: asked.append(given)).for_plugin("Mine")
    plugin.retry()
    plugin.close()
    plugin.retry()
    assert asked == [("default-scheduler", "Mine")]
