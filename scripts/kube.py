"""A small replacement for kubectl, for machines without it: `python scripts/kube.py --help`.

It uses Mooring's own client, so it finds and authenticates to a cluster as `mooring run` does.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import msgspec
import yaml

from mooring.kube import AccessError, AlreadyExists, Client, KubeError, NotFound, load_access

Object = dict[str, Any]
#: Kinds that are applied first, because other objects refer to them.
_FIRST = ("Namespace", "CustomResourceDefinition", "PriorityClass", "StorageClass", "ServiceAccount", "Node")


class Kube:
    """A client that reads and writes objects as documents."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._resources: dict[str, list[Object]] = {}

    async def read(self, path: str) -> Any:
        """Return the document at a path."""
        return msgspec.json.decode(await self._client.call("GET", path))

    async def write(self, method: str, path: str, document: Object) -> Any:
        """Send a document."""
        return msgspec.json.decode(await self._client.call(method, path, msgspec.json.encode(document)))

    async def apply(self, documents: Iterable[Object], namespace: str = "default") -> list[str]:
        """Create or replace objects and return a line for each."""
        found = sorted(
            documents, key=lambda each: _FIRST.index(each["kind"]) if each["kind"] in _FIRST else len(_FIRST)
        )
        await self._make_namespaces(found)
        return [await self._apply(each, namespace) for each in found]

    async def _make_namespaces(self, documents: Iterable[Object]) -> None:
        for name in sorted({each["metadata"].get("namespace", "default") for each in documents} - {"default"}):
            try:
                await self._client.call("GET", f"/api/v1/namespaces/{name}")
            except NotFound:
                await self.write("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    async def _apply(self, document: Object, namespace: str) -> str:
        path, name = await self._path(document, namespace), document["metadata"]["name"]
        shown = f"{document['kind'].lower()}/{name}"
        try:
            await self.write("POST", path, document)
        except AlreadyExists:
            present = await self.read(f"{path}/{name}")
            version = present["metadata"]["resourceVersion"]
            fresh = {**document, "metadata": {**document["metadata"], "resourceVersion": version}}
            await self.write("PUT", f"{path}/{name}", fresh)
            return f"{shown} replaced"
        return f"{shown} created"

    async def delete(self, documents: Iterable[Object], namespace: str = "default") -> list[str]:
        """Delete objects in reverse order and return a line for each."""
        lines = []
        for document in reversed(list(documents)):
            path = f"{await self._path(document, namespace)}/{document['metadata']['name']}"
            try:
                await self._client.call("DELETE", path + "?gracePeriodSeconds=0&propagationPolicy=Background")
            except NotFound:
                continue
            lines.append(f"{document['kind'].lower()}/{document['metadata']['name']} deleted")
        return lines

    async def _path(self, document: Object, namespace: str) -> str:
        version = document["apiVersion"]
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if base not in self._resources:
            self._resources[base] = (await self.read(base))["resources"]
        for each in self._resources[base]:
            if each["kind"] == document["kind"] and "/" not in each["name"]:
                inside = f"/namespaces/{document['metadata'].get('namespace', namespace)}" if each["namespaced"] else ""
                return f"{base}{inside}/{each['name']}"
        raise click.ClickException(f"the cluster has no {document['kind']} of {version}")

    async def bound(self, namespace: str, name: str, seconds: float) -> str:
        """Wait until a pod is bound and return its node."""
        end = time.monotonic() + seconds
        while True:
            pod = await self.read(f"/api/v1/namespaces/{namespace}/pods/{name}")
            if node := pod["spec"].get("nodeName"):
                return str(node)
            if time.monotonic() > end:
                conditions = pod.get("status", {}).get("conditions", ())
                why = next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")
                raise click.ClickException(
                    f"pod {namespace}/{name} has no node after {seconds:g} s: {why or 'nobody tried'}"
                )
            await asyncio.sleep(0.1)

    async def waiting(self, namespace: str, name: str, seconds: float) -> str:
        """Wait until a pod is unschedulable and return the reason."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pod = await self.read(f"/api/v1/namespaces/{namespace}/pods/{name}")
            if node := pod["spec"].get("nodeName"):
                raise click.ClickException(f"pod {namespace}/{name} is on {node}")
            for condition in pod.get("status", {}).get("conditions", ()):
                if condition["type"] == "PodScheduled" and condition["status"] == "False":
                    return str(condition.get("message", ""))
            await asyncio.sleep(0.1)
        raise click.ClickException(f"nobody tried pod {namespace}/{name} in {seconds:g} s")

    async def placed(self, namespace: str, label: str, counts: dict[str, int], seconds: float) -> list[str]:
        """Wait until exactly this number of pods is bound for each value of a label; return a line for each pod."""
        end = time.monotonic() + seconds
        query = quote(f"{label} in ({','.join(counts)})")
        while True:
            pods = (await self.read(f"/api/v1/namespaces/{namespace}/pods?labelSelector={query}"))["items"]
            placed = [each for each in pods if each["spec"].get("nodeName")]
            found = Counter(str(each["metadata"]["labels"][label]) for each in placed)
            if all(found[value] == count for value, count in counts.items()):
                return sorted(f"{each['metadata']['name']} {each['spec']['nodeName']}" for each in placed)
            if time.monotonic() > end:
                shown = ", ".join(f"{found[value]} of {value}, not {count}" for value, count in counts.items())
                raise click.ClickException(f"pods with a node after {seconds:g} s: {shown}")
            await asyncio.sleep(0.1)

    async def say_running(self, namespace: str, selector: str) -> list[str]:
        """Set the phase of bound pods to Running and return a line for each."""
        path = f"/api/v1/namespaces/{namespace}/pods"
        lines = []
        for pod in (await self.read(f"{path}?labelSelector={quote(selector)}"))["items"]:
            if pod["spec"].get("nodeName"):
                pod["status"]["phase"] = "Running"
                await self.write("PUT", f"{path}/{pod['metadata']['name']}/status", pod)
                lines.append(f"pod/{pod['metadata']['name']} runs")
        return lines

    async def token(self, namespace: str, account: str) -> str:
        """Return a token of a service account that is valid for an hour."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        return str((await self.write("POST", path, body))["status"]["token"])


def manifests(paths: Iterable[str]) -> Iterator[Object]:
    """Yield the objects in files, directories and standard input (-)."""
    for path in paths:
        if path == "-":
            texts = [click.get_text_stream("stdin").read()]
        else:
            files = sorted(Path(path).glob("*.yaml")) if Path(path).is_dir() else [Path(path)]
            texts = [file.read_text(encoding="utf-8") for file in files]
        for text in texts:
            for document in yaml.safe_load_all(text):
                if document:
                    yield from document["items"] if document["kind"] == "List" else [document]


def run(kubeconfig: str, work: Any) -> Any:
    """Run a function with a client for a cluster. An error ends the script with one message."""

    async def connected() -> Any:
        async with Client(load_access(kubeconfig=kubeconfig)) as client:
            return await work(Kube(client))

    try:
        return asyncio.run(connected())
    except (AccessError, KubeError, OSError, yaml.YAMLError) as error:
        raise click.ClickException(str(error)) from None


_kubeconfig = click.option("--kubeconfig", default="", help="The cluster; found as kubectl finds it unless given.")
_namespace = click.option("-n", "--namespace", default="default", show_default=True)
_timeout = click.option("--timeout", type=float, default=30.0, show_default=True, help="In seconds.")
_files = click.option(
    "-f", "--filename", "files", multiple=True, required=True, help="Manifests; - reads them from a pipe."
)


@click.group()
def kube() -> None:
    """A small replacement for kubectl, for machines without it."""


@kube.command()
@_kubeconfig
@_namespace
@_files
def apply(kubeconfig: str, namespace: str, files: tuple[str, ...]) -> None:
    """Create or replace the objects in manifests."""
    documents = list(manifests(files))
    click.echo("\n".join(run(kubeconfig, lambda kube: kube.apply(documents, namespace))))


@kube.command()
@_kubeconfig
@_namespace
@_files
def delete(kubeconfig: str, namespace: str, files: tuple[str, ...]) -> None:
    """Delete the objects in manifests, if they exist."""
    documents = list(manifests(files))
    click.echo("\n".join(run(kubeconfig, lambda kube: kube.delete(documents, namespace))))


@kube.command()
@_kubeconfig
@_namespace
@_timeout
@click.argument("pod")
def bound(kubeconfig: str, namespace: str, timeout: float, pod: str) -> None:
    """Wait until a pod is bound, and print its node."""
    click.echo(run(kubeconfig, lambda kube: kube.bound(namespace, pod, timeout)))


@kube.command()
@_kubeconfig
@_namespace
@_timeout
@click.argument("pod")
def waiting(kubeconfig: str, namespace: str, timeout: float, pod: str) -> None:
    """Wait until a pod is unschedulable, and print the reason."""
    click.echo(run(kubeconfig, lambda kube: kube.waiting(namespace, pod, timeout)))


@kube.command()
@_kubeconfig
@_namespace
@_timeout
@click.option("--label", required=True)
@click.argument("counts", nargs=-1, metavar="VALUE=COUNT...")
def placed(kubeconfig: str, namespace: str, timeout: float, label: str, counts: tuple[str, ...]) -> None:
    """Wait until the given number of pods is bound for each value of a label, and print the pods with their nodes."""
    wanted = {value: int(count) for value, _, count in (each.partition("=") for each in counts)}
    click.echo("\n".join(run(kubeconfig, lambda kube: kube.placed(namespace, label, wanted, timeout))))


@kube.command()
@_kubeconfig
@_namespace
@click.argument("selector")
def running(kubeconfig: str, namespace: str, selector: str) -> None:
    """Set the phase of pods with some labels to Running, for nodes without a kubelet."""
    click.echo("\n".join(run(kubeconfig, lambda kube: kube.say_running(namespace, selector))))


@kube.command()
@_kubeconfig
@click.argument("path")
@click.argument("field", default="")
def read(kubeconfig: str, path: str, field: str) -> None:
    """Print the document at an API path, or one of its fields (spec.nodeName); nothing if it does not exist."""
    found = run(kubeconfig, lambda kube: kube.read(path))
    for step in field.split(".") if field else ():
        found = found.get(step, "") if isinstance(found, dict) else ""
    click.echo(found if isinstance(found, str) else msgspec.json.encode(found).decode())


@kube.command()
@_kubeconfig
@_namespace
@click.argument("account")
def token(kubeconfig: str, namespace: str, account: str) -> None:
    """Print a token of a service account."""
    click.echo(run(kubeconfig, lambda kube: kube.token(namespace, account)))


if __name__ == "__main__":
    kube()
