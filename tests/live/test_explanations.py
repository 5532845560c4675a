"""Preemption and waits on a cluster, as `mooring explain` and /decisions show them afterwards."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Callable
from typing import Any

from click.testing import CliRunner

from mooring import Scheduler
from mooring.api.pod import Pod
from mooring.cli.main import main
from mooring.cluster.request_context import system_context
from mooring.framework import PermitWait, Plugin, Status
from mooring.kube import Client, load_access
from mooring.live import ServerSettings
from mooring.observe.explanation import Explanation
from tests.live.embedded import Embedded
from tests.waiting import PATIENCE


class Pause(Plugin):
    """Makes a pod wait at Permit, and holds another one at PreEnqueue."""

    def pre_enqueue(self, pod: Any) -> Status | None:
        return Status.unresolvable("not approved yet") if pod.name == "unapproved" else None

    def permit(self, state: Any, pod: Any, node_name: str) -> PermitWait | None:
        return PermitWait(600.0) if pod.name == "patient" else None


def create(embedded: Embedded, resource: str, namespace: str, document: dict[str, Any]) -> None:
    api = embedded.cluster.api
    api.registry.create(api.mapper.of(resource), namespace, document, system_context())


def add_pod(embedded: Embedded, name: str, cpu: str, **spec: Any) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name}
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **spec},
    }
    pod["spec"]["terminationGracePeriodSeconds"] = 0
    create(embedded, "pods", "default", pod)


async def when(scheduler: Scheduler, key: str, true: Callable[[Explanation], object]) -> Explanation:
    async with asyncio.timeout(PATIENCE):
        while True:
            found = scheduler.explain(key)
            if found is not None and true(found):
                return found
            await asyncio.sleep(0.02)


async def test_what_a_running_scheduler_tells_about_holds_and_preemption(embedded: Embedded) -> None:
    important = {"metadata": {"name": "high"}, "value": 10}
    create(
        embedded,
        "priorityclasses.scheduling.k8s.io",
        "",
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **important},
    )
    serve = ServerSettings(port=0, insecure=True)
    plugins = {"Pause": Pause}
    async with Scheduler(kubeconfig=embedded.kubeconfig, leader_elect=False, plugins=plugins, serve=serve) as scheduler:
        await scheduler.ready()
        for name in ("patient", "unapproved"):
            add_pod(embedded, name, "100m")
        add_pod(embedded, "victim", "20", nodeSelector={"kubernetes.io/hostname": "node-1"})
        await when(scheduler, "default/victim", lambda found: found.state == "bound")
        add_pod(embedded, "vip", "20", nodeSelector={"kubernetes.io/hostname": "node-1"}, priorityClassName="high")
        await when(scheduler, "default/vip", lambda found: found.state == "bound")
        await when(scheduler, "default/victim", lambda found: found.state == "gone")
        await when(scheduler, "default/patient", lambda found: found.state == "held")

        async def text(name: str) -> str:
            arguments = ["explain", "pod", name, "--scheduler", scheduler.url, "--token", embedded.cluster.token]
            result = await asyncio.to_thread(CliRunner().invoke, main, arguments)
            assert result.exit_code == 0, result.output
            return result.stdout

        assert "Held by Pause\n  until 2" in await text("patient")
        assert "Pod default/victim was preempted by pod default/vip (DefaultPreemption) on node node-1" in await text(
            "victim"
        )
        assert "Evicted for this pod\n  default/victim" in await text("vip")
        assert "the PreEnqueue plugin Pause holds it" in await text("unapproved")
        headers = {"Authorization": f"Bearer {embedded.cluster.token}"}
        request = urllib.request.Request(f"{scheduler.url}/decisions", headers=headers)
        answer = await asyncio.to_thread(urllib.request.urlopen, request)
        decisions = {each["pod"]: each for each in json.load(answer)["decisions"]}
        assert decisions["default/victim"]["preempted"]["by"] == "default/vip"
        assert decisions["default/vip"]["victims"] == ["default/victim"]
        assert decisions["default/patient"]["permit"][0]["plugin"] == "Pause"
        async with Client(load_access(kubeconfig=embedded.kubeconfig)) as client:
            await client.delete(Pod, "unapproved", namespace="default")
        await when(scheduler, "default/unapproved", lambda found: found.state == "gone")
        assert "while it was gated: the PreEnqueue plugin Pause held it: not approved yet" in await text("unapproved")
