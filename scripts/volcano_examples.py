"""Run Volcano's example manifests, unmodified, on an embedded cluster: `python scripts/volcano_examples.py`.

The files are read from the Go module cache (`go mod download volcano.sh/volcano@v1.15.1`), or from a given folder.
The result is a table for docs/jobs.md: each file ran, was refused as Volcano refuses it, or why it did not run.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import click
import yaml

from mooring.cluster import EmbeddedCluster
from mooring.config import load_config
from mooring.controllers.definitions import DEFINITIONS
from mooring.controllers.manager import ControllerManager, ManagerSettings
from mooring.kube import AlreadyExists, Client, KubeError, NotFound, load_access
from mooring.kube.api_resources import plural_of
from mooring.live import LiveScheduler
from mooring.live.batch.batch_settings import BatchSettings

_MODULE: Final = "volcano.sh/volcano@v1.15.1"
_CONFIG: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
"""
_SECONDS: Final = 12.0
#: The example of a CronJob starts a job every five minutes.
_CRON_SECONDS: Final = 320.0
_CLUSTER_KINDS: Final = frozenset({"Queue", "PriorityClass", "Namespace"})
#: Kinds that do nothing by themselves.
_PASSIVE: Final = frozenset({"ConfigMap", "PriorityClass", "Queue", "JobTemplate", "Role", "RoleBinding", "PodGroup"})
#: API versions that were removed; a priority class in another file of the folder is created in the present version.
_GONE: Final = frozenset({"scheduling.incubator.k8s.io/v1alpha1", "scheduling.k8s.io/v1beta1"})
#: Kinds in other files of the folder that are created first.
_REFERRED: Final = frozenset({"JobTemplate", "PriorityClass", "Queue"})
_CAPACITY: Final = {
    "cpu": "64", "memory": "512Gi", "pods": "500", "ephemeral-storage": "1Ti", "nvidia.com/gpu": "16",
}  # fmt: skip


def folder() -> Path:
    """Return the folder of the examples."""
    if len(sys.argv) > 1:
        return Path(sys.argv[1])
    cache = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    found = Path(cache) / _MODULE / "example"
    if not found.is_dir():
        sys.exit(f"{found} does not exist: run `go mod download {_MODULE}` first")
    return found


@contextlib.asynccontextmanager
async def cluster(place: Path) -> AsyncIterator[Client]:
    """Run a cluster with the controllers and with sessions."""
    embedded = EmbeddedCluster(definitions=DEFINITIONS)
    await embedded.start()
    embedded.add_nodes(5, capacity=_CAPACITY)
    kubeconfig = place / "kubeconfig"
    kubeconfig.write_text(embedded.kubeconfig())
    access = load_access(kubeconfig=str(kubeconfig))
    batch = BatchSettings(schedule_period=0.2)
    scheduler = LiveScheduler(load_config(_CONFIG, source="script"), access, batch=batch)
    manager = ControllerManager(access, ManagerSettings(qps=0))
    tasks = [asyncio.ensure_future(scheduler.run()), asyncio.ensure_future(manager.run())]
    try:
        await asyncio.gather(scheduler.ready.wait(), manager.ready.wait())
        async with Client(access) as client:
            yield client
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await embedded.stop()


def path_of(document: dict[str, Any], *, name: bool = True) -> str:
    """Return the path of an object, or of its collection."""
    version, metadata = document["apiVersion"], document["metadata"]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    if document["kind"] not in _CLUSTER_KINDS:
        base += f"/namespaces/{metadata.get('namespace', 'default')}"
    collection = f"{base}/{plural_of(document['kind'])}"
    return f"{collection}/{metadata['name']}" if name else collection


async def outcome(client: Client, document: dict[str, Any]) -> str:
    """Return the state of an object; empty if it is not known yet."""
    found = await client.send("GET", path_of(document))
    status, kind = found.get("status") or {}, document["kind"]
    if kind in _PASSIVE:
        return "created"
    if kind == "Job":
        state = status.get("state") or {}
        if state.get("reason") in {"InvalidJob", "QueueNotFound"}:
            return f"refused: {state.get('message')}"
        return f"ran ({state['phase']})" if state.get("phase") not in {None, "", "Pending"} else ""
    if kind in {"ReplicaSet", "Deployment"}:
        return "ran" if status.get("readyReplicas") == found["spec"].get("replicas", 1) else ""
    if kind == "JobFlow":
        return f"ran ({status['state']['phase']})" if status.get("runningJobs") or status.get("completedJobs") else ""
    if kind == "CronJob" and status.get("lastScheduleTime"):
        return f"ran (a job at {status['lastScheduleTime']})"
    return ""


async def why(client: Client, document: dict[str, Any]) -> str:
    """Return the last warning about an object or its pods."""
    events = (await client.send("GET", "/api/v1/events"))["items"]
    name = document["metadata"]["name"]
    about = [each for each in events if each["involvedObject"]["name"].startswith(name) and each["type"] == "Warning"]
    return str(about[-1]["message"]) if about else "no event"


def node_labels(document: dict[str, Any]) -> dict[str, str]:
    """Return the labels that the pods of a workload require of nodes."""
    template = (document.get("spec") or {}).get("template") or {}
    return (template.get("spec") or {}).get("nodeSelector") or {}


async def reached(client: Client, document: dict[str, Any]) -> str:
    """Return the state of an object once it is known, or the reason why it waits."""
    try:
        async with asyncio.timeout(_CRON_SECONDS if document["kind"] == "CronJob" else _SECONDS):
            while not (found := await outcome(client, document)):
                await asyncio.sleep(0.1)
    except TimeoutError:
        return f"waits: {await why(client, document)}"
    return found


async def run(client: Client, file: Path) -> str:
    """Create the objects of a file, and return what became of them."""
    documents = [each for each in yaml.safe_load_all(file.read_text()) if each]
    own = {(each["kind"], each["metadata"].get("name")) for each in documents}
    for other in sorted(file.parent.glob("*.yaml")):  # queues and templates that the file refers to
        for each in yaml.safe_load_all(other.read_text()):
            if each and each["kind"] in _REFERRED and (each["kind"], each["metadata"]["name"]) not in own:
                if each["apiVersion"] in _GONE:
                    each["apiVersion"] = "scheduling.k8s.io/v1"
                with contextlib.suppress(AlreadyExists):
                    await client.send("POST", path_of(each, name=False), each)
    made: list[dict[str, Any]] = []
    results: dict[str, None] = {}
    for document in sorted(documents, key=lambda each: each["kind"] not in _PASSIVE):
        namespace = document["metadata"].get("namespace", "default")
        with contextlib.suppress(KubeError):
            await client.send("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        try:
            if "name" not in document["metadata"]:  # generateName
                document["metadata"]["name"] = f"{document['metadata']['generateName']}x"
            await client.send("POST", path_of(document, name=False), document)
        except NotFound:
            kind, version = document["kind"], document["apiVersion"]
            text = (
                "which no release of Kubernetes or Volcano serves any more"
                if version in _GONE
                else "the API of another project"
            )
            results[f"not served: {kind} of {version}, {text}"] = None
        except KubeError as error:
            results[f"refused: {error}"] = None
        else:
            made.append(document)
    for document in made:
        found = await reached(client, document)
        wanted = node_labels(document)
        if found.startswith("waits") and wanted:
            patch = {"metadata": {"labels": wanted}}
            await client.send("PATCH", "/api/v1/nodes/node-0", patch, type="application/merge-patch+json")
            found = f"{await reached(client, document)}, once a node has the labels of its selector; before: {found}"
        if document["kind"] not in _PASSIVE or len(made) == sum(each["kind"] in _PASSIVE for each in made):
            results[found] = None
    for document in reversed(made):
        with contextlib.suppress(KubeError):
            await client.send("DELETE", path_of(document), {"propagationPolicy": "Background"})
    return "; ".join(results)


async def main() -> None:
    """Print the table."""
    root = folder()
    click.echo("| File | Result |\n|---|---|")
    with tempfile.TemporaryDirectory() as place:
        for file in sorted((*root.rglob("*.yaml"), *root.rglob("*.yml"))):
            async with cluster(Path(place)) as client:
                text = (await run(client, file)).replace("|", "\\|").replace("\n", " ")
            click.echo(f"| `{file.relative_to(root)}` | {text} |")


if __name__ == "__main__":
    asyncio.run(main())
