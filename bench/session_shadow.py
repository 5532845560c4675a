"""The agreement with Volcano on a real control plane: `python -m bench.session_shadow`.

vc-scheduler places gangs of several sizes, queues and priorities, and `mooring shadow` judges every choice. It is built
once by `python -m tests.e2e.controlplane build vc-scheduler`.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import deque
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from bench.batch.gangs import CONF, GROUPS_PATH, QUEUES_PATH
from bench.shadow import judge_while, print_summary
from mooring.controllers.definitions import DEFINITIONS
from mooring.live.batch.batch_settings import BatchSettings
from tests.e2e.controlplane import Api, BuildError, ControlPlane, build
from tests.e2e.controlplane.parts import VOLCANO

_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_PRIORITY_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
_PODS: Final = "/api/v1/namespaces/default/pods"
_ZONE: Final = "topology.kubernetes.io/zone"
_SIZES: Final = (1, 2, 4, 8, 16, 32)
_PRIORITIES: Final = {"low": 10, "middle": 100, "high": 1000}
#: Queue -> its spec. The last ones are full at times, so that their gangs wait.
_QUEUES: Final[dict[str, dict[str, Any]]] = {
    "research": {"weight": 4},
    "products": {"weight": 2},
    "nightly": {"weight": 1, "capability": {"cpu": "150", "memory": "600Gi"}},
    "guests": {"weight": 1, "capability": {"cpu": "40", "memory": "200Gi"}},
}


def make_cluster(api: Api, nodes: int) -> None:
    """Create the definitions of Volcano, queues, priority classes, and nodes of several sizes."""
    for definition in DEFINITIONS:
        api.create(_DEFINITIONS, definition)
    api.wait_for("the definitions", lambda: _served(api))
    for name, spec in _QUEUES.items():
        queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
        api.create(QUEUES_PATH, {**queue, "spec": {"reclaimable": True, **spec}})
        api.patch(f"{QUEUES_PATH}/{name}/status", {"status": {"state": "Open"}})
    for name, value in _PRIORITIES.items():
        api.create(_PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
    for number in range(nodes):
        # Different sizes, so that few nodes have equal scores.
        amounts = {"cpu": f"{8000 + 97 * (number % 89)}m", "memory": f"{30000 + 571 * (number % 97)}Mi", "pods": "110"}
        labels = {"kubernetes.io/hostname": f"node-{number}", _ZONE: f"zone-{number % 3}"}
        taint = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
        node = {
            "metadata": {"name": f"node-{number}", "labels": labels},
            "spec": {"taints": [taint] if number % 9 == 0 else []},
            "status": {
                "allocatable": amounts,
                "capacity": amounts,
                "conditions": [{"type": "Ready", "status": "True", "reason": "Made"}],
            },
        }
        api.create("/api/v1/nodes", node)


def _served(api: Api) -> bool:
    found = api.items(_DEFINITIONS)
    return all(
        any(
            each["type"] == "Established" and each["status"] == "True"
            for each in item["status"].get("conditions") or ()
        )
        for item in found
    )


def make_gang(rng: random.Random, number: int, size: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a PodGroup and its pods: of one or two roles, some with constraints, some more than the minimum."""
    name, priority = f"gang-{number}", rng.choice([*_PRIORITIES])
    roles = [_role(rng) for _ in range(rng.choice([1, 1, 2]))]
    least = size if rng.random() < 0.7 else max(1, size // 2)
    pods = []
    for index in range(size):
        spec = roles[0 if index < size / 2 else -1]
        pods.append(
            {
                "metadata": {
                    "name": f"{name}-{index}",
                    "labels": {"gang": name},
                    "annotations": {"scheduling.k8s.io/group-name": name},
                },
                "spec": {**spec, "schedulerName": "volcano", "priorityClassName": priority},
            }
        )
    group: dict[str, Any] = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": least, "queue": rng.choice([*_QUEUES]), "priorityClassName": priority},
    }
    return group, pods


def _role(rng: random.Random) -> dict[str, Any]:
    requests = {"cpu": f"{rng.randrange(100, 1500)}m", "memory": f"{rng.randrange(100, 4000)}Mi"}
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "example/app:1", "resources": {"requests": requests}}],
        "terminationGracePeriodSeconds": 0,
    }
    kind = rng.random()
    if kind < 0.15:
        spec["nodeSelector"] = {_ZONE: f"zone-{rng.randrange(3)}"}
    elif kind < 0.3:
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    elif kind < 0.45:
        term = {"matchExpressions": [{"key": _ZONE, "operator": "In", "values": [f"zone-{rng.randrange(3)}"]}]}
        preferred = [{"weight": rng.randrange(1, 100), "preference": term}]
        spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return spec


def create_gangs(api: Api, count: int, seed: int, kept: int) -> None:
    """Create pods in gangs. At most about ``kept`` pods exist at a time: the oldest gangs are deleted."""
    rng, made, alive, number = random.Random(seed), 0, deque[tuple[str, list[str]]](), 0
    while made < count:
        group, pods = make_gang(rng, number, min(rng.choice(_SIZES), count - made))
        api.create(GROUPS_PATH, group)
        for pod in pods:
            api.create(_PODS, pod)
        alive.append((group["metadata"]["name"], [pod["metadata"]["name"] for pod in pods]))
        made, number = made + len(pods), number + 1
        while sum(len(names) for _, names in alive) > kept:
            name, names = alive.popleft()
            for each in names:
                api.request("DELETE", f"{_PODS}/{each}", {"gracePeriodSeconds": 0})
            api.request("DELETE", f"{GROUPS_PATH}/{name}", {})
    api.close()


@click.command()
@click.option("--pods", default=3000, show_default=True)
@click.option("--nodes", default=300, show_default=True)
@click.option("--kept", default=1000, show_default=True, help="How many pods exist at a time.")
@click.option("--seed", default=1, show_default=True)
@click.option("--scheduler-conf", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-v", "--verbose", is_flag=True, help="Print the explanations of races too.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(pods: int, nodes: int, kept: int, seed: int, scheduler_conf: Path | None, verbose: bool, output: str) -> None:
    """Judge the choices of Volcano on a real control plane."""
    try:
        build(["kubectl", "etcd", "kube-apiserver", "vc-scheduler"])
    except BuildError as error:
        raise SystemExit(str(error)) from None
    with ControlPlane(unlimited=True) as plane:
        conf = plane.folder / "volcano-scheduler.conf"
        conf.write_text(CONF if scheduler_conf is None else scheduler_conf.read_text())
        make_cluster(plane.api, nodes)
        plane.start_vc_scheduler(conf, ["--percentage-nodes-to-find=100"])
        found = asyncio.run(
            judge_while(
                plane,
                lambda: create_gangs(plane.api_as("admin"), pods, seed, kept),
                expected=pods,
                batch=BatchSettings(scheduler_conf=conf),
                shown=("differs", "sampled", *(["race"] if verbose else [])),
            )
        )
    if output == "json":
        print(msgspec.json.encode({"version": VOLCANO, **found}).decode())
    else:
        print_summary(f"Volcano {VOLCANO}", found)
        told = ", ".join(f"{verdict} {number:,}" for verdict, number in found["failures"].items() if number)
        print(f"  pods that Volcano reported as unschedulable: {told or 'none'}")
    sys.exit(1 if found["placements"]["differs"] + found["failures"]["differs"] else 0)


if __name__ == "__main__":
    main()
