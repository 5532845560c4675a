"""RBAC."""

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
