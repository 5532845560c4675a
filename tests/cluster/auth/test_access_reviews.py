"""Access reviews."""

from typing import Any

import pytest

from tests.cluster.conftest import Client, make

ROLES = "/apis/rbac.authorization.k8s.io/v1"


async def _grant(client: Client, user: str) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods", "pods/binding"], "verbs": ["get", "list", "create"]}]
    version = "rbac.authorization.k8s.io/v1"
    await client.create(f"{ROLES}/clusterroles", make(version, "ClusterRole", "r", rules=rules))
    role = {"kind": "ClusterRole", "name": "r"}
    binding = make(version, "ClusterRoleBinding", "b", roleRef=role, subjects=[{"kind": "User", "name": user}])
    await client.create(f"{ROLES}/clusterrolebindings", binding)


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
