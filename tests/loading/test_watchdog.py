"""The watchdog: plugin calls that hang are interrupted, wherever they hang, and nothing else is."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mooring.api.core import Service
from mooring.columns.node_info import PodListener
from mooring.framework import ClusterEvent, Plugin
from mooring.framework.events import ActionType, Hint
from mooring.framework.plugin_errors import HangsError
from mooring.loading import configuration, watchdog
from mooring.loading.plugin_options import PluginOptions
from mooring.loading.running_calls import may_interrupt, plugin_call
from mooring.loading.watchdog import Watchdog
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.scheduler.profile import ProfileError
from mooring.scheduler.profiles import swap
from mooring.testing import make_node, make_pod
from tests.waiting import PATIENCE

pytestmark = pytest.mark.timeout(60)
TIMEOUT = 0.1


def spin(*_: Any) -> Any:
    while True:
        pass


def sleep(*_: Any) -> Any:
    time.sleep(60)


def wait(*_: Any) -> Any:
    threading.Event().wait(60)


def catch_exceptions(*_: Any) -> Any:
    while True:
        with contextlib.suppress(Exception):
            time.sleep(60)


def catch_some(*_: Any) -> Any:
    """Catch everything a few times."""
    for _again in range(3):
        with contextlib.suppress(BaseException):
            spin()
    spin()


HANGS = [spin, sleep, wait, catch_exceptions, catch_some]


class World:
    """An engine with one plugin, two nodes and a watchdog."""

    def __init__(self, cls: type[Plugin], config: str | None = None) -> None:
        self.logged: list[str] = []
        self.reports: list[tuple[str, dict[str, Any]]] = []
        self.engine = Engine(
            configuration(config, plugins={cls.name: cls}, source=""),
            plugins={cls.name: cls},
            clock=lambda: 1000.0,
            options={cls.name: PluginOptions(timeout=TIMEOUT)},
            warn=lambda event, **details: self.logged.append(f"{event} {details.get('error', '')}"),
        )
        self.watchdog = Watchdog(self.engine.guards, report=self._report)
        for name in ("a", "b"):
            self.engine.put(node(name))

    def _report(self, event: str, **details: Any) -> None:
        self.reports.append((event, details))

    def attempt(self) -> AssumedPod | FailedAttempt | None:
        self.engine.put(make_pod("p").obj())
        outcome = self.engine.schedule_one() if self.engine.queue.ready else None
        assert outcome is None or isinstance(outcome, AssumedPod | FailedAttempt)
        return outcome

    @property
    def is_open(self) -> bool:
        return self.engine.guards.of("Mine").opened_at is not None


def node(name: str) -> Any:
    return make_node(name).capacity(cpu="4", memory="8Gi", pods=110).obj()


def plugin(**members: Any) -> type[Plugin]:
    return type("Mine", (Plugin,), members)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(watchdog, "_HEARTBEAT_SECONDS", 0.01)


@pytest.fixture
def watched() -> Iterator[Callable[..., World]]:
    started: list[World] = []

    def make(cls: type[Plugin], config: str | None = None) -> World:
        world = World(cls, config)
        world.watchdog.start()
        started.append(world)
        return world

    yield make
    for world in started:
        world.watchdog.stop()
    assert signal.getsignal(signal.SIGURG) == signal.SIG_DFL


POINTS: dict[str, Callable[[Callable[..., Any]], dict[str, Any]]] = {
    "pre_filter": lambda hang: {"pre_filter": lambda self, state, pod, nodes: hang()},
    "filter": lambda hang: {"filter": lambda self, state, pod, node: hang()},
    "filter_nodes": lambda hang: {"filter_nodes": lambda self, state, pod, nodes: hang()},
    "score": lambda hang: {"score": lambda self, state, pod, node: hang()},
    "score_nodes": lambda hang: {"score_nodes": lambda self, state, pod, nodes: hang()},
    "reserve": lambda hang: {"reserve": lambda self, state, pod, node_name: hang()},
    "permit": lambda hang: {"permit": lambda self, state, pod, node_name: hang()},
}


@pytest.mark.parametrize("hang", HANGS)
@pytest.mark.parametrize("point", POINTS)
def test_a_call_that_hangs_fails_the_attempt_and_opens_the_breaker(
    watched: Callable[..., World], point: str, hang: Callable[..., Any]
) -> None:
    world = watched(plugin(**POINTS[point](hang)))
    outcome = world.attempt()
    assert isinstance(outcome, FailedAttempt)
    assert "did not return within 0.1 s" in outcome.failure.message
    assert world.is_open
    assert any("plugin switched off after a call that hung; attempts fail" in each for each in world.logged)
    event, details = world.reports[0]
    assert re.match(r"\S*test_watchdog\.py:\d+ in \w+: plugin Mine has not returned for ", event), event
    assert details["plugin"] == "Mine"
    assert "site-packages/_pytest" not in details["stack"], "only the plugin's part of the stack"


def test_pre_enqueue(watched: Callable[..., World]) -> None:
    world = watched(plugin(pre_enqueue=lambda self, pod: spin()))
    assert world.attempt() is None
    assert world.is_open
    world.engine.put(make_pod("q").obj())  # it is not called again


def test_a_hint(watched: Callable[..., World]) -> None:
    calls: list[int] = []

    def hint(*_: Any) -> Hint:
        calls.append(1)
        return spin()  # type: ignore[no-any-return]

    def events(self: Any) -> list[ClusterEvent]:
        return [ClusterEvent("Node", ActionType.ADD, hint)]

    world = watched(plugin(filter=lambda self, state, pod, node: "no", events_to_register=events))
    world.engine.put(make_pod("q").obj())
    world.engine.schedule_one()
    assert isinstance(world.attempt(), FailedAttempt)
    world.engine.put(node("c"))
    assert world.is_open
    assert calls == [1], "the other pod is requeued without the hint"


class Spinning(PodListener):
    def __init__(self) -> None:
        self.calls = 0

    def pod_added(self, info: Any, row: int) -> None:
        self.calls += 1
        spin()


def test_a_listener_is_called_no_more(watched: Callable[..., World]) -> None:
    listener, calls = Spinning(), []

    def changed(old: Any, new: Any) -> None:
        calls.append(new)
        spin()

    def setup(self: Any) -> None:
        self.handle.listen(listener)
        self.handle.lister(Service).listen(changed)

    world = watched(plugin(setup=setup, filter=lambda self, state, pod, node: None))
    for name in ("x", "y"):
        world.engine.put(make_pod(name).node("a").obj())
        world.engine.cache.objects.put(Service())
    assert (listener.calls, len(calls)) == (1, 1)
    assert sum("did not return within 0.1 s" in each for each in world.logged) == 2


def test_setup_in_a_reload_keeps_the_last_version(watched: Callable[..., World]) -> None:
    good = plugin(filter=lambda self, state, pod, node: None)
    world = watched(good)
    before = world.engine.profiles
    bad = plugin(filter=lambda self, state, pod, node: None, setup=lambda self: spin())
    with pytest.raises(ProfileError, match=r"did not return within 0\.1 s"):
        swap(world.engine, before.config, {"Mine": bad}, world.engine.guards.options)
    assert world.engine.profiles is before
    assert isinstance(world.attempt(), AssumedPod)


def test_a_function_that_mooring_calls_for_the_plugin(watched: Callable[..., World]) -> None:
    """Mooring's code is between the plugin and the function that hangs."""

    def index(self: Any, state: Any, pod: Any, nodes: Any) -> None:
        self.handle.lister(Service).index(spin)

    world = watched(plugin(pre_filter=index))
    world.engine.cache.objects.put(Service())
    assert isinstance(world.attempt(), FailedAttempt)
    assert world.is_open


async def test_a_coroutine_that_never_awaits(watched: Callable[..., World]) -> None:
    async def pre_bind(self: Any, state: Any, pod: Any, node_name: str) -> None:
        await asyncio.sleep(0)
        spin()

    world = watched(plugin(pre_bind=pre_bind))
    assumed = world.attempt()
    assert isinstance(assumed, AssumedPod)
    failed = await world.engine.bind(assumed)
    assert failed is not None
    assert "did not return within 0.1 s" in failed.failure.message


async def test_a_coroutine_that_runs_for_long_in_short_steps_does_not_hang() -> None:
    async def pre_bind(self: Any, state: Any, pod: Any, node_name: str) -> None:
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            time.sleep(0.02)
            await asyncio.sleep(0)

    world = World(plugin(pre_bind=pre_bind))
    world.engine.guards.options["Mine"] = PluginOptions(timeout=1.0)  # a busy machine may take long for a step
    world.watchdog.start(asyncio.get_running_loop())
    try:
        assumed = world.attempt()
        assert isinstance(assumed, AssumedPod)
        assert await world.engine.bind(assumed) is None
    finally:
        world.watchdog.stop()
    assert world.reports == []


def test_many_short_calls_do_not_hang(watched: Callable[..., World]) -> None:
    world = watched(plugin(filter=lambda self, state, pod, node: time.sleep(0.15)))
    world.engine.guards.options["Mine"] = PluginOptions(timeout=1.0)  # a busy machine may take long for a call
    for number in range(8):
        world.engine.put(node(f"n{number}"))
    assert isinstance(world.attempt(), AssumedPod)
    assert world.reports == []


def test_mooring_s_own_code_is_not_interrupted() -> None:
    """A plugin that calls Mooring in a loop is interrupted between those calls."""
    states: list[bool] = []
    modules = {"tests.loading": "Mine"}

    class Mine(Plugin):
        def filter(self, state: Any, pod: Any, node: Any) -> None:
            frame = sys._getframe()
            states.append(may_interrupt(frame, frame, modules))

            def key(_: Any) -> None:
                inner = sys._getframe()
                mooring = inner.f_back
                states.extend([may_interrupt(inner, frame, modules), may_interrupt(mooring, frame, modules)])
                assert plugin_call(mooring, modules) is frame, "the call lasts while it calls Mooring"

            self.handle.lister(Service).index(key)

    world = World(Mine)
    world.engine.cache.objects.put(Service())
    world.attempt()
    assert states[:3] == [True, True, False]


def test_a_call_that_has_just_returned_is_not_interrupted() -> None:
    frames: list[Any] = []

    class Mine(Plugin):
        def filter(self, state: Any, pod: Any, node: Any) -> None:
            frames.append(sys._getframe())

    world = World(Mine)
    world.attempt()
    world.watchdog._target = frames[0]
    world.watchdog._raise_in_call(signal.SIGURG, sys._getframe())
    with pytest.raises(HangsError):
        world.watchdog._raise_in_call(signal.SIGURG, frames[0])


def test_a_call_on_another_thread_is_only_reported() -> None:
    released = threading.Event()

    class Mine(Plugin):
        def filter(self, state: Any, pod: Any, node: Any) -> None:
            released.wait(PATIENCE)

    def run() -> None:
        world = World(Mine)
        worlds.append(world)
        world.watchdog.start()
        outcomes.append(world.attempt())
        world.watchdog.stop()

    worlds: list[World] = []
    outcomes: list[Any] = []
    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive() and not (worlds and worlds[0].reports):
        time.sleep(0.01)
    released.set()
    thread.join(PATIENCE)
    assert isinstance(outcomes[0], AssumedPod)
    assert "is not interrupted, because the scheduler does not run on the main thread" in worlds[0].reports[0][0]
    assert worlds[0].reports[0][1]["pod"] == "default/p"
    assert worlds[0].engine.guards.health.hangs["Mine", "filter"] == 1


def test_a_call_that_cannot_be_interrupted_is_reported_again(
    watched: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "_STUCK_SECONDS", 0.1)

    def catch_everything(self: Any, state: Any, pod: Any, node: Any) -> None:
        while len(world.reports) < 2:
            with contextlib.suppress(BaseException):
                time.sleep(60)

    world = watched(plugin(filter=catch_everything))
    world.attempt()
    first, second = (event for event, _ in world.reports[:2])
    assert "the call is interrupted" in first
    assert "the call cannot be interrupted: it is in a C function" in second


def test_a_call_is_interrupted_early_if_the_process_is_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "_STOP_SECONDS", 0.1)
    world = World(plugin(filter=lambda self, state, pod, node: spin()))
    world.engine.guards.options["Mine"] = PluginOptions(timeout=600)
    world.watchdog.start()
    try:
        world.watchdog.hurry()
        assert isinstance(world.attempt(), FailedAttempt)
    finally:
        world.watchdog.stop()


async def test_a_loop_that_waits_is_not_one_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that waits for the lease has nothing to decide for hours."""
    monkeypatch.setattr(watchdog, "_LOOP_SECONDS", 1.0)
    told = threading.Event()
    reports: list[str] = []

    def report(event: str, **details: Any) -> None:
        reports.append(f"{event} {details['stack']}")
        told.set()

    observer = Watchdog(World(plugin()).engine.guards, report=report)
    observer.start(asyncio.get_running_loop())
    try:
        await asyncio.sleep(1.5)
        assert reports == []
        # Nothing else can run now.
        assert told.wait(PATIENCE)
    finally:
        observer.stop()
    assert reports[0].startswith("The scheduler's event loop hangs")
    assert "test_a_loop_that_waits" in reports[0]
