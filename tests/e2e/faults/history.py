"""What really happened to the pods of a namespace, from a watch of its own that goes straight to the API server."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.controlplane import ControlPlane


def milli(quantity: str) -> int:
    """Return a CPU quantity in millicores."""
    return int(quantity[:-1]) if quantity.endswith("m") else int(quantity) * 1000


class History:
    """Follows all pods of a namespace from when it is made until `close`, whatever becomes of the server."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        #: uid -> the nodes that the pod was seen on, in order.
        self.nodes: dict[str, list[str]] = {}
        #: uid -> time.monotonic() of when it was first seen bound.
        self.bound_at: dict[str, float] = {}
        #: uid -> the uid of the pod's controller, if it has one.
        self.controllers: dict[str, str] = {}
        #: Node -> millicores that the pods on it request now, and the most that they ever did at a time.
        self._requested: dict[str, int] = {}
        self.peaks: dict[str, int] = {}
        self._on_node: dict[str, tuple[str, int]] = {}
        self._closed = False
        self._connection: http.client.HTTPSConnection | None = None
        self._thread = threading.Thread(target=self._follow, name="history", daemon=True)
        self._thread.start()

    @property
    def bound(self) -> int:
        """How many pods were seen bound so far."""
        return len(self.bound_at)

    def wait_bound(self, count: int, timeout: float = 120.0) -> None:
        """Wait until so many pods were seen bound."""
        deadline = time.monotonic() + timeout
        while self.bound < count:
            assert time.monotonic() < deadline, f"{self.bound} of {count} pods bound within {timeout:g} s"
            time.sleep(0.01)

    def changes_of_mind(self) -> dict[str, list[str]]:
        """Pods that were seen on more than one node: there must be none."""
        return {uid: nodes for uid, nodes in self.nodes.items() if len(nodes) > 1}

    def close(self) -> None:
        """Stop following."""
        self._closed = True
        if self._connection is not None and self._connection.sock is not None:
            with contextlib.suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)  # it may be waiting for the next line
        self._thread.join()

    def _follow(self) -> None:
        version = ""
        while not self._closed:
            try:
                version = self._watch(version or self._list())
            except (OSError, http.client.HTTPException, ValueError):
                version = ""
                time.sleep(0.1)

    def _list(self) -> str:
        with self._opened(self._path) as answer:
            found = json.loads(answer.read())
        for pod in found["items"]:
            self._see(pod)
        return str(found["metadata"]["resourceVersion"])

    def _watch(self, version: str) -> str:
        with self._opened(f"{self._path}?watch=true&resourceVersion={version}&timeoutSeconds=60") as answer:
            while not self._closed and (line := answer.readline()):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return ""
                self._see(event["object"], deleted=event["type"] == "DELETED")
                version = event["object"]["metadata"]["resourceVersion"]
        return version

    def _see(self, pod: dict[str, Any], *, deleted: bool = False) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        if uid not in self.nodes:
            owners = pod["metadata"].get("ownerReferences", ())
            self.controllers[uid] = next((each["uid"] for each in owners if each.get("controller")), "")
        seen = self.nodes.setdefault(uid, [])
        if node and (not seen or seen[-1] != node):
            seen.append(node)
            self.bound_at.setdefault(uid, time.monotonic())
        self._count(uid, "" if deleted else node, pod)

    def _count(self, uid: str, node: str, pod: dict[str, Any]) -> None:
        old_node, old_amount = self._on_node.pop(uid, ("", 0))
        self._requested[old_node] = self._requested.get(old_node, 0) - old_amount
        if node:
            amount = sum(milli(each["resources"]["requests"]["cpu"]) for each in pod["spec"]["containers"])
            self._on_node[uid] = (node, amount)
            self._requested[node] = self._requested.get(node, 0) + amount
            self.peaks[node] = max(self.peaks.get(node, 0), self._requested[node])

    @contextlib.contextmanager
    def _opened(self, path: str) -> Iterator[http.client.HTTPResponse]:
        parts = urlsplit(self._plane.server)
        context = ssl.create_default_context(cafile=str(self._plane.ca))
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, context=context, timeout=90)
        token = self._plane.users["admin"].token
        self._connection = connection
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            with connection.getresponse() as answer:
                if answer.status != 200:
                    raise OSError(f"{path}: {answer.status}")
                yield answer
