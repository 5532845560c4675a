"""Privilege escalation prevention."""

import asyncio

import pytest

from tests.cluster.auth.test_authorization import AS_ANN, NAMESPACED, ROLES, VERSION, WRITE_RBAC, allow, rule_for
from tests.cluster.conftest import APPLY_PATCH, MERGE_PATCH, Answer, Client, make
from tests.waiting import PATIENCE


@pytest.mark.parametrize(
    ("wanted", "status"),
    [
        (rule_for("", "pods", "get"), 201),
        (rule_for("", "pods", "get,create"), 201),
        (rule_for("", "pods", "delete"), 403),
        (rule_for("", "pods,secrets", "get"), 403),
        (rule_for("", "*", "get"), 403),
        (rule_for("*", "pods", "get"), 403),
        (rule_for("", "pods", "*"), 403),
        (rule_for("apps", "deployments/scale,daemonsets/scale", "get"), 201),
        (rule_for("apps", "deployments/scale,secrets", "get"), 403),
        (rule_for("", "configmaps", "get", resourceNames=["one"]), 201),
        (rule_for("", "configmaps", "get", resourceNames=["one", "two"]), 403),
        (rule_for("", "configmaps", "get"), 403),
        ({"nonResourceURLs": ["/logs/x"], "verbs": ["get"]}, 201),
        ({"nonResourceURLs": ["/other"], "verbs": ["get"]}, 403),
    ],
)
async def test_a_role_can_contain_only_what_its_author_may_do(
    client: Client, wanted: dict[str, list[str]], status: int
) -> None:
    held = [
        WRITE_RBAC,
        rule_for("", "pods", "get,list"),
        rule_for("", "pods", "create"),
        rule_for("apps", "*/scale", "get"),
        rule_for("", "configmaps", "get", resourceNames=["one"]),
        {"nonResourceURLs": ["/logs/*"], "verbs": ["get"]},
    ]
    await allow(client, "held", *held)
    kind = "ClusterRole" if "nonResourceURLs" in wanted else "Role"
    path = f"{ROLES}/clusterroles" if kind == "ClusterRole" else f"{NAMESPACED}/roles"
    answer = await client.ask("POST", path, make(VERSION, kind, "new", rules=[wanted]), headers=AS_ANN)
    assert answer.status == status, answer.body
    if status == 403:
        assert 'user "ann" (groups=["system:authenticated"]) is attempting to grant RBAC permissions' in answer.message


async def test_a_role_can_be_changed_only_to_what_its_author_may_do(client: Client) -> None:
    """By every way to write; the verb `escalate` lifts the check, and a change of labels needs no check."""
    await allow(client, "held", WRITE_RBAC)
    path = f"{NAMESPACED}/roles/r"
    body = make(VERSION, "Role", "r", rules=[rule_for("", "secrets", "get")])
    await client.create(f"{NAMESPACED}/roles", body)
    more = {"rules": [rule_for("", "secrets", "get,list")]}
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
    await allow(client, "escalate", rule_for("rbac.authorization.k8s.io", "roles", "escalate"))
    assert (await client.ask("PUT", path, body | more, headers=AS_ANN)).status == 200


async def test_a_role_can_be_bound_only_by_who_may_do_what_it_allows(client: Client) -> None:
    """Or by who has the verb `bind` on it."""
    await allow(client, "held", WRITE_RBAC, rule_for("", "pods", "get"))
    for name, resource in (("small", "pods"), ("large", "secrets")):
        role = make(VERSION, "ClusterRole", name, rules=[rule_for("", resource, "get")])
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
    await allow(client, "bind", rule_for(WRITE_RBAC["apiGroups"][0], "clusterroles", "bind", resourceNames=["large"]))
    assert (await bound("large")).status == 201


async def test_a_hostile_role_is_checked_quickly(client: Client) -> None:
    """The check does not enumerate all combinations of verbs, groups and resources."""
    await allow(client, "held", WRITE_RBAC)
    many = [f"x{number}" for number in range(5000)]
    rule = {"apiGroups": many, "resources": many, "verbs": many}
    body = make(VERSION, "Role", "new", rules=[rule])
    answer = await asyncio.wait_for(client.ask("POST", f"{NAMESPACED}/roles", body, headers=AS_ANN), PATIENCE)
    assert answer.status == 403
