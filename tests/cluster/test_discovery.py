"""Discovery."""

import pytest

from tests.cluster.conftest import Client


async def test_discovery_in_both_forms_agrees(client: Client) -> None:
    """The old one document by document, the new one all at once."""
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    new: set[tuple[str, str]] = set()
    for path in ("/api", "/apis"):
        for group in (await client.get(path, accept=accept))["items"]:
            for version in group["versions"]:
                name = group["metadata"].get("name", "")
                prefix = f"{name}/{version['version']}" if name else version["version"]
                for resource in version["resources"]:
                    new.add((prefix, resource["resource"]))
                    new |= {
                        (prefix, f"{resource['resource']}/{each['subresource']}")
                        for each in resource.get("subresources", ())
                    }
    old: set[tuple[str, str]] = set()
    paths = ["/api/v1"]
    for group in (await client.get("/apis"))["groups"]:
        paths += [f"/apis/{each['groupVersion']}" for each in group["versions"]]
    for path in paths:
        listed = await client.get(path)
        old |= {(listed["groupVersion"], each["name"]) for each in listed["resources"]}
    assert old == new
    assert ("apps/v1", "deployments/scale") in old


@pytest.mark.parametrize("path", ["/version", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1"])
async def test_a_trailing_slash_makes_no_difference(client: Client, path: str) -> None:
    """kr8s asks for `/version/` and `/api/v1/`."""
    assert await client.get(f"{path}/") == await client.get(path)
