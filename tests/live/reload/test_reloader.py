"""Plugins and configuration that change while the scheduler runs, on the embedded cluster."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring import Scheduler
from mooring.cluster import EmbeddedCluster
from mooring.cluster.request_context import system_context
from mooring.live.reload.file_watch import FileWatch
from tests.waiting import until

PICK = """\
from mooring.framework import Plugin

class Pick(Plugin):
    keep = ("count",)

    class Args:
        digit: str = "{digit}"

    def setup(self):
        self.count = 0

    def filter(self, state, pod, node):
        return None if node.name.endswith(self.args.digit) else "another digit"

    def post_bind(self, state, pod, node_name):
        self.count += 1
"""
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
podMaxBackoffSeconds: 5
profiles:
- schedulerName: default-scheduler
  plugins: {{multiPoint: {{enabled: [{{name: Pick}}]}}}}
  pluginConfig: [{{name: Pick, args: {{digit: "{digit}"}}}}]
{more}
"""


class World:
    """An embedded cluster with three nodes, and a folder with plugins."""

    def __init__(self, cluster: EmbeddedCluster, folder: Path) -> None:
        self.cluster = cluster
        self.kubeconfig = str(folder / "kubeconfig")
        (folder / "kubeconfig").write_text(cluster.kubeconfig())
        self.plugins = folder / "plugins"
        self.plugins.mkdir()
        self.config = folder / "scheduler.yaml"
        self._pods = 0

    def write(self, digit: int, name: str = "pick.py") -> None:
        (self.plugins / name).write_text(PICK.format(digit=digit))

    def add_pod(self, scheduler: str = "default-scheduler") -> str:
        self._pods += 1
        name = f"web-{self._pods}"
        spec = {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        self.cluster.api.registry.create(self.cluster.api.mapper.of("pods"), "default", pod, system_context())
        return name

    async def node_of(self, name: str) -> str:
        def node() -> str:
            found = self.cluster.store.get("pods", "default", name)
            assert found is not None
            return str(found.document["spec"].get("nodeName", ""))

        await until(lambda: bool(node()))
        return node()

    async def next_node(self) -> str:
        return await self.node_of(self.add_pod())

    def events(self, reason: str) -> list[str]:
        found = self.cluster.store.objects("events")
        return [
            each.document.get("note") or each.document.get("message", "")
            for each in found
            if each.document.get("reason") == reason
        ]

    def scheduler(self, **settings: Any) -> Scheduler:
        return Scheduler(kubeconfig=self.kubeconfig, **settings)


def plugin(scheduler: Scheduler, name: str = "Pick", profile: str = "default-scheduler") -> Any:
    return scheduler._live.engine.profiles.runners[profile].profile.plugins.get(name)


async def reloaded(scheduler: Scheduler, times: int = 1, failed: int = 0) -> None:
    state = scheduler._live.reloader
    await until(lambda: (state.state.reloads, state.state.failed) == (times, failed))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    cluster = EmbeddedCluster(controllers=False)
    await cluster.start()
    cluster.add_nodes(3)
    yield World(cluster, tmp_path)
    await cluster.stop()


async def test_an_edited_file_decides_about_the_next_pod_and_takes_over_what_was_kept(world: World) -> None:
    world.write(1)
    settings = {"plugins_dir": world.plugins, "leader_elect": False}
    async with world.scheduler(**settings) as scheduler:
        await scheduler.ready()
        assert await world.next_node() == "node-1"
        await until(lambda: plugin(scheduler).count == 1)
        first = plugin(scheduler)
        world.write(2)
        await reloaded(scheduler)
        assert plugin(scheduler) is not first
        assert plugin(scheduler).count == 1
        assert await world.next_node() == "node-2"
        await until(lambda: bool(world.events("Reloaded")))
        assert world.events("Reloaded") == ["reloaded: plugin Pick"]


async def test_a_pod_that_waits_is_tried_again_with_the_new_version(world: World) -> None:
    world.write(9)
    async with world.scheduler(plugins_dir=world.plugins, leader_elect=False) as scheduler:
        await scheduler.ready()
        name = world.add_pod()
        await until(lambda: bool(world.events("FailedScheduling")))
        world.write(0)
        assert await world.node_of(name) == "node-0"


SKIPS = """\
from mooring.framework import Code, Plugin, StateKey, Status, Verdicts, depends_on

WANTED = StateKey("Pick/wanted")


class Pick(Plugin):
    def pre_filter(self, state, pod, nodes):
        if "digit" not in pod.labels:
            return Status(Code.SKIP)
        state.write(WANTED, pod.labels["digit"])

    @depends_on("node")
    def filter_nodes(self, state, pod, nodes):
        return Verdicts.of([self.filter(state, pod, node) for node in nodes])

    @depends_on("node")
    def filter(self, state, pod, node):
        return None if node.name.endswith(state.read(WANTED)) else "another digit"
"""


async def test_a_plugin_that_skips_pods_in_pre_filter_is_loaded(world: World) -> None:
    world.write(1)
    async with world.scheduler(plugins_dir=world.plugins, leader_elect=False) as scheduler:
        await scheduler.ready()
        first = plugin(scheduler)
        (world.plugins / "pick.py").write_text(SKIPS)
        await reloaded(scheduler)
        assert plugin(scheduler) is not first
        assert await world.next_node()


BROKEN = {
    "syntax": "class Pick(:\n",
    "signature": "from mooring.framework import Plugin\nclass Pick(Plugin):\n    def filter(self, node): ...\n",
    "dry run": PICK.format(digit=2).replace("return None", "return 1 / 0 or None"),
    "state": PICK.format(digit=2) + "    def take_state(self, state): raise KeyError('x')\n",
    "no plugin": "",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
async def test_a_version_that_is_wrong_changes_nothing_and_is_told(world: World, text: str) -> None:
    world.write(1)
    files = {"Pick": world.plugins / "pick.py"}
    async with world.scheduler(custom_plugin_files=files, leader_elect=False) as scheduler:
        await scheduler.ready()
        first = plugin(scheduler)
        (world.plugins / "pick.py").write_text(text)
        await reloaded(scheduler, 0, failed=1)
        assert plugin(scheduler) is first
        assert await world.next_node() == "node-1"
        assert scheduler._live.engine.guards.health.reloads == {"ok": 0, "failed": 1}
        await until(lambda: bool(world.events("ReloadFailed")))
        assert "the last good version stays in effect" in world.events("ReloadFailed")[0]
        (row,) = (row for row in scheduler.plugins() if row.name == "Pick")
        assert row.state.startswith("running; not reloaded: ")
        world.write(2)
        await reloaded(scheduler, 1, failed=1)
        assert await world.next_node() == "node-2"
        assert not scheduler._live.reloader.state.problems


async def test_files_that_come_and_go_with_their_plugins(world: World) -> None:
    async with world.scheduler(plugins_dir=world.plugins, leader_elect=False) as scheduler:
        await scheduler.ready()
        assert plugin(scheduler) is None
        world.write(2)
        await reloaded(scheduler)
        assert await world.next_node() == "node-2"
        (world.plugins / "pick.py").unlink()
        await reloaded(scheduler, 2)
        assert plugin(scheduler) is None


async def test_a_package_is_reloaded_when_one_of_its_modules_changes(world: World) -> None:
    package = world.plugins / "picking"
    package.mkdir()
    (package / "digits.py").write_text("DIGIT = '1'\n")
    text = PICK.replace('"{digit}"', "DIGIT").replace("import Plugin\n", "import Plugin\nfrom .digits import DIGIT\n")
    (package / "__init__.py").write_text(text)
    async with world.scheduler(plugins_dir=world.plugins, leader_elect=False) as scheduler:
        await scheduler.ready()
        assert await world.next_node() == "node-1"
        (package / "digits.py").write_text("DIGIT = '2'\n")
        await reloaded(scheduler)
        assert await world.next_node() == "node-2"


async def test_a_config_map_is_exchanged_by_a_link(world: World) -> None:
    def publish(version: int) -> None:
        """As the kubelet does it: files are links through ``..data``, which is replaced at once."""
        folder = world.plugins / f"..version_{version}"
        folder.mkdir()
        (folder / "pick.py").write_text(PICK.format(digit=version))
        (world.plugins / "..new").symlink_to(folder.name)
        os.rename(world.plugins / "..new", world.plugins / "..data")

    publish(1)
    (world.plugins / "pick.py").symlink_to("..data/pick.py")
    async with world.scheduler(plugins_dir=world.plugins, leader_elect=False) as scheduler:
        await scheduler.ready()
        assert await world.next_node() == "node-1"
        publish(2)
        await reloaded(scheduler)
        assert await world.next_node() == "node-2"


async def test_the_configuration_changes_what_can_change_and_tells_of_the_rest(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.write(0)
    world.config.write_text(CONFIG.format(digit=1, more=""))
    async with world.scheduler(config=world.config, plugins_dir=world.plugins) as scheduler:
        await scheduler.ready()
        assert await world.next_node() == "node-1"
        waiting = world.add_pod("second")
        more = "- {schedulerName: second, plugins: {multiPoint: {enabled: [{name: Pick}]}}}\nparallelism: 3"
        world.config.write_text(CONFIG.format(digit=2, more=more))
        await reloaded(scheduler)
        assert await world.next_node() == "node-2"
        assert await world.node_of(waiting) == "node-0"
        assert plugin(scheduler, profile="second").args.digit == "0"
        assert "configuration changes that need a restart: parallelism" in caplog.text
        world.config.write_text(CONFIG.format(digit=2, more="nonsense: true"))
        await reloaded(scheduler, 1, failed=1)
        world.config.write_text(CONFIG.format(digit=1, more=""))
        await reloaded(scheduler, 2, failed=1)
        assert list(scheduler._live.engine.profiles.runners) == ["default-scheduler"]
        assert await world.next_node() == "node-1"


async def test_a_plugin_that_did_not_change_goes_on_as_it_is(world: World) -> None:
    world.write(1)
    other = PICK.replace("class Pick", "class Other").format(digit="")
    (world.plugins / "other.py").write_text(other)
    async with world.scheduler(plugins_dir=world.plugins, leader_elect=False) as scheduler:
        await scheduler.ready()
        first = plugin(scheduler, "Other")
        builtin = plugin(scheduler, "DefaultPreemption")
        world.write(2)
        await reloaded(scheduler)
        assert plugin(scheduler, "Other") is first
        assert plugin(scheduler, "DefaultPreemption") is builtin


async def test_without_reload_a_change_has_no_effect(world: World) -> None:
    """A second scheduler on the same files reloads the change, and the first one still runs the old plugin."""
    world.write(1)
    settings = {"plugins_dir": world.plugins, "leader_elect": False}
    async with world.scheduler(reload=False, **settings) as scheduler:
        await scheduler.ready()
        async with world.scheduler(**settings) as other:
            await other.ready()
            world.write(2)
            await reloaded(other)
        assert await world.next_node() == "node-1"


async def test_reloads_are_counted(world: World) -> None:
    world.write(1)
    async with world.scheduler(plugins_dir=world.plugins, leader_elect=False) as scheduler:
        await scheduler.ready()
        world.write(2)
        await reloaded(scheduler)
        (world.plugins / "pick.py").write_text("class")
        await reloaded(scheduler, 1, failed=1)
        text = scheduler._live.engine.observer.metrics.render("")[0].decode()
        assert 'mooring_plugin_reloads_total{result="ok"} 1.0' in text
        assert 'mooring_plugin_reloads_total{result="failed"} 1.0' in text


async def test_a_plugin_in_a_process_of_its_own_is_reloaded_too(world: World) -> None:
    world.write(0)
    sources = (
        "---\napiVersion: mooring.dev/v1alpha1\nkind: PluginSources\nplugins:\n"
        "- {name: Pick, path: plugins/pick.py, isolation: process}"
    )
    world.config.write_text(CONFIG.format(digit=1, more=sources))
    async with world.scheduler(config=world.config) as scheduler:
        await scheduler.ready()
        first = plugin(scheduler).process
        assert await world.next_node() == "node-1"
        world.config.write_text(CONFIG.format(digit=2, more=sources))
        await reloaded(scheduler)
        assert await world.next_node() == "node-2"
        second = plugin(scheduler).process
        assert first is not second
        for process in (first, second):
            process.close()


async def test_looking_after_files_does_not_end_the_scheduler(caplog: pytest.LogCaptureFixture) -> None:
    told = asyncio.Event()

    def broken() -> list[Path]:
        if looks and not told.is_set():
            raise RuntimeError("a disk on fire")
        looks.append(1)
        return [] if len(looks) == 1 else [Path(__file__)]

    async def changed() -> None:
        told.set()

    looks: list[int] = []
    watch = FileWatch()
    watch.add(broken, changed)
    task = asyncio.create_task(watch.run())
    await until(lambda: "a disk on fire" in caplog.text)
    assert not task.done()
    task.cancel()


WATCHING = """\
from pathlib import Path

from mooring.framework import Plugin

class Pick(Plugin):
    watch_files = ["digit.txt"]
    keep = ("count",)

    def setup(self):
        self.count = 0
        self.digit = str(int(Path(__file__).with_name("digit.txt").read_text()))

    def filter(self, state, pod, node):
        return None if node.name.endswith(self.digit) else "another digit"

    def events_to_register(self):
        return []
"""


async def test_a_changed_data_file_is_read_and_the_rejected_pods_are_tried_again(world: World) -> None:
    (world.plugins / "digit.txt").write_text("9")
    (world.plugins / "pick.py").write_text(WATCHING)
    files = {"Pick": world.plugins / "pick.py"}
    async with world.scheduler(custom_plugin_files=files, leader_elect=False) as scheduler:
        await scheduler.ready()
        name = world.add_pod()
        await until(lambda: bool(world.events("FailedScheduling")))
        plugin(scheduler).count = 7
        (world.plugins / "digit.txt").write_text("no digit")
        await reloaded(scheduler, 0, failed=1)
        assert plugin(scheduler).digit == "9", "the last good version stays"
        (world.plugins / "digit.txt").write_text("0")
        await reloaded(scheduler, 1, failed=1)
        assert (plugin(scheduler).digit, plugin(scheduler).count) == ("0", 7)
        assert await world.node_of(name) == "node-0"


THREAD = """\
import threading
from mooring.framework import Plugin

class Pick(Plugin):
    def setup(self):
        self.released = threading.Event()
        threading.Thread(target=self.work, name="worker-{number}", daemon=True).start()

    def work(self):
        self.released.wait(600)
{close}
    def filter(self, state, pod, node):
        return None
"""
CLOSE = """
    def close(self):
        self.released.set()
"""


async def test_a_thread_that_a_replaced_version_left_is_reported(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.live.reload.reloader._CLOSE_SECONDS", 0.2)
    file = world.plugins / "pick.py"
    file.write_text(THREAD.format(number=1, close=""))
    async with world.scheduler(plugins_dir=world.plugins) as scheduler:
        await scheduler.ready()
        file.write_text(THREAD.format(number=2, close=CLOSE))
        await reloaded(scheduler)

        def state() -> str:
            return next(row.state for row in scheduler.plugins() if row.name == "Pick")

        await until(lambda: "worker-1" in state())
        assert state().startswith("running; replaced versions left open: thread worker-1")
        file.write_text(THREAD.format(number=3, close=CLOSE))
        await reloaded(scheduler, times=2)
        await until(lambda: not [each for each in threading.enumerate() if each.name == "worker-2"])
        await asyncio.sleep(0.3)
        assert "worker-2" not in state()
