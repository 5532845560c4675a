"""The agreement with kube-scheduler on a real control plane: `python -m bench.shadow`.

kube-scheduler places mixed pods, and `mooring shadow` judges every choice. `K8S=1.37.1 python -m bench.shadow` does the
same with another version of Kubernetes.
"""

from __future__ import annotations

import asyncio
import random
import sys
import threading
from collections.abc import Callable, Collection
from typing import Any, Final

import click
import msgspec

from mooring.cli.shadow import summary
from mooring.config import SchedulerConfiguration, default_config
from mooring.kube import Client, load_access
from mooring.live.batch.batch_settings import BatchSettings
from mooring.live.shadow import LiveShadow
from mooring.releases import release_for_server
from mooring.scheduler.shadow import Judgement
from tests.e2e.controlplane import Api, ControlPlane

_ZONE: Final = "topology.kubernetes.io/zone"
_HOST: Final = "kubernetes.io/hostname"
_APPS: Final = 12
#: How many differences are kept for the report.
_SHOWN: Final = 20
#: The client of kube-scheduler is limited to 50 requests per second by default, which delays binds by minutes.
SCHEDULER: Final[dict[str, Any]] = {"clientConnection": {"qps": 5000, "burst": 10000}}


def make_nodes(api: Api, count: int) -> None:
    """Create nodes of several sizes, in three zones, some with taints."""
    for number in range(count):
        name = f"node-{number}"
        # Different sizes, so that few nodes have equal scores.
        amounts = {"cpu": f"{16000 + 977 * number}m", "memory": f"{60000 + 3571 * number}Mi", "pods": "250"}
        labels = {_HOST: name, _ZONE: f"zone-{number % 3}", "disk": "ssd" if number % 4 else "hdd"}
        taint = {"key": "dedicated", "value": "batch", "effect": "NoSchedule" if number % 2 else "PreferNoSchedule"}
        node = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": [taint] if number % 9 == 0 else []},
            "status": {
                "allocatable": amounts,
                "capacity": amounts,
                "conditions": [{"type": "Ready", "status": "True", "reason": "Made"}],
            },
        }
        api.create("/api/v1/nodes", node)


def make_pod(rng: random.Random, number: int) -> dict[str, Any]:
    """Return a pod with some of the features that decisions depend on."""
    app = f"app-{rng.randrange(_APPS)}"
    requests = {"cpu": f"{rng.randrange(100, 3000)}m", "memory": f"{rng.randrange(100, 9000)}Mi"}
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "example/app:1", "resources": {"requests": requests}}],
        "terminationGracePeriodSeconds": 0,
    }
    features: list[Callable[[dict[str, Any]], None]] = [
        lambda spec: spec.update(nodeSelector={"disk": rng.choice(["ssd", "hdd"])}),
        lambda spec: spec.update(tolerations=[{"key": "dedicated", "operator": "Exists"}]),
        lambda spec: spec.update(
            topologySpreadConstraints=[
                {
                    "maxSkew": rng.choice([1, 2, 5]),
                    "topologyKey": rng.choice([_ZONE, _HOST]),
                    "whenUnsatisfiable": rng.choice(["DoNotSchedule", "ScheduleAnyway"]),
                    "labelSelector": {"matchLabels": {"app": app}},
                }
            ]
        ),
        lambda spec: _affinity(spec, "podAffinity")["preferredDuringSchedulingIgnoredDuringExecution"].append(
            {"weight": rng.randrange(1, 100), "podAffinityTerm": _term(f"app-{rng.randrange(_APPS)}", _ZONE)}
        ),
        lambda spec: _affinity(spec, "podAntiAffinity")["preferredDuringSchedulingIgnoredDuringExecution"].append(
            {"weight": rng.randrange(1, 100), "podAffinityTerm": _term(app, _HOST)}
        ),
        lambda spec: _affinity(spec, "nodeAffinity")["preferredDuringSchedulingIgnoredDuringExecution"].append(
            {
                "weight": rng.randrange(1, 100),
                "preference": {"matchExpressions": [{"key": _ZONE, "operator": "In", "values": ["zone-1"]}]},
            }
        ),
        lambda spec: spec["containers"][0].update(ports=[{"containerPort": 80, "hostPort": 20000 + rng.randrange(40)}]),
    ]
    for feature in rng.sample(features, rng.choice([0, 0, 1, 1, 2, 3])):
        feature(spec)
    return {"metadata": {"name": f"pod-{number}", "labels": {"app": app}}, "spec": spec}


def _affinity(spec: dict[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = spec.setdefault("affinity", {}).setdefault(kind, {})
    found.setdefault("preferredDuringSchedulingIgnoredDuringExecution", [])
    return found


def _term(app: str, key: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def configuration(api: Api) -> SchedulerConfiguration:
    """Return the default configuration of the version of the API server."""
    minor = str(api.get("/version")["minor"]).rstrip("+")
    return default_config(release_for_server(int(minor)))


async def judge(
    plane: ControlPlane, *, pods: int, seed: int, kept: int, user: str = "admin", namespace: str = "default"
) -> dict[str, Any]:
    """Create pods while kube-scheduler places them, and return the summary; ``differences`` has the first ones.

    At most about ``kept`` pods exist at a time: the oldest are deleted.
    """
    api = plane.api_as("admin")
    return await judge_while(plane, lambda: _create(api, namespace, pods, seed, kept), expected=pods, user=user)


async def judge_while(
    plane: ControlPlane,
    create: Callable[[], None],
    *,
    expected: int,
    user: str = "admin",
    batch: BatchSettings | None = None,
    shown: Collection[str] = ("differs",),
) -> dict[str, Any]:
    """Judge while pods are created in a thread, and until all are judged or nothing happens for a while.

    Return the summary; ``differences`` has the first decisions with one of the verdicts ``shown``.
    """
    differences: list[Judgement] = []

    def report(judgement: Judgement) -> None:
        if judgement.verdict in shown:
            differences.append(judgement)

    config = configuration(plane.api)
    async with Client(load_access(kubeconfig=str(plane.kubeconfig(user)))) as client:
        live = LiveShadow(config, client, batch=batch, report=report)
        task = asyncio.create_task(live.run())
        await asyncio.wait_for(live.synced.wait(), 60)
        creator = threading.Thread(target=create)
        creator.start()
        last, quiet = -1, 0
        while (creator.is_alive() or quiet < 20) and live.shadow.judged < expected:
            await asyncio.sleep(0.5)
            quiet = quiet + 1 if live.shadow.judged == last else 0
            last = live.shadow.judged
        creator.join()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    found = summary(live.shadow)
    return {**found, "differences": [msgspec.to_builtins(each) for each in differences[:_SHOWN]]}


def print_summary(scheduler: str, found: dict[str, Any]) -> None:
    """Print the numbers of placements by verdict, and the differences."""
    print(f"{scheduler}: {found['judged']:,} pods, {found['agreementPercent']} % without a difference")
    for verdict, number in found["placements"].items():
        print(f"  {verdict:<8} {number:6,}")
    for each in found["differences"]:
        theirs, ours = each["theirs"] or "no node", each["ours"] or "no node"
        print(f"  {each['verdict']} {each['pod']}: {theirs}, Mooring {ours}: {each['why']}")


def _create(api: Api, namespace: str, count: int, seed: int, kept: int) -> None:
    rng, path = random.Random(seed), f"/api/v1/namespaces/{namespace}/pods"
    for number in range(count):
        api.create(path, make_pod(rng, number))
        if number >= kept:
            api.request("DELETE", f"{path}/pod-{number - kept}", {"gracePeriodSeconds": 0})
    api.close()


@click.command()
@click.option("--pods", default=5000, show_default=True)
@click.option("--nodes", default=60, show_default=True)
@click.option("--kept", default=1000, show_default=True, help="How many pods exist at a time.")
@click.option("--seed", default=1, show_default=True)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(pods: int, nodes: int, kept: int, seed: int, output: str) -> None:
    """Judge the choices of kube-scheduler on a real control plane."""
    with ControlPlane(unlimited=True) as plane:
        make_nodes(plane.api, nodes)
        plane.start_kube_scheduler(SCHEDULER)
        found = asyncio.run(judge(plane, pods=pods, seed=seed, kept=kept))
        version = plane.api.get("/version")["gitVersion"]
    if output == "json":
        print(msgspec.json.encode({"version": version, **found}).decode())
    else:
        print_summary(f"kube-scheduler {version}", found)
    sys.exit(1 if found["placements"]["differs"] else 0)


if __name__ == "__main__":
    main()
