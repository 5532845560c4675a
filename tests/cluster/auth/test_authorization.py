"""RBAC."""

from tests.cluster.conftest import APPLY_PATCH, PODS, Client, make, pod

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


async def allow(client: Client, name: str, *rules: dict[str, list[str]]) -> None:
    """Give ann a ClusterRole in the whole cluster."""
    await client.create(f"{ROLES}/clusterroles", make(VERSION, "ClusterRole", name, rules=list(rules)))
    role = {"kind": "ClusterRole", "name": name}
    body = make(VERSION, "ClusterRoleBinding", name, roleRef=role, subjects=[{"kind": "User", "name": "ann"}])
    await client.create(f"{ROLES}/clusterrolebindings", body)


def rule_for(groups: str, resources: str, verbs: str, **rest: list[str]) -> dict[str, list[str]]:
    return {"apiGroups": groups.split(","), "resources": resources.split(","), "verbs": verbs.split(","), **rest}


WRITE_RBAC = rule_for("rbac.authorization.k8s.io", "roles,rolebindings,clusterroles", "get,create,update,patch")


async def test_apply_and_update_need_create_for_objects_that_do_not_exist(client: Client) -> None:
    await allow(client, "held", rule_for(",coordination.k8s.io", "configmaps,leases", "get,patch,update"))
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
