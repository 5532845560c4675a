"""An embedded cluster in the process of the test."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from mooring.cluster import EmbeddedCluster
from mooring.cluster.request_context import system_context
from tests.waiting import PATIENCE


class Embedded:
    """An embedded cluster with its kubeconfig in a file."""

    def __init__(self, cluster: EmbeddedCluster, kubeconfig: Path) -> None:
        self.cluster = cluster
        self.kubeconfig = str(kubeconfig)

    def add_pod(self, name: str, *, scheduler: str = "default-scheduler", **metadata: Any) -> None:
        pods = self.cluster.api.mapper.of("pods")
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, **metadata},
            "spec": {"containers": [container], "schedulerName": scheduler},
        }
        self.cluster.api.registry.create(pods, "default", pod, system_context())

    async def node_of(self, name: str) -> str:
        async with asyncio.timeout(PATIENCE):
            while True:
                found = self.cluster.store.get("pods", "default", name)
                assert found is not None
                if node := found.document["spec"].get("nodeName"):
                    return str(node)
                await asyncio.sleep(0.02)

    async def message_of(self, name: str) -> str:
        """Why a pod has no node."""
        async with asyncio.timeout(PATIENCE):
            while True:
                found = self.cluster.store.get("pods", "default", name)
                assert found is not None
                for condition in found.document.get("status", {}).get("conditions", ()):
                    if condition["type"] == "PodScheduled" and condition["status"] == "False":
                        return str(condition["message"])
                await asyncio.sleep(0.02)

    async def event(self, reason: str) -> str:
        """What an event says, once there is one with that reason."""
        async with asyncio.timeout(PATIENCE):
            while True:
                for each in self.cluster.store.objects("events"):
                    if each.document.get("reason") == reason:
                        return str(each.document.get("note") or each.document.get("message", ""))
                await asyncio.sleep(0.02)
