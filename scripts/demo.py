"""`make demo`: run an embedded cluster, a scheduler with user plugins and a workload, and show the placements.

Each step prints the command that does the same.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import IO, Any

import click

sys.path.insert(0, str(Path(__file__).resolve().parent))

from kube import Kube, manifests, run
from mooring.cli.output import print_parts
from mooring.simulation.report import Column, Grid, Listing

DEMO = Path("examples", "demo")
OPTIONS = (
    "--nodes=0",
    "--config=examples/demo/scheduler.yaml",
    "--plugins-dir=examples/plugins/cheapest_node",
)
#: The profiles in the configuration.
SCHEDULERS = ("default-scheduler", "thrifty")
# The quiet time is longer than the first backoff, because the first attempt for a pod may precede its claim.
_START_SECONDS, _SETTLE_SECONDS, _QUIET_SECONDS = 15.0, 30.0, 1.6
#: The maximum number of pods to list for each reason.
_NAMES = 4
Object = dict[str, Any]


def main() -> None:
    """Run the demo, and stop all processes at the end."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mooring-demo-") as folder, Path(folder, "log").open("w+") as log:
        kubeconfig = Path(folder, "kubeconfig")
        _say("mooring up", *OPTIONS)
        command = [sys.executable, "-m", "mooring.cli", "up", *OPTIONS, f"--kubeconfig-out={kubeconfig}"]
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _wait(process, kubeconfig, log)
            _say(f"kubectl apply -f {DEMO}/cluster")
            pods, nodes = run(str(kubeconfig), _apply_and_watch)
            print_parts([_summary(pods, nodes), _workloads(pods, nodes), _pending(pods)])
            name = next(each["metadata"]["name"] for each in pods if each["metadata"]["name"].startswith("nightly-"))
            _say(f"mooring explain pod batch/{name}")
            _explain(kubeconfig, f"batch/{name}")
        finally:
            process.terminate()
            process.wait(20)
    click.echo(f"\nDone in {time.monotonic() - begun:.1f} s. `make up` starts a cluster that keeps running.")


def _say(*command: str) -> None:
    click.echo("\n-- " + " \\\n       ".join(command) + "\n")


def _wait(process: subprocess.Popen[bytes], kubeconfig: Path, log: IO[str]) -> None:
    end = time.monotonic() + _START_SECONDS
    while not kubeconfig.exists():
        if process.poll() is not None or time.monotonic() > end:
            log.seek(0)
            raise click.ClickException(f"the embedded cluster did not start:\n{log.read()}")
        time.sleep(0.02)
    click.echo("An embedded cluster and its scheduler are running.")


async def _apply_and_watch(kube: Kube) -> tuple[list[Object], list[Object]]:
    """Apply the workload, and wait until every pod has a node or a reason."""
    lines = await kube.apply(manifests([str(DEMO / "cluster")]))
    kinds = Counter(line.partition("/")[0] for line in lines)
    click.echo("Created: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items()) + "\n")
    end, seen, since = time.monotonic() + _SETTLE_SECONDS, "", time.monotonic()
    while True:
        pods = (await kube.read("/api/v1/pods"))["items"]
        state = ",".join(sorted(f"{each['metadata']['uid']}{_state(each)}" for each in pods))
        if state != seen:
            seen, since = state, time.monotonic()
        quiet = time.monotonic() - since > _QUIET_SECONDS and not any(_untried(each) for each in pods)
        if quiet or time.monotonic() > end:
            return pods, (await kube.read("/api/v1/nodes"))["items"]
        await asyncio.sleep(0.1)


def _state(pod: Object) -> str:
    """Return the pod's node, or the reason why it is pending."""
    if node := pod["spec"].get("nodeName"):
        return str(node)
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition["type"] == "PodScheduled":
            return f" {condition.get('message') or condition['reason']}"
    return f' there is no scheduler "{pod["spec"]["schedulerName"]}"'


def _untried(pod: Object) -> bool:
    """Return whether the pod waits for the first decision of a scheduler of the demo."""
    conditions = pod.get("status", {}).get("conditions", ())
    told = any(each["type"] == "PodScheduled" for each in conditions)
    return pod["spec"]["schedulerName"] in SCHEDULERS and not pod["spec"].get("nodeName") and not told


def _workload(pod: Object) -> str:
    metadata = pod["metadata"]
    space = "" if metadata["namespace"] == "default" else f"{metadata['namespace']}/"
    owner = next(iter(metadata.get("ownerReferences", ())), None)
    if owner is None:
        return "standalone pods"
    if owner["kind"] == "ReplicaSet":
        return f"Deployment {space}{owner['name'].rpartition('-')[0]}"
    return f"{owner['kind']} {space}{owner['name']}"


def _summary(pods: list[Object], nodes: list[Object]) -> str:
    bound = sum("nodeName" in each["spec"] for each in pods)
    return f"{len(nodes)} nodes, {len(pods)} pods: {bound} on nodes, {len(pods) - bound} waiting"


def _workloads(pods: list[Object], nodes: list[Object]) -> Grid:
    zones = {
        each["metadata"]["name"]: each["metadata"]["labels"].get("topology.kubernetes.io/zone", "") for each in nodes
    }
    groups: dict[str, list[str]] = {}
    for pod in pods:
        groups.setdefault(_workload(pod), []).append(pod["spec"].get("nodeName", ""))
    rows: list[tuple[str, ...]] = []
    for name, places in groups.items():
        there = [each for each in places if each]
        where = ", ".join(f"{zone} {count}" for zone, count in sorted(Counter(zones[each] for each in there).items()))
        rows.append((name, str(len(places)), str(len(there)), str(len(set(there))), where))
    titles = (Column(each, "right") for each in ("pods", "on nodes", "nodes"))
    return Grid("Placements", (Column("workload"), *titles, Column("where")), [*rows])


def _pending(pods: list[Object]) -> Listing:
    reasons: dict[str, list[str]] = {}
    for pod in pods:
        if "nodeName" not in pod["spec"]:
            reasons.setdefault(_state(pod).strip(), []).append(
                f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            )
    return Listing("Waiting", [(_some(names), why) for why, names in reasons.items()])


def _some(names: list[str]) -> str:
    more = len(names) - _NAMES
    return ", ".join(names[:_NAMES]) + (f" and {more} more" if more > 0 else "")


def _explain(kubeconfig: Path, pod: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "mooring.cli", "explain", "pod", pod, "--kubeconfig", str(kubeconfig)], check=True
    )


if __name__ == "__main__":
    try:
        main()
    except click.ClickException as error:
        error.show()
        raise SystemExit(1) from None
    except (subprocess.CalledProcessError, KeyboardInterrupt):
        raise SystemExit(1) from None
