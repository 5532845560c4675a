"""`from mooring import Scheduler`: in a program of one's own, on the embedded cluster."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import mooring
from mooring import Scheduler, SchedulerError
from mooring.cluster import EmbeddedCluster
from mooring.cluster.calls import system_call
from mooring.framework import Plugin
from mooring.live import ServerSettings

EXAMPLES = Path(__file__).parents[2] / "examples"
NODE_NUMBER = EXAMPLES / "plugins" / "nodenumber" / "nodenumber.py"


class Here(Plugin):
    """Wants one node only."""

    def filter(self, state: Any, pod: Any, node: Any) -> str | None:
        return None if node.name == "node-1" else "not here"


class Embedded:
    """An embedded cluster with its kubeconfig in a file."""

    def __init__(self, cluster: EmbeddedCluster, kubeconfig: Path) -> None:
        self.cluster = cluster
        self.kubeconfig = str(kubeconfig)

    def add_pod(self, name: str) -> None:
        pods = self.cluster.api.table.of("pods")
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}
        self.cluster.api.registry.create(pods, "default", pod, system_call())

    async def node_of(self, name: str) -> str:
        async with asyncio.timeout(20):
            while True:
                found = self.cluster.store.get("pods", "default", name)
                assert found is not None
                if node := found.document["spec"].get("nodeName"):
                    return str(node)
                await asyncio.sleep(0.02)


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[Embedded]:
    cluster = EmbeddedCluster(controllers=False)
    await cluster.start()
    cluster.add_nodes(3)
    (tmp_path / "kubeconfig").write_text(cluster.kubeconfig())
    yield Embedded(cluster, tmp_path / "kubeconfig")
    await cluster.stop()


async def test_it_schedules_between_enter_and_exit_with_plugins_from_files(embedded: Embedded) -> None:
    embedded.add_pod("web-2")
    files = {"NodeNumber": NODE_NUMBER}
    async with Scheduler(kubeconfig=embedded.kubeconfig, custom_plugin_files=files, leader_elect=False) as scheduler:
        await scheduler.ready()
        assert await embedded.node_of("web-2") == "node-2"
    embedded.add_pod("late")
    await asyncio.sleep(0.3)
    assert "nodeName" not in embedded.cluster.store.get("pods", "default", "late").document["spec"]


async def test_classes_will_do_as_plugins_and_the_lease_is_held_and_given_back(embedded: Embedded) -> None:
    embedded.add_pod("web")
    scheduler = Scheduler(kubeconfig=embedded.kubeconfig, plugins={"Here": Here})
    task = asyncio.create_task(scheduler.run())
    assert await embedded.node_of("web") == "node-1"
    lease = embedded.cluster.store.get("leases.coordination.k8s.io", "kube-system", "kube-scheduler")
    assert lease.document["spec"]["holderIdentity"]
    await scheduler.stop()
    await task
    lease = embedded.cluster.store.get("leases.coordination.k8s.io", "kube-system", "kube-scheduler")
    assert not lease.document["spec"]["holderIdentity"]


async def test_cancelling_run_stops_it(embedded: Embedded) -> None:
    scheduler = Scheduler(kubeconfig=embedded.kubeconfig, leader_elect=False)
    task = asyncio.create_task(scheduler.run())
    await asyncio.sleep(0)  # lets it start
    await scheduler.ready()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_it_leaves_the_process_alone(embedded: Embedded) -> None:
    before, frozen = (gc.get_threshold(), signal.getsignal(signal.SIGTERM)), gc.get_freeze_count()
    async with Scheduler(kubeconfig=embedded.kubeconfig, leader_elect=False) as scheduler:
        await scheduler.ready()
        assert (gc.get_threshold(), signal.getsignal(signal.SIGTERM)) == before
        assert gc.get_freeze_count() <= frozen  # what other tests froze may go meanwhile
        assert scheduler.url == ""


async def test_it_serves_where_it_is_told_to(embedded: Embedded) -> None:
    serve = ServerSettings(port=0, insecure=True)
    async with Scheduler(kubeconfig=embedded.kubeconfig, leader_elect=False, serve=serve) as scheduler:
        await scheduler.ready()
        assert scheduler.url.startswith("http://127.0.0.1:")


class Misspelt(Plugin):
    """Has a near miss of an extension point."""

    def filer(self, state: Any, pod: Any, node: Any) -> None: ...


CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: many\n"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"config": "nowhere.yaml"}, "nowhere.yaml: No such file or directory"),
        ({"kubeconfig": "nowhere"}, "nowhere: no such file"),
        ({"custom_plugin_files": {"X": "nowhere.py"}}, "nowhere.py: no such file"),
        ({"plugins": {"X": int}}, "is no plugin; derive a class from Plugin"),
        ({"plugins": {"X": Here}}, "X: the class calls itself Here; use that name"),
        ({"plugins": {"Misspelt": Misspelt}}, "did you mean 'def filter(self, state, pod, node)'?"),
    ],
)
def test_what_is_wrong_is_one_kind_of_error(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SchedulerError) as raised:
        Scheduler(**given)
    assert message in str(raised.value)


def test_faults_of_a_configuration_are_told_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(CONFIG)
    with pytest.raises(SchedulerError, match=r"scheduler.yaml:3: parallelism: "):
        Scheduler(config=file)


async def test_it_must_be_started_and_only_once(embedded: Embedded) -> None:
    scheduler = Scheduler(kubeconfig=embedded.kubeconfig)
    with pytest.raises(SchedulerError, match="was not started"):
        await scheduler.ready()
    scheduler.start()
    with pytest.raises(SchedulerError, match="started before"):
        scheduler.start()
    await scheduler.stop()


async def test_a_busy_port_is_told_by_ready(embedded: Embedded) -> None:
    async with Scheduler(kubeconfig=embedded.kubeconfig, serve=ServerSettings(port=0, insecure=True)) as first:
        await first.ready()
        busy = ServerSettings(port=int(first.url.rpartition(":")[2]), insecure=True)
        second = Scheduler(kubeconfig=embedded.kubeconfig, serve=busy)
        second.start()
        with pytest.raises(SchedulerError, match="cannot listen on"):
            await second.ready()


async def test_the_documented_example_runs(embedded: Embedded) -> None:
    spec = importlib.util.spec_from_file_location("where", EXAMPLES / "library" / "where.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    embedded.add_pod("web-1")
    said = await asyncio.wait_for(example.where(embedded.kubeconfig, "default/web-1"), 20)
    assert said.startswith("default/web-1 is on node-1: NodeNumber gave it 10 of ")


def test_only_what_is_promised_is_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Schedular'"):
        mooring.Schedular  # noqa: B018
