"""The example's server and configuration, with a scheduler that calls it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.config import load_config
from mooring.live.extenders import ExtenderClient
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt, PendingAttempt
from mooring.scheduler.engine import Engine
from mooring.scheduler.extenders import Extenders
from mooring.testing import make_node, make_pod

FOLDER = Path(__file__).parent


@pytest.fixture
def url() -> Iterator[str]:
    command = [sys.executable, str(FOLDER / "licences.py"), "--port", "0", "rack-a=2", "rack-b=5"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().removeprefix("listening on ").strip()
        process.kill()


async def decide(url: str, licences: int) -> AssumedPod | FailedAttempt | PendingAttempt | None:
    text = (FOLDER / "scheduler.yaml").read_text().replace("http://127.0.0.1:8901", url)
    config = load_config(text, source="scheduler.yaml")
    client = ExtenderClient()
    engine = Engine(config, extenders=Extenders(config.extenders, client.send))
    for rack in ("a", "b", "c"):
        node = make_node(f"node-{rack}").capacity(cpu="4", memory="8Gi", pods="10").label(rack=f"rack-{rack}")
        engine.put(node.obj())
    requests = {"cpu": "1", "example.com/licence": str(licences)} if licences else {"cpu": "1"}
    engine.put(make_pod("p").req(requests).obj())
    outcome = engine.schedule_one()
    assert isinstance(outcome, PendingAttempt) == (licences > 0)
    if isinstance(outcome, PendingAttempt):
        outcome = await engine.complete(outcome)
    await client.close()
    return outcome


@pytest.mark.parametrize(("licences", "nodes"), [(1, {"node-b"}), (3, {"node-b"}), (0, {"node-a", "node-b", "node-c"})])
def test_pods_are_placed_by_licences(url: str, licences: int, nodes: set[str]) -> None:
    decided = asyncio.run(decide(url, licences))
    assert isinstance(decided, AssumedPod)
    assert decided.node_name in nodes


def test_the_reason_of_a_pending_pod(url: str) -> None:
    failed = asyncio.run(decide(url, 9))
    assert isinstance(failed, FailedAttempt)
    assert failed.failure.message.startswith("0/3 nodes are available: 3 node(s) had too few licences in their rack. ")
