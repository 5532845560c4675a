"""Batch sessions on the embedded cluster: gangs, queues, evictions, a configuration that changes, binds that fail."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from mooring.api.devices import ResourceClaim
from mooring.checkpoints import PausableSteps
from mooring.cli.explanation_tables import pod_parts
from mooring.config import ConfigError
from mooring.kube import Client, NotFound
from mooring.live import LiveScheduler
from mooring.live.batch import batch_scheduler
from mooring.live.batch.batch_settings import BatchSettings
from mooring.live.claim_writer import ApiClaimWriter
from mooring.live.endpoints.plugin_status import plugin_status
from mooring.loading import Requested, find_plugins
from mooring.loading.plugin_rows import PluginRow
from mooring.loading.plugin_sources import PluginEntry, PluginSources
from mooring.loading.setup_files import SetupFiles
from mooring.scheduler.pod_explanation import explain, explain_with_pauses
from tests.live.batch.batch_world import CLAIMS, CONFIG, PODS, SCHEDULING, World, has_reason, reached, scheduling
from tests.live.volcano_crds import POD_GROUP, POD_GROUP_WITH_STATUS, QUEUE
from tests.log_capture import capture_logs
from tests.waiting import PATIENCE, until


class Magic:
    """Draws every pod to one node."""

    name = "magic"

    class Args:
        node: str = "node-0"

    def on_session_open(self, session: Any) -> None:
        session.add_node_order(lambda task, node: 10_000.0 if node.name == self.args.node else 0.0)


async def _phase(world: World, name: str, phase: str) -> bool:
    return (await world.group(name)).get("phase") == phase


@pytest.mark.parametrize("definition", [POD_GROUP, POD_GROUP_WITH_STATUS], ids=["plain", "status"])
async def test_a_gang_is_bound_whole_or_not_at_all(world: World, definition: dict[str, Any]) -> None:
    await world.define(QUEUE, definition)
    await world.gang("fits", 4, cpu="2")
    await world.gang("huge", 9, cpu="3")
    async with scheduling(world) as scheduler:
        await until(lambda: reached(world, "fits", 4))
        status = await until(lambda: world.group("huge"))
        await until(lambda: _phase(world, "fits", "Running"))
        assert await world.count("huge") == 0
        assert scheduler.engine.observer is not None
        metrics = scheduler.engine.observer.metrics
        assert metrics is not None
        # One of the nine may be promised a node that has room, if the four did not take some of each.
        waiting = re.compile(r'volcano_unschedule_task_count{job_id="default/huge"} [89]\.0')
        allocated = re.compile(r'volcano_queue_allocated_milli_cpu{queue_name="default"} 8000\.0')
        await until(lambda: waiting.search(metrics.render()[0].decode()))
        await until(lambda: allocated.search(metrics.render()[0].decode()))
        assert status["conditions"][0]["reason"] == "NotEnoughResources"
        await until(lambda: has_reason(world, "huge-task-0", {"Schedulable", "Unschedulable"}))


async def test_a_session_pauses_between_the_tasks_of_a_gang(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gang of many large pods does not block the event loop."""
    pauses: list[str | None] = []

    class Steps(PausableSteps[str, None, None]):
        def advance(self, value: None = None) -> bool:
            ended = super().advance(value)
            pauses.append(None if ended else self.yielded or "pause")
            return ended

    monkeypatch.setattr("mooring.live.batch.batch_scheduler._SLICE_SECONDS", 0.0)
    monkeypatch.setattr("mooring.live.batch.batch_scheduler.PausableSteps", Steps)
    await world.define(QUEUE, POD_GROUP)
    await world.gang("wide", 12, cpu="1")
    async with scheduling(world):
        await until(lambda: reached(world, "wide", 12))
    assert pauses.count("pause") >= 12, "at least one for each task"


async def test_events_about_groups_are_those_of_volcano(world: World) -> None:
    await world.define(QUEUE, POD_GROUP)
    await world.gang("fits", 2)
    await world.gang("huge", 2, cpu="9")
    await world.gang("lost", 1, queue="nowhere")
    await world.gang("near", 1)
    await world.patch_group("near", {"spec": {"networkTopology": {"mode": "hard"}}})
    async with scheduling(world):
        scheduled = await until(lambda: world.core_event("PodGroup", "fits", "Scheduled"))
        waiting = await until(lambda: world.core_event("PodGroup", "huge", "Unschedulable"))
        await until(lambda: world.core_event("PodGroup", "near", "NotSupported"))
        lost = await until(lambda: world.core_event("PodGroup", "lost", "QueueNotFound"))
        await until(lambda: world.condition("lost", "QueueNotFound"))
        await until(lambda: world.condition("near", "NotSupported"))
        assert (await until(lambda: world.core_event("Pod", "fits-task-0", "Scheduled")))["count"] == 1
        await world.queue("nowhere")
        await until(lambda: reached(world, "lost", 1))
    assert (scheduled["type"], scheduled["message"]) == ("Normal", "pod group is ready")
    assert (waiting["type"], waiting["message"].split(":")[0]) == ("Warning", "2/2 tasks in gang unschedulable")
    assert waiting["firstTimestamp"] <= waiting["lastTimestamp"]
    assert waiting["count"] >= 1
    assert lost["message"] == 'queue "nowhere" does not exist'
    assert await world.count("near") == 0


async def test_sessions_and_cycles_keep_the_same_records(world: World) -> None:
    await world.define(QUEUE, POD_GROUP)
    await world.gang("fits", 2, cpu="2")
    await world.gang("huge", 9, cpu="5")
    async with scheduling(world) as scheduler:
        engine = scheduler.engine
        assert engine.observer is not None
        records = engine.observer.records
        assert records is not None

        def outcome(name: str) -> str:
            found = records.get(f"default/{name}")
            return found.outcome if found is not None else ""

        await until(lambda: outcome("fits-task-0") == "bound" and outcome("huge-task-8") == "unschedulable")
        made = explain(engine, "default/fits-task-0")
        assert made is not None
        assert made.decision is not None
        assert (made.state, made.node) == ("bound", (await world.placed("fits-task-0"))["fits-task-0"])
        assert made.decision.message == "by a session, with gang default/fits of queue default"
        assert (made.decision.evaluated_nodes, made.decision.feasible_nodes) == (3, 3)
        chosen, *others = made.decision.candidates
        assert chosen.node == made.node
        assert len(others) == 2, "the runners-up"
        assert {"nodeorder", "binpack"} <= set(chosen.scores)
        assert all(each.total == pytest.approx(sum(each.scores.values())) for each in made.decision.candidates)
        assert all(each.total <= chosen.total for each in others)
        shown = "\n".join(map(str, pod_parts(made)))
        assert "by a session, with gang default/fits of queue default; 3 node(s) evaluated, 3 feasible." in shown
        assert "Weighted scores of the chosen node and the next best nodes" in shown
        # The explanation of a pending pod is that of its gang.
        assert explain(engine, "default/huge-task-8") is None
        async with asyncio.timeout(PATIENCE):  # a busy machine may have too little time for a search
            while True:
                waiting = await explain_with_pauses(engine, "default/huge-task-8", scheduler.batch)
                assert waiting is not None
                if waiting.suggestions:
                    break
        assert (waiting.state, waiting.gang) == ("pending", "default/huge")
        assert all(each.text and each.node for each in waiting.suggestions)
        waits = [records.get(f"default/huge-task-{number}") for number in range(9)]
        assert all(each is not None and each.waits and each.message for each in waits)
        await world.ask("DELETE", f"{PODS}/huge-task-8")
        await until(lambda: "default/huge-task-8" not in records._waiting)


@pytest.mark.parametrize("definition", [POD_GROUP, POD_GROUP_WITH_STATUS], ids=["plain", "status"])
async def test_an_invalid_group_or_queue_gets_an_event_and_stops_nothing(
    world: World, definition: dict[str, Any]
) -> None:
    await world.define(QUEUE, definition)
    await world.queue("bad", capability={"cpu": "lots"})
    await world.gang("of-bad", 1, queue="bad")
    await world.gang("invalid", 1)
    await world.patch_group("invalid", {"spec": {"minResources": {"cpu": "1e1.5"}}})
    await world.gang("usual", 2)
    async with scheduling(world) as scheduler:
        await until(lambda: reached(world, "usual", 2))
        found = await until(lambda: world.condition("invalid", "Invalid"))
        assert found["message"].startswith("spec.minResources: cpu: '1e1.5' is not a quantity: ")
        found = await until(lambda: world.condition("of-bad", "Invalid"))
        assert found["message"].startswith('queue "bad" is invalid: spec.capability: cpu: ')
        await until(lambda: world.event("Queue", "bad", "Invalid"))
        await until(lambda: world.event("PodGroup", "invalid", "Invalid"))
        await until(lambda: has_reason(world, "invalid-task-0", {"Invalid"}))
        # Repaired, it is scheduled; meanwhile one event was enough.
        assert scheduler.batch is not None
        await world.patch_group("invalid", {"spec": {"minResources": {"cpu": "1"}}})
        await until(lambda: reached(world, "invalid", 1))
        assert (await world.event("PodGroup", "invalid", "Invalid")).get("series") is None


async def test_a_session_that_fails_is_reported_and_sessions_go_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mooring.live.batch.batch_scheduler._FIRST_FAILURE_SECONDS", 0.01)
    await world.define(QUEUE, POD_GROUP)
    await world.gang("usual", 2)
    failing = True
    real = batch_scheduler.action_steps

    def fail(*arguments: Any) -> Any:
        if failing:
            raise ZeroDivisionError("a bug")
        return real(*arguments)

    monkeypatch.setattr(batch_scheduler, "action_steps", fail)
    with capture_logs() as logs:
        async with scheduling(world) as scheduler:
            assert scheduler.batch is not None
            await until(lambda: [each for each in logs if each["event"] == "a session failed"])
            await world.pod("plain", group="", cpu="1", scheduler="default-scheduler")
            await until(lambda: reached(world, "plain", 1))
            failing = False
            await until(lambda: reached(world, "usual", 2))
    assert len([each for each in logs if each["event"] == "a session failed"]) == 1


async def test_queues_and_definitions_may_come_later(world: World) -> None:
    async with scheduling(world) as scheduler:
        assert scheduler.batch is not None
        await world.define(QUEUE, POD_GROUP)
        await world.gang("late", 2)
        await until(lambda: reached(world, "late", 2))
        names = {each["metadata"]["name"] for each in (await world.ask("GET", f"{SCHEDULING}/queues"))["items"]}
        assert {"root", "default"} <= names
        await until(lambda: _allocated(world, "root", "2"))
        assert not await scheduler.cache_differences()


async def _allocated(world: World, queue: str, cpu: str) -> bool:
    found = await world.ask("GET", f"{SCHEDULING}/queues/{queue}")
    return bool(found.get("status", {}).get("allocated", {}).get("cpu") == cpu)


async def test_queues_share_by_weight(world: World) -> None:
    await world.define(QUEUE, POD_GROUP)
    await world.queue("small", weight=1)
    await world.queue("large", weight=3)
    await world.gang("s", 12, queue="small", least=1)
    await world.gang("l", 12, queue="large", least=1)
    async with scheduling(world):
        await until(lambda: reached(world, "l-", 9))
        await until(lambda: reached(world, "s-", 3))


async def test_a_queue_takes_back_what_it_deserves(world: World) -> None:
    await world.define(QUEUE, POD_GROUP)
    await world.queue("first")
    await world.queue("second")
    await world.gang("a", 12, queue="first", least=1)
    async with scheduling(world):
        await until(lambda: reached(world, "a-", 12))
        await world.gang("b", 6, queue="second")
        await until(lambda: reached(world, "b-", 6))
        assert await world.count("a-") == 6


PROTECT = """
from mooring.framework import Plugin

class Protect(Plugin):
    def may_evict(self, pod, victim):
        return not victim.name.endswith(("-0", "-1", "-2", "-3"))
"""


async def test_a_plugin_of_a_profile_protects_pods_from_sessions(world: World, tmp_path: Path) -> None:
    """Twelve pods use all cores; the plugin protects four of them, and the other queue deserves half of the cores."""
    (tmp_path / "protect.py").write_text(PROTECT)
    profile = "profiles: [{plugins: {multiPoint: {enabled: [{name: Protect}]}}}]\n"
    (tmp_path / "scheduler.yaml").write_text(CONFIG + profile)
    files = SetupFiles(tmp_path / "scheduler.yaml", Requested(plugins=(("Protect", tmp_path / "protect.py"),)))
    await world.define(QUEUE, POD_GROUP)
    await world.queue("first")
    await world.queue("second")
    await world.gang("a", 12, queue="first", least=1)
    async with scheduling(world, files):
        await until(lambda: reached(world, "a-", 12))
        await world.gang("b", 6, queue="second")
        await until(lambda: reached(world, "b-", 6))
        assert {f"a-task-{number}" for number in range(4)} <= (await world.placed("a-")).keys()


async def test_editing_the_file_takes_effect_and_a_bad_one_is_left_aside(world: World) -> None:
    await world.define(QUEUE, POD_GROUP)
    with capture_logs() as logs:
        async with scheduling(world, plugins={"magic": Magic}) as scheduler:
            assert scheduler.batch is not None
            world.conf.write_text("actions: nonsense")
            await until(lambda: any("last good one" in line["event"] for line in logs))
            await world.gang("before", 1)
            await until(lambda: reached(world, "before", 1))
            world.write(", {name: magic, arguments: {node: node-2}}")
            await until(lambda: any(option.name == "magic" for option in scheduler.batch.conf.current.options()))
            await world.gang("after", 2)
            await until(lambda: reached(world, "after", 2))
    assert set((await world.placed("after")).values()) == {"node-2"}


async def test_a_plugin_that_breaks_harms_no_session(world: World) -> None:
    class Broken:
        name = "broken"

        def on_session_open(self, session: Any) -> None:
            session.add_job_order(lambda left, right: 1 // 0)
            session.add_node_order(lambda task, node: node.nothing)

    await world.define(QUEUE, POD_GROUP)
    world.write(", {name: broken}")
    await world.gang("a", 2)
    await world.gang("b", 2)
    with capture_logs() as logs:
        async with scheduling(world, plugins={"broken": Broken}):
            await until(lambda: reached(world, "", 4))
    failures = [(line["plugin"], line["method"]) for line in logs if line["event"] == "plugin failed"]
    assert ("broken", "node_order") in failures
    assert len(failures) == len(set(failures))


async def test_two_engines_fill_the_same_nodes_and_neither_overfills_them(world: World) -> None:
    """Twelve cores: six for the gang, six for pods of their own, and no room for another."""
    await world.define(QUEUE, POD_GROUP)
    async with scheduling(world) as scheduler:
        for number in range(6):
            await world.pod(f"single-{number}", group="", cpu="1", scheduler="default-scheduler")
        await world.gang("gang", 6)
        await until(lambda: reached(world, "gang", 6))
        await until(lambda: reached(world, "single", 6))
        await world.pod("single-late", group="", cpu="1", scheduler="default-scheduler")
        await until(lambda: has_reason(world, "single-late", {"Unschedulable"}))
        used = list((await world.placed("")).values())
        assert {node: used.count(node) for node in used} == {"node-0": 4, "node-1": 4, "node-2": 4}
        assert not await scheduler.cache_differences()


async def test_a_failed_bind_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.define(QUEUE, POD_GROUP)
    await world.gang("gang", 3)
    refused: list[str] = []
    original = Client.bind

    async def bind(self: Client, pod: Any, node: str, *annotations: Any) -> None:
        if pod.name == "gang-task-1" and not refused:
            refused.append(node)
            raise NotFound(404, "NotFound", "just this once")
        await original(self, pod, node, *annotations)

    monkeypatch.setattr(Client, "bind", bind)
    async with scheduling(world) as scheduler:
        await until(lambda: reached(world, "gang", 3))
        assert refused
        assert scheduler.batch is not None
        await until(lambda: not scheduler.engine.cache.assumed)
        assert not await scheduler.cache_differences()


async def test_a_pod_whose_bind_failed_waits_until_its_claim_is_released(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the next session finds the pod in the claim and does not add it again, before it is removed."""
    await world.define(QUEUE, POD_GROUP)
    await world.device("node-0")
    removing, removed, binds = asyncio.Event(), asyncio.Event(), list[bool]()
    original, unreserve = Client.bind, ApiClaimWriter.unreserve

    async def bind(self: Client, pod: Any, node: str, *annotations: Any) -> None:
        if pod.name == "claiming-task-0":
            binds.append(removed.is_set())
            if len(binds) == 1:
                raise NotFound(404, "NotFound", "just this once")
        await original(self, pod, node, *annotations)

    async def unreserve_late(self: ApiClaimWriter, claim: ResourceClaim, uid: str) -> ResourceClaim:
        removing.set()
        await removed.wait()
        return await unreserve(self, claim, uid)

    monkeypatch.setattr(Client, "bind", bind)
    monkeypatch.setattr(ApiClaimWriter, "unreserve", unreserve_late)
    async with scheduling(world):
        await world.gang("claiming", 1, claim="device")
        await until(removing.is_set)
        await world.gang("another", 1)  # a session runs meanwhile
        await until(lambda: reached(world, "another", 1))
        removed.set()
        await until(lambda: reached(world, "claiming", 1))
        assert binds == [False, True]
        claim = await world.ask("GET", f"{CLAIMS}/device")
        assert [user["name"] for user in claim["status"]["reservedFor"]] == ["claiming-task-0"]


def test_a_bad_file_at_the_start_is_refused(tmp_path: Path) -> None:
    missing = BatchSettings(scheduler_conf=tmp_path / "nothing.conf")
    with pytest.raises(ConfigError, match="cannot be read"):
        asyncio.run(_make(missing))


async def _make(settings: BatchSettings) -> None:
    from mooring.live.batch.batch_settings import ConfFile

    ConfFile(settings.scheduler_conf, actions=(), plugins=())


BAD = "add_node_oder"
PICKY = """\
class Picky:
    def on_session_open(self, session):
        session.add_node_order(lambda task, node: 100 if node.name == "{node}" else 0)
"""


def status(scheduler: LiveScheduler) -> list[PluginRow]:
    return plugin_status(scheduler.engine, scheduler.catalog, scheduler.reloader, scheduler.batch)


FAILING = """\
class Failing:
    def on_session_open(self, session):
        session.add_job_order(lambda left, right: left.nothing)
        session.add_node_order(lambda task, node: node.nothing)

class Raising:
    def execute(self, session):
        raise ValueError("no connection")
"""


async def test_the_failures_of_session_plugins_are_listed(world: World, tmp_path: Path) -> None:
    await world.define(QUEUE, POD_GROUP)
    (tmp_path / "failing.py").write_text(FAILING)
    catalog = find_plugins(
        Requested(plugins=(("failing", tmp_path / "failing.py"), ("raising", tmp_path / "failing.py")))
    )
    world.write(", {name: failing}")
    world.conf.write_text(world.conf.read_text().replace("enqueue,", "enqueue, raising,"))
    async with scheduling(world, catalog=catalog) as scheduler:
        await world.gang("a", 1)
        await world.gang("b", 1)
        await until(lambda: reached(world, "", 2))
        rows = {row.name: row for row in status(scheduler)}
    assert rows["failing"].failures >= 2
    assert "AttributeError" in rows["failing"].state
    assert rows["raising"].failures >= 1
    assert "no connection" in rows["raising"].state
    assert (rows["gang"].state, rows["gang"].source) == ("running", "built in")
    assert (rows["allocate"].points, rows["proportion"].points) == (("action",), ("session",))
    assert rows["NodeResourcesFit"].profile == "default-scheduler"


HANGING = """\
class Hanging:
    def on_session_open(self, session):
        session.add_node_order(self.score)

    def score(self, task, node):
        while True:
            pass

class Endless:
    def execute(self, session):
        while True:
            pass
"""


async def test_session_plugins_that_hang_are_interrupted_and_switched_off(world: World, tmp_path: Path) -> None:
    await world.define(QUEUE, POD_GROUP)
    (tmp_path / "hanging.py").write_text(HANGING)
    entries = tuple(PluginEntry(name=name, path="hanging.py", timeout="300ms") for name in ("hanging", "endless"))
    sources = PluginSources(api_version="mooring.dev/v1alpha1", kind="PluginSources", plugins=entries)
    catalog = find_plugins(sources=sources, base=tmp_path)
    world.write(", {name: hanging}")
    world.conf.write_text(world.conf.read_text().replace("enqueue,", "enqueue, endless,"))
    await world.gang("a", 2)
    async with scheduling(world, catalog=catalog) as scheduler:
        await until(lambda: reached(world, "a", 2))
        rows = {row.name: row for row in status(scheduler)}
    for name, line, method in (("hanging", 7, "score"), ("endless", 12, "execute")):
        text = f"hanging.py:{line} in {method}: HangsError: did not return within 0.3 s"
        assert text in rows[name].state.replace(f"hanging.py:{line - 1} ", f"hanging.py:{line} ")
        assert rows[name].state.startswith("switched off")


async def test_a_plugin_of_sessions_is_reloaded_when_its_file_changes(world: World, tmp_path: Path) -> None:
    await world.define(QUEUE, POD_GROUP)
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "picky.py").write_text(PICKY.format(node="node-1"))
    (tmp_path / "scheduler.yaml").write_text(CONFIG)
    files = SetupFiles(tmp_path / "scheduler.yaml", Requested(directories=(tmp_path / "plugins",)))
    world.write(", {name: picky}")
    async with scheduling(world, files=files) as scheduler:
        await world.gang("before", 2)
        await until(lambda: reached(world, "before", 2))
        (tmp_path / "plugins" / "picky.py").write_text(PICKY.format(node="node-2"))
        assert scheduler.reloader is not None
        await until(lambda: scheduler.reloader.state.reloads == 1)
        await world.gang("after", 2)
        await until(lambda: reached(world, "after", 2))
        row = next(row for row in status(scheduler) if row.name == "picky")
        assert (row.state, row.profile, row.points) == ("running", "volcano", ("session",))
        assert row.calls > 0
        (tmp_path / "plugins" / "picky.py").write_text(PICKY.format(node="node-0").replace("add_node_order", BAD))
        await until(lambda: scheduler.reloader.state.failed == 1)
        row = next(row for row in status(scheduler) if row.name == "picky")
        assert row.state.startswith("running; not reloaded: picky: 'session.add_node_oder' does not exist")
        raising = PICKY.format(node="node-0").replace("100 if", "1 / 0 if")
        (tmp_path / "plugins" / "picky.py").write_text(raising)
        await until(lambda: scheduler.reloader.state.failed == 2)
        (fault,) = scheduler.reloader.state.problems
        assert (fault.line, fault.message) == (3, "picky: node_order: ZeroDivisionError: division by zero")
        await world.gang("kept", 2, cpu="500m")
        await until(lambda: reached(world, "kept", 2))
    assert set((await world.placed("kept")).values()) == {"node-2"}, "the last good version stays"
    assert set((await world.placed("before")).values()) == {"node-1"}
    assert set((await world.placed("after")).values()) == {"node-2"}
