"""OpenAPI documents."""

from typing import Any

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
