"""`from mooring import Scheduler`: in a program of one's own, on the embedded cluster."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import signal
from pathlib import Path
from typing import Any

import pytest

import mooring
from mooring import Scheduler, SchedulerError
from mooring.framework import Plugin
from mooring.live import ServerSettings
from tests.live.embedded import Embedded
from tests.waiting import PATIENCE

EXAMPLES = Path(__file__).parents[2] / "examples"
NODE_NUMBER = EXAMPLES / "plugins" / "nodenumber" / "nodenumber.py"


class Here(Plugin):
    """Wants one node only."""

    def filter(self, state: Any, pod: Any, node: Any) -> str | None:
        return None if node.name == "node-1" else "not here"


async def test_it_schedules_between_enter_and_exit_with_plugins_from_files(embedded: Embedded) -> None:
    embedded.add_pod("web-2")
    files = {"NodeNumber": NODE_NUMBER}
    async with Scheduler(kubeconfig=embedded.kubeconfig, custom_plugin_files=files, leader_elect=False) as scheduler:
        await scheduler.ready()
        assert await embedded.node_of("web-2") == "node-2"
    # The first scheduler would bind this pod to node-2; it is still pending when the second one starts.
    embedded.add_pod("late-2")
    async with Scheduler(kubeconfig=embedded.kubeconfig, plugins={"Here": Here}, leader_elect=False):
        assert await embedded.node_of("late-2") == "node-1"


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
        ({"config": "nowhere.yaml"}, "nowhere.yaml: cannot be read: No such file or directory"),
        ({"kubeconfig": "nowhere"}, "nowhere: no such file"),
        ({"custom_plugin_files": {"X": "nowhere.py"}}, "nowhere.py: no such file"),
        ({"plugins": {"X": int}}, "is not a plugin; derive a class from Plugin"),
        ({"plugins": {"X": Here}}, "X: the name of the class is Here; use that name"),
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
    with pytest.raises(SchedulerError, match="already started"):
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
    said = await asyncio.wait_for(example.where(embedded.kubeconfig, "default/web-1"), PATIENCE)
    assert said.startswith("default/web-1 is on node-1: NodeNumber gave it 10 of ")


def test_only_what_is_promised_is_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Schedular'"):
        mooring.Schedular  # noqa: B018
