"""Who may talk to the API server: users with random tokens, and a kubeconfig for each."""

from __future__ import annotations

import csv
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml


@dataclass(frozen=True)
class User:
    """A user that the API server knows by a token; what it may do is up to RBAC."""

    #: What tests call it.
    key: str
    #: What the API server calls it.
    name: str
    groups: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)


def standard_users() -> tuple[User, ...]:
    """The users of every control plane; roles of Kubernetes' own parts are there from the start."""
    return (
        User("admin", "admin", ("system:masters",)),
        User("scheduler", "system:kube-scheduler"),
        User("controller-manager", "system:kube-controller-manager"),
        # May do nothing until a test binds a role to it: the one that we ship, for instance.
        User("mooring", "mooring"),
        User("nobody", "nobody"),
    )


#: Each user's kubeconfig has this one context.
CONTEXT: Final = "e2e"


def write_tokens(path: Path, users: tuple[User, ...]) -> None:
    """Write the file for `--token-auth-file`."""
    path.touch(mode=0o600)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerows([user.token, user.name, user.name, ",".join(user.groups)] for user in users)


def write_kubeconfig(path: Path, *, server: str, ca: Path, user: User, namespace: str = "default") -> Path:
    """Write a kubeconfig for a user."""
    cluster = {"server": server, "certificate-authority": str(ca)}
    context = {"cluster": CONTEXT, "user": user.key, "namespace": namespace}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CONTEXT,
        "clusters": [{"name": CONTEXT, "cluster": cluster}],
        "contexts": [{"name": CONTEXT, "context": context}],
        "users": [{"name": user.key, "user": {"token": user.token}}],
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path
