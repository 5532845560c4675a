"""Who may do what, and what the API says of itself."""

from typing import Any

import pytest

from tests.cluster.conftest import PODS, Client, make, pod

ROLES = "/apis/rbac.authorization.k8s.io/v1"


async def _grant(client: Client, user: str) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods", "pods/binding"], "verbs": ["get", "list", "create"]}]
    version = "rbac.authorization.k8s.io/v1"
    await client.create(f"{ROLES}/clusterroles", make(version, "ClusterRole", "r", rules=rules))
    role = {"kind": "ClusterRole", "name": "r"}
    binding = make(version, "ClusterRoleBinding", "b", roleRef=role, subjects=[{"kind": "User", "name": user}])
    await client.create(f"{ROLES}/clusterrolebindings", binding)


async def test_roles_are_enforced(client: Client) -> None:
    """For everybody but the administrator, who can act as somebody else."""
    await _grant(client, "ann")
    as_ann = {"Impersonate-User": "ann"}
    assert (await client.ask("GET", PODS, headers=as_ann)).status == 200
    assert (await client.ask("POST", PODS, pod("a"), headers=as_ann)).status == 201
    answer = await client.ask("DELETE", f"{PODS}/a", headers=as_ann)
    assert (answer.status, answer.message) == (
        403,
        'pods "a" is forbidden: User "ann" cannot delete resource "pods" in API group "" in the namespace "default"',
    )
    answer = await client.ask("GET", "/api/v1/nodes", headers=as_ann)
    assert (
        answer.message
        == 'nodes is forbidden: User "ann" cannot list resource "nodes" in API group "" at the cluster scope'
    )


@pytest.mark.parametrize(
    ("wish", "status"),
    [
        (
            {"verb": "list", "resource": "pods"},
            {"allowed": True, "reason": 'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to User "ann"'},
        ),
        ({"verb": "delete", "resource": "pods"}, {"allowed": False}),
        ({"verb": "create", "resource": "pods", "subresource": "eviction"}, {"allowed": False}),
    ],
)
async def test_access_reviews(client: Client, wish: dict[str, str], status: dict[str, Any]) -> None:
    """Answer by the same rules."""
    await _grant(client, "ann")
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": "ann", "resourceAttributes": wish},
    }
    found = await client.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert found["status"] == status


async def test_tokens_of_service_accounts(live: Client) -> None:
    """Are issued on request, tell who they belong to, and allow what the account may."""
    path = "/api/v1/namespaces/default/serviceaccounts/default"
    await live.wait(lambda: _ok(live, path))
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = (await live.create(f"{path}/token", request))["status"]["token"]
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    status = (await live.create("/apis/authentication.k8s.io/v1/tokenreviews", review))["status"]
    assert (status["authenticated"], status["user"]["username"]) == (True, "system:serviceaccount:default:default")
    assert (await live.ask("GET", PODS, token=token)).status == 403
    review["spec"] = {"token": "nonsense"}
    status = (await live.create("/apis/authentication.k8s.io/v1/tokenreviews", review))["status"]
    assert "authenticated" not in status


async def _ok(client: Client, path: str) -> bool:
    return (await client.ask("GET", path)).status == 200


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


async def test_version(client: Client) -> None:
    """The one whose API is spoken."""
    assert (await client.get("/version"))["gitVersion"] == "v1.36.4"


async def test_classes_fill_in_pods(client: Client) -> None:
    """Priority, runtime and limits of a namespace."""
    version = "scheduling.k8s.io/v1"
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await client.create(
        classes, make(version, "PriorityClass", "d", value=7, globalDefault=True, preemptionPolicy="Never")
    )
    answer = await client.ask("POST", classes, make(version, "PriorityClass", "e", value=8, globalDefault=True))
    assert "already marked as default. Only one default can exist" in answer.message
    runtime = make("node.k8s.io/v1", "RuntimeClass", "rc", handler="h", overhead={"podFixed": {"cpu": "250m"}})
    await client.create("/apis/node.k8s.io/v1/runtimeclasses", {**runtime, "scheduling": {"nodeSelector": {"a": "b"}}})
    limits = {"limits": [{"type": "Container", "max": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}]}
    await client.create("/api/v1/namespaces/default/limitranges", make("v1", "LimitRange", "l", spec=limits))
    created = await client.create(PODS, pod("p", runtimeClassName="rc"))
    spec = created["spec"]
    assert (spec["priority"], spec["priorityClassName"], spec["preemptionPolicy"]) == (7, "d", "Never")
    assert (spec["overhead"], spec["nodeSelector"]) == ({"cpu": "250m"}, {"a": "b"})
    assert spec["containers"][0]["resources"] == {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    assert created["status"]["qosClass"] == "Burstable"
    large = pod("q", containers=[{"name": "c", "image": "x", "resources": {"limits": {"cpu": "3"}}}])
    answer = await client.ask("POST", PODS, large)
    assert answer.message == 'pods "q" is forbidden: maximum cpu usage per Container is 2, but limit is 3'
