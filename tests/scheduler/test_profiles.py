"""Exchanging plugins and configuration of an engine: all or nothing, and nothing of the old stays behind."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.config import SchedulerConfiguration, load_config
from mooring.framework import Plugin, PodListener
from mooring.loading import plugin_spec
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.scheduler.profile import ProfileError
from mooring.scheduler.profiles import swap
from mooring.testing import make_node, make_pod

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {{multiPoint: {{enabled: [{enabled}]}}}}
  pluginConfig: [{{name: VolumeBinding, args: {{bindTimeoutSeconds: {seconds}}}}}]
"""


class Ear(PodListener):
    """Counts pods."""


class Old(Plugin):
    def setup(self) -> None:
        self.ear = Ear()
        self.handle.listen(self.ear)

    def filter(self, state: Any, pod: Any, node: Any) -> str | None:
        return "the old one says no"


class New(Plugin):
    name = "Old"

    def filter(self, state: Any, pod: Any, node: Any) -> str | None:
        return None if node.name == "b" else "not there"


class Broken(Plugin):
    name = "Old"

    def setup(self) -> None:
        self.handle.listen(Ear())
        raise KeyError("no such thing")

    def filter(self, state: Any, pod: Any, node: Any) -> None: ...


def config(*plugins: type[Plugin], seconds: int = 1) -> SchedulerConfiguration:
    enabled = ", ".join(f"{{name: {each.name}}}" for each in plugins)
    specs = {each.name: plugin_spec(each) for each in plugins}
    return load_config(CONFIG.format(enabled=enabled, seconds=seconds), source="test", plugins=specs)


@pytest.fixture
def engine() -> Engine:
    made = Engine(config(Old), plugins={"Old": Old})
    for name in ("a", "b"):
        made.put(make_node(name).capacity(cpu="4", memory="8Gi", pods=10).obj())
    return made


def ears(engine: Engine) -> int:
    listeners = (getattr(each, "_listener", each) for each in engine.cache.table._listeners)  # users' are guarded
    return sum(isinstance(each, Ear) for each in listeners)


def test_a_pod_that_was_turned_down_is_tried_with_the_new_plugin(engine: Engine) -> None:
    engine.put(make_pod("p").obj())
    failed = engine.schedule_one()
    assert isinstance(failed, FailedAttempt)
    assert "the old one says no" in failed.failure.message
    swap(engine, config(New), {"Old": New}, {})
    assert type(engine.profiles.first.profile.plugins["Old"]) is New
    decided = engine.schedule_one()
    assert isinstance(decided, AssumedPod)
    assert decided.node_name == "b"
    assert ears(engine) == 0


class RejectsState(Plugin):
    name = "Old"

    def setup(self) -> None:
        self.handle.listen(Ear())

    def take_state(self, state: Any) -> None:
        raise KeyError("no such thing")

    def filter(self, state: Any, pod: Any, node: Any) -> None: ...


class FailsToRegister(Plugin):
    name = "Old"

    def setup(self) -> None:
        self.handle.listen(Ear())

    def events_to_register(self) -> Any:
        raise KeyError("no such thing")

    def filter(self, state: Any, pod: Any, node: Any) -> None: ...


@pytest.mark.parametrize("failing", [Broken, RejectsState, FailsToRegister])
def test_a_failing_build_leaves_the_active_profiles_and_handles_untouched(
    engine: Engine, failing: type[Plugin]
) -> None:
    profiles, runner = engine.profiles, engine.profiles.first
    plugins, handles = dict(runner.profile.plugins), dict(runner.profile.plugin_handles)
    state = {name: dict(vars(handle)) for name, handle in {**handles, "profile": runner.handle}.items()}
    with pytest.raises(ProfileError, match="no such thing"):
        swap(engine, config(failing, seconds=2), {"Old": failing}, {})
    assert engine.profiles is profiles
    assert (runner.profile.plugins, runner.profile.plugin_handles) == (plugins, handles)
    assert {name: vars(handle) for name, handle in {**handles, "profile": runner.handle}.items()} == state
    assert runner.handle.runner is runner
    assert ears(engine) == 1


def test_building_profiles_does_not_activate_them(engine: Engine) -> None:
    runner = engine.profiles.first
    built = engine.profiles.renewed(config(New), {"Old": New})
    assert runner.handle.runner is runner
    built.activate()
    assert runner.handle.runner is built.first


def test_built_in_plugins_are_made_anew_only_with_other_arguments_and_leave_no_listeners(engine: Engine) -> None:
    def listeners() -> int:
        table, objects = engine.cache.table, engine.cache.objects
        return len(table._listeners) + sum(len(each._listeners) for each in objects._listers.values())

    first, count = dict(engine.profiles.first.profile.plugins), listeners()
    for seconds in (2, 3, 4):
        before = engine.profiles.first.profile.plugins
        swap(engine, config(Old, seconds=seconds), {"Old": Old}, {})
        now = engine.profiles.first.profile.plugins
        assert {name for name in now if now[name] is not before[name]} == {"VolumeBinding"}
    assert now["NodeResourcesFit"] is first["NodeResourcesFit"]
    assert listeners() == count


def test_a_profile_that_goes_lets_its_pods_go(engine: Engine) -> None:
    engine.put(make_pod("p").obj())
    other = load_config(
        CONFIG.format(enabled="", seconds=1).replace("- plugins", "- schedulerName: other\n  plugins"), source="test"
    )
    swap(engine, other, {}, {})
    assert engine.schedule_one() is None
    engine.put(make_pod("q").scheduler("other").obj())
    assert isinstance(engine.schedule_one(), AssumedPod)
