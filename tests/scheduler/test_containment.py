"""A plugin that calls sys.exit, or raises any other BaseException, fails; the scheduler continues."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mooring.api.core import Service
from mooring.cli.main import main
from mooring.columns.node_info import PodListener
from mooring.framework import ClusterEvent, Plugin
from mooring.framework.events import ActionType
from mooring.live.background import Background
from mooring.loading import PluginLoadError, configuration
from mooring.loading.plugin_files import load_file
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.scheduler.profile import ProfileError
from mooring.scheduler.profiles import swap
from mooring.testing import make_node, make_pod


class Odd(BaseException):
    pass


def leave(*_: Any) -> Any:
    sys.exit(3)


def interrupt(*_: Any) -> Any:
    raise KeyboardInterrupt


def end_generator(*_: Any) -> Any:
    raise GeneratorExit


def cancel(*_: Any) -> Any:
    raise asyncio.CancelledError


def odd(*_: Any) -> Any:
    raise Odd("x")


LEAVING: list[tuple[Callable[..., Any], str]] = [
    (leave, "SystemExit: 3"),
    (interrupt, "KeyboardInterrupt"),
    (end_generator, "GeneratorExit"),
    (cancel, "CancelledError"),
    (odd, "Odd: x"),
]
LEAVING_IDS = [text for _, text in LEAVING]


def plugin(**members: Any) -> type[Plugin]:
    return type("Mine", (Plugin,), members)


def only_at(point: str) -> str:
    """A configuration that has only the plugin Mine at a point."""
    return f"""\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {{{point}: {{enabled: [{{name: Mine}}], disabled: [{{name: "*"}}]}}}}
"""


class World:
    """An engine with one plugin and two nodes."""

    def __init__(self, cls: type[Plugin], config: str | None = None) -> None:
        self.logged: list[dict[str, Any]] = []
        plugins = {cls.name: cls}
        self.engine = Engine(
            configuration(config, plugins=plugins, source=""),
            plugins=plugins,
            clock=lambda: 1000.0,
            warn=lambda event, **details: self.logged.append({"event": event, **details}),
        )
        for name in ("a", "b"):
            self.engine.put(make_node(name).capacity(cpu="4", memory="8Gi", pods=110).obj())

    def attempt(self, **requests: str) -> AssumedPod | FailedAttempt | None:
        self.engine.put(make_pod("p").req(**requests).obj() if requests else make_pod("p").obj())
        if not self.engine.queue.ready:
            return None
        outcome = self.engine.schedule_one()
        assert isinstance(outcome, AssumedPod | FailedAttempt)
        return outcome

    @property
    def errors(self) -> str:
        return " | ".join(str(each.get("error", "")) for each in self.logged)


DECIDING = ["pre_filter", "filter", "filter_nodes", "pre_score", "score", "score_nodes", "reserve", "permit"]
NAMES = {"pre_filter": "nodes", "filter_nodes": "nodes", "pre_score": "nodes", "score_nodes": "nodes",
         "reserve": "node_name", "permit": "node_name"}  # fmt: skip


def method(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    scope: dict[str, Any] = {"call": call}
    exec(f"def {name}(self, state, pod, {NAMES.get(name, 'node')}): return call()", scope)
    made: Callable[..., Any] = scope[name]
    return made


def neutral(self: Any, state: Any, pod: Any, node: Any) -> int:
    return 1


@pytest.mark.parametrize(("call", "text"), LEAVING, ids=LEAVING_IDS)
@pytest.mark.parametrize("point", DECIDING)
def test_an_extension_point_of_the_scheduling_cycle_fails_the_attempt(
    point: str, call: Callable[..., Any], text: str
) -> None:
    members = {point: method(point, call)}
    if point == "pre_score":
        members["score"] = neutral
    world = World(plugin(**members))
    outcome = world.attempt()
    assert isinstance(outcome, FailedAttempt)
    assert text in outcome.failure.message
    assert text in world.errors
    assert world.engine.guards.of("Mine").failures == 1


@pytest.mark.parametrize(("call", "text"), LEAVING, ids=LEAVING_IDS)
def test_normalize_scores_fails_the_attempt(call: Callable[..., Any], text: str) -> None:
    world = World(plugin(score=neutral, normalize_scores=lambda self, state, pod, scores: call()))
    outcome = world.attempt()
    assert isinstance(outcome, FailedAttempt)
    assert text in outcome.failure.message


@pytest.mark.parametrize(("call", "text"), LEAVING, ids=LEAVING_IDS)
def test_post_filter_fails_the_attempt(call: Callable[..., Any], text: str) -> None:
    world = World(plugin(post_filter=lambda self, state, pod, statuses: call()))
    assert isinstance(world.attempt(cpu="64"), FailedAttempt)
    assert text in world.errors


@pytest.mark.parametrize("point", ["pre_bind", "bind", "post_bind"])
@pytest.mark.parametrize(("call", "text"), LEAVING, ids=LEAVING_IDS)
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_the_binding_cycle_fails(point: str, call: Callable[..., Any], text: str, asynchronous: bool) -> None:
    async def wait(self: Any, state: Any, pod: Any, node_name: str) -> Any:
        await asyncio.sleep(0)
        return call()

    def at_once(self: Any, state: Any, pod: Any, node_name: str) -> Any:
        return call()

    cls = plugin(**{point: wait if asynchronous else at_once})
    world = World(cls, only_at("bind") if point == "bind" else None)
    assumed = world.attempt()
    assert isinstance(assumed, AssumedPod)
    failed = await world.engine.bind(assumed)
    if point != "post_bind":  # its errors are ignored, as upstream does
        assert failed is not None
        assert text in failed.failure.message
    assert text in world.errors


@pytest.mark.parametrize(("call", "text"), LEAVING, ids=LEAVING_IDS)
def test_unreserve_does_not_stop_the_scheduler(call: Callable[..., Any], text: str) -> None:
    def reserve(self: Any, state: Any, pod: Any, node_name: str) -> str:
        return "no"

    world = World(plugin(reserve=reserve, unreserve=lambda self, state, pod, node_name: call()))
    assert isinstance(world.attempt(), FailedAttempt)
    assert text in world.errors


@pytest.mark.parametrize(("call", "text"), LEAVING, ids=LEAVING_IDS)
def test_pre_enqueue_gates_the_pod(call: Callable[..., Any], text: str) -> None:
    world = World(plugin(pre_enqueue=lambda self, pod: call()))
    assert world.attempt() is None
    assert text in world.errors


@pytest.mark.parametrize(("call", "text"), LEAVING, ids=LEAVING_IDS)
def test_queue_sort_falls_back_to_the_order_by_time(call: Callable[..., Any], text: str) -> None:
    cls = plugin(less=lambda self, a, b: call())
    world = World(cls, only_at("queueSort"))
    for name in ("p1", "p2", "p3"):
        world.engine.put(make_pod(name).obj())
    assert world.engine.queue.ready
    assert text in world.errors


@pytest.mark.parametrize(("call", "text"), LEAVING, ids=LEAVING_IDS)
def test_a_queueing_hint_requeues_the_pod(call: Callable[..., Any], text: str) -> None:
    def events(self: Any) -> list[ClusterEvent]:
        return [ClusterEvent("Node", ActionType.ADD, call)]

    world = World(plugin(filter=lambda self, state, pod, node: "no", events_to_register=events))
    assert isinstance(world.attempt(), FailedAttempt)
    world.engine.put(make_node("c").capacity(cpu="4", memory="8Gi", pods=110).obj())
    assert text in world.errors


@pytest.mark.parametrize(("call", "text"), LEAVING, ids=LEAVING_IDS)
@pytest.mark.parametrize("member", ["setup", "events_to_register"])
def test_a_plugin_that_exits_while_it_is_built_is_refused(member: str, call: Callable[..., Any], text: str) -> None:
    with pytest.raises(ProfileError, match=text):
        World(plugin(filter=neutral, **{member: lambda self: call()}))


def test_handing_over_state_keeps_the_last_version() -> None:
    world = World(plugin(filter=method("filter", lambda: None)))
    before = world.engine.profiles
    cls = plugin(filter=method("filter", lambda: None), take_state=lambda self, state: leave())
    with pytest.raises(ProfileError, match="SystemExit: 3"):
        swap(world.engine, before.config, {"Mine": cls}, {})
    assert world.engine.profiles is before


class Leaving(PodListener):
    def pod_added(self, info: Any, row: int) -> None:
        leave()


def test_listeners_and_indexes_do_not_stop_the_scheduler() -> None:
    def setup(self: Any) -> None:
        self.handle.listen(Leaving())
        self.services = self.handle.lister(Service)
        self.services.listen(leave)
        self.index = self.services.index(leave)

    world = World(plugin(setup=setup, filter=method("filter", lambda: None)))
    world.engine.put(make_pod("placed").node("a").obj())
    assert world.errors.endswith("in leave: SystemExit: 3")
    world.engine.cache.objects.put(Service())
    methods = [each["method"] for each in world.logged]
    assert methods == ["pod_added", "listener", "index"]


@pytest.mark.parametrize(("call", "text"), LEAVING, ids=LEAVING_IDS)
async def test_a_background_task_is_restarted(call: Callable[..., Any], text: str) -> None:
    runs: list[int] = []

    class Mine(Plugin):
        async def run(self) -> None:
            runs.append(1)
            call()

    async with asyncio.TaskGroup() as tasks:
        background = Background()
        background.begin(tasks)
        await background.keep([Mine(None, None)])  # type: ignore[arg-type]
        await asyncio.sleep(0.01)
        await background.keep([])
    assert runs == [1]


def test_a_file_that_exits_when_imported_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("raise KeyboardInterrupt\n")
    with pytest.raises(PluginLoadError, match="KeyboardInterrupt"):
        load_file(file, "test")


STATEMENTS = [
    ("sys.exit(3)", "SystemExit: 3"),
    ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ("raise GeneratorExit", "GeneratorExit"),
    ("raise asyncio.CancelledError", "CancelledError"),
]
METHODS = [
    "setup(self)",
    "events_to_register(self)",
    "pre_enqueue(self, pod)",
    "pre_filter(self, state, pod, nodes)",
    "filter(self, state, pod, node)",
    "filter_nodes(self, state, pod, nodes)",
    "score(self, state, pod, node)",
    "score_nodes(self, state, pod, nodes)",
    "reserve(self, state, pod, node_name)",
    "permit(self, state, pod, node_name)",
]


def written(folder: Path, signature: str, statement: str) -> Path:
    file = folder / "mine.py"
    reject = "" if signature.startswith(("filter", "score")) else "\n    def filter(self, state, pod, node): pass\n"
    file.write_text(
        "import asyncio, sys\nfrom mooring.framework import Plugin\n\n\n"
        f"class Mine(Plugin):\n    def {signature}:\n        {statement}\n{reject}"
    )
    return file


@pytest.mark.parametrize(("statement", "text"), STATEMENTS)
@pytest.mark.parametrize("signature", METHODS)
def test_the_dry_run_of_plugin_check_reports_it(tmp_path: Path, signature: str, statement: str, text: str) -> None:
    file = written(tmp_path, signature, statement)
    result = CliRunner().invoke(main, ["plugin", "check", str(file)])
    assert result.exit_code == 1
    assert f"{file}:7: " in result.output
    assert text in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(("statement", "text"), STATEMENTS)
@pytest.mark.parametrize("command", ["check", "simulate", "evaluate"])
def test_an_import_that_exits_is_reported(tmp_path: Path, command: str, statement: str, text: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"import asyncio, sys\n{statement}\n")
    (tmp_path / "node.yaml").write_text(NODE)
    arguments = {
        "check": ["plugin", "check", str(file)],
        "simulate": ["simulate", "-f", str(tmp_path / "node.yaml"), "--plugin", f"Mine={file}"],
        "evaluate": ["evaluate", str(tmp_path / "node.yaml"), "--plugin", f"Mine={file}"],
    }
    result = CliRunner().invoke(main, arguments[command])
    assert result.exit_code in (1, 2)
    assert ("exits the process when it is imported" if "SystemExit" in text else text) in result.output
    assert "Traceback" not in result.output


NODE = """\
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}
---
apiVersion: v1
kind: Node
metadata: {name: b}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: i}]}
"""


@pytest.mark.parametrize(("statement", "text"), STATEMENTS)
@pytest.mark.parametrize("signature", [*METHODS[2:6:3], METHODS[6], METHODS[9]])
def test_a_simulation_ends_with_its_report(tmp_path: Path, signature: str, statement: str, text: str) -> None:
    file = written(tmp_path, signature, statement)
    (tmp_path / "node.yaml").write_text(NODE)
    result = CliRunner().invoke(main, ["simulate", "-f", str(tmp_path / "node.yaml"), "--plugin", f"Mine={file}"])
    assert text in result.output
    assert "1 pod: Pod p" in result.output
