"""Our queue does what kube-scheduler 1.36.4's did: ``oracle/README.md`` says how the traces were made."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.scheduler.queue.oracle.replay import Replay

TRACES = [
    json.loads(line) for line in gzip.decompress((Path(__file__).parent / "traces.jsonl.gz").read_bytes()).splitlines()
]


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace["scenario"]["id"])
def test_trace(trace: dict[str, Any]) -> None:
    replay = Replay(trace["scenario"])
    state: dict[str, Any] = {}
    for number, (op, expected) in enumerate(zip(trace["scenario"]["ops"], trace["steps"], strict=True)):
        result, in_flight, changes = expected
        state = {name: pod for name, pod in {**state, **changes}.items() if pod is not None}
        got = replay.step(op)
        assert got == {"result": result, "inFlight": in_flight, "state": state}, f"step {number}: {op}"
    assert replay.incoming() == trace["incoming"]


def test_traces_are_many_and_varied() -> None:
    """So that a file that was cut off, or scenarios that hardly do anything, do not pass for success."""
    moves = {move for trace in TRACES for move in trace["incoming"]}
    assert len(TRACES) >= 100
    assert len(moves) >= 40
