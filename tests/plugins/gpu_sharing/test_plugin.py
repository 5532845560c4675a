"""GpuSharing on a node table, in an engine, and with the policies of the replay."""

from __future__ import annotations

import asyncio
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.config import ConfigError, load_config
from mooring.framework.api_clients import ObjectPatch
from mooring.framework.state import CycleState
from mooring.loading.setup import load_setup
from mooring.plugins.gpu_sharing import GpuSharing
from mooring.plugins.gpu_sharing.policies import POLICIES
from mooring.scheduler.attempt_results import AssumedPod
from mooring.scheduler.engine import Engine
from mooring.testing import PluginHarness, make_node, make_pod

COUNT, MILLI = "alibabacloud.com/gpu-count", "alibabacloud.com/gpu-milli"
MODEL, INDEX = "alibabacloud.com/gpu-card-model", "alibabacloud.com/gpu-index"

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{name: GpuSharing, weight: 100}]
  pluginConfig:
  - name: GpuSharing
    args: %s
"""


def node(name: str, gpus: int = 2, model: str = "T4", cpu: int = 16) -> Node:
    amounts = {"cpu": cpu, "memory": "64Gi", COUNT: gpus}
    return make_node(name).label({MODEL: model}).capacity(amounts).obj()


def pod(
    name: str, milli: int = 500, count: int = 1, *, on: str = "", index: str = "", cpu: str = "1", **more: str
) -> Pod:
    annotations = {MILLI: str(milli), COUNT: str(count), **({INDEX: index} if index else {}), **more}
    made = make_pod(name).uid(name).req(cpu=cpu).annotation(annotations)
    return (made.node(on) if on else made).obj()


def harness(*items: Any, policy: str = "mooring") -> PluginHarness:
    found = PluginHarness(GpuSharing, args={"policy": policy})
    found.add(*items)
    return found


# Filter


def test_nodes_without_room_or_model_are_rejected() -> None:
    world = harness(
        node("free"),
        node("half"),
        node("full"),
        node("other", model="A10"),
        make_node("none").capacity(cpu="8").obj(),
        pod("a", 600, on="half", index="0"),
        pod("b", 600, on="half", index="1"),
        pod("c", 1000, 2, on="full", index="0-1"),
    )
    room, model = "node(s) didn't have enough room on their GPUs", "node(s) didn't have a requested GPU model"
    assert world.run(pod("p", 400)).rejected == {"full": (room,), "none": (room,)}
    assert world.run(pod("p", 500, **{MODEL: "T4"})).rejected == {
        "half": (room,), "full": (room,), "other": (model,), "none": (model,)
    }  # fmt: skip
    assert world.run(make_pod("cpu").obj()).rejected == {}


def test_a_request_that_cannot_be_read_is_rejected() -> None:
    status = harness(node("n")).run(make_pod("p").annotation({MILLI: "2000"}).obj()).pre_filter
    assert "alibabacloud.com/gpu-milli" in status.message


def test_pods_of_other_schedulers_use_the_tightest_gpu() -> None:
    world = harness(
        node("n"), pod("a", 600, on="n", index="1"), pod("b", 300, on="n"), pod("c", 300, on="n", index="7")
    )
    assert world.run(pod("p", 700)).feasible == ["n"]
    assert world.run(pod("p", 701)).feasible == []


def test_room_follows_pods_that_come_and_go() -> None:
    world = harness(node("n", gpus=1))
    assert world.run(pod("p", 600)).feasible == ["n"]
    running = pod("a", 600, on="n")
    world.table.add_pod(running)
    assert world.run(pod("p", 600)).feasible == []
    world.table.remove_pod(running.uid)
    assert world.run(pod("p", 600)).feasible == ["n"]
    world.add(node("n", gpus=4))  # more GPUs than any node had
    assert world.run(pod("p", 1000, 4)).feasible == ["n"]


def test_preemption_sees_the_room_that_victims_leave() -> None:
    victim = pod("a", 600, on="n")
    world = harness(node("n", gpus=1), victim)
    waiting = pod("p", 700)
    assert not world.filter_what_if(CycleState(), waiting, "n").is_success
    assert world.filter_what_if(CycleState(), waiting, "n", without=["a"]).is_success
    assert not world.filter_what_if(CycleState(), waiting, "n", without=["a"], with_pods=[victim]).is_success
    assert world.run(waiting).feasible == []


# Score and Reserve


@pytest.mark.parametrize("policy", list(POLICIES))
def test_every_policy_scores_from_0_to_100(policy: str) -> None:
    world = harness(node("a"), node("b"), pod("x", 500, on="a", index="0"), policy=policy)
    for wanted in (pod("p", 500), pod("p", 1000), make_pod("cpu").req(cpu="2").obj()):
        scores = world.run(wanted).scores
        assert set(scores) == {"a", "b"}
        assert all(0 <= score <= 100 for score in scores.values())


def test_sharing_pods_fill_gpus_that_are_in_use() -> None:
    world = harness(node("a"), node("b"), pod("x", 500, on="b", index="1"))
    scores = world.run(pod("p", 500)).scores
    assert scores["b"] > scores["a"]


def test_reserve_chooses_the_gpu_and_pre_bind_writes_it() -> None:
    world = harness(node("n"), pod("x", 500, on="n", index="1"))
    patches: list[ObjectPatch] = []

    class Writer:
        async def patch(self, patch: ObjectPatch) -> Any:
            patches.append(patch)

    world.plugin.handle.volumes = Writer()
    state, wanted = CycleState(), pod("p", 500, on="n", index="0")  # users can write the annotation too
    world.table.add_pod(wanted)
    world.plugin.reserve(state, wanted, "n")
    asyncio.run(world.plugin.pre_bind(state, wanted, "n"))
    assert [(patch.name, patch.body) for patch in patches] == [
        ("p", {"metadata": {"uid": "p", "annotations": {INDEX: "1"}}})
    ]
    # GPU 0 is free and GPU 1 is full, whatever the annotation says.
    assert world.run(pod("q", 1000)).feasible == ["n"]
    world.plugin.unreserve(state, wanted, "n")
    assert world.run(pod("q", 1000)).feasible == []


def test_expected_pods_follow_the_pods_that_arrive() -> None:
    world = harness(node("a", gpus=4, cpu=64), node("b", gpus=4, cpu=64))
    world.run(pod("p", 500))
    for number in range(300):
        running = pod(f"r{number}", 320, on="a")
        world.table.add_pod(running)
        world.table.remove_pod(running.uid)
    world.run(pod("p", 500))
    assert world.plugin._renew_at == 400


# In an engine


def test_an_engine_packs_pods_and_never_overcommits_a_gpu() -> None:
    config = load_config(CONFIG % "{policy: mooring}", source="test")
    engine = Engine(config, rng=random.Random(1))
    for number in range(4):
        engine.put(node(f"n{number}", gpus=2, cpu=32))
    rng = random.Random(2)
    sizes = [rng.choice((320, 470, 650, 810, 1000)) for _ in range(30)]
    for number, milli in enumerate(sizes):
        engine.put(pod(f"p{number}", milli))
    placed = 0
    while (decided := engine.schedule_one()) is not None:
        placed += isinstance(decided, AssumedPod)
    plugin = engine.profiles.first.profile.plugins["GpuSharing"]
    assert isinstance(plugin, GpuSharing)
    left = plugin._refresh().left
    assert left.min() >= 0
    chosen = [(engine.cache.table.pods[uid], gpus) for uid, gpus in plugin._chosen.items()]
    used = np.zeros((4, 2), dtype=int)
    for info, gpus in chosen:
        assert info.node is not None
        used[info.node.row, gpus] += int(info.pod.annotations[MILLI])
    assert used.max() <= 1000
    assert (1000 - used).tolist() == left.tolist()
    assert placed >= 11


def test_arguments_are_checked() -> None:
    for args, message in (
        ("{policy: FDG}", "policy"),
        ("{typicalPods: [{gpuCount: 1}]}", "cpuMilli: is required"),
        ("{typicalPods: [{cpuMilli: 1, gpuMilli: 1001}]}", "gpuMilli"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_config(CONFIG % args, source="test")
    typical = "{policy: FGD, typicalPods: [{cpuMilli: 4000, gpuCount: 1, gpuMilli: 500, gpuModels: T4, weight: 3}]}"
    engine = Engine(load_config(CONFIG % typical, source="test"), rng=random.Random(1))
    engine.put(node("n"))
    engine.put(node("m"))
    engine.put(pod("p"))
    assert isinstance(engine.schedule_one(), AssumedPod)


def test_the_configuration_in_the_documentation_is_valid() -> None:
    page = (Path(__file__).parents[3] / "docs" / "placement.md").read_text()
    (text,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    setup = load_setup(text, source="docs/placement.md")
    assert setup.config.tie_break == "stable"
    engine = Engine(setup.config, rng=random.Random(1))
    for number in range(3):
        engine.put(node(f"n{number}"))
    engine.put(pod("p"))
    assert isinstance(engine.schedule_one(), AssumedPod)
