"""Clients with made-up tokens do not delay the scheduler: token reviews have their own connections and limits."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections import Counter

import aiohttp

from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import free_port
from tests.e2e.endpoints import ask
from tests.e2e.mooring_process import mooring_command

CLIENTS = 600
#: The limit of reviews per second, and the burst (docs/security.md).
QPS, BURST = 20, 40


class Flood:
    """Clients that all send a token of their own, again and again, until the block ends. A context manager."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.statuses: Counter[int] = Counter()
        self._over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> Flood:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    async def _run(self) -> None:
        connector = aiohttp.TCPConnector(limit=200, ssl=False)
        async with aiohttp.ClientSession(connector=connector) as session:
            await asyncio.gather(*(self._client(session, number) for number in range(CLIENTS)))

    async def _client(self, session: aiohttp.ClientSession, number: int) -> None:
        tries = 0
        while not self._over.is_set():
            tries += 1
            headers = {"Authorization": f"Bearer made-up-{number}-{tries}"}
            try:
                async with session.get(f"https://127.0.0.1:{self._port}/metrics", headers=headers) as answer:
                    self.statuses[answer.status] += 1
            except (aiohttp.ClientError, OSError):
                self.statuses[0] += 1
            await asyncio.sleep(0.05)


def reviews(cluster: Cluster) -> int:
    """The number of token reviews that the API server has handled."""
    text = cluster.kubectl("get", "--raw", "/metrics")
    found = re.findall(r'^apiserver_request_total\{.*resource="tokenreviews".*\} (\S+)$', text, re.MULTILINE)
    return int(sum(map(float, found)))


def test_made_up_tokens_do_not_delay_preemption(cluster: Cluster) -> None:
    cluster.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "urgent"}, "value": 1000})
    cluster.add_node("only", cpu="2")
    port = free_port()
    command = mooring_command(cluster.plane, "--leader-elect=false", port=port)
    mooring = cluster.plane.run("mooring", command, wait=False)
    for number in range(3):
        cluster.add_pod(f"low-{number}", cpu="2" if number == 0 else "100m", memory="1Mi")
        if number == 0:
            cluster.wait_bound("low-0")
    before, begun = reviews(cluster), time.monotonic()
    with Flood(port) as flood:
        cluster.api.wait_for("a rejected client", lambda: flood.statuses[429] > CLIENTS or None)
        asked = time.monotonic()
        cluster.add_pod("high", cpu="2", priorityClassName="urgent")
        cluster.wait_bound("high")
        took = time.monotonic() - asked
        assert ask(port, "/livez").status == 200
        sent, seconds = reviews(cluster) - before, time.monotonic() - begun
    print(f"preempted and bound within {took:.2f} s; {sent} reviews in {seconds:.1f} s; {dict(flood.statuses)}")
    assert sent <= BURST + QPS * (seconds + 1)
    assert flood.statuses[200] == 0
    assert "made-up" not in mooring.log.read_text(errors="replace")
