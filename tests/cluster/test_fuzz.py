"""Nonsense of every kind: whatever is sent, the answer is an object or a refusal, never an internal error."""

import asyncio
import random
from typing import Any

import pytest

from mooring.cluster import EmbeddedCluster
from mooring.cluster.api_resource import Resource
from mooring.cluster.kinds import KINDS
from mooring.cluster.schema.shape import (
    BOOLEAN,
    BYTES,
    INT_OR_STRING,
    INTEGER,
    LIST,
    MAP,
    MICRO_TIME,
    NUMBER,
    OBJECT,
    QUANTITY,
    STRING,
    TIME,
    Shape,
)
from tests.cluster.conftest import APPLY_PATCH, MERGE_PATCH, STRATEGIC_PATCH, TABLE, Client

_WORDS = (
    "a", "b", "", "x/y", "A_b", "1", "25%", "node-0", "default", "ex.io", "In", "Exists", "NoSchedule", "NoExecute",
    "Always", "Never", "ClusterIP", "storage", "Recreate", "ReadWriteOnce",
)  # fmt: skip
_CHOICES: dict[str, tuple[Any, ...]] = {
    STRING: _WORDS,
    INTEGER: (0, 1, -1, 5, 80, 70000),
    NUMBER: (0, 1.5),
    BOOLEAN: (True, False),
    QUANTITY: ("1", "0", "100m", "1Gi", "-1", 2),
    TIME: ("2026-01-01T00:00:00Z",),
    MICRO_TIME: ("2026-01-01T00:00:00.000000Z",),
    BYTES: ("YQ==",),
    INT_OR_STRING: (1, 0, "25%", "x", -1),
}
#: Now and then something that the shape does not allow at all.
_WRONG = (None, "text", 5, [], {}, [None], {"$patch": "delete"}, True)


def _nonsense(shape: Shape, rng: random.Random, depth: int = 0) -> Any:
    if rng.random() < 0.01:
        return rng.choice(_WRONG)
    if shape.kind in _CHOICES:
        return rng.choice(_CHOICES[shape.kind])
    if depth > 7 or shape.kind not in {OBJECT, LIST, MAP}:
        return rng.choice(({}, {"a": 1}, "x", [1])) if shape.kind not in {OBJECT, LIST, MAP} else None
    if shape.kind == LIST:
        return [_nonsense(shape.item or Shape(STRING), rng, depth + 1) for _ in range(rng.choice((0, 1, 1, 2)))]
    if shape.kind == MAP:
        keys = rng.sample(("a", "b", "cpu", "storage", "pods", "x.io/y"), rng.choice((0, 1, 2)))
        return {key: _nonsense(shape.item or Shape(STRING), rng, depth + 1) for key in keys}
    often = 0.5 if depth < 3 else 0.25
    return {key: _nonsense(each, rng, depth + 1) for key, each in shape.fields.items() if rng.random() < often}


def _object(resource: Resource, rng: random.Random) -> Any:
    document = _nonsense(resource.shape, rng)
    if not isinstance(document, dict):
        return document
    document.update(apiVersion=resource.group_version, kind=resource.kind)
    metadata = document.get("metadata")
    if isinstance(metadata, dict):
        for key in ("resourceVersion", "namespace", "managedFields", "ownerReferences", "deletionTimestamp"):
            metadata.pop(key, None)
        metadata["name"] = rng.choice(("o1", "o2", "o3"))
        for key in ("labels", "annotations", "finalizers"):
            if rng.random() < 0.9:
                metadata.pop(key, None)
    return document


@pytest.mark.parametrize("seed", [1, 2, 11])
async def test_no_document_makes_the_server_fail(seed: int) -> None:
    """Created, changed in three ways, shown as a table, while controllers and kubelets try to make sense of it."""
    rng = random.Random(seed)
    cluster = EmbeddedCluster()
    await cluster.start()
    cluster.add_nodes(2)
    client = Client(cluster)
    served = [each for kind in KINDS for each in (kind.resource, *kind.aliases)]
    stored = [each for each in served if "list" in each.verbs]
    codes: dict[int, int] = {}
    try:
        for _ in range(250):
            resource = rng.choice(stored)
            middle = "/namespaces/default" if resource.namespaced else ""
            root = f"/apis/{resource.group_version}" if resource.group else "/api/v1"
            path = f"{root}{middle}/{resource.plural}"
            document = _object(resource, rng)
            for method, where, content in (
                ("POST", path, "application/json"),
                ("PATCH", f"{path}/o1", rng.choice((MERGE_PATCH, STRATEGIC_PATCH))),
                ("PATCH", f"{path}/o1?fieldManager=f&force=true", APPLY_PATCH),
            ):
                answer = await client.ask(method, where, document, content=content)
                codes[answer.status] = codes.get(answer.status, 0) + 1
                assert answer.status < 500 or answer.body.get("reason") != "InternalError", (where, document)
            assert (await client.ask("GET", path, accept=TABLE)).status == 200
        await asyncio.sleep(0.1)
    finally:
        await client.close()
        await cluster.stop()
    assert codes[201] > 20
    assert codes[200] > 20
