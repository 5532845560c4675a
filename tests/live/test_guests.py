"""WebAssembly guests in the profile of a live scheduler, on the embedded cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring import Scheduler
from tests.live.embedded import Embedded
from tests.loading.wasm.guests import REASON, module

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {{multiPoint: {{enabled: [{{name: Guest, weight: 100}}]}}}}
  pluginConfig:
  - {{name: Guest, args: {{guestURL: "file://{file}", timeLimit: 200ms}}}}
"""
IMPORTS = f"""{REASON}
(import "k8s.io/scheduler" "currentNodeName" (func $name (param i32 i32) (result i32)))
(import "k8s.io/scheduler" "currentPod" (func $pod (param i32 i32) (result i32)))"""
#: Prefers the node with the highest number; does not come back from pods that are longer than 4,000 bytes.
GUEST = """
(func (export "prefilter") (result i32)
  (if (i32.gt_u (call $pod (i32.const 0) (i32.const 0)) (i32.const 4000)) (then (loop $for_ever (br $for_ever))))
  (i32.const 0))
(func (export "score") (result i64)
  (i64.shl (i64.extend_i32_u (i32.sub
    (i32.load8_u (i32.sub (call $name (i32.const 0) (i32.const 256)) (i32.const 1))) (i32.const 48))) (i64.const 32)))
(func (export "postbind"))"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "guest.wasm").write_bytes(module(GUEST, imports=IMPORTS))
    path = tmp_path / "scheduler.yaml"
    path.write_text(CONFIG.format(file=tmp_path / "guest.wasm"))
    return path


async def test_a_guest_places_pods(embedded: Embedded, config: Path) -> None:
    async with Scheduler(config, kubeconfig=embedded.kubeconfig, leader_elect=False) as scheduler:
        for name in ("a", "b", "c"):
            embedded.add_pod(name)
        await scheduler.ready()
        assert {await embedded.node_of(name) for name in ("a", "b", "c")} == {"node-2"}


async def test_an_endless_guest_harms_one_attempt_only(embedded: Embedded, config: Path) -> None:
    """Pods before it and after it are placed; its own is told what happened."""
    embedded.add_pod("before")
    embedded.add_pod("long", labels={f"label-{number}": "x" * 60 for number in range(100)})
    embedded.add_pod("after")
    async with Scheduler(config, kubeconfig=embedded.kubeconfig, leader_elect=False) as scheduler:
        await scheduler.ready()
        message = await embedded.message_of("long")
        assert "Guest" in message
        assert "wasm: prefilter error: the guest was stopped: it did not return within 0.2 s" in message
        assert await embedded.node_of("before") == "node-2"
        assert await embedded.node_of("after") == "node-2"


async def test_a_changed_guest_takes_over_and_a_broken_one_does_not(embedded: Embedded, config: Path) -> None:
    file = config.with_name("guest.wasm")
    async with Scheduler(config, kubeconfig=embedded.kubeconfig, leader_elect=False) as scheduler:
        await scheduler.ready()
        file.write_bytes(b"\0asm and so on")
        assert "guest.wasm" in await embedded.event("ReloadFailed")
        embedded.add_pod("a")
        assert await embedded.node_of("a") == "node-2"
        # With other scores: 2, 3 and 0.
        other = GUEST.replace("(i32.sub\n", "(i32.xor\n").replace("(i32.const 48)", "(i32.const 50)")
        file.write_bytes(module(other, imports=IMPORTS))
        assert "Guest" in await embedded.event("Reloaded")
        embedded.add_pod("b")
        assert await embedded.node_of("b") == "node-1"
