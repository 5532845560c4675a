"""RBAC."""

import asyncio

import pytest

from tests.cluster.conftest import APPLY_PATCH, MERGE_PATCH, PODS, Answer, Client, make, pod

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


VERSION = "rbac.authorization.k8s.io/v1"
AS_ANN = {"Impersonate-User": "ann"}
NAMESPACED = f"{ROLES}/namespaces/default"


async def _allow(client: Client, name: str, *rules: dict[str, list[str]]) -> None:
    """Give ann a ClusterRole in the whole cluster."""
    await client.create(f"{ROLES}/clusterroles", make(VERSION, "ClusterRole", name, rules=list(rules)))
    role = {"kind": "ClusterRole", "name": name}
    body = make(VERSION, "ClusterRoleBinding", name, roleRef=role, subjects=[{"kind": "User", "name": "ann"}])
    await client.create(f"{ROLES}/clusterrolebindings", body)


def _rule(groups: str, resources: str, verbs: str, **rest: list[str]) -> dict[str, list[str]]:
    return {"apiGroups": groups.split(","), "resources": resources.split(","), "verbs": verbs.split(","), **rest}


WRITE_RBAC = _rule("rbac.authorization.k8s.io", "roles,rolebindings,clusterroles", "get,create,update,patch")


@pytest.mark.parametrize(
    ("wanted", "status"),
    [
        (_rule("", "pods", "get"), 201),
        (_rule("", "pods", "get,create"), 201),
        (_rule("", "pods", "delete"), 403),
        (_rule("", "pods,secrets", "get"), 403),
        (_rule("", "*", "get"), 403),
        (_rule("*", "pods", "get"), 403),
        (_rule("", "pods", "*"), 403),
        (_rule("apps", "deployments/scale,daemonsets/scale", "get"), 201),
        (_rule("apps", "deployments/scale,secrets", "get"), 403),
        (_rule("", "configmaps", "get", resourceNames=["one"]), 201),
        (_rule("", "configmaps", "get", resourceNames=["one", "two"]), 403),
        (_rule("", "configmaps", "get"), 403),
        ({"nonResourceURLs": ["/logs/x"], "verbs": ["get"]}, 201),
        ({"nonResourceURLs": ["/other"], "verbs": ["get"]}, 403),
    ],
)
async def test_a_role_can_contain_only_what_its_author_may_do(
    client: Client, wanted: dict[str, list[str]], status: int
) -> None:
    held = [
        WRITE_RBAC,
        _rule("", "pods", "get,list"),
        _rule("", "pods", "create"),
        _rule("apps", "*/scale", "get"),
        _rule("", "configmaps", "get", resourceNames=["one"]),
        {"nonResourceURLs": ["/logs/*"], "verbs": ["get"]},
    ]
    await _allow(client, "held", *held)
    kind = "ClusterRole" if "nonResourceURLs" in wanted else "Role"
    path = f"{ROLES}/clusterroles" if kind == "ClusterRole" else f"{NAMESPACED}/roles"
    answer = await client.ask("POST", path, make(VERSION, kind, "new", rules=[wanted]), headers=AS_ANN)
    assert answer.status == status, answer.body
    if status == 403:
        assert 'user "ann" (groups=["system:authenticated"]) is attempting to grant RBAC permissions' in answer.message


async def test_a_role_can_be_changed_only_to_what_its_author_may_do(client: Client) -> None:
    """By every way to write; the verb `escalate` lifts the check, and a change of labels needs no check."""
    await _allow(client, "held", WRITE_RBAC)
    path = f"{NAMESPACED}/roles/r"
    body = make(VERSION, "Role", "r", rules=[_rule("", "secrets", "get")])
    await client.create(f"{NAMESPACED}/roles", body)
    more = {"rules": [_rule("", "secrets", "get,list")]}
    assert (await client.ask("PUT", path, body | more, headers=AS_ANN)).status == 403
    assert (await client.ask("PATCH", path, more, content=MERGE_PATCH, headers=AS_ANN)).status == 403
    applied = await client.ask(
        "PATCH", f"{path}2?fieldManager=m", make(VERSION, "Role", "r2", **more), content=APPLY_PATCH, headers=AS_ANN
    )
    assert applied.status == 403
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert (await client.ask("PATCH", path, labels, content=MERGE_PATCH, headers=AS_ANN)).status == 200
    aggregated = make(VERSION, "ClusterRole", "all", aggregationRule={"clusterRoleSelectors": [{}]})
    assert (await client.ask("POST", f"{ROLES}/clusterroles", aggregated, headers=AS_ANN)).status == 403
    await _allow(client, "escalate", _rule("rbac.authorization.k8s.io", "roles", "escalate"))
    assert (await client.ask("PUT", path, body | more, headers=AS_ANN)).status == 200


async def test_a_role_can_be_bound_only_by_who_may_do_what_it_allows(client: Client) -> None:
    """Or by who has the verb `bind` on it."""
    await _allow(client, "held", WRITE_RBAC, _rule("", "pods", "get"))
    for name, resource in (("small", "pods"), ("large", "secrets")):
        role = make(VERSION, "ClusterRole", name, rules=[_rule("", resource, "get")])
        await client.create(f"{ROLES}/clusterroles", role)

    async def bound(role: str) -> Answer:
        reference = {"kind": "ClusterRole", "name": role}
        subjects = [{"kind": "User", "name": "bob"}]
        body = make(VERSION, "RoleBinding", f"b-{role}", roleRef=reference, subjects=subjects)
        return await client.ask("POST", f"{NAMESPACED}/rolebindings", body, headers=AS_ANN)

    assert (await bound("small")).status == 201
    answer = await bound("large")
    assert (answer.status, answer.message) == (
        403,
        (
            'rolebindings.rbac.authorization.k8s.io "b-large" is forbidden: user "ann"'
            ' (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
            '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'
        ),
    )
    assert (await bound("missing")).status == 404
    await _allow(client, "bind", _rule(WRITE_RBAC["apiGroups"][0], "clusterroles", "bind", resourceNames=["large"]))
    assert (await bound("large")).status == 201


async def test_a_hostile_role_is_checked_quickly(client: Client) -> None:
    """The check does not enumerate all combinations of verbs, groups and resources."""
    await _allow(client, "held", WRITE_RBAC)
    many = [f"x{number}" for number in range(5000)]
    rule = {"apiGroups": many, "resources": many, "verbs": many}
    body = make(VERSION, "Role", "new", rules=[rule])
    answer = await asyncio.wait_for(client.ask("POST", f"{NAMESPACED}/roles", body, headers=AS_ANN), 30)
    assert answer.status == 403


async def test_apply_and_update_need_create_for_objects_that_do_not_exist(client: Client) -> None:
    await _allow(client, "held", _rule(",coordination.k8s.io", "configmaps,leases", "get,patch,update"))
    maps = "/api/v1/namespaces/default/configmaps"
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    body = make("v1", "ConfigMap", "c", data={"a": "b"})
    applied = f"{maps}/c?fieldManager=m"
    answer = await client.ask("PATCH", applied, body, content=APPLY_PATCH, headers=AS_ANN)
    assert (answer.status, answer.message) == (
        403,
        (
            'configmaps "c" is forbidden: User "ann" cannot create resource "configmaps" in API group "" in the'
            ' namespace "default"'
        ),
    )
    lease = make("coordination.k8s.io/v1", "Lease", "l", spec={})
    assert (await client.ask("PUT", f"{leases}/l", lease, headers=AS_ANN)).status == 403
    await client.create(maps, body)
    assert (await client.ask("PATCH", applied, body, content=APPLY_PATCH, headers=AS_ANN)).status == 200
