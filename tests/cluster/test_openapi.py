"""OpenAPI documents."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.conftest import Client


async def test_openapi_says_what_kubectl_looks_for(client: Client) -> None:
    """That patches take fieldValidation, and by which keys lists merge; every reference leads somewhere."""
    for path in (await client.get("/openapi/v3"))["paths"]:
        document = await client.get(f"/openapi/v3/{path}")
        schemas = document["components"]["schemas"]
        assert _references(schemas) <= set(schemas), path
    apps = await client.get("/openapi/v3/apis/apps/v1")
    patch = apps["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert "fieldValidation" in {each["name"] for each in patch["parameters"]}
    assert patch["x-kubernetes-group-version-kind"] == {"group": "apps", "version": "v1", "kind": "Deployment"}
    spec = apps["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert spec["x-kubernetes-patch-merge-key"] == "name"
    old = await client.get("/openapi/v2")
    assert {each.removeprefix("#/definitions/") for each in _all_references(old)} <= set(old["definitions"])


def _all_references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(_all_references, value.values()))
    return set().union(*map(_all_references, value)) if isinstance(value, list) else set()


def _references(value: Any) -> set[str]:
    return {each.removeprefix("#/components/schemas/") for each in _all_references(value)}


@pytest.mark.parametrize("path", ["api", "apis", "apis/", "apis//v1", "apis/apps", "api/v2", "x", "apis/apps/v1/x"])
async def test_unknown_openapi_paths_do_not_exist(client: Client, path: str) -> None:
    assert (await client.ask("GET", f"/openapi/v3/{path}")).status == 404


async def test_the_openapi_index_has_a_trailing_slash_too(client: Client) -> None:
    assert await client.get("/openapi/v3/") == await client.get("/openapi/v3")


async def test_openapi_v2_in_protobuf(client: Client) -> None:
    """kubectl asks for it when it does not find a kind. It contains what the JSON contains."""
    accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    answer = await client.ask("GET", "/openapi/v2", accept=accept)
    assert answer.status == 200
    message = answer.body.encode(errors="surrogateescape")
    document = await client.get("/openapi/v2")
    fields = dict(_fields(message))
    assert fields[1] == b"2.0"
    paths = [dict(_fields(value)) for number, value in _fields(fields[8])]
    assert [each[1].decode() for each in paths] == list(document["paths"])
    schemas = {
        name[1].decode(): dict(_fields(name[2])) for name in (dict(_fields(each)) for _, each in _fields(fields[9]))
    }
    assert list(schemas) == list(document["definitions"])
    pod_spec = schemas["io.k8s.api.core.v1.PodSpec"]
    properties = [dict(_fields(each))[1].decode() for _, each in _fields(pod_spec[25])]
    assert properties == list(document["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"])


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message that have a length."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        value, at = _varint(message, at)
        if key & 7 == 2:
            yield key >> 3, message[at : at + value]
            at += value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at, value, shift = at + 1, value | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            return value, at
